#include "accuracy/shape.h"

#include <algorithm>
#include <regex>

#include "base/text.h"

namespace nest::accuracy {
namespace {

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* other) { return word == other; });
}

// GPT as Megatron trains it: learned positions, dropout where the stack uses it.
bool is_megatron_gpt(const PublishedRun& run) {
  return !run.model.gated &&
         is_one_of(run.source, {"sc21", "korth", "mtnlg", "opt", "alpa", "mlm", "megads", "vtrain"});
}

model::LatentAttention latent_of(const std::string& words) {
  model::LatentAttention latent{.query_rank = 0, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  std::smatch found;
  if (std::regex_search(words, found, std::regex("q_lora([0-9]{1,6})"))) latent.query_rank = std::stoll(found[1]);
  if (std::regex_search(words, found, std::regex("kv_lora([0-9]{1,6})"))) latent.kv_rank = std::stoll(found[1]);
  if (std::regex_search(words, found, std::regex(R"(qk([0-9]{1,6})\+([0-9]{1,6})rope v([0-9]{1,6}))"))) {
    latent.nope_dim = std::stoll(found[1]);
    latent.rope_dim = std::stoll(found[2]);
    latent.value_dim = std::stoll(found[3]);
  }
  return latent;
}

model::Block dense_block(const PublishedRun& run) {
  const ModelShape& model = run.model;
  model::Block block;
  block.attention.heads = model.heads;
  block.attention.kv_heads = model.kv_heads;
  block.attention.head_dim = model.head_dim;
  if (model.attention.find("MLA") != std::string::npos) block.attention.latent = latent_of(model.attention);
  block.attention.sinks = model.attention.find("sinks") != std::string::npos;
  block.feed_forward = model::FeedForward{
      model.ffn, model.gated, model.gated ? model::Activation::silu : model::Activation::gelu, false, false};
  if (!model.gated) {
    block.norm = model::NormKind::layer;
    block.norm_bias = true;
    model::Attention& attention = block.attention;
    attention.query_bias = attention.key_bias = attention.value_bias = attention.output_bias = true;
    block.feed_forward->up_bias = block.feed_forward->down_bias = true;
  }
  return block;
}

model::Mixture mixture_of(const PublishedRun& run) {
  const ModelShape& model = run.model;
  model::Mixture mixture;
  mixture.experts = model.experts;
  mixture.top_k = std::min(model.top_k, model.experts);
  mixture.expert = model::FeedForward{model.expert_ffn, true, model::Activation::silu, false, false};
  // The papers' routing limits a token to four of eight groups of experts, and so do recipes.
  if (to_lower(model.name).find("deepseek-v3") != std::string::npos && model.experts == 256) {
    mixture.groups = 8;
    mixture.top_groups = 4;
  }
  // Rows do not say which models have biases; this one is known for them.
  if (to_lower(model.name).find("gpt-oss") != std::string::npos) {
    mixture.expert.up_bias = mixture.expert.down_bias = mixture.router_bias = true;
  }
  if (model.shared_ffn > 0)
    mixture.shared = model::FeedForward{model.shared_ffn, true, model::Activation::silu, false, false};
  return mixture;
}

// Dense layers of a mixture come first (DeepSeek); where they are every second one or more, they alternate (Llama 4).
bool is_dense_layer(const ModelShape& model, std::int64_t layer) {
  if (model.dense_layers * 2 < model.layers) return layer < model.dense_layers;
  const std::int64_t sparse = std::max<std::int64_t>(1, model.layers - model.dense_layers);
  const std::int64_t period = model.layers / sparse;
  return period > 1 && layer % period != period - 1;
}

}  // namespace

model::Architecture architecture_for(const PublishedRun& run) {
  const ModelShape& model = run.model;
  model::Architecture arch;
  arch.name = model.name;
  arch.family = model.experts > 0 ? "mixtral" : model.gated ? "llama" : "gpt2";
  arch.hidden = model.hidden;
  arch.vocabulary = model.vocabulary;
  arch.max_positions = arch.default_sequence = model.sequence.value_or(2048);
  arch.tied_embeddings = model.tied;
  arch.position = model.gated ? model::PositionKind::rotary : model::PositionKind::alibi;
  arch.dropout = arch.attention_dropout = 0.1;
  if (is_megatron_gpt(run)) {
    arch.position = model::PositionKind::learned;
    // Megatron's test model keeps a longer table than it uses.
    arch.position_rows = run.source == "mlm" ? std::max<std::int64_t>(8192, arch.max_positions) : arch.max_positions;
  }

  model::Block dense = dense_block(run);
  model::Block sparse = dense;
  if (model.experts > 0) {
    sparse.feed_forward.reset();
    sparse.mixture = mixture_of(run);
  }
  const bool alternating_window = model.attention.find("sliding") != std::string::npos;
  model::Tower tower;
  tower.name = "decoder";
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    model::Block block = model.experts > 0 && !is_dense_layer(model, layer) ? sparse : dense;
    if (alternating_window && layer % 2 == 0) block.attention.window = 128;
    const auto known = std::find(tower.kinds.begin(), tower.kinds.end(), block);
    tower.blocks.push_back(static_cast<int>(known - tower.kinds.begin()));
    if (known == tower.kinds.end()) tower.kinds.push_back(block);
  }
  tower.final_norm_kind = dense.norm;
  tower.final_norm_bias = dense.norm_bias;
  arch.towers.push_back(std::move(tower));
  return arch;
}

}  // namespace nest::accuracy
