#include "model/media_towers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/index.h"
#include "base/text.h"

namespace nest::model::families {
namespace {

constexpr std::int64_t kMaxImage = std::int64_t{1} << 14;
constexpr std::int64_t kMaxChannels = 1024;
constexpr double kClipFrames = 3000;  // of 10 ms

struct BlockShape {
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;
  bool gated = false;
  NormKind norm = NormKind::layer;
  bool input_bias = true;  // of q, k and v
  bool output_bias = true;
  bool feed_forward_bias = true;
  QkNorm qk_norm = QkNorm::none;
  bool rotary = false;
  Activation activation = Activation::gelu;
};

Block make_block(const Config& config, Keys heads_keys, const BlockShape& shape) {
  Block block;
  block.attention = make_attention(config, heads_keys, shape.hidden, shape.heads, shape.heads, std::nullopt);
  set_attention_bias(block.attention, shape.input_bias);
  block.attention.output_bias = shape.output_bias;
  block.attention.causal = false;
  block.attention.qk_norm = shape.qk_norm;
  block.attention.rotary_fraction = shape.rotary ? 1 : 0;
  block.feed_forward = FeedForward{.width = shape.width, .gated = shape.gated, .activation = shape.activation};
  set_feed_forward_bias(*block.feed_forward, shape.feed_forward_bias);
  block.norm = shape.norm;
  block.norm_bias = shape.norm == NormKind::layer;
  return block;
}

Tower make_media_tower(const char* name, const BlockShape& shape, const BlockOfLayer& block_of) {
  Tower tower = make_tower(name, shape.layers, block_of);
  tower.hidden = shape.hidden;
  tower.final_norm_kind = shape.norm;
  tower.final_norm_bias = shape.norm == NormKind::layer;
  tower.media = Media{};
  return tower;
}

// A size, or the first of two equal ones.
std::int64_t side(Config& config, std::string_view key, std::int64_t otherwise) {
  if (!config.has(key)) return otherwise;
  if (config.is_list(key)) {
    const auto sides = config.maybe_indices(key, kMaxImage + 1);
    if (sides->size() != 2 || (*sides)[0] != (*sides)[1] || (*sides)[0] == 0) {
      config.fail(key, "expected one size, or two equal ones");
    }
    return sides->front();
  }
  return config.size({key}, kMaxImage);
}

struct Patches {
  std::int64_t elements = 0;  // of one patch, all channels
  std::int64_t rows = 0;      // of a picture
};

Patches read_patches(Config& vision) {
  const std::int64_t patch = side(vision, "patch_size", 14);
  const std::int64_t channels = vision.size_or({"num_channels", "in_channels", "in_chans"}, 3, kMaxChannels);
  const std::int64_t frames = vision.size_or({"temporal_patch_size"}, 1, 64);
  Patches patches;
  patches.elements = channels * frames * patch * patch;
  const std::int64_t image = side(vision, "image_size", 0);
  patches.rows = image == 0 ? kUsualPatches : std::max<std::int64_t>(1, (image / patch) * (image / patch));
  return patches;
}

BlockShape read_shape(Config& vision) {
  BlockShape shape;
  shape.hidden = vision.size({"hidden_size", "embed_dim"}, kMaxHidden);
  shape.layers = vision.size({"num_hidden_layers", "depth"}, kMaxLayers);
  shape.heads = vision.size({"num_attention_heads", "num_heads"}, kMaxHeads);
  shape.width = vision.size({"intermediate_size", "mlp_dim", "d_ff"}, kMaxWidth);
  shape.activation = vision.activation_or({"hidden_act"}, Activation::gelu);
  return shape;
}

constexpr Keys kVisionHeads = {"num_attention_heads", "num_heads"};

Tower equal_blocks(const Config& vision, const char* name, const BlockShape& shape, double rows) {
  const Block block = make_block(vision, kVisionHeads, shape);
  Tower tower = make_media_tower(name, shape, [&](std::int64_t) { return block; });
  tower.media->rows = rows;
  return tower;
}

Step patch_step(const Patches& patches, std::int64_t width, bool bias) {
  Step step = linear_step(patches.elements, width, bias);
  step.name = "patches";
  return step;
}

// CLIP: a class token, no bias of patches, a norm before the blocks.
Tower read_clip(Config& vision) {
  const BlockShape shape = read_shape(vision);
  const Patches patches = read_patches(vision);
  Tower tower = equal_blocks(vision, "vision", shape, real(patches.rows + 1));
  tower.media->stem = {patch_step(patches, shape.hidden, false), unused_step(shape.hidden),
                       table_step(patches.rows + 1, shape.hidden), norm_step(shape.hidden, NormKind::layer)};
  return tower;
}

// Llama 4: CLIP's with rotary positions besides.
Tower read_llama4_vision(Config& vision) {
  BlockShape shape = read_shape(vision);
  const Patches patches = read_patches(vision);
  shape.rotary = true;
  Tower tower = equal_blocks(vision, "vision", shape, real(patches.rows + 1));
  tower.media->stem = {patch_step(patches, shape.hidden, false), unused_step(shape.hidden),
                       table_step(patches.rows + 1, shape.hidden), norm_step(shape.hidden, NormKind::layer)};
  return tower;
}

// SigLIP: no class token; a head that pools, which models of text and pictures hold and do not use.
Tower read_siglip(Config& vision) {
  const BlockShape shape = read_shape(vision);
  const Patches patches = read_patches(vision);
  Tower tower = equal_blocks(vision, "vision", shape, real(patches.rows));
  tower.media->stem = {patch_step(patches, shape.hidden, true), table_step(patches.rows, shape.hidden)};
  const bool pools = vision.maybe_text("model_type").value_or("siglip_vision_model") == "siglip_vision_model";
  if (pools && vision.flag_or("vision_use_head", true)) {
    const std::int64_t e = shape.hidden;
    tower.media->stem.push_back(unused_step(4 * e * e + 8 * e + 2 * e * shape.width + shape.width));
  }
  return tower;
}

// Pixtral: RMSNorm, rotary positions, gated feed-forwards, no bias.
Tower read_pixtral(Config& vision) {
  BlockShape shape = read_shape(vision);
  const Patches patches = read_patches(vision);
  shape.gated = shape.rotary = true;
  shape.norm = NormKind::rms;
  shape.input_bias = shape.output_bias = shape.feed_forward_bias = false;
  Tower tower = equal_blocks(vision, "vision", shape, real(patches.rows));
  tower.media->stem = {patch_step(patches, shape.hidden, false), norm_step(shape.hidden, NormKind::rms)};
  tower.final_norm = false;
  return tower;
}

// InternViT: a class token, scales on both residuals, no norm at the end.
Tower read_intern_vit(Config& vision) {
  BlockShape shape = read_shape(vision);
  const Patches patches = read_patches(vision);
  shape.input_bias = vision.flag_or("attention_bias", false);
  Block block = make_block(vision, kVisionHeads, shape);
  block.scales = 2 * shape.hidden;
  Tower tower = make_media_tower("vision", shape, [&](std::int64_t) { return block; });
  tower.media->rows = real(patches.rows + 1);
  tower.media->stem = {patch_step(patches, shape.hidden, true), unused_step(shape.hidden)};
  if (vision.flag_or("use_absolute_position_embeddings", true)) {
    tower.media->stem.push_back(table_step(patches.rows + 1, shape.hidden));
  }
  tower.final_norm = false;
  return tower;
}

// SAM's encoder: windows but in a few layers, tables of relative positions, and a neck of two convolutions.
Tower read_sam(Config& vision) {
  BlockShape shape = read_shape(vision);
  shape.input_bias = vision.flag_or("qkv_bias", true);
  const Patches patches = read_patches(vision);
  const std::int64_t grid = side(vision, "image_size", 1024) / side(vision, "patch_size", 16);
  const std::int64_t window = vision.size_or({"window_size"}, 14, kMaxImage);
  const auto global = vision.maybe_indices("global_attn_indexes", shape.layers).value_or(std::vector<std::int64_t>());
  const Block common = make_block(vision, kVisionHeads, shape);
  Tower tower = make_media_tower("vision", shape, [&](std::int64_t layer) {
    Block block = common;
    const bool whole = std::find(global.begin(), global.end(), layer) != global.end();
    if (!whole) block.attention.chunk = window * window;
    block.scales = 2 * (2 * (whole ? grid : window) - 1) * common.attention.head_dim;
    return block;
  });
  tower.final_norm = false;
  tower.media->rows = real(patches.rows);
  tower.media->stem = {patch_step(patches, shape.hidden, true), table_step(patches.rows, shape.hidden)};
  const std::int64_t out = vision.size_or({"output_channels"}, 256, kMaxHidden);
  tower.media->projector = {linear_step(shape.hidden, out, false), norm_step(out, NormKind::layer),
                            linear_step(9 * out, out, false), norm_step(out, NormKind::layer)};
  return tower;
}

// AIMv2 as Ovis uses it: RMSNorm, gated feed-forwards.
Tower read_ovis_tower(Config& vision) {
  BlockShape shape = read_shape(vision);
  const Patches patches = read_patches(vision);
  shape.gated = true;
  shape.norm = NormKind::rms;
  shape.input_bias = shape.output_bias = vision.flag_or("qkv_bias", false);
  shape.feed_forward_bias = vision.flag_or("mlp_bias", false);
  Tower tower = equal_blocks(vision, "vision", shape, real(patches.rows));
  tower.media->stem = {patch_step(patches, shape.hidden, true), norm_step(shape.hidden, NormKind::rms),
                       table_step(patches.rows, shape.hidden)};
  return tower;
}

// Patches that come flattened, with a table of rows and one of columns.
Tower read_pix2struct(Config& vision) {
  BlockShape shape = read_shape(vision);
  shape.gated = true;
  shape.norm = NormKind::rms;
  shape.input_bias = shape.output_bias = shape.feed_forward_bias = false;
  shape.activation = vision.activation_or({"dense_act_fn"}, Activation::gelu_new);
  const std::int64_t rows = vision.size_or({"max_num_patches", "seq_len"}, 4096, kMaxPositions / 4);
  Tower tower = equal_blocks(vision, "vision", shape, real(std::min<std::int64_t>(rows, 2048)));
  Step patches = linear_step(vision.size_or({"patch_embed_hidden_size"}, 768, kMaxHidden), shape.hidden, true);
  tower.media->stem = {patches, table_step(2 * rows, shape.hidden)};
  return tower;
}

struct VisionKind {
  std::string_view model_type;
  Tower (*read)(Config&);
};

constexpr std::array kVisionKinds = std::to_array<VisionKind>({
    {"clip_vision_model", read_clip},
    {"idefics2_vision", read_siglip},
    {"idefics3_vision", read_siglip},
    {"internvl_vision", read_intern_vit},
    {"kosmos_2_5_vision_model", read_pix2struct},
    {"kosmos_2_vision_model", read_clip},
    {"llama4_vision_model", read_llama4_vision},
    {"ovis2", read_ovis_tower},
    {"paddleocr_vl_vision", read_siglip},
    {"pix2struct_vision_model", read_pix2struct},
    {"pixtral", read_pixtral},
    {"qianfan_ocr_vision", read_intern_vit},
    {"sam", read_sam},
    {"siglip_vision_model", read_siglip},
    {"smolvlm_vision", read_siglip},
});

}  // namespace

Step linear_step(std::int64_t in, std::int64_t out, bool bias, double rows) {
  Step step;
  step.in = in;
  step.out = out;
  step.bias = bias;
  step.rows = rows;
  return step;
}

Step norm_step(std::int64_t in, NormKind norm, double rows) {
  Step step;
  step.kind = StepKind::norm;
  step.in = in;
  step.out = in;
  step.norm = norm;
  step.rows = rows;
  step.name = "norm";
  return step;
}

Step table_step(std::int64_t rows, std::int64_t width) {
  Step step;
  step.kind = StepKind::table;
  step.in = rows;
  step.out = width;
  step.name = "positions";
  return step;
}

Step plain_norm_step(std::int64_t in, double rows) {
  Step step = norm_step(in, NormKind::rms, rows);
  step.weight = false;
  return step;
}

Step activation_step() {
  Step step;
  step.kind = StepKind::activation;
  step.name = "activation";
  return step;
}

Step unused_step(std::int64_t elements) {
  Step step;
  step.kind = StepKind::unused;
  step.in = elements;
  return step;
}

Tower read_vision_tower(Config& vision, std::string_view otherwise) {
  std::string type = vision.maybe_text("model_type").value_or("");
  if (type.empty()) type = otherwise;
  const auto found = std::find_if(kVisionKinds.begin(), kVisionKinds.end(),
                                  [&](const VisionKind& kind) { return kind.model_type == type; });
  if (found == kVisionKinds.end()) {
    vision.fail("model_type", fmt::format("`{}` is no tower that nest knows; {}", clip(type, 40), kTraceInstead));
  }
  return found->read(vision);
}

Tower read_mllama_tower(Config& vision, std::int64_t hidden) {
  constexpr Keys kTiledHeads = {"attention_heads", "num_attention_heads"};
  BlockShape shape;
  shape.hidden = vision.size({"hidden_size"}, kMaxHidden);
  const std::int64_t local = vision.size({"num_hidden_layers"}, kMaxLayers / 2);
  const std::int64_t global = vision.size({"num_global_layers"}, kMaxLayers / 2);
  shape.layers = local + global;
  shape.heads = vision.size(kTiledHeads, kMaxHeads);
  shape.width = vision.size({"intermediate_size"}, kMaxWidth);
  shape.activation = vision.activation_or({"hidden_act"}, Activation::gelu);
  shape.input_bias = shape.output_bias = false;
  const Block block = make_block(vision, kTiledHeads, shape);
  Tower tower = make_media_tower("vision", shape, [&](std::int64_t layer) {
    Block own = block;
    own.residual_gates = layer >= local;
    return own;
  });

  // Padding is a ratio of its own.
  const std::int64_t ratios = 1 + vision.length_or("supported_aspect_ratios", 8);
  const std::int64_t tiles = vision.size_or({"max_num_tiles"}, 4, 64);
  const Patches patches = read_patches(vision);
  const std::int64_t rows = patches.rows + 1;
  if (real(ratios) * real(tiles) * real(rows) > real(kMaxPositions / 4)) {
    vision.fail("supported_aspect_ratios", "its tables have more than 2^29 rows");
  }
  const auto taken = vision.maybe_indices("intermediate_layers_indices", local);
  const std::int64_t joined = shape.hidden * (1 + (taken ? std::ssize(*taken) : 5));
  if (const std::int64_t out = vision.size_or({"vision_output_dim"}, joined, kMaxWidth); out != joined) {
    vision.fail("vision_output_dim",
                fmt::format("{}; the last block's output beside those of intermediate_layers_indices are {} wide", out,
                            joined));
  }

  // The kernels of attention want rows in eights.
  Media& media = *tower.media;
  media.rows = real(tiles * ((rows + 7) / 8 * 8));
  Step patch = patch_step(patches, shape.hidden, false);
  patch.rows = real(tiles * patches.rows);
  Step positions = table_step(rows, shape.hidden);
  positions.rows = real(tiles * rows);
  // Every table but the patches' own is gated by a number.
  media.stem = {patch,     table_step(ratios * tiles, shape.hidden),        unused_step(shape.hidden + 2),
                positions, table_step(ratios * tiles * rows, shape.hidden), norm_step(shape.hidden, NormKind::layer)};
  media.stem.back().rows = media.rows;
  // The norm stands before the global blocks, where it costs the same.
  Step join;
  join.kind = StepKind::join;
  join.name = "join outputs";
  join.out = joined;
  join.rows = positions.rows;
  media.projector = {table_step(ratios * tiles, shape.hidden), unused_step(1), join,
                     linear_step(joined, hidden, true, positions.rows)};
  media.prefix = false;
  return tower;
}

Tower read_merging_tower(Config& vision, std::string_view model_type) {
  const bool glm = model_type.starts_with("glm");
  const bool qwen2 = model_type == "qwen2_vl", qwen2_5 = model_type == "qwen2_5_vl";
  BlockShape shape;
  shape.hidden = vision.size(qwen2 ? Keys{"embed_dim"} : Keys{"hidden_size"}, kMaxHidden);
  shape.layers = vision.size({"depth"}, kMaxLayers);
  shape.heads = vision.size({"num_heads"}, kMaxHeads);
  shape.width =
      qwen2 ? vision.size_or({"mlp_ratio"}, 4, 64) * shape.hidden : vision.size({"intermediate_size"}, kMaxWidth);
  shape.activation = vision.activation_or({"hidden_act"}, Activation::gelu);
  shape.gated = glm || qwen2_5;
  shape.norm = glm || qwen2_5 ? NormKind::rms : NormKind::layer;
  shape.rotary = true;
  const std::int64_t merge = vision.size_or({"spatial_merge_size"}, 2, 64);
  const std::int64_t joined = merge * merge * shape.hidden;
  const Patches patches = read_patches(vision);
  const double rows = real(patches.rows), merged = rows / real(merge * merge);
  const std::int64_t out = vision.size_or({"out_hidden_size", "hidden_size"}, shape.hidden, kMaxHidden);
  std::int64_t width = shape.width;
  if (glm) {
    // The file's width is the projector's where the blocks have the decoder's.
    const bool early = model_type != "glm_ocr";
    if (early) shape.width = out;
    if (!early) width = 3 * out;
    shape.input_bias = vision.flag_or("attention_bias", false);
    shape.output_bias = shape.input_bias;
    shape.feed_forward_bias = shape.input_bias;
    if (!early) shape.qk_norm = QkNorm::per_head;
  }
  const Block common = make_block(vision, {"num_heads"}, shape);
  const std::int64_t window = vision.size_or({"window_size"}, 0x1000, kMaxImage) / side(vision, "patch_size", 14);
  const auto whole = vision.maybe_indices("fullatt_block_indexes", shape.layers).value_or(std::vector<std::int64_t>());
  Tower tower = make_media_tower("vision", shape, [&](std::int64_t layer) {
    Block block = common;
    if (qwen2_5 && std::find(whole.begin(), whole.end(), layer) == whole.end())
      block.attention.chunk = std::max<std::int64_t>(1, window * window);
    return block;
  });
  tower.media->rows = rows;
  tower.media->stem = {patch_step(patches, shape.hidden, !qwen2 && !qwen2_5)};
  std::vector<Step>& projector = tower.media->projector;
  if (glm) {
    if (model_type != "glm_ocr") {
      tower.media->stem.push_back(norm_step(shape.hidden, NormKind::rms));
      tower.media->stem.push_back(table_step(patches.rows, shape.hidden));
    }
    Step gated;
    gated.kind = StepKind::gated;
    gated.in = gated.out = out;
    gated.width = width;
    projector = {linear_step(joined, out, true, merged), linear_step(out, out, false), norm_step(out, NormKind::layer),
                 activation_step(), gated};
    return tower;
  }
  if (vision.has("num_position_embeddings")) {
    tower.media->stem.push_back(table_step(vision.size({"num_position_embeddings"}, kMaxPositions / 4), shape.hidden));
  }
  tower.final_norm = false;
  projector = {norm_step(shape.hidden, shape.norm), linear_step(joined, joined, true, merged), activation_step(),
               linear_step(joined, out, true)};
  // Mergers of layers on the way, whose rows are added to the first layers of the decoder.
  const auto deep =
      vision.maybe_indices("deepstack_visual_indexes", shape.layers).value_or(std::vector<std::int64_t>());
  for (std::size_t i = 0; i < deep.size(); ++i) {
    projector.push_back(unused_step(2 * joined + joined * (joined + 1) + out * (joined + 1)));
  }
  if (!deep.empty()) projector.back().rows = merged;
  return tower;
}

Tower read_sound_tower(Config& audio, std::string_view model_type) {
  BlockShape shape;
  shape.hidden = audio.size({"d_model", "hidden_size"}, kMaxHidden);
  shape.layers = audio.size({"encoder_layers", "num_hidden_layers"}, kMaxLayers);
  shape.heads = audio.size({"encoder_attention_heads", "num_attention_heads"}, kMaxHeads);
  shape.width = audio.size({"encoder_ffn_dim", "intermediate_size"}, kMaxWidth);
  shape.activation = audio.activation_or({"activation_function", "hidden_act"}, Activation::gelu);
  const bool square = model_type == "qwen3_asr";  // convolutions over time and frequency
  shape.rotary = model_type == "glmasr";
  Block block = make_block(audio, {"encoder_attention_heads", "num_attention_heads"}, shape);
  block.attention.key_bias = square;
  Tower tower = make_media_tower("sound", shape, [&](std::int64_t) { return block; });
  const std::int64_t mel = audio.size_or({"num_mel_bins"}, 80, 4096);
  Media& media = *tower.media;
  if (square) {
    const std::int64_t channels = audio.size_or({"downsample_hidden_size"}, 480, kMaxHidden);
    // Each halves both.
    media.rows = kClipFrames / 8;
    media.stem = {linear_step(9, channels, true, kClipFrames / 2 * real(mel) / 2),
                  activation_step(),
                  linear_step(9 * channels, channels, true, kClipFrames / 4 * real(mel) / 4),
                  activation_step(),
                  linear_step(9 * channels, channels, true, kClipFrames / 8 * real(mel) / 8),
                  activation_step(),
                  linear_step(channels * ((mel + 7) / 8), shape.hidden, false, media.rows)};
    return tower;
  }
  media.rows = kClipFrames / 2;
  media.stem = {linear_step(3 * mel, shape.hidden, true, kClipFrames), activation_step(),
                linear_step(3 * shape.hidden, shape.hidden, true, media.rows), activation_step()};
  if (!shape.rotary) {
    media.stem.push_back(table_step(audio.size_or({"max_source_positions"}, 1500, kMaxPositions / 4), shape.hidden));
  }
  return tower;
}

}  // namespace nest::model::families
