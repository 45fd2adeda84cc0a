// The towers of Gemma 3n and Gemma 4.
#include <fmt/format.h>

#include "base/index.h"
#include "model/media_towers.h"

namespace nest::model::families {
namespace {

constexpr double kFramesOfClip = 3000;  // 30 seconds of 10 ms

// A list of two sizes, as the channels of the convolutions are given.
std::pair<std::int64_t, std::int64_t> two_sizes(Config& config, std::string_view key, std::int64_t first,
                                                std::int64_t second) {
  if (!config.has(key)) return {first, second};
  const auto sizes = config.maybe_indices(key, kMaxHidden);
  if (sizes->size() != 2 || (*sizes)[0] == 0 || (*sizes)[1] == 0) config.fail(key, "expected two sizes");
  return {(*sizes)[0], (*sizes)[1]};
}

// Steps of MobileNet. A convolution within channels is a product of `taps` with each of them.
class Convolutions {
 public:
  explicit Convolutions(double rows) : rows_(rows) {}

  // A dense convolution of side `side`, a norm, an activation.
  void dense(std::int64_t in, std::int64_t out, std::int64_t side, bool active) {
    add(linear_step(side * side * in, out, false, rows_), out, active);
  }
  void within(std::int64_t channels, std::int64_t side, bool active) {
    add(linear_step(side * side, channels, false, rows_), channels, active);
  }
  void shrink() { rows_ /= 4; }
  // Universal inverted bottleneck: a convolution within channels (or none), to `factor` times the channels, another
  // convolution within them (or none), and down to `out`. The second one has the stride.
  void bottleneck(std::int64_t in, std::int64_t out, std::int64_t first, std::int64_t second, std::int64_t factor,
                  bool shrinks) {
    if (first > 0) within(in, first, false);
    dense(in, factor * in, 1, true);
    if (shrinks) shrink();
    if (second > 0) within(factor * in, second, true);
    dense(factor * in, out, 1, false);
    steps_.push_back(unused_step(out));  // scales the residual
  }
  std::vector<Step> take() { return std::move(steps_); }

 private:
  void add(const Step& convolution, std::int64_t channels, bool active) {
    steps_.push_back(convolution);
    steps_.back().name = "convolution";
    steps_.push_back(norm_step(channels, NormKind::rms));
    if (active) steps_.push_back(activation_step());
  }

  double rows_;
  std::vector<Step> steps_;
};

struct MobileBlock {
  std::int64_t hidden, heads, head_dim;
  bool shrinks_keys;
};

// Attention with one head of keys, and a bottleneck without convolutions, whose norms stand behind its products and cost
// the same.
Block mobile_block(const MobileBlock& shape) {
  Block block;
  block.attention.heads = shape.heads;
  block.attention.kv_heads = 1;
  block.attention.head_dim = shape.head_dim;
  block.attention.causal = false;
  block.attention.rotary_fraction = 0;
  block.feed_forward = FeedForward{.width = 2 * shape.hidden, .gated = false, .activation = Activation::gelu};
  block.feed_forward->inner_norm = NormKind::rms;
  block.scales = 2 * shape.hidden;
  if (shape.shrinks_keys) {
    // Convolutions of side 3 and stride 2 within the channels, each with a norm, before keys and values.
    block.attention.key_rows = 0.25;
    block.scales += 2 * (9 + 1) * shape.hidden;
  }
  return block;
}

Tower mobile_tower(std::string name, const MobileBlock& shape, std::int64_t layers, double rows) {
  const Block block = mobile_block(shape);
  Tower tower = make_tower(std::move(name), layers, [&](std::int64_t) { return block; });
  tower.hidden = shape.hidden;
  tower.final_norm = false;
  tower.media = Media{};
  tower.media->rows = rows;
  return tower;
}

}  // namespace

std::vector<Tower> mobilenet_v5_towers() {
  constexpr double kStem = 384.0 * 384;
  constexpr double kMiddle = 48 * 48, kLast = 24 * 24, kOut = 16 * 16;
  Tower first = mobile_tower("vision", {.hidden = 640, .heads = 12, .head_dim = 64, .shrinks_keys = true}, 14, kMiddle);
  first.media->prefix = false;
  Convolutions early(kStem);
  early.dense(3, 64, 3, true);
  early.shrink();
  for (const std::int64_t in : {64, 128, 128}) {
    early.dense(in, 4 * in, 3, true);
    early.dense(4 * in, 128, 1, false);
  }
  early.bottleneck(128, 256, 3, 5, 6, true);
  for (const std::int64_t side : {5, 3, 5, 3}) early.bottleneck(256, 256, side, 0, 4, false);
  early.bottleneck(256, 640, 5, 5, 6, true);
  for (int i = 0; i < 7; ++i) early.bottleneck(640, 640, 5, 0, 4, false);
  early.bottleneck(640, 640, 0, 0, 1, false);
  first.media->stem = early.take();
  first.media->stem.push_back(unused_step(64));  // the first convolution's bias

  Tower second =
      mobile_tower("vision 2", {.hidden = 1280, .heads = 16, .head_dim = 96, .shrinks_keys = false}, 19, kLast);
  Convolutions late(kMiddle);
  late.bottleneck(640, 1280, 5, 5, 6, true);
  second.media->follows = true;
  second.media->stem = late.take();
  // Both towers' outputs together, at the first one's resolution, then pooled.
  Step join;
  join.kind = StepKind::join;
  join.name = "join scales";
  join.out = 640 + 1280;
  join.rows = kMiddle;
  second.media->projector = {join,
                             linear_step(1920, 3840, false),
                             norm_step(3840, NormKind::rms),
                             activation_step(),
                             linear_step(3840, 2048, false),
                             norm_step(2048, NormKind::rms),
                             norm_step(2048, NormKind::rms, kOut)};
  return {std::move(first), std::move(second)};
}

Tower read_gemma4_vision_tower(Config& vision, double tokens) {
  const std::int64_t hidden = vision.size_or({"hidden_size"}, 768, kMaxHidden);
  const std::int64_t heads = vision.size_or({"num_attention_heads"}, 12, kMaxHeads);
  const std::int64_t kv_heads = vision.size_or({"num_key_value_heads"}, 12, kMaxHeads);
  const std::int64_t pool = vision.size_or({"pooling_kernel_size"}, 3, 64);
  const std::int64_t patch = vision.size_or({"patch_size"}, 16, 1 << 12);
  Block block;
  block.attention = make_attention(vision, {"num_attention_heads"}, hidden, heads, kv_heads,
                                   vision.size_or({"head_dim"}, 64, kMaxWidth / kMaxHeads));
  block.attention.causal = false;
  block.attention.qk_norm = QkNorm::per_head;
  block.attention.value_norm = true;
  block.feed_forward = FeedForward{.width = vision.size_or({"intermediate_size"}, 3072, kMaxWidth),
                                   .gated = true,
                                   .activation = vision.activation_or({"hidden_activation"}, Activation::gelu_tanh)};
  block.wiring = Wiring::sandwich;
  Tower tower =
      make_tower("vision", vision.size_or({"num_hidden_layers"}, 16, kMaxLayers), [&](std::int64_t) { return block; });
  tower.hidden = hidden;
  tower.final_norm = false;
  tower.media = Media{};
  tower.media->rows = tokens * real(pool * pool);
  Step patches = linear_step(3 * patch * patch, hidden, false);
  patches.name = "patches";
  tower.media->stem = {patches,
                       table_step(2 * vision.size_or({"position_embedding_size"}, 10240, kMaxPositions / 4), hidden)};
  return tower;
}

Tower read_conformer_tower(Config& audio) {
  const std::int64_t hidden = audio.size_or({"hidden_size"}, 1024, kMaxHidden);
  const Keys heads_keys = {"num_attention_heads", "conf_num_attention_heads"};
  const std::int64_t heads = audio.size_or(heads_keys, 8, kMaxHeads);
  Block block;
  block.attention = make_attention(audio, heads_keys, hidden, heads, heads, std::nullopt);
  block.attention.causal = false;
  block.attention.rotary_fraction = 0;
  // Chunks see themselves and what lies before them.
  block.attention.chunk =
      audio.size_or({"attention_chunk_size", "conf_attention_chunk_size"}, 12, kMaxPositions / 4) +
      audio.size_or({"attention_context_left", "conf_attention_context_left"}, 13, kMaxPositions / 4) - 1 +
      audio
          .size_unless_null(audio.spelling({"attention_context_right", "conf_attention_context_right"}), 0,
                            kMaxPositions / 4)
          .value_or(0);
  block.feed_forward = FeedForward{
      .width = 4 * hidden, .gated = false, .activation = audio.activation_or({"hidden_act"}, Activation::silu)};
  block.wiring = Wiring::sandwich;
  block.conformer_taps = audio.size_or({"conv_kernel_size", "conf_conv_kernel_size"}, 5, kMaxTaps);
  // Relative positions are projected, a few rows of them, and queries scaled by a vector.
  block.scales = hidden * hidden + block.attention.head_dim;
  const auto [first, second] =
      two_sizes(audio, audio.spelling({"subsampling_conv_channels", "sscp_conv_channel_size"}), 128, 32);
  const std::int64_t bands = audio.size_or({"input_feat_size"}, 128, 1 << 12);
  Tower tower = make_tower("sound", audio.size_or({"num_hidden_layers", "conf_num_hidden_layers"}, 12, kMaxLayers),
                           [&](std::int64_t) { return block; });
  tower.hidden = hidden;
  tower.final_norm = false;
  tower.media = Media{};
  Media& media = *tower.media;
  media.rows = kFramesOfClip / 4;
  // Both convolutions halve time and bands.
  media.stem = {linear_step(9, first, false, kFramesOfClip / 2 * real(bands) / 2),
                norm_step(first, NormKind::rms),
                activation_step(),
                linear_step(9 * first, second, false, media.rows * real(bands) / 4),
                norm_step(second, NormKind::rms),
                activation_step(),
                linear_step(second * (bands / 4), hidden, false, media.rows)};
  return tower;
}

}  // namespace nest::model::families
