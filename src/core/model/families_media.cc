// Models that read pictures or sound beside text: a tower before the decoder, and what brings its rows to the
// decoder's width. Text models and towers are read by their own functions; a family here says how they meet.
#include <algorithm>
#include <array>

#include "base/index.h"
#include "model/media_towers.h"

namespace nest::model::families {
namespace {

std::int64_t patches_of(const Tower& tower, bool class_token) {
  return static_cast<std::int64_t>(tower.media->rows) - (class_token ? 1 : 0);
}

Tower read_tower(Config& config, std::string_view otherwise) {
  Config vision = config.section("vision_config");
  return read_vision_tower(vision, otherwise);
}

// Two projections with an activation between.
Architecture read_llava_like(Config& config, bool newline) {
  Architecture architecture = read_text(config, "llama");
  Tower tower = read_tower(config, "clip_vision_model");
  const bool bias = config.flag_or("multimodal_projector_bias", true);
  const bool class_token = tower.media->stem.size() > 3;
  tower.media->projector = {
      linear_step(tower.hidden, architecture.hidden, bias, real(patches_of(tower, class_token))), activation_step(),
      linear_step(architecture.hidden, architecture.hidden, bias, real(patches_of(tower, class_token)))};
  if (newline) architecture.spare.push_back({"newline", architecture.hidden});
  return with_tower(std::move(architecture), std::move(tower));
}

Architecture read_llava(Config& config) { return read_llava_like(config, false); }
Architecture read_llava_next(Config& config) { return read_llava_like(config, true); }

Architecture read_gemma3(Config& config) {
  Architecture architecture = read_text(config, "gemma3_text");
  if (!config.has("vision_config")) {
    architecture.notes.emplace_back("text only: the file describes no vision tower");
    return architecture;
  }
  Tower tower = read_tower(config, "siglip_vision_model");
  const auto tokens = real(config.size_or({"mm_tokens_per_image"}, 256, kMaxPositions));
  tower.media->projector = {norm_step(tower.hidden, NormKind::rms, tokens),
                            linear_step(tower.hidden, architecture.hidden, false, tokens)};
  return with_tower(std::move(architecture), std::move(tower));
}

// The class token is dropped, patches are joined to rows as wide as the tower's feed-forward, two projections with an
// activation after each, and one to the decoder's width.
Architecture read_llama4(Config& config) {
  Architecture architecture = read_text(config, "llama4_text");
  if (!config.has("vision_config")) {
    architecture.notes.emplace_back("text only: the file describes no vision tower");
    return architecture;
  }
  Tower tower = read_tower(config, "llama4_vision_model");
  Config vision = config.section("vision_config");
  const std::int64_t joined = vision.size({"intermediate_size"}, kMaxWidth);
  if (joined % tower.hidden != 0) vision.fail("intermediate_size", "expected a multiple of hidden_size");
  const double rows = real(patches_of(tower, true)) / real(joined / tower.hidden);
  const std::int64_t inner = vision.size_or({"projector_input_dim"}, 4096, kMaxWidth);
  const std::int64_t outer = vision.size_or({"projector_output_dim"}, 4096, kMaxWidth);
  const std::int64_t out = vision.size_or({"vision_output_dim"}, outer, kMaxWidth);
  tower.media->projector = {linear_step(joined, inner, false, rows), activation_step(),
                            linear_step(outer, outer, false, rows), activation_step(),
                            linear_step(out, architecture.hidden, false, rows)};
  return with_tower(std::move(architecture), std::move(tower));
}

// Llama 3.2: some blocks attend to the tower's rows instead of the tokens before, and what they add is gated. The table
// of tokens has eight more rows than the head.
Architecture read_mllama(Config& config) {
  Config text = config.section("text_config");
  Decoder decoder = read_decoder(text, {.kv_heads = 8, .positions = 131072});
  Architecture& architecture = decoder.architecture;
  architecture.tied_embeddings = false;
  architecture.spare.push_back({"image_tokens", 8 * architecture.hidden});
  Block crossing = decoder.block;
  crossing.cross_attention = decoder.block.attention;
  crossing.cross_attention->qk_norm = QkNorm::per_head;
  crossing.cross_attention->causal = false;
  crossing.attention = Attention{};
  crossing.residual_gates = true;
  const auto listed = text.maybe_indices("cross_attention_layers", decoder.layers)
                          .value_or(std::vector<std::int64_t>{3, 8, 13, 18, 23, 28, 33, 38});
  const Block attending = decoder.block;
  Config vision = config.section("vision_config");
  Tower tower = read_mllama_tower(vision, architecture.hidden);
  return with_tower(assemble(text, std::move(decoder),
                             [&](std::int64_t layer) {
                               const bool crosses = std::find(listed.begin(), listed.end(), layer) != listed.end();
                               return crosses ? crossing : attending;
                             }),
                    std::move(tower));
}

Architecture read_paligemma(Config& config) {
  Architecture architecture = read_text(config, "gemma");
  Tower tower = read_tower(config, "siglip_vision_model");
  const std::int64_t out = config.size_or({"projection_dim"}, architecture.hidden, kMaxHidden);
  tower.media->projector = {linear_step(tower.hidden, out, true, tower.media->rows)};
  return with_tower(std::move(architecture), std::move(tower));
}

// Patches are joined by fours, and a gated projection brings them to the decoder.
Architecture read_cohere2_vision(Config& config) {
  Architecture architecture = read_text(config, "cohere2");
  Tower tower = read_tower(config, "siglip_vision_model");
  const std::int64_t factor = config.size_or({"downsample_factor"}, 2, 64);
  const std::int64_t inner = config.size_or({"alignment_intermediate_size"}, 36864, kMaxWidth);
  const double rows = tower.media->rows / real(factor * factor);
  Step down = linear_step(inner / 2, architecture.hidden, true, rows);
  tower.media->projector = {linear_step(factor * factor * tower.hidden, inner, true, rows), activation_step(), down};
  return with_tower(std::move(architecture), std::move(tower));
}

Architecture read_mistral3(Config& config) {
  Architecture architecture = read_text(config, "mistral");
  Tower tower = read_tower(config, "pixtral");
  const std::int64_t merge = config.size_or({"spatial_merge_size"}, 2, 64);
  const bool bias = config.flag_or("multimodal_projector_bias", false);
  const double rows = tower.media->rows / real(merge * merge);
  tower.media->projector = {norm_step(tower.hidden, NormKind::rms),
                            linear_step(merge * merge * tower.hidden, tower.hidden, false, rows),
                            linear_step(tower.hidden, architecture.hidden, bias), activation_step(),
                            linear_step(architecture.hidden, architecture.hidden, bias, rows)};
  return with_tower(std::move(architecture), std::move(tower));
}

// InternVL and its kin: a class token that is dropped, patches joined by fours.
Architecture read_internvl(Config& config) {
  Architecture architecture = read_text(config, "qwen2");
  Tower tower = read_tower(config, "internvl_vision");
  const double rows = real(patches_of(tower, true)) / 4;
  tower.media->projector = {norm_step(4 * tower.hidden, NormKind::layer, rows),
                            linear_step(4 * tower.hidden, architecture.hidden, true), activation_step(),
                            linear_step(architecture.hidden, architecture.hidden, true, rows)};
  return with_tower(std::move(architecture), std::move(tower));
}

Architecture read_paddleocr(Config& config) {
  Architecture architecture = read_text(config, "ernie4_5");
  Config vision = config.section("vision_config");
  const std::int64_t merge = vision.size_or({"spatial_merge_size"}, 2, 64);
  Tower tower = read_vision_tower(vision, "paddleocr_vl_vision");
  const std::int64_t joined = merge * merge * tower.hidden;
  const double rows = tower.media->rows / real(merge * merge);
  tower.media->projector = {norm_step(tower.hidden, NormKind::layer), linear_step(joined, joined, true, rows),
                            activation_step(), linear_step(joined, architecture.hidden, true, rows)};
  return with_tower(std::move(architecture), std::move(tower));
}

Architecture read_got_ocr2(Config& config) {
  Architecture architecture = read_text(config, "qwen2");
  Tower tower = read_tower(config, "sam");
  const std::int64_t channels = tower.media->projector.back().out;
  const double rows = tower.media->rows;
  std::vector<Step>& projector = tower.media->projector;
  projector.push_back(linear_step(9 * channels, 2 * channels, false, rows / 4));
  projector.push_back(linear_step(18 * channels, 4 * channels, false, rows / 16));
  projector.push_back(linear_step(4 * channels, architecture.hidden, true, rows / 16));
  return with_tower(std::move(architecture), std::move(tower));
}

// Every patch becomes a distribution over a vocabulary of its own, and a mixture of that vocabulary's rows.
Architecture read_ovis2(Config& config) {
  Architecture architecture = read_text(config, "qwen2");
  Config vision = config.section("vision_config");
  const std::int64_t vocabulary = vision.size_or({"vocab_size"}, 16384, kMaxVocabulary);
  const std::int64_t indicators = vision.size_or({"num_visual_indicator_tokens"}, 5, kMaxHeads);
  if (indicators >= vocabulary) vision.fail("num_visual_indicator_tokens", "leaves no token for patches");
  const std::int64_t stride = vision.size_or({"hidden_stride"}, 1, 64);
  Tower tower = read_vision_tower(vision, "ovis2");
  const double rows = tower.media->rows / real(stride * stride);
  tower.media->projector = {
      linear_step(stride * stride * tower.hidden, vocabulary - indicators, false, rows),
      norm_step(vocabulary - indicators, NormKind::layer), activation_step(),
      linear_step(vocabulary, config.size_or({"hidden_size"}, architecture.hidden, kMaxHidden), false, rows)};
  return with_tower(std::move(architecture), std::move(tower));
}

// An encoder of patches, and T5's decoder.
Architecture read_pix2struct_model(Config& config) {
  Config text = config.section("text_config");
  Architecture architecture;
  architecture.hidden = text.size({"hidden_size", "d_model"}, kMaxHidden);
  architecture.vocabulary = text.size({"vocab_size"}, kMaxVocabulary);
  architecture.position = PositionKind::relative;
  architecture.max_positions = 512;
  architecture.tied_embeddings = config.flag_or("tie_word_embeddings", false);
  const std::int64_t heads = text.size({"num_heads"}, kMaxHeads);
  Block block;
  block.attention =
      make_attention(text, {"num_heads"}, architecture.hidden, heads, heads, text.size_or({"d_kv"}, 64, kMaxWidth));
  block.cross_attention = block.attention;
  block.feed_forward = FeedForward{.width = text.size({"d_ff"}, kMaxWidth),
                                   .gated = true,
                                   .activation = text.activation_or({"dense_act_fn"}, Activation::gelu_new)};
  const std::int64_t buckets = text.size_or({"relative_attention_num_buckets"}, 32, kMaxWidth / kMaxHeads);
  Tower decoder = make_tower("decoder", text.size({"num_layers"}, kMaxLayers), [&](std::int64_t layer) {
    Block own = block;
    if (layer == 0) own.attention.relative_buckets = buckets;
    return own;
  });
  Tower tower = read_tower(config, "pix2struct_vision_model");
  tower.media->prefix = false;
  architecture.towers = {std::move(tower), std::move(decoder)};
  return architecture;
}

// Learned queries attend once to the projected rows of the tower.
Architecture read_kosmos(Config& config) {
  Architecture architecture = read_text(config, "kosmos_2_text_model");
  Tower tower = read_tower(config, "kosmos_2_vision_model");
  const std::int64_t h = architecture.hidden;
  const std::int64_t queries = config.size_or({"latent_query_num"}, 64, kMaxPositions / kMaxHidden);
  // Keys and values of all rows, queries and the result of the learned ones.
  tower.media->projector = {linear_step(tower.hidden, h, true), linear_step(h, 2 * h, true),
                            linear_step(h, h, true, real(queries)), linear_step(h, h, true, real(queries)),
                            unused_step(queries * h)};
  tower.media->projector.back().rows = real(queries);
  return with_tower(std::move(architecture), std::move(tower));
}

Architecture read_modernvbert(Config& config) {
  Architecture architecture = read_text(config, "modernbert");
  Tower tower = read_tower(config, "siglip_vision_model");
  const std::int64_t factor = config.size_or({"pixel_shuffle_factor"}, 4, 64);
  tower.media->projector = {linear_step(factor * factor * tower.hidden, architecture.hidden, false,
                                        tower.media->rows / real(factor * factor))};
  return with_tower(std::move(architecture), std::move(tower));
}

// Towers that bring their rows to the decoder's width themselves.
Architecture read_merging(Config& config, std::string_view text, std::string_view model_type) {
  Architecture architecture = read_text(config, text);
  Config vision = config.section("vision_config");
  return with_tower(std::move(architecture), read_merging_tower(vision, model_type));
}

Architecture read_qwen2_vl(Config& config) { return read_merging(config, "qwen2_vl_text", "qwen2_vl"); }
Architecture read_qwen2_5_vl(Config& config) { return read_merging(config, "qwen2_5_vl_text", "qwen2_5_vl"); }
Architecture read_qwen3_vl(Config& config) { return read_merging(config, "qwen3_vl_text", "qwen3_vl"); }

// transformers' class for causal language models takes the text model of such a file alone.
Architecture read_qwen3_5_like(Config& config, std::string_view family) {
  const auto classes = config.maybe_names("architectures", 64).value_or(std::vector<std::string>());
  const bool pictures = std::any_of(classes.begin(), classes.end(),
                                    [](const std::string& name) { return name.ends_with("ForConditionalGeneration"); });
  if (pictures && config.has("vision_config")) return read_merging(config, family, "qwen3_5");
  Architecture architecture = read_text(config, family);
  architecture.notes.emplace_back(config.has("vision_config")
                                      ? "text only: `architectures` names no class that has the vision tower "
                                        "(Qwen3_5ForConditionalGeneration, Qwen3_5MoeForConditionalGeneration)"
                                      : "text only: the file describes no vision tower");
  return architecture;
}

Architecture read_qwen3_5(Config& config) { return read_qwen3_5_like(config, "qwen3_5_text"); }
Architecture read_qwen3_5_moe(Config& config) { return read_qwen3_5_like(config, "qwen3_5_moe_text"); }
Architecture read_glm_ocr(Config& config) { return read_merging(config, "glm_ocr_text", "glm_ocr"); }
Architecture read_glm4v_moe(Config& config) { return read_merging(config, "glm4v_moe_text", "glm4v_moe"); }

// Decoders of text after an encoder of sound.
Architecture read_heard(Config& config, std::string_view text, std::string_view model_type,
                        std::vector<Step> (*projector)(const Architecture&, const Tower&, Config&)) {
  Architecture architecture = read_text(config, text);
  Config audio = config.section("audio_config");
  Tower tower = read_sound_tower(audio, model_type);
  tower.media->projector = projector(architecture, tower, audio);
  return with_tower(std::move(architecture), std::move(tower));
}

Architecture read_qwen2_audio(Config& config) {
  return read_heard(config, "qwen2", "qwen2_audio", [](const Architecture& text, const Tower& tower, Config&) {
    return std::vector<Step>{linear_step(tower.hidden, text.hidden, true, tower.media->rows / 2)};
  });
}

Architecture read_voxtral(Config& config) {
  return read_heard(config, "llama", "voxtral", [](const Architecture& text, const Tower& tower, Config& audio) {
    const std::int64_t joined = audio.size({"intermediate_size"}, kMaxWidth);
    const double rows = tower.media->rows * real(tower.hidden) / real(joined);
    return std::vector<Step>{linear_step(joined, text.hidden, false, rows), activation_step(),
                             linear_step(text.hidden, text.hidden, false, rows)};
  });
}

Architecture read_glmasr(Config& config) {
  return read_heard(config, "llama", "glmasr", [](const Architecture& text, const Tower& tower, Config& audio) {
    const std::int64_t joined = audio.size({"intermediate_size"}, kMaxWidth);
    const double rows = tower.media->rows * real(tower.hidden) / real(joined);
    return std::vector<Step>{linear_step(joined, 2 * text.hidden, true, rows), activation_step(),
                             linear_step(2 * text.hidden, text.hidden, true, rows)};
  });
}

Architecture read_qwen3_asr(Config& config) {
  return read_heard(config, "qwen3", "qwen3_asr", [](const Architecture& text, const Tower& tower, Config& audio) {
    const std::int64_t out = audio.size_or({"output_dim"}, text.hidden, kMaxHidden);
    return std::vector<Step>{linear_step(tower.hidden, tower.hidden, true), activation_step(),
                             linear_step(tower.hidden, out, true, tower.media->rows)};
  });
}

// A decoder that attends to the encoder's output.
Architecture read_whisper(Config& config) {
  Architecture architecture;
  architecture.hidden = config.size({"d_model"}, kMaxHidden);
  architecture.vocabulary = config.size({"vocab_size"}, kMaxVocabulary);
  architecture.position = PositionKind::learned;
  architecture.position_rows = architecture.max_positions =
      config.size_or({"max_target_positions"}, 448, kMaxPositions);
  architecture.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  const std::int64_t heads = config.size({"decoder_attention_heads"}, kMaxHeads);
  Block block;
  block.attention =
      make_attention(config, {"decoder_attention_heads"}, architecture.hidden, heads, heads, std::nullopt);
  set_attention_bias(block.attention, true);
  block.attention.key_bias = false;
  block.cross_attention = block.attention;
  block.feed_forward = FeedForward{.width = config.size({"decoder_ffn_dim"}, kMaxWidth),
                                   .gated = false,
                                   .activation = config.activation_or({"activation_function"}, Activation::gelu)};
  set_feed_forward_bias(*block.feed_forward, true);
  block.norm = NormKind::layer;
  block.norm_bias = true;
  Tower tower = make_tower("decoder", config.size({"decoder_layers"}, kMaxLayers), [&](std::int64_t) { return block; });
  tower.final_norm_kind = NormKind::layer;
  tower.final_norm_bias = true;
  Tower encoder = read_sound_tower(config, "whisper");
  encoder.media->prefix = false;
  architecture.towers = {std::move(encoder), std::move(tower)};
  return architecture;
}

constexpr std::array kMediaFamilies = std::to_array<Family>({
    {"cohere2_vision", read_cohere2_vision},
    {"cosmos3_omni", read_qwen3_vl},
    {"gemma3", read_gemma3},
    {"glm4v_moe", read_glm4v_moe},
    {"glm_ocr", read_glm_ocr},
    {"glmasr", read_glmasr},
    {"got_ocr2", read_got_ocr2},
    {"internvl", read_internvl},
    {"kosmos-2", read_kosmos},
    {"kosmos-2.5", read_kosmos},
    {"lighton_ocr", read_mistral3},
    {"llama4", read_llama4},
    {"llava", read_llava},
    {"llava_next", read_llava_next},
    {"llava_next_video", read_llava_next},
    {"llava_onevision", read_llava_next},
    {"mistral3", read_mistral3},
    {"mllama", read_mllama},
    {"modernvbert", read_modernvbert},
    {"ovis2", read_ovis2},
    {"paddleocr_vl", read_paddleocr},
    {"paligemma", read_paligemma},
    {"pix2struct", read_pix2struct_model},
    {"qianfan_ocr", read_internvl},
    {"qwen2_5_vl", read_qwen2_5_vl},
    {"qwen2_audio", read_qwen2_audio},
    {"qwen2_vl", read_qwen2_vl},
    {"qwen3_5", read_qwen3_5},
    {"qwen3_5_moe", read_qwen3_5_moe},
    {"qwen3_asr", read_qwen3_asr},
    {"qwen3_vl", read_qwen3_vl},
    {"voxtral", read_voxtral},
    {"whisper", read_whisper},
});

}  // namespace

Architecture read_text(Config& config, std::string_view family) {
  Config text = config.section("text_config");
  Architecture architecture = read_family(text, family);
  if (config.has("tie_word_embeddings")) {
    architecture.tied_embeddings = config.flag_or("tie_word_embeddings", false);
  }
  return architecture;
}

Architecture with_tower(Architecture architecture, Tower tower) {
  architecture.towers.insert(architecture.towers.begin(), std::move(tower));
  return architecture;
}

std::span<const Family> media_families() { return kMediaFamilies; }

}  // namespace nest::model::families
