#include "plan/chunk_blocks.h"

#include <algorithm>

#include "model/motif.h"

namespace nest::plan {
namespace {

void add_run(const model::Model& model, const ChunkPlan& run, StageBlocks& sum) {
  for (int i = run.first; i <= run.last; ++i) {
    if (model.layer(i).mtp) {
      sum.mtp = true;
      continue;
    }
    switch (model.layer(i).kind) {
      case model::LayerKind::embedding: sum.embedding = true; break;
      case model::LayerKind::block: ++sum.blocks; break;
      case model::LayerKind::head: sum.head = true; break;
      case model::LayerKind::norm: break;
    }
  }
}

// Of stages that list their chunks, in the order of the chain.
std::vector<StageBlocks> listed_blocks(const model::Model& model, const std::vector<StagePlan>& stages, bool is_v) {
  const std::size_t p = stages.size(), v = stages.front().chunks.size();
  std::vector<StageBlocks> result(p * v);
  for (std::size_t s = 0; s < p; ++s) {
    for (std::size_t c = 0; c < v; ++c) {
      const std::size_t position = is_v && c > 0 ? 2 * p - 1 - s : c * p + s;
      add_run(model, stages[s].chunks[c], result[position]);
    }
  }
  return result;
}

bool are_even(const std::vector<StageBlocks>& chunks) {
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const bool last = i + 1 == chunks.size();
    const StageBlocks even{i == 0, std::max<std::int64_t>(1, chunks.front().blocks), last && chunks[i].mtp, last};
    if (!(chunks[i] == even)) return false;
  }
  return true;
}

// Blocks among the layers [begin, end).
std::int64_t count_blocks(const model::Model& model, std::int64_t begin, std::int64_t end) {
  std::int64_t blocks = 0;
  for (std::int64_t i = begin; i < end; ++i) blocks += model.layer(i).counted_block() ? 1 : 0;
  return blocks;
}

// `blocks` over `chunks`, whole motifs at a time, the last chunk with `fixed` blocks of its own; it gets the smaller
// share, and larger chunks come first.
std::vector<std::int64_t> spread(std::int64_t blocks, std::int64_t fixed, std::int64_t motif, std::int64_t chunks) {
  const std::int64_t motifs = std::max<std::int64_t>(0, blocks - fixed) / motif;
  const std::int64_t share = (blocks / chunks - fixed) / motif;
  const std::int64_t last = std::clamp<std::int64_t>(share, 0, std::max<std::int64_t>(0, motifs - (chunks - 1)));
  std::vector<std::int64_t> sizes;
  for (std::int64_t c = 0; c + 1 < chunks; ++c) {
    const std::int64_t rest = motifs - last;
    sizes.push_back(motif * (rest / (chunks - 1) + (c < rest % (chunks - 1) ? 1 : 0)));
  }
  // What is no whole motif stays with the fixed part.
  std::int64_t given = 0;
  for (const std::int64_t size : sizes) given += size;
  sizes.push_back(blocks - given);
  return sizes;
}

}  // namespace

std::vector<StageBlocks> stage_blocks(const model::Model& model, const std::vector<StagePlan>& stages) {
  std::vector<StageBlocks> result;
  for (const StagePlan& stage : stages) {
    StageBlocks& all = result.emplace_back();
    for (const ChunkPlan& run : runs_of(stage)) add_run(model, run, all);
  }
  return result;
}

bool is_even_cut(const model::Model& model, const std::vector<StagePlan>& stages, std::int64_t chunks) {
  if (lists_chunks(stages)) return are_even(chunk_blocks(model, stages, chunks));
  const std::vector<StageBlocks> held = stage_blocks(model, stages);
  for (std::size_t s = 0; s < held.size(); ++s) {
    const StageBlocks& stage = held[s];
    if (stage.blocks == 0 || stage.blocks != held.front().blocks || stage.blocks % chunks != 0) return false;
    if (stage.embedding != (s == 0) || stage.head != (s + 1 == held.size())) return false;
    if (stage.mtp && !stage.head) return false;
  }
  StageBlocks each;
  each.blocks = held.front().blocks / chunks;
  return keeps_priced_layers(model, stages,
                             std::vector<StageBlocks>(held.size() * static_cast<std::size_t>(chunks), each));
}

std::vector<StageBlocks> chunk_blocks(const model::Model& model, const std::vector<StagePlan>& stages,
                                      std::int64_t chunks) {
  if (lists_chunks(stages)) return listed_blocks(model, stages, false);
  std::vector<StageBlocks> held = stage_blocks(model, stages);
  if (chunks == 1) return held;
  const model::ChainMotif chain = model::find_motif(model.layers);
  const std::int64_t head = count_blocks(model, 0, chain.head);
  const std::int64_t tail = count_blocks(model, chain.end(), model.layer_count());
  std::vector<StageBlocks> result(held.size() * static_cast<std::size_t>(chunks));
  for (std::size_t s = 0; s < held.size(); ++s) {
    const bool first = s == 0, last = s + 1 == held.size();
    const std::int64_t fixed = first ? head : last ? tail : 0;
    std::vector<std::int64_t> sizes = spread(held[s].blocks, fixed, chain.motif, chunks);
    if (first) std::reverse(sizes.begin(), sizes.end());
    for (std::size_t c = 0; c < sizes.size(); ++c) {
      StageBlocks& chunk = result[c * held.size() + s];
      chunk.blocks = sizes[c];
      chunk.embedding = held[s].embedding && c == 0;
      chunk.mtp = held[s].mtp && c + 1 == sizes.size();
      chunk.head = held[s].head && c + 1 == sizes.size();
    }
  }
  return result;
}

std::vector<StageBlocks> v_blocks(const model::Model& model, const std::vector<StagePlan>& stages) {
  if (lists_chunks(stages)) return listed_blocks(model, stages, true);
  const std::vector<StageBlocks> held = stage_blocks(model, stages);
  const model::ChainMotif chain = model::find_motif(model.layers);
  std::vector<StageBlocks> result(2 * held.size());
  for (std::size_t r = 0; r < held.size(); ++r) {
    const std::vector<std::int64_t> sizes = spread(held[held.size() - 1 - r].blocks, 0, chain.motif, 2);
    result[r].blocks = sizes[0];
    result[result.size() - 1 - r].blocks = sizes[1];
  }
  result.front().embedding = true;
  result.back().mtp = std::any_of(held.begin(), held.end(), [](const StageBlocks& stage) { return stage.mtp; });
  result.back().head = true;
  return result;
}

bool keeps_priced_layers(const model::Model& model, const std::vector<StagePlan>& stages,
                         const std::vector<StageBlocks>& chunks, bool is_v) {
  if (lists_chunks(stages)) return chunks == listed_blocks(model, stages, is_v);
  const auto is_block = [&](int kind) { return model.kinds[static_cast<std::size_t>(kind)].counted_block(); };
  using Counts = std::vector<std::int64_t>;
  std::vector<Counts> priced(stages.size(), Counts(model.kinds.size(), 0)), given = priced;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (int i = stages[s].first; i <= stages[s].last; ++i) {
      const int kind = model.layers[static_cast<std::size_t>(i)];
      if (is_block(kind)) ++priced[s][static_cast<std::size_t>(kind)];
    }
  }
  auto next = model.layers.begin();
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    for (std::int64_t taken = 0; taken < chunks[i].blocks; ++taken, ++next) {
      next = std::find_if(next, model.layers.end(), is_block);
      if (next == model.layers.end()) return false;
      const std::size_t p = stages.size(), stage = !is_v ? i % p : i < p ? p - 1 - i : i - p;
      ++given[stage][static_cast<std::size_t>(*next)];
    }
  }
  return priced == given;
}

std::vector<StagePlan> stages_of_chunks(const model::Model& model, const schedule::Chain& chain,
                                        const std::vector<StageBlocks>& chunks) {
  const auto layers = static_cast<int>(model.layer_count());
  std::vector<StagePlan> stages(static_cast<std::size_t>(chain.shape().stages));
  for (StagePlan& stage : stages) stage.chunks.resize(static_cast<std::size_t>(chain.shape().chunks));
  int next = 0;
  for (std::size_t position = 0; position < chunks.size(); ++position) {
    const StageBlocks& held = chunks[position];
    ChunkPlan chunk;
    chunk.first = next;
    while (held.embedding && next < layers && model.layer(next).kind != model::LayerKind::block) ++next;
    for (std::int64_t taken = 0; taken < held.blocks && next < layers; ++next) {
      taken += model.layer(next).counted_block() ? 1 : 0;
    }
    if (held.mtp && next < layers && model.layer(next).mtp) ++next;
    if (held.head) next = layers;
    chunk.last = next - 1;
    const schedule::Place& place = chain.place(static_cast<std::int64_t>(position));
    stages[static_cast<std::size_t>(place.stage)].chunks[static_cast<std::size_t>(place.chunk)] = chunk;
  }
  for (StagePlan& stage : stages) {
    stage.first = stage.chunks.front().first;
    stage.last = stage.chunks.front().last;
    for (const ChunkPlan& chunk : stage.chunks) {
      if (chunk.last < chunk.first) continue;
      if (stage.last < stage.first) stage.first = chunk.first;
      stage.last = chunk.last;
    }
  }
  return stages;
}

}  // namespace nest::plan
