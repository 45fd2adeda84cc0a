// A pipeline's stages and their chunks in blocks, as frameworks are told them, and back.
//
// Stages that list their chunks are what they say. Of others, one run of layers each, the blocks are spread over the
// chunks as evenly as they go: that is what they are priced as.
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph.h"
#include "plan/plan.h"
#include "schedule/pipeline.h"

namespace nest::plan {

// What a stage holds, blocks counted on their own.
struct StageBlocks {
  bool embedding = false;
  std::int64_t blocks = 0;
  bool mtp = false;  // the layers that predict further tokens
  bool head = false;
  bool operator==(const StageBlocks&) const = default;
};

std::vector<StageBlocks> stage_blocks(const model::Model& model, const std::vector<StagePlan>& stages);

// Blocks divide evenly over all chunks, the embedding stands with the first and the head with the last: what frameworks
// do unless told otherwise. False where layers differ and that would give stages others than they were priced with.
bool is_even_cut(const model::Model& model, const std::vector<StagePlan>& stages, std::int64_t chunks);

// The stages' blocks over their chunks, chunk-major: entry c * stages + s is chunk c of stage s. The chain is a head of
// layers, a motif that repeats and a tail; the first chunk of the first stage takes the head, the last chunk of the
// last stage the tail, and motifs are spread evenly. So the model's order gives every stage the layers that it was
// priced with, wherever stages are cut between motifs.
std::vector<StageBlocks> chunk_blocks(const model::Model& model, const std::vector<StagePlan>& stages,
                                      std::int64_t chunks);

// The same for a V, in the order of the chain: entry r is the first chunk of rank r, entry 2p - 1 - r its second. Rank 0
// holds both ends, and the blocks of the plan's last stage, which was priced with the head; rank r those of stage
// p - 1 - r.
std::vector<StageBlocks> v_blocks(const model::Model& model, const std::vector<StagePlan>& stages);

// Whether handing out the model's blocks in the order of the chunks gives every stage as many layers of each kind as
// its interval has. Chunk i belongs to stage i mod p, or in a V to stage p - 1 - i and back again.
bool keeps_priced_layers(const model::Model& model, const std::vector<StagePlan>& stages,
                         const std::vector<StageBlocks>& chunks, bool is_v = false);

// Stages that list such chunks: chunk i is the one at position i of the chain. Layers that are no blocks go with what they
// stand before, the last ones with the head. The blocks are those of the model, in all.
std::vector<StagePlan> stages_of_chunks(const model::Model& model, const schedule::Chain& chain,
                                        const std::vector<StageBlocks>& chunks);

}  // namespace nest::plan
