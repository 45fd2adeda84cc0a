// Encoders and decoders in the manner of BART: LayerNorm, biases, plain feed-forwards, sizes of their own in each tower.
#include <array>

#include "base/index.h"
#include "model/families.h"

namespace nest::model::families {
namespace {

struct BartHabits {
  std::int64_t extra_rows = 2;  // of the position tables, before the first position
  bool positions = true;        // a table of positions per tower, also where its sines are never trained
  bool norm_first = false;      // norms before each part, and one at the end of each tower
  bool embedding_norm = true;
  bool attention_bias = true;
  Activation activation = Activation::gelu;
};

struct TowerKeys {
  std::string_view layers, heads, width;
};

Block read_bart_block(Config& config, const TowerKeys& keys, std::int64_t hidden, const BartHabits& habits) {
  const std::int64_t heads = config.size({keys.heads, "num_attention_heads"}, kMaxHeads);
  Block block;
  block.attention = make_attention(config, {keys.heads}, hidden, heads, heads, std::nullopt);
  set_attention_bias(block.attention, habits.attention_bias);
  block.feed_forward = FeedForward{.width = config.size({keys.width}, kMaxWidth),
                                   .gated = false,
                                   .activation = config.activation_or({"activation_function"}, habits.activation)};
  set_feed_forward_bias(*block.feed_forward, true);
  block.wiring = habits.norm_first ? Wiring::pre_norm : Wiring::post_norm;
  block.norm = NormKind::layer;
  block.norm_bias = true;
  return block;
}

constexpr TowerKeys kEncoderKeys = {"encoder_layers", "encoder_attention_heads", "encoder_ffn_dim"};
constexpr TowerKeys kDecoderKeys = {"decoder_layers", "decoder_attention_heads", "decoder_ffn_dim"};

void push_tower(Architecture& architecture, const char* name, std::int64_t layers, const Block& block) {
  architecture.towers.push_back(make_tower(name, layers, [&](std::int64_t) { return block; }));
  Tower& tower = architecture.towers.back();
  tower.final_norm = block.wiring == Wiring::pre_norm;
  tower.final_norm_kind = NormKind::layer;
  tower.final_norm_bias = true;
}

// With `is_decoder` the decoder alone is trained; its blocks keep the weights of the cross attention they do not run.
Architecture read_bart_like(Config& config, const BartHabits& habits) {
  Architecture architecture;
  architecture.hidden = config.size({"d_model", "hidden_size"}, kMaxHidden);
  architecture.vocabulary = config.size({"vocab_size"}, kMaxVocabulary);
  architecture.max_positions = config.size_or({"max_position_embeddings"}, 1024, kMaxPositions - 2);
  architecture.position = habits.positions ? PositionKind::learned : PositionKind::none;
  if (habits.positions) architecture.position_rows = architecture.max_positions + habits.extra_rows;
  architecture.embedding_norm = habits.embedding_norm;
  architecture.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  architecture.dropout = config.probability_or("dropout", 0.1);
  architecture.attention_dropout = config.probability_or("attention_dropout", 0);
  Block decoder = read_bart_block(config, kDecoderKeys, architecture.hidden, habits);
  const std::int64_t layers = config.size({kDecoderKeys.layers, "num_hidden_layers"}, kMaxLayers);
  if (config.flag_or("is_decoder", false)) {
    const std::int64_t biases = habits.attention_bias ? 4 : 0;
    decoder.unused = architecture.hidden * (4 * architecture.hidden + biases + 2);
    push_tower(architecture, "decoder", layers, decoder);
    return architecture;
  }
  Block encoder = read_bart_block(config, kEncoderKeys, architecture.hidden, habits);
  encoder.attention.causal = false;
  decoder.cross_attention = decoder.attention;
  push_tower(architecture, "encoder", config.size({kEncoderKeys.layers}, kMaxLayers), encoder);
  push_tower(architecture, "decoder", layers, decoder);
  return architecture;
}

Architecture read_mbart(Config& config) { return read_bart_like(config, {.norm_first = true}); }

Architecture read_blenderbot(Config& config) {
  return read_bart_like(config, {.extra_rows = 0, .norm_first = true, .embedding_norm = false});
}

Architecture read_blenderbot_small(Config& config) { return read_bart_like(config, {.extra_rows = 0}); }

Architecture read_marian(Config& config) { return read_bart_like(config, {.extra_rows = 0, .embedding_norm = false}); }

Architecture read_m2m_100(Config& config) {
  return read_bart_like(
      config, {.positions = false, .norm_first = true, .embedding_norm = false, .activation = Activation::relu});
}

// Local attention in blocks, and global tokens that every layer norms once more.
Architecture read_pegasus_x(Config& config) {
  Architecture architecture = read_bart_like(
      config, {.positions = false, .norm_first = true, .embedding_norm = false, .attention_bias = false});
  const std::int64_t tokens = config.size_or({"num_global_tokens"}, 32, kMaxPositions / kMaxHidden);
  architecture.spare.push_back({"global_tokens", tokens * architecture.hidden});
  const std::int64_t block_size = config.size_or({"block_size"}, 512, kMaxPositions);
  for (Block& block : architecture.towers.front().kinds) {
    block.scales = 2 * architecture.hidden;
    block.attention.chunk = block_size;
  }
  return architecture;
}

constexpr std::array kBartFamilies = std::to_array<Family>({
    {"bart", read_bart},
    {"blenderbot", read_blenderbot},
    {"blenderbot-small", read_blenderbot_small},
    {"m2m_100", read_m2m_100},
    {"marian", read_marian},
    {"mbart", read_mbart},
    {"mvp", read_bart},
    {"pegasus", read_blenderbot},
    {"pegasus_x", read_pegasus_x},
    {"plbart", read_bart},
});

}  // namespace

Architecture read_bart(Config& config) { return read_bart_like(config, {}); }

std::span<const Family> bart_families() { return kBartFamilies; }

}  // namespace nest::model::families
