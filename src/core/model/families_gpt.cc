// The older generation of decoders: LayerNorm, biases, plain feed-forwards, each with its own names for the same
// things.
#include <fmt/format.h>

#include <array>

#include "base/index.h"
#include "base/text.h"
#include "model/families.h"

namespace nest::model::families {
namespace {

// What gpt2, opt, bloom and falcon have in common once their keys are read.
struct Sizes {
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t width = 0;
};

constexpr Keys kHeadKeys = {"num_attention_heads", "n_head"};

Decoder start_decoder(Config& config, const Sizes& sizes, bool bias) {
  Decoder decoder;
  decoder.layers = sizes.layers;
  decoder.architecture.hidden = sizes.hidden;
  decoder.architecture.vocabulary = config.size({"vocab_size"}, kMaxVocabulary);
  decoder.architecture.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  Block& block = decoder.block;
  block.attention = make_attention(config, kHeadKeys, sizes.hidden, sizes.heads, sizes.kv_heads, std::nullopt);
  set_attention_bias(block.attention, bias);
  block.feed_forward = FeedForward{.width = sizes.width, .gated = false, .activation = Activation::gelu_tanh};
  set_feed_forward_bias(*block.feed_forward, bias);
  block.norm = NormKind::layer;
  block.norm_bias = true;
  return decoder;
}

Architecture read_gpt2(Config& config) {
  Sizes sizes;
  sizes.hidden = config.size({"n_embd", "hidden_size"}, kMaxHidden);
  sizes.layers = config.size({"n_layer", "num_hidden_layers"}, kMaxLayers);
  sizes.heads = sizes.kv_heads = config.size({"n_head", "num_attention_heads"}, kMaxHeads);
  sizes.width = config.size_or({"n_inner"}, 4 * sizes.hidden, kMaxWidth);
  Decoder decoder = start_decoder(config, sizes, true);
  decoder.block.feed_forward->activation = config.activation_or({"activation_function"}, Activation::gelu_new);
  Architecture& architecture = decoder.architecture;
  architecture.position = PositionKind::learned;
  architecture.max_positions = config.size_or({"n_positions", "max_position_embeddings"}, 1024, kMaxPositions);
  architecture.position_rows = architecture.max_positions;
  architecture.dropout = config.probability_or("resid_pdrop", 0.1);
  architecture.attention_dropout = config.probability_or("attn_pdrop", 0.1);
  return assemble(config, std::move(decoder));
}

Architecture read_gpt_neox(Config& config) {
  Decoder decoder = read_decoder(config, {.gated = false,
                                          .activation = Activation::gelu,
                                          .norm = NormKind::layer,
                                          .rotary_key = "rotary_pct",
                                          .rotary_fraction = 0.25});
  decoder.block.attention.kv_heads = decoder.block.attention.heads;
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", true));
  set_feed_forward_bias(*decoder.block.feed_forward, true);
  decoder.block.wiring = config.flag_or("use_parallel_residual", true) ? Wiring::parallel_two : Wiring::pre_norm;
  decoder.architecture.dropout = config.probability_or("hidden_dropout", 0);
  return assemble(config, std::move(decoder));
}

Architecture read_bloom(Config& config) {
  Sizes sizes;
  sizes.hidden = config.size({"hidden_size", "n_embed"}, kMaxHidden);
  sizes.layers = config.size({"n_layer", "num_hidden_layers"}, kMaxLayers);
  sizes.heads = sizes.kv_heads = config.size({"n_head", "num_attention_heads"}, kMaxHeads);
  sizes.width = 4 * sizes.hidden;
  Decoder decoder = start_decoder(config, sizes, true);
  Architecture& architecture = decoder.architecture;
  architecture.position = PositionKind::alibi;
  architecture.max_positions = config.size_or({"seq_length"}, 2048, kMaxPositions);
  architecture.embedding_norm = true;
  architecture.dropout = config.probability_or("hidden_dropout", 0);
  architecture.attention_dropout = config.probability_or("attention_dropout", 0);
  return assemble(config, std::move(decoder));
}

// Three generations under one name: rw (alibi, biases, sequential), 7b (one key/value head, one shared norm) and
// 40b/180b (groups of key/value heads, two norms in parallel).
Architecture read_falcon(Config& config) {
  Sizes sizes;
  sizes.hidden = config.size({"hidden_size", "n_embed"}, kMaxHidden);
  sizes.layers = config.size({"num_hidden_layers", "n_layer"}, kMaxLayers);
  sizes.heads = config.size(kHeadKeys, kMaxHeads);
  sizes.width = config.size_or({"ffn_hidden_size"}, 4 * sizes.hidden, kMaxWidth);
  const bool grouped = config.flag_or("new_decoder_architecture", false);
  if (grouped) {
    sizes.kv_heads = config.size_or({"num_kv_heads", "n_head_kv"}, sizes.heads, kMaxHeads);
  } else {
    sizes.kv_heads = config.flag_or("multi_query", true) ? 1 : sizes.heads;
  }
  Decoder decoder = start_decoder(config, sizes, config.flag_or("bias", false));
  decoder.block.feed_forward->activation = config.activation_or({"activation"}, Activation::gelu);

  const std::int64_t norms = config.size_or({"num_ln_in_parallel_attn"}, grouped ? 2 : 1, 2);
  const bool parallel = config.flag_or("parallel_attn", true);
  if (!parallel && norms == 2) {
    config.fail("parallel_attn", "false contradicts two norms in parallel; allowed is true");
  }
  decoder.block.wiring = !parallel ? Wiring::pre_norm : norms == 2 ? Wiring::parallel_two : Wiring::parallel_one;

  Architecture& architecture = decoder.architecture;
  architecture.position = config.flag_or("alibi", false) ? PositionKind::alibi : PositionKind::rotary;
  architecture.max_positions = config.size_or({"max_position_embeddings"}, 2048, kMaxPositions);
  architecture.dropout = config.probability_or("hidden_dropout", 0);
  architecture.attention_dropout = config.probability_or("attention_dropout", 0);
  return assemble(config, std::move(decoder));
}

Architecture read_phi(Config& config) {
  Decoder decoder = read_decoder(
      config, {.gated = false, .activation = Activation::gelu_new, .norm = NormKind::layer, .rotary_fraction = 0.5});
  if (config.flag_or("qk_layernorm", false)) {
    config.fail("qk_layernorm", "true is not supported for phi; allowed is false");
  }
  set_attention_bias(decoder.block.attention, true);
  set_feed_forward_bias(*decoder.block.feed_forward, true);
  decoder.block.wiring = Wiring::parallel_one;
  decoder.architecture.head_bias = true;
  decoder.architecture.dropout = config.probability_or("resid_pdrop", 0);
  return assemble(config, std::move(decoder));
}

// GPT-2 with one key and value head for all queries.
Architecture read_gpt_bigcode(Config& config) {
  Architecture architecture = read_gpt2(config);
  if (config.flag_or("multi_query", true)) {
    for (Block& block : architecture.towers.front().kinds) block.attention.kv_heads = 1;
  }
  return architecture;
}

// The first GPT: norms after each part, none at the end.
Architecture read_openai_gpt(Config& config) {
  Architecture architecture = read_gpt2(config);
  for (Block& block : architecture.towers.front().kinds) {
    block.wiring = Wiring::post_norm;
    block.feed_forward->activation = config.activation_or({"afn"}, Activation::gelu_new);
  }
  architecture.towers.front().final_norm = false;
  return architecture;
}

// Every second layer attends to a window; only the output projection of its attention has a bias.
Architecture read_gpt_neo(Config& config) {
  Sizes sizes;
  sizes.hidden = config.size({"hidden_size"}, kMaxHidden);
  sizes.layers = config.size({"num_layers", "num_hidden_layers"}, kMaxLayers);
  sizes.heads = sizes.kv_heads = config.size({"num_heads", "num_attention_heads"}, kMaxHeads);
  sizes.width = config.size_unless_null("intermediate_size", 4 * sizes.hidden, kMaxWidth).value_or(4 * sizes.hidden);
  Decoder decoder = start_decoder(config, sizes, true);
  Block& block = decoder.block;
  block.attention.query_bias = block.attention.key_bias = block.attention.value_bias = false;
  block.feed_forward->activation = config.activation_or({"activation_function"}, Activation::gelu_new);
  Architecture& architecture = decoder.architecture;
  architecture.position = PositionKind::learned;
  architecture.max_positions = config.size_or({"max_position_embeddings"}, 2048, kMaxPositions);
  architecture.position_rows = architecture.max_positions;
  architecture.dropout = config.probability_or("resid_dropout", 0);
  const std::int64_t window = config.size_or({"window_size"}, 256, kMaxPositions);
  const auto kinds = layer_words(config, "attention_layers", decoder.layers, {"global", "local"});
  const Block common = block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    Block own = common;
    if (kinds ? (*kinds)[at(layer)] == "local" : layer % 2 == 1) own.attention.window = window;
    return own;
  });
}

// GPT-J and CodeGen: attention without biases beside the feed-forward, a head with one.
Architecture read_gptj(Config& config) {
  Sizes sizes;
  sizes.hidden = config.size({"n_embd", "hidden_size"}, kMaxHidden);
  sizes.layers = config.size({"n_layer", "num_hidden_layers"}, kMaxLayers);
  sizes.heads = sizes.kv_heads = config.size({"n_head", "num_attention_heads"}, kMaxHeads);
  sizes.width = config.size_unless_null("n_inner", 4 * sizes.hidden, kMaxWidth).value_or(4 * sizes.hidden);
  Decoder decoder = start_decoder(config, sizes, true);
  set_attention_bias(decoder.block.attention, false);
  const std::int64_t rotated = config.size_or({"rotary_dim"}, 64, kMaxWidth);
  decoder.block.attention.rotary_fraction = std::min(1.0, real(rotated) / real(decoder.block.attention.head_dim));
  decoder.block.feed_forward->activation = config.activation_or({"activation_function"}, Activation::gelu_new);
  decoder.block.wiring = Wiring::parallel_one;
  Architecture& architecture = decoder.architecture;
  architecture.tied_embeddings = config.flag_or("tie_word_embeddings", false);
  architecture.head_bias = true;
  architecture.position = PositionKind::rotary;
  architecture.max_positions = config.size_or({"n_positions", "max_position_embeddings"}, 2048, kMaxPositions);
  architecture.dropout = config.probability_or("resid_pdrop", 0);
  return assemble(config, std::move(decoder));
}

// Norms with a weight alone, no bias anywhere, ALiBi.
Architecture read_mpt(Config& config) {
  Sizes sizes;
  sizes.hidden = config.size({"d_model"}, kMaxHidden);
  sizes.layers = config.size({"n_layers"}, kMaxLayers);
  sizes.heads = sizes.kv_heads = config.size({"n_heads"}, kMaxHeads);
  sizes.width = config.size_or({"expansion_ratio"}, 4, 64) * sizes.hidden;
  Decoder decoder = start_decoder(config, sizes, false);
  decoder.block.norm_bias = false;
  decoder.block.feed_forward->activation = Activation::gelu;
  decoder.architecture.position = PositionKind::alibi;
  decoder.architecture.max_positions = config.size_or({"max_seq_len"}, 2048, kMaxPositions);
  return assemble(config, std::move(decoder));
}

// The text model of Kosmos: norms of what attention and activation yield before each is projected.
Architecture read_kosmos_text(Config& config) {
  Sizes sizes;
  sizes.hidden = config.size({"embed_dim", "hidden_size"}, kMaxHidden);
  sizes.layers = config.size({"layers", "num_hidden_layers"}, kMaxLayers);
  sizes.heads = sizes.kv_heads = config.size({"attention_heads", "num_attention_heads"}, kMaxHeads);
  sizes.width = config.size({"ffn_dim", "intermediate_size"}, kMaxWidth);
  Decoder decoder = start_decoder(config, sizes, true);
  decoder.block.feed_forward->activation = config.activation_or({"activation_function"}, Activation::gelu);
  decoder.block.feed_forward->inner_norm = NormKind::layer;
  decoder.architecture.position = PositionKind::none;  // sinusoidal: nothing is learned
  decoder.architecture.max_positions = config.size_or({"max_position_embeddings"}, 2048, kMaxPositions);
  if (config.maybe_text("model_type").value_or("") == "kosmos_2_5_text_model") {
    decoder.architecture.token_types = 2;
  } else {
    decoder.block.attention.output_norm = NormKind::layer;
  }
  return assemble(config, std::move(decoder));
}

constexpr std::array kGptFamilies = std::to_array<Family>({
    {"bloom", read_bloom},
    {"codegen", read_gptj},
    {"falcon", read_falcon},
    {"gpt-sw3", read_gpt2},
    {"gpt2", read_gpt2},
    {"gpt_bigcode", read_gpt_bigcode},
    {"gpt_neo", read_gpt_neo},
    {"gpt_neox", read_gpt_neox},
    {"gptj", read_gptj},
    {"kosmos_2_5_text_model", read_kosmos_text},
    {"kosmos_2_text_model", read_kosmos_text},
    {"mpt", read_mpt},
    {"openai-gpt", read_openai_gpt},
    {"opt", read_opt},
    {"phi", read_phi},
});

}  // namespace

Architecture read_opt(Config& config) {
  Sizes sizes;
  sizes.hidden = config.size({"hidden_size"}, kMaxHidden);
  sizes.layers = config.size({"num_hidden_layers"}, kMaxLayers);
  sizes.heads = sizes.kv_heads = config.size({"num_attention_heads"}, kMaxHeads);
  sizes.width = config.size({"ffn_dim"}, kMaxWidth);
  Decoder decoder = start_decoder(config, sizes, config.flag_or("enable_bias", true));
  Block& block = decoder.block;
  block.feed_forward->activation = config.activation_or({"activation_function"}, Activation::relu);
  block.norm_weight = block.norm_bias = config.flag_or("layer_norm_elementwise_affine", true);
  const bool norm_first = config.flag_or("do_layer_norm_before", true);
  block.wiring = norm_first ? Wiring::pre_norm : Wiring::post_norm;

  Architecture& architecture = decoder.architecture;
  architecture.position = PositionKind::learned;
  architecture.max_positions = config.size_or({"max_position_embeddings"}, 2048, kMaxPositions - 2);
  architecture.position_rows = architecture.max_positions + 2;  // its table keeps two rows for padding
  const std::int64_t table_width = config.size_or({"word_embed_proj_dim"}, sizes.hidden, kMaxHidden);
  architecture.embedding_width = table_width == sizes.hidden ? 0 : table_width;
  architecture.dropout = config.probability_or("dropout", 0.1);
  architecture.attention_dropout = config.probability_or("attention_dropout", 0);
  const bool final_norm = norm_first && !config.flag_or("_remove_final_layer_norm", false);
  Architecture done = assemble(config, std::move(decoder));
  done.towers.front().final_norm = final_norm;
  return done;
}

std::span<const Family> gpt_families() { return kGptFamilies; }

}  // namespace nest::model::families
