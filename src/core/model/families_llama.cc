// Decoders in the manner of Llama with dense feed-forwards.
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

}  // namespace

Architecture read_llama(Config& config) {
  Decoder decoder = read_decoder(config, {});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  set_feed_forward_bias(*decoder.block.feed_forward, config.flag_or("mlp_bias", false));
  return assemble(config, std::move(decoder));
}

Architecture read_mistral(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .positions = 131072});
  decoder.block.attention.window = config.size_unless_null("sliding_window", 4096, kMaxPositions).value_or(0);
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

// Text and vision; nest plans the text model, which has nearly all of the weights.
Architecture read_gemma3(Config& config) {
  Config text = config.section("text_config");
  return read_gemma3_text(text);
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

}  // namespace nest::model::families
