// Decoders in the manner of Llama with dense feed-forwards.
#include <array>

#include "model/families.h"

namespace nest::model::families {
namespace {

// Qwen's layers from `max_window_layers` on slide, where the file switches windows on at all.
Architecture assemble_qwen(Config& config, Decoder decoder) {
  std::optional<std::int64_t> window;
  if (config.flag_or("use_sliding_window", false))
    window = config.size_unless_null("sliding_window", 4096, kMaxPositions);
  const std::int64_t first = config.size_unless_null("max_window_layers", 28, kMaxLayers).value_or(0);
  const auto sliding =
      sliding_layers(config, decoder.layers, [&](std::int64_t layer) { return window && layer >= first; });
  return assemble_sliding(config, std::move(decoder), window, sliding);
}

// Gemma's files name the activation twice; `hidden_act` was ignored from the start, because early files had it wrong.
void set_gemma_activation(Config& config, Decoder& decoder) {
  decoder.block.feed_forward->activation = config.activation_or({"hidden_activation"}, Activation::gelu_tanh);
}

Architecture read_mistral(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .positions = 131072});
  decoder.block.attention.window = config.size_unless_null("sliding_window", 4096, kMaxPositions).value_or(0);
  return assemble(config, std::move(decoder));
}

Architecture read_mistral3_text(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .head_dim = 128, .positions = 262144});
  decoder.block.attention.window = config.maybe_size({"sliding_window"}, kMaxPositions).value_or(0);
  return assemble(config, std::move(decoder));
}

Architecture read_qwen2(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 32, .positions = 32768});
  set_attention_bias(decoder.block.attention, true);
  decoder.block.attention.output_bias = false;
  return assemble_qwen(config, std::move(decoder));
}

Architecture read_qwen3(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 32, .head_dim = 128, .positions = 32768});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.qk_norm = QkNorm::per_head;
  return assemble_qwen(config, std::move(decoder));
}

Architecture read_gemma(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 16, .head_dim = 256, .positions = 8192, .tied = true});
  set_gemma_activation(config, decoder);
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  return assemble(config, std::move(decoder));
}

Architecture read_gemma2(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 4, .head_dim = 256, .positions = 8192, .tied = true});
  set_gemma_activation(config, decoder);
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.wiring = Wiring::sandwich;
  const auto window = config.size_unless_null("sliding_window", 4096, kMaxPositions);
  const auto sliding = sliding_layers(config, decoder.layers, [](std::int64_t layer) { return layer % 2 == 0; });
  return assemble_sliding(config, std::move(decoder), window, sliding);
}

// The published files of the larger models rely on the class's defaults for whatever coincides with them.
Architecture read_gemma3_text(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 4,
                                          .head_dim = 256,
                                          .positions = 131072,
                                          .tied = true,
                                          .hidden = 2304,
                                          .width = 9216,
                                          .layers = 26,
                                          .heads = 8,
                                          .vocabulary = 262208});
  set_gemma_activation(config, decoder);
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.qk_norm = QkNorm::per_head;
  decoder.block.wiring = Wiring::sandwich;
  const auto window = config.size_unless_null("sliding_window", 4096, kMaxPositions);
  const std::int64_t pattern = config.size_or({"sliding_window_pattern", "_sliding_window_pattern"}, 6, kMaxLayers);
  const auto sliding =
      sliding_layers(config, decoder.layers, [&](std::int64_t layer) { return (layer + 1) % pattern != 0; });
  return assemble_sliding(config, std::move(decoder), window, sliding);
}

Architecture read_phi3(Config& config) {
  Decoder decoder = read_decoder(config, {.positions = 4096});
  decoder.block.attention.window = config.maybe_size({"sliding_window"}, kMaxPositions).value_or(0);
  decoder.architecture.dropout = config.probability_or("resid_pdrop", 0);
  return assemble(config, std::move(decoder));
}

Architecture read_starcoder2(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 2,
                                          .positions = 4096,
                                          .tied = true,
                                          .gated = false,
                                          .activation = Activation::gelu_tanh,
                                          .norm = NormKind::layer});
  const bool bias = config.flag_or("use_bias", true);
  set_attention_bias(decoder.block.attention, bias);
  set_feed_forward_bias(*decoder.block.feed_forward, bias);
  decoder.block.attention.window = config.maybe_size({"sliding_window"}, kMaxPositions).value_or(0);
  decoder.architecture.dropout = config.probability_or("residual_dropout", 0);
  return assemble(config, std::move(decoder));
}

// Its LayerNorm multiplies by 1 + weight, which changes neither shapes nor cost.
Architecture read_nemotron(Config& config) {
  Decoder decoder = read_decoder(config, {.positions = 4096,
                                          .gated = false,
                                          .activation = Activation::relu_squared,
                                          .norm = NormKind::layer,
                                          .rotary_fraction = 0.5});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  set_feed_forward_bias(*decoder.block.feed_forward, config.flag_or("mlp_bias", false));
  return assemble(config, std::move(decoder));
}

Architecture read_olmo2(Config& config) {
  Decoder decoder = read_decoder(config, {});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.qk_norm = QkNorm::full_width;
  decoder.block.wiring = Wiring::output_norm;
  return assemble(config, std::move(decoder));
}

// Granite, EXAONE and others: Llama whose layers slide where the file says so.
Architecture read_sliding_llama(Config& config, const Habits& habits, std::optional<std::int64_t> window,
                                const std::function<bool(std::int64_t)>& by_default) {
  Decoder decoder = read_decoder(config, habits);
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  set_feed_forward_bias(*decoder.block.feed_forward, config.flag_or("mlp_bias", false));
  const auto sliding = sliding_layers(config, decoder.layers, by_default);
  return assemble_sliding(config, std::move(decoder), window, sliding);
}

Architecture read_cwm(Config& config) {
  const auto window = config.size_unless_null("sliding_window", 8192, kMaxPositions);
  return read_sliding_llama(config, {.kv_heads = 8, .head_dim = 128, .positions = 131072}, window,
                            [](std::int64_t layer) { return layer % 4 != 0; });
}

Architecture read_granite_swa(Config& config) {
  const auto window = config.size_unless_null("sliding_window", 128, kMaxPositions);
  Architecture architecture =
      read_sliding_llama(config, {.tied = true}, window, [](std::int64_t layer) { return layer % 4 != 0; });
  for (Block& block : architecture.towers.front().kinds) block.attention.sinks = true;
  return architecture;
}

// Every `no_rope_layer_interval`-th layer does not rotate.
Architecture read_smollm3(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 4, .positions = 32768, .tied = true});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  set_feed_forward_bias(*decoder.block.feed_forward, config.flag_or("mlp_bias", false));
  const std::int64_t interval = config.size_or({"no_rope_layer_interval"}, 4, kMaxLayers);
  const Block block = decoder.block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    Block own = block;
    if ((layer + 1) % interval == 0) own.attention.rotary_fraction = 0;
    return own;
  });
}

// Biases of q, k and v alone.
Architecture read_input_bias(Config& config, const Habits& habits, Wiring wiring) {
  Decoder decoder = read_decoder(config, habits);
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", true));
  decoder.block.attention.output_bias = config.flag_or("attention_out_bias", false);
  set_feed_forward_bias(*decoder.block.feed_forward, config.flag_or("mlp_bias", false));
  decoder.block.wiring = wiring;
  return assemble(config, std::move(decoder));
}

constexpr Habits kGlm = {.kv_heads = 2, .head_dim = 128, .positions = 131072, .rotary_fraction = 0.5};

Architecture read_glm(Config& config) { return read_input_bias(config, kGlm, Wiring::pre_norm); }
Architecture read_glm4(Config& config) { return read_input_bias(config, kGlm, Wiring::sandwich); }
Architecture read_seed_oss(Config& config) {
  return read_input_bias(config, {.kv_heads = 8, .head_dim = 128, .positions = 524288}, Wiring::pre_norm);
}

Architecture read_glm_ocr_text(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .positions = 131072});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.wiring = Wiring::sandwich;
  return assemble(config, std::move(decoder));
}

Architecture read_ernie4_5(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 2, .head_dim = 128, .positions = 131072, .tied = true});
  const bool bias = config.flag_or("use_bias", false);
  set_attention_bias(decoder.block.attention, bias);
  set_feed_forward_bias(*decoder.block.feed_forward, bias);
  return assemble(config, std::move(decoder));
}

// Feed-forwards of two matrices with squared relu.
Architecture read_plain_llama(Config& config, const Habits& habits, bool bias) {
  Decoder decoder = read_decoder(config, habits);
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", bias));
  set_feed_forward_bias(*decoder.block.feed_forward, config.flag_or("mlp_bias", bias));
  return assemble(config, std::move(decoder));
}

Architecture read_arcee(Config& config) {
  return read_plain_llama(config, {.positions = 4096, .gated = false, .activation = Activation::relu_squared}, false);
}

Architecture read_jais2(Config& config) {
  return read_plain_llama(
      config, {.positions = 8192, .gated = false, .activation = Activation::relu_squared, .norm = NormKind::layer},
      true);
}

// Norms without weights everywhere, also of queries and keys; none of its projections has a bias.
Architecture read_nanochat(Config& config) {
  Decoder decoder = read_decoder(config, {.gated = false, .activation = Activation::relu_squared});
  Block& block = decoder.block;
  set_attention_bias(block.attention, config.flag_or("attention_bias", false));
  block.attention.qk_norm = QkNorm::per_head;
  block.attention.qk_norm_weight = false;
  block.norm_weight = false;
  return assemble(config, std::move(decoder));
}

// Its activation has two learned scales.
Architecture read_apertus(Config& config) {
  Decoder decoder = read_decoder(config, {.positions = 65536, .gated = false, .activation = Activation::relu_squared});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.qk_norm = QkNorm::per_head;
  decoder.block.scales = 2;
  return assemble(config, std::move(decoder));
}

// Norms of the attention's and the activation's results, before each is projected.
Architecture read_bitnet(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 5, .activation = Activation::relu_squared});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.output_norm = NormKind::rms;
  decoder.block.feed_forward->inner_norm = NormKind::rms;
  return assemble(config, std::move(decoder));
}

Architecture read_olmo(Config& config) {
  Decoder decoder = read_decoder(config, {.norm = NormKind::layer});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.norm_weight = decoder.block.norm_bias = false;
  return assemble(config, std::move(decoder));
}

Architecture read_olmo3(Config& config) {
  Decoder decoder = read_decoder(config, {.positions = 2048});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.qk_norm = QkNorm::full_width;
  decoder.block.wiring = Wiring::output_norm;
  const auto window = config.size_unless_null("sliding_window", 4096, kMaxPositions);
  const auto sliding = sliding_layers(config, decoder.layers, [](std::int64_t layer) { return (layer + 1) % 4 != 0; });
  return assemble_sliding(config, std::move(decoder), window, sliding);
}

Architecture read_exaone4(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 32, .positions = 2048});
  decoder.block.attention.qk_norm = QkNorm::per_head;
  decoder.block.wiring = Wiring::output_norm;
  const auto window = config.size_unless_null("sliding_window", 4096, kMaxPositions);
  const auto sliding =
      sliding_layers(config, decoder.layers, [&](std::int64_t layer) { return window && (layer + 1) % 4 != 0; });
  return assemble_sliding(config, std::move(decoder), window, sliding);
}

Architecture read_hunyuan_dense(Config& config) {
  Decoder decoder = read_decoder(config, {});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.qk_norm = QkNorm::per_head;
  return assemble(config, std::move(decoder));
}

Architecture read_hyperclovax(Config& config) {
  Decoder decoder = read_decoder(config, {});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  set_feed_forward_bias(*decoder.block.feed_forward, config.flag_or("mlp_bias", false));
  if (config.flag_or("use_post_norm", false)) decoder.block.wiring = Wiring::sandwich;
  return assemble(config, std::move(decoder));
}

Architecture read_stablelm(Config& config) {
  Decoder decoder =
      read_decoder(config, {.kv_heads = 32, .positions = 4096, .norm = NormKind::layer, .rotary_fraction = 0.25});
  Attention& attention = decoder.block.attention;
  attention.query_bias = attention.key_bias = attention.value_bias = config.flag_or("use_qkv_bias", false);
  if (config.flag_or("qk_layernorm", false)) {
    config.fail("qk_layernorm", "true is not supported for stablelm; allowed is false");
  }
  if (config.flag_or("use_parallel_residual", false)) decoder.block.wiring = Wiring::parallel_one;
  return assemble(config, std::move(decoder));
}

Architecture read_persimmon(Config& config) {
  Decoder decoder = read_decoder(config, {.positions = 16384,
                                          .gated = false,
                                          .activation = Activation::relu_squared,
                                          .norm = NormKind::layer,
                                          .rotary_fraction = 0.5});
  Block& block = decoder.block;
  block.attention.kv_heads = block.attention.heads;
  set_attention_bias(block.attention, true);
  set_feed_forward_bias(*block.feed_forward, true);
  if (config.flag_or("qk_layernorm", true)) {
    block.attention.qk_norm = QkNorm::per_head;
    block.attention.qk_norm_kind = NormKind::layer;
  }
  return assemble(config, std::move(decoder));
}

// Attention and feed-forward side by side after one LayerNorm without bias.
Architecture read_cohere_like(Config& config, std::optional<std::int64_t> window) {
  Decoder decoder = read_decoder(config, {.positions = 8192, .tied = true, .norm = NormKind::layer});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  if (config.flag_or("use_qk_norm", false)) {
    config.fail("use_qk_norm", "true is not supported for cohere; allowed is false");
  }
  decoder.block.norm_bias = false;
  decoder.block.wiring = Wiring::parallel_one;
  const std::int64_t pattern = config.size_or({"sliding_window_pattern", "_sliding_window_pattern"}, 4, kMaxLayers);
  const auto sliding =
      sliding_layers(config, decoder.layers, [&](std::int64_t layer) { return window && (layer + 1) % pattern != 0; });
  return assemble_sliding(config, std::move(decoder), window, sliding);
}

Architecture read_cohere(Config& config) { return read_cohere_like(config, std::nullopt); }
Architecture read_cohere2(Config& config) {
  return read_cohere_like(config, config.size_unless_null("sliding_window", 4096, kMaxPositions));
}

// Gemma 2 with norms before its parts only.
Architecture read_vaultgemma(Config& config) {
  Architecture architecture = read_gemma2(config);
  for (Block& block : architecture.towers.front().kinds) block.wiring = Wiring::pre_norm;
  return architecture;
}

Architecture read_text_config(Config& config) {
  Config text = config.section("text_config");
  Architecture architecture = read_llama(text);
  architecture.notes.emplace_back("text only: pictures are tokens of its vocabulary; their tokenizer is not trained");
  return architecture;
}

constexpr std::array kLlamaFamilies = std::to_array<Family>({
    {"apertus", read_apertus},
    {"arcee", read_arcee},
    {"bitnet", read_bitnet},
    {"cohere", read_cohere},
    {"cohere2", read_cohere2},
    {"cwm", read_cwm},
    {"emu3", read_text_config},
    {"ernie4_5", read_ernie4_5},
    {"exaone4", read_exaone4},
    {"gemma", read_gemma},
    {"gemma2", read_gemma2},
    {"gemma3_text", read_gemma3_text},
    {"glm", read_glm},
    {"glm4", read_glm4},
    {"glm_ocr_text", read_glm_ocr_text},
    {"granite", read_llama},
    {"granite_swa", read_granite_swa},
    {"helium", read_llama},
    {"hunyuan_v1_dense", read_hunyuan_dense},
    {"hyperclovax", read_hyperclovax},
    {"jais2", read_jais2},
    {"llama", read_llama},
    {"ministral3", read_mistral3_text},
    {"mistral", read_mistral},
    {"nanochat", read_nanochat},
    {"nemotron", read_nemotron},
    {"olmo", read_olmo},
    {"olmo2", read_olmo2},
    {"olmo3", read_olmo3},
    {"paddleocr_vl_text", read_ernie4_5},
    {"persimmon", read_persimmon},
    {"phi3", read_phi3},
    {"qwen2", read_qwen2},
    {"qwen2_5_vl_text", read_qwen2},
    {"qwen2_vl_text", read_qwen2},
    {"qwen3", read_qwen3},
    {"qwen3_vl_text", read_qwen3},
    {"seed_oss", read_seed_oss},
    {"smollm3", read_smollm3},
    {"stablelm", read_stablelm},
    {"starcoder2", read_starcoder2},
    {"vaultgemma", read_vaultgemma},
});

}  // namespace

Architecture read_llama(Config& config) {
  Decoder decoder = read_decoder(config, {});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  set_feed_forward_bias(*decoder.block.feed_forward, config.flag_or("mlp_bias", false));
  return assemble(config, std::move(decoder));
}

std::span<const Family> llama_families() { return kLlamaFamilies; }

}  // namespace nest::model::families
