// A decoder-only model in the terms that training frameworks share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/graph.h"
#include "plan/chunk_blocks.h"

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

using plan::chunk_blocks;
using plan::is_even_cut;
using plan::keeps_priced_layers;
using plan::stage_blocks;
using plan::StageBlocks;
using plan::v_blocks;

}  // namespace nest::exporter
