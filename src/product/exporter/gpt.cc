#include "exporter/gpt.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/motif.h"

namespace nest::exporter {
namespace {

std::string refuse_attention(const model::Attention& attention) {
  if (attention.sinks) return "its attention has sinks";
  if (attention.qk_norm == model::QkNorm::full_width) return "its query and key norms span all heads";
  if (!attention.causal) return "its attention is not causal";
  if (attention.query_bias != attention.key_bias || attention.key_bias != attention.value_bias) {
    return "only some of its query, key and value projections have a bias";
  }
  return {};
}

std::string refuse_block(const model::Block& block) {
  if (block.wiring != model::Wiring::pre_norm) {
    switch (block.wiring) {
      case model::Wiring::parallel_one:
      case model::Wiring::parallel_two: return "its attention and feed-forward run side by side";
      case model::Wiring::sandwich: return "it has norms before and after each part";
      default: return "its norms stand after each part";
    }
  }
  if (!block.norm_weight) return "its norms have no weights";
  if (block.cross_attention) return "it has cross attention";
  if (block.norm == model::NormKind::layer && !block.norm_bias) return "its LayerNorm has no bias";
  return refuse_attention(block.attention);
}

std::string refuse_feed_forward(const model::FeedForward& ff, const model::Attention& attention) {
  const bool gelu = ff.activation == model::Activation::gelu || ff.activation == model::Activation::gelu_tanh ||
                    ff.activation == model::Activation::gelu_new;
  if (ff.gated && ff.activation != model::Activation::silu) return "its gated feed-forward does not use silu";
  if (!ff.gated && !gelu && ff.activation != model::Activation::relu_squared) {
    return fmt::format("its feed-forward uses {}", to_string(ff.activation));
  }
  if (ff.up_bias != ff.down_bias || ff.up_bias != attention.output_bias)
    return "only some of its projections have a bias";
  if (attention.output_bias && !attention.query_bias) return "only some of its projections have a bias";
  return {};
}

std::string refuse_architecture(const model::Architecture& architecture) {
  if (architecture.towers.empty()) return "it was read from an operator graph, which says no family";
  if (architecture.towers.size() != 1 || architecture.towers.front().name != "decoder") return "it is no decoder";
  if (architecture.token_types > 0) return "it has segment embeddings";
  if (architecture.embedding_norm) return "it has a norm after its embeddings";
  if (architecture.embedding_width > 0) return "its token table is narrower than its layers";
  if (architecture.head_bias || architecture.head_transform) return "its head is more than a projection";
  if (!architecture.towers.front().final_norm) return "it has no final norm";
  if (architecture.position == model::PositionKind::alibi) return "its positions are ALiBi";
  if (architecture.position == model::PositionKind::relative) return "its positions are relative";
  return {};
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

std::string describe_gpt(const model::Architecture& architecture, GptModel& gpt) {
  if (auto reason = refuse_architecture(architecture); !reason.empty()) return reason;
  const model::Tower& tower = architecture.towers.front();
  const model::Block& first = tower.kinds.front();
  gpt = {};
  const model::FeedForward* dense = nullptr;
  const model::Mixture* mixture = nullptr;
  for (const model::Block& block : tower.kinds) {
    if (auto reason = refuse_block(block); !reason.empty()) return reason;
    if (!(block.attention == first.attention)) return "its layers differ in their attention";
    if (block.norm != first.norm) return "its layers differ in their norms";
    if (block.feed_forward) dense = &*block.feed_forward;
    if (block.mixture) mixture = &*block.mixture;
  }
  if (tower.kinds.size() > (dense != nullptr && mixture != nullptr ? 2U : 1U)) return "it has too many kinds of layers";
  const model::FeedForward& ff = dense != nullptr ? *dense : mixture->expert;
  if (auto reason = refuse_feed_forward(ff, first.attention); !reason.empty()) return reason;

  gpt.layers = architecture.layers();
  gpt.hidden = architecture.hidden;
  gpt.heads = first.attention.heads;
  gpt.kv_heads = first.attention.kv_heads;
  gpt.head_dim = first.attention.head_dim;
  gpt.width = ff.width;
  gpt.vocabulary = architecture.vocabulary;
  gpt.position = architecture.position;
  gpt.positions =
      architecture.position == model::PositionKind::learned ? architecture.position_rows : architecture.max_positions;
  gpt.window = first.attention.window;
  gpt.rms_norm = first.norm == model::NormKind::rms;
  gpt.gated = ff.gated;
  gpt.squared_relu = ff.activation == model::Activation::relu_squared;
  gpt.linear_bias = ff.up_bias;
  gpt.qkv_bias = first.attention.query_bias;
  gpt.qk_norm = first.attention.qk_norm == model::QkNorm::per_head;
  gpt.tied = architecture.tied_embeddings;
  gpt.rotary_fraction = first.attention.rotary_fraction;
  gpt.dropout = architecture.dropout;
  gpt.attention_dropout = architecture.attention_dropout;
  gpt.latent = first.attention.latent;
  if (mixture == nullptr) return {};
  if (mixture->shared_gate || mixture->router_bias) return "its router or shared experts have more weights than usual";
  gpt.experts = GptExperts{
      mixture->experts, mixture->top_k, mixture->expert.width, mixture->shared ? mixture->shared->width : 0, {}};
  gpt.experts->groups = mixture->groups;
  gpt.experts->top_groups = mixture->top_groups;
  for (const int kind : tower.blocks) {
    gpt.experts->sparse.push_back(tower.kinds[static_cast<std::size_t>(kind)].mixture.has_value());
  }
  return {};
}

bool has_experts(const model::Model& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(),
                     [](const model::Layer& layer) { return layer.experts > 0; });
}

std::vector<StageBlocks> stage_blocks(const model::Model& model, const std::vector<StagePlan>& stages) {
  std::vector<StageBlocks> result;
  for (const StagePlan& stage : stages) {
    StageBlocks blocks;
    for (int i = stage.first; i <= stage.last; ++i) {
      if (model.layer(i).mtp) {
        blocks.mtp = true;
        continue;
      }
      switch (model.layer(i).kind) {
        case model::LayerKind::embedding: blocks.embedding = true; break;
        case model::LayerKind::block: ++blocks.blocks; break;
        case model::LayerKind::head: blocks.head = true; break;
        case model::LayerKind::norm: break;
      }
    }
    result.push_back(blocks);
  }
  return result;
}

bool is_even_cut(const model::Model& model, const std::vector<StagePlan>& stages, std::int64_t chunks) {
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

}  // namespace nest::exporter
