#include "exporter/gpt.h"

#include <fmt/format.h>

#include <algorithm>

namespace nest::exporter {
namespace {

std::string refuse_attention(const model::Attention& attention) {
  if (attention.sinks) return "its attention has sinks";
  if (attention.qk_norm == model::QkNorm::full_width) return "its query and key norms span all heads";
  if (!attention.causal) return "its attention is not causal";
  if (attention.gate || attention.output_norm) return "its attention is gated or normed before it is projected";
  if (attention.chunk > 0) return "its attention runs in chunks";
  if (attention.indexer) return "an indexer chooses the keys of its attention";
  if (attention.value_width() != attention.head_dim) return "its values are of another width than its keys";
  if (attention.qk_norm == model::QkNorm::per_head &&
      (!attention.qk_norm_weight || attention.qk_norm_kind != model::NormKind::rms)) {
    return "its query and key norms are no RMSNorm with weights";
  }
  if (attention.query_bias != attention.key_bias || attention.key_bias != attention.value_bias) {
    return "only some of its query, key and value projections have a bias";
  }
  return {};
}

std::string refuse_block(const model::Block& block) {
  if (block.state) return "it carries states along the sequence";
  if (!block.attends()) return "some of its layers do not attend";
  if (!block.feeds()) return "some of its layers have no feed-forward";
  if (block.feed_forward && block.mixture) return "its experts run beside a feed-forward";
  if (block.adapter || block.scales > 0 || block.unused > 0) return "its layers hold more weights than a GPT's";
  if (!block.first_norm) return "its first layer has no norm";
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
  if (!architecture.further_tables.empty() || !architecture.spare.empty()) return "it holds further tables";
  if (architecture.embedding_width > 0) return "its token table is narrower than its layers";
  if (architecture.head_bias || architecture.head_transform) return "its head is more than a projection";
  if (!architecture.towers.front().final_norm) return "it has no final norm";
  if (architecture.position == model::PositionKind::alibi) return "its positions are ALiBi";
  if (architecture.position == model::PositionKind::relative) return "its positions are relative";
  return {};
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

}  // namespace nest::exporter
