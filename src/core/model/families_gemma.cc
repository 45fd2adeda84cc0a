// Gemma 3n and Gemma 4: layers with embeddings of their own and layers that borrow keys and values, Gemma 3n's with
// several streams; pictures and sound before them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/index.h"
#include "model/media_towers.h"

namespace nest::model::families {
namespace {

// The last `num_kv_shared_layers` layers borrow keys and values, each of the last layer before them of its kind.
std::vector<bool> borrowing_layers(Config& config, const std::vector<bool>& sliding, std::int64_t default_count) {
  const auto layers = std::ssize(sliding);
  const std::int64_t count = config.size_unless_null("num_kv_shared_layers", default_count, kMaxLayers).value_or(0);
  std::vector<bool> borrows(sliding.size(), false);
  const std::int64_t first = layers - count;
  if (first <= 0) return borrows;
  for (std::int64_t layer = first; layer < layers; ++layer) {
    const auto own = sliding.begin() + first;
    if (std::find(sliding.begin(), own, sliding[at(layer)]) == own) {
      config.fail("num_kv_shared_layers",
                  fmt::format("layer {} borrows keys and values, but none of the first {} layers is of its kind", layer,
                              first));
    }
    borrows[at(layer)] = true;
  }
  return borrows;
}

// Every layer's own embeddings: one table for all layers.
void read_layer_inputs(Config& config, Decoder& decoder) {
  const auto width = config.size_unless_null("hidden_size_per_layer_input", 256, kMaxHidden / kMaxLayers * 64);
  if (!width) return;
  decoder.block.layer_input = *width;
  decoder.architecture.layer_inputs = decoder.layers * *width;
  decoder.architecture.layer_vocabulary = config.size_or({"vocab_size_per_layer_input"}, 262144, kMaxVocabulary);
}

// One width of feed-forwards for all layers, or one for each.
std::vector<std::int64_t> layer_widths(Config& config, std::int64_t layers, std::int64_t otherwise) {
  constexpr std::string_view kKey = "intermediate_size";
  if (!config.is_list(kKey)) return std::vector<std::int64_t>(at(layers), config.size_or({kKey}, otherwise, kMaxWidth));
  const auto widths = config.maybe_indices(kKey, kMaxWidth + 1);
  if (std::ssize(*widths) != layers || std::find(widths->begin(), widths->end(), 0) != widths->end()) {
    config.fail(kKey, fmt::format("{} widths for {} layers; allowed is one, or one of 1 or more per layer",
                                  widths->size(), layers));
  }
  return *widths;
}

Architecture read_gemma3n_text(Config& config) {
  constexpr Habits kHabits{.kv_heads = 2,
                           .head_dim = 256,
                           .positions = 32768,
                           .tied = true,
                           .hidden = 2048,
                           .width = 1,
                           .layers = 35,
                           .heads = 8,
                           .vocabulary = 262400,
                           .width_key = {}};
  Decoder decoder = read_decoder(config, kHabits);
  Block& block = decoder.block;
  const auto widths = layer_widths(config, decoder.layers, 16384);
  block.feed_forward->activation = config.activation_or({"hidden_activation"}, Activation::gelu_tanh);
  set_attention_bias(block.attention, config.flag_or("attention_bias", false));
  block.attention.qk_norm = QkNorm::per_head;
  block.attention.value_norm = true;
  block.wiring = Wiring::sandwich;
  block.laurel_rank = config.size_or({"laurel_rank"}, 64, kMaxHidden);
  decoder.architecture.streams = config.size_or({"altup_num_inputs"}, 4, 64);
  read_layer_inputs(config, decoder);
  if (decoder.architecture.streams < 2 || block.layer_input == 0) {
    config.fail("altup_num_inputs", "expected 2 or more streams, and hidden_size_per_layer_input of 1 or more");
  }
  const auto window = config.size_unless_null("sliding_window", 512, kMaxPositions);
  const auto sliding = sliding_layers(config, decoder.layers, [](std::int64_t layer) { return (layer + 1) % 5 != 0; });
  const auto borrows = borrowing_layers(config, sliding, 15);
  const Block common = block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    Block own = common;
    own.feed_forward->width = widths[at(layer)];
    if (sliding[at(layer)]) own.attention.window = window.value_or(0);
    own.attention.borrows_keys = borrows[at(layer)];
    return own;
  });
}

// Files of transformers write the numbers of layers with leading zeros, equally long.
std::optional<Config> section_of_layer(Config& all, std::int64_t layer) {
  for (const int digits : {1, 2, 3, 4}) {
    if (auto own = all.maybe_section(fmt::format("{:0{}}", layer, digits))) return own;
  }
  return std::nullopt;
}

// Heads of layers that see all are wider, and may be fewer; `per_layer_config` says so layer by layer in newer files.
Attention global_attention(Config& config, const Attention& sliding, std::int64_t layer) {
  Attention attention = sliding;
  attention.head_dim = config.size_or({"global_head_dim"}, 512, kMaxWidth / kMaxHeads);
  attention.values_are_keys = config.flag_or("attention_k_eq_v", false);
  if (attention.values_are_keys) {
    attention.kv_heads = config.size_or({"num_global_key_value_heads"}, attention.kv_heads, kMaxHeads);
  }
  if (auto all = config.maybe_section("per_layer_config")) {
    attention.head_dim = sliding.head_dim;
    attention.kv_heads = sliding.kv_heads;
    if (auto own = section_of_layer(*all, layer)) {
      attention.head_dim = own->size_or({"head_dim"}, attention.head_dim, kMaxWidth / kMaxHeads);
      attention.kv_heads = own->size_or({"num_key_value_heads"}, attention.kv_heads, kMaxHeads);
    }
  }
  if (attention.heads % attention.kv_heads != 0) {
    config.fail("num_global_key_value_heads",
                fmt::format("{} key/value heads do not divide the {} heads", attention.kv_heads, attention.heads));
  }
  return attention;
}

Architecture read_gemma4_text(Config& config) {
  constexpr Habits kHabits{.kv_heads = 4,
                           .head_dim = 256,
                           .positions = 131072,
                           .tied = true,
                           .hidden = 2304,
                           .width = 9216,
                           .layers = 30,
                           .heads = 8,
                           .vocabulary = 262144};
  Decoder decoder = read_decoder(config, kHabits);
  Block& block = decoder.block;
  block.feed_forward->activation = config.activation_or({"hidden_activation"}, Activation::gelu_tanh);
  set_attention_bias(block.attention, config.flag_or("attention_bias", false));
  block.attention.rotary_fraction = 1;  // of what is rotated by nothing, the kernels still turn
  block.attention.qk_norm = QkNorm::per_head;
  block.attention.value_norm = true;
  block.attention.causal = config.maybe_text("use_bidirectional_attention").value_or("") != "all";
  block.wiring = Wiring::sandwich;
  read_layer_inputs(config, decoder);
  if (config.flag_or("enable_moe_block", false)) {
    FeedForward expert = *block.feed_forward;
    expert.width = config.size({"moe_intermediate_size"}, kMaxWidth);
    block.mixture = make_mixture(config, kExpertKeys, config.size(kExpertKeys, kMaxExperts), {"top_k_experts"},
                                 config.size({"top_k_experts"}, kMaxExperts), expert);
    block.branch_norms = true;
    block.scales = decoder.architecture.hidden + block.mixture->experts;  // of the router's input, and of each expert
  }
  const auto window = config.size_unless_null("sliding_window", 512, kMaxPositions);
  auto sliding = sliding_layers(config, decoder.layers, [](std::int64_t layer) { return (layer + 1) % 6 != 0; });
  sliding.back() = false;  // its class insists
  const auto borrows = borrowing_layers(config, sliding, 0);
  const bool wide = config.flag_or("use_double_wide_mlp", false);
  const Block common = block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    Block own = common;
    if (sliding[at(layer)]) {
      own.attention.window = window.value_or(0);
    } else {
      own.attention = global_attention(config, common.attention, layer);
    }
    own.attention.borrows_keys = borrows[at(layer)];
    if (wide && borrows[at(layer)]) own.feed_forward->width *= 2;
    return own;
  });
}

// Whether the file names classes of text alone, which take its text model only.
bool names_text_alone(Config& config) {
  const auto classes = config.maybe_names("architectures", 64).value_or(std::vector<std::string>());
  return !classes.empty() && std::all_of(classes.begin(), classes.end(),
                                         [](const std::string& name) { return name.ends_with("ForCausalLM"); });
}

Architecture read_gemma3n(Config& config) {
  Architecture architecture = read_text(config, "gemma3n_text");
  if (names_text_alone(config)) {
    architecture.notes.emplace_back("text only: `architectures` names a class without towers");
    return architecture;
  }
  const std::int64_t hidden = architecture.hidden;
  if (auto audio = config.maybe_section("audio_config")) {
    Tower tower = read_conformer_tower(*audio);
    const double factor = real(audio->size_or({"conf_reduction_factor"}, 4, 64));
    const double rows = tower.media->rows / factor;
    tower.media->projector = {norm_step(tower.hidden, NormKind::rms, rows), linear_step(tower.hidden, hidden, false),
                              plain_norm_step(hidden, rows),
                              unused_step((audio->size_or({"vocab_size"}, 128, kMaxVocabulary) + 1) * tower.hidden)};
    tower.media->projector.back().rows = rows;
    architecture = with_tower(std::move(architecture), std::move(tower));
  } else {
    architecture.notes.emplace_back("the file describes no sound");
  }
  if (auto vision = config.maybe_section("vision_config")) {
    const std::string kind = vision->maybe_text("architecture").value_or("mobilenetv5_300m_enc");
    if (kind != "mobilenetv5_300m_enc") {
      vision->fail("architecture", fmt::format("`{}` is no tower that nest knows; allowed is mobilenetv5_300m_enc; {}",
                                               kind.substr(0, 40), kTraceInstead));
    }
    std::vector<Tower> towers = mobilenet_v5_towers();
    std::vector<Step>& projector = towers.back().media->projector;
    const double rows = projector.back().rows;
    const std::int64_t out = 2048;
    projector.push_back(norm_step(out, NormKind::rms));
    projector.push_back(linear_step(out, hidden, false));
    projector.push_back(plain_norm_step(hidden));
    projector.push_back(unused_step((vision->size_or({"vocab_size"}, 128, kMaxVocabulary) + 1) * out));
    projector.back().rows = rows;
    architecture.towers.insert(architecture.towers.begin(), std::make_move_iterator(towers.begin()),
                               std::make_move_iterator(towers.end()));
  } else {
    architecture.notes.emplace_back("the file describes no vision tower");
  }
  return architecture;
}

Architecture read_gemma4(Config& config) {
  Architecture architecture = read_text(config, "gemma4_text");
  if (names_text_alone(config)) {
    architecture.notes.emplace_back("text only: `architectures` names a class without towers");
    return architecture;
  }
  const std::int64_t hidden = architecture.hidden;
  if (auto audio = config.maybe_section("audio_config")) {
    Tower tower = read_conformer_tower(*audio);
    const std::int64_t out = audio->size_or({"output_proj_dims"}, 1536, kMaxHidden);
    const double rows = tower.media->rows;
    tower.media->projector = {linear_step(tower.hidden, out, true), plain_norm_step(out),
                              linear_step(out, hidden, false, rows)};
    architecture = with_tower(std::move(architecture), std::move(tower));
  }
  if (auto vision = config.maybe_section("vision_config")) {
    const double tokens = real(config.size_or({"vision_soft_tokens_per_image"}, 280, kMaxPositions / 4096));
    Tower tower = read_gemma4_vision_tower(*vision, tokens);
    tower.media->projector = {plain_norm_step(tower.hidden, tokens), linear_step(tower.hidden, hidden, false, tokens)};
    architecture = with_tower(std::move(architecture), std::move(tower));
  } else {
    architecture.notes.emplace_back("text only: the file describes no vision tower");
  }
  return architecture;
}

constexpr std::array kGemmaFamilies = std::to_array<Family>({
    {"gemma3n", read_gemma3n},
    {"gemma3n_text", read_gemma3n_text},
    {"gemma4", read_gemma4},
    {"gemma4_text", read_gemma4_text},
});

}  // namespace

std::span<const Family> gemma_families() { return kGemmaFamilies; }

}  // namespace nest::model::families
