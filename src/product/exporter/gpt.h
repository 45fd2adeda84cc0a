// A decoder-only model in the terms that training frameworks share, and a pipeline's stages in blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/graph.h"
#include "plan/plan.h"

namespace nest::exporter {

struct GptExperts {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t width = 0;
  std::int64_t shared_width = 0;  // 0: no shared experts
  std::vector<bool> sparse;       // per layer: has experts
  std::int64_t groups = 1, top_groups = 1;
};

struct GptModel {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t width = 0;  // of dense feed-forwards; of the experts where there are none
  std::int64_t vocabulary = 0, positions = 0, window = 0;
  bool rms_norm = true, gated = true, squared_relu = false;
  bool linear_bias = false, qkv_bias = false, qk_norm = false, tied = false;
  model::PositionKind position = model::PositionKind::rotary;
  double rotary_fraction = 1;
  double dropout = 0, attention_dropout = 0;
  std::optional<model::LatentAttention> latent;
  std::optional<GptExperts> experts;
};

// Empty, or why this is no GPT with one kind of attention: "its norms stand after each part".
std::string describe_gpt(const model::Architecture& architecture, GptModel& gpt);

bool has_experts(const model::Model& model);

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

}  // namespace nest::exporter
