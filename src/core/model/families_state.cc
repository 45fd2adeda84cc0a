// Decoders whose layers carry states along the sequence, alone or beside attention.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/index.h"
#include "base/text.h"
#include "model/families.h"

namespace nest::model::families {
namespace {

Block without_feed_forward(Block block) {
  block.feed_forward.reset();
  block.mixture.reset();
  return block;
}

// Blocks of one mixer each, without feed-forwards.
Architecture assemble_states(Config& config, const StateMixer& state, bool tied) {
  Decoder decoder;
  Architecture& architecture = decoder.architecture;
  architecture.hidden = config.size({"hidden_size"}, kMaxHidden);
  architecture.vocabulary = config.size({"vocab_size"}, kMaxVocabulary);
  architecture.tied_embeddings = config.flag_or("tie_word_embeddings", tied);
  architecture.position = PositionKind::none;
  architecture.max_positions = 1 << 20;  // nothing in the file limits it
  decoder.layers = config.size({"num_hidden_layers"}, kMaxLayers);
  decoder.block = with_state(decoder.block, state);
  return assemble(config, std::move(decoder));
}

StateMixer mamba_of(Config& config, std::int64_t inner, std::int64_t hidden) {
  StateMixer state;
  state.kind = StateKind::mamba;
  state.width = inner;
  state.state = config.size_or({"state_size", "mamba_d_state"}, 16, kMaxState);
  state.taps = config.size_or({"conv_kernel", "mamba_d_conv"}, 4, kMaxTaps);
  const std::int64_t usual = (hidden + 15) / 16;
  const std::string_view key = config.spelling({"time_step_rank", "mamba_dt_rank"});
  state.rank = config.word_or_size(key, "auto", usual, kMaxWidth);
  state.conv_bias = config.flag_or(config.spelling({"use_conv_bias", "mamba_conv_bias"}), true);
  state.proj_bias = config.flag_or(config.spelling({"use_bias", "mamba_proj_bias"}), false);
  return state;
}

Architecture read_mamba(Config& config) {
  const std::int64_t hidden = config.size({"hidden_size"}, kMaxHidden);
  const std::int64_t inner =
      config.size_or({"intermediate_size"}, config.size_or({"expand"}, 2, 64) * hidden, kMaxWidth);
  return assemble_states(config, mamba_of(config, inner, hidden), true);
}

// Keys of mamba2 under the names of one family.
struct Mamba2Keys {
  Keys heads, width, groups, state, taps, conv_bias, proj_bias;
};

StateMixer read_mamba2_mixer(Config& config, const Mamba2Keys& keys) {
  StateMixer state;
  state.kind = StateKind::mamba2;
  state.heads = config.size_or(keys.heads, 128, kMaxHeads);
  state.width = config.size_or(keys.width, 64, kMaxState);
  state.groups = config.size_or(keys.groups, 8, kMaxHeads);
  state.state = config.size_or(keys.state, 128, kMaxState);
  state.taps = config.size_or(keys.taps, 4, kMaxTaps);
  state.conv_bias = config.flag_or(config.spelling(keys.conv_bias), true);
  state.proj_bias = config.flag_or(config.spelling(keys.proj_bias), false);
  check_state(config, config.spelling(keys.heads), state);
  return state;
}

constexpr Mamba2Keys kMamba2Keys = {{"num_heads"},   {"head_dim"},      {"n_groups"}, {"state_size"},
                                    {"conv_kernel"}, {"use_conv_bias"}, {"use_bias"}};
constexpr Mamba2Keys kNemotronKeys = {{"mamba_num_heads"}, {"mamba_head_dim"}, {"n_groups"},       {"ssm_state_size"},
                                      {"conv_kernel"},     {"use_conv_bias"},  {"mamba_proj_bias"}};
constexpr Mamba2Keys kBambaKeys = {{"mamba_n_heads"}, {"mamba_d_head"},    {"mamba_n_groups"}, {"mamba_d_state"},
                                   {"mamba_d_conv"},  {"mamba_conv_bias"}, {"mamba_proj_bias"}};

Architecture read_mamba2(Config& config) {
  return assemble_states(config, read_mamba2_mixer(config, kMamba2Keys), false);
}

// One mixer or one feed-forward per layer, after one norm. Files list words, or letters: M * - E.
std::vector<std::string> nemotron_layers(Config& config) {
  if (auto words = config.maybe_names("layers_block_type", kMaxLayers)) {
    for (std::string& word : *words) {
      if (word == "mamba") word = "linear_attention";
      if (word == "attention") word = "full_attention";
    }
    return *words;
  }
  std::vector<std::string> words;
  const auto pattern = config.maybe_text("hybrid_override_pattern");
  if (!pattern) config.fail("layers_block_type", "missing: nemotron_h lists what every layer is");
  for (const char letter : *pattern) {
    words.emplace_back(letter == 'M'   ? "linear_attention"
                       : letter == '*' ? "full_attention"
                       : letter == '-' ? "mlp"
                       : letter == 'E' ? "moe"
                                       : std::string(1, letter));
  }
  return words;
}

Architecture read_nemotron_h(Config& config) {
  const std::vector<std::string> words = nemotron_layers(config);
  if (words.empty() || std::ssize(words) > kMaxLayers) config.fail("layers_block_type", "lists no layer");
  Habits habits{.kv_heads = 8,
                .head_dim = 128,
                .positions = 4096,
                .gated = false,
                .activation = Activation::relu_squared,
                .layers = std::ssize(words)};
  Decoder decoder = read_decoder(config, habits);
  decoder.layers = std::ssize(words);
  decoder.architecture.position = PositionKind::none;
  Block& block = decoder.block;
  block.feed_forward->activation = config.activation_or({"mlp_hidden_act"}, Activation::relu_squared);
  set_attention_bias(block.attention, config.flag_or("attention_bias", false));
  set_feed_forward_bias(*block.feed_forward, config.flag_or("mlp_bias", false));
  const StateMixer state = read_mamba2_mixer(config, kNemotronKeys);
  std::optional<Mixture> mixture;
  if (std::find(words.begin(), words.end(), "moe") != words.end()) {
    FeedForward expert = *block.feed_forward;
    expert.width = config.size({"moe_intermediate_size"}, kMaxWidth);
    mixture = make_mixture(config, kExpertKeys, config.size(kExpertKeys, kMaxExperts), kTopKKeys,
                           config.size(kTopKKeys, kMaxExperts), expert);
    read_groups(config, "n_group", "topk_group", *mixture);
    mixture->latent = config.size_unless_null("moe_latent_size", 0, kMaxHidden).value_or(0);
    if (config.size_unless_null("n_shared_experts", 1, kMaxExperts)) {
      mixture->shared = expert;
      mixture->shared->width = config.size_or({"moe_shared_expert_intermediate_size"}, expert.width, kMaxWidth);
    }
  }
  const Block common = block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    const std::string& word = words[at(layer)];
    Block own = common;
    if (word == "linear_attention") return without_feed_forward(with_state(own, state));
    if (word == "full_attention") return without_feed_forward(own);
    own.attention = {};
    if (word == "mlp") return own;
    if (word != "moe") {
      config.fail("layers_block_type", fmt::format("`{}` is not known; allowed are linear_attention, full_attention, "
                                                   "mlp and moe",
                                                   clip(word, 40)));
    }
    return with_mixture(own, *mixture);
  });
}

// Attention in the layers that `attn_layer_indices` lists, mamba2 in the others, a feed-forward in all.
Architecture read_bamba(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .positions = 262144, .rotary_fraction = 0.5});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  set_feed_forward_bias(*decoder.block.feed_forward, config.flag_or("mlp_bias", false));
  const StateMixer state = read_mamba2_mixer(config, kBambaKeys);
  std::vector<bool> attends(at(decoder.layers), false);
  for (const std::int64_t layer :
       config.maybe_indices("attn_layer_indices", decoder.layers).value_or(std::vector<std::int64_t>())) {
    attends[at(layer)] = true;
  }
  const Block common = decoder.block;
  return assemble(config, std::move(decoder),
                  [&](std::int64_t layer) { return attends[at(layer)] ? common : with_state(common, state); });
}

// Granite 4: mamba2 or attention, experts beside one shared feed-forward.
Architecture read_granite_hybrid(Config& config) {
  Decoder decoder = read_decoder(config, {});
  Block& block = decoder.block;
  set_attention_bias(block.attention, config.flag_or("attention_bias", false));
  decoder.architecture.position =
      config.maybe_text("position_embedding_type").value_or("") == "rope" ? PositionKind::rotary : PositionKind::none;
  const StateMixer state = read_mamba2_mixer(config, kBambaKeys);
  FeedForward shared = *block.feed_forward;
  shared.width = config.size_or({"shared_intermediate_size"}, 1024, kMaxWidth);
  if (const auto experts = config.size_unless_null("num_local_experts", 8, kMaxExperts)) {
    Mixture mixture = make_mixture(config, kExpertKeys, *experts, kTopKKeys, config.size_or(kTopKKeys, 2, kMaxExperts),
                                   *block.feed_forward);
    mixture.shared = shared;
    block = with_mixture(block, mixture);
  } else {
    block.feed_forward = shared;
  }
  auto types = config.maybe_names("layer_types", kMaxLayers);
  if (!types) types = config.maybe_names("layers_block_type", kMaxLayers);
  if (types && std::ssize(*types) != decoder.layers) {
    config.fail("layer_types",
                fmt::format("{} entries for {} layers; allowed is one per layer", types->size(), decoder.layers));
  }
  const Block common = block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    const bool attends = types && ((*types)[at(layer)] == "attention" || (*types)[at(layer)] == "full_attention");
    return attends ? common : with_state(common, state);
  });
}

// Attention and mamba2 read the same norm in every layer, and their results are summed.
Architecture read_falcon_h1(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .positions = 8192});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  set_feed_forward_bias(*decoder.block.feed_forward, config.flag_or("mlp_bias", false));
  StateMixer state = read_mamba2_mixer(config, kBambaKeys);
  state.norm = config.flag_or("mamba_rms_norm", true);
  decoder.block.state = state;
  return assemble(config, std::move(decoder));
}

// Mamba with norms of steps, keys and queries; attention in every eighth layer, experts in every second.
Architecture read_jamba(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .positions = 262144});
  decoder.architecture.position = PositionKind::none;
  StateMixer state = mamba_of(config, config.size_or({"mamba_expand"}, 2, 64) * decoder.architecture.hidden,
                              decoder.architecture.hidden);
  state.inner_norm = true;
  const std::int64_t attention_period = config.size_or({"attn_layer_period"}, 8, kMaxLayers);
  const std::int64_t attention_offset = config.size_unless_null("attn_layer_offset", 4, kMaxLayers).value_or(0);
  const std::int64_t expert_period = config.size_or({"expert_layer_period"}, 2, kMaxLayers);
  const std::int64_t expert_offset = config.size_unless_null("expert_layer_offset", 1, kMaxLayers).value_or(0);
  const std::int64_t experts = config.size_or(kExpertKeys, 16, kMaxExperts);
  const Mixture mixture = make_mixture(config, kExpertKeys, experts, kTopKKeys,
                                       config.size_or(kTopKKeys, 2, kMaxExperts), *decoder.block.feed_forward);
  const Block common = decoder.block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    const bool sparse = experts > 1 && layer % expert_period == expert_offset;
    const Block own = sparse ? with_mixture(common, mixture) : common;
    return layer % attention_period == attention_offset ? own : with_state(own, state);
  });
}

// Layers that run a block of attention and a feed-forward before their state, all with the same weights or, where the
// file has several such blocks, in turns. Files list words; "mamba" was "linear_attention" once.
Architecture assemble_hybrid(Config& config, const StateMixer& state, std::optional<std::vector<std::string>> words,
                             std::int64_t blocks, SharedBlock shared, PositionKind position) {
  Decoder decoder;
  Architecture& architecture = decoder.architecture;
  architecture.hidden = config.size({"hidden_size"}, kMaxHidden);
  architecture.vocabulary = config.size({"vocab_size"}, kMaxVocabulary);
  architecture.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  architecture.attention_dropout = config.probability_or("attention_dropout", 0);
  architecture.position = position;
  architecture.max_positions = config.size_or({"max_position_embeddings"}, 4096, kMaxPositions);
  decoder.layers = std::ssize(*words);
  const Block plain = with_state(decoder.block, state);
  std::vector<std::int64_t> number(words->size(), -1);
  std::int64_t count = 0;
  for (std::size_t layer = 0; layer < words->size(); ++layer) {
    const std::string& word = (*words)[layer];
    if (word == "hybrid") {
      number[layer] = count++ % blocks;
    } else if (word != "mamba" && word != "linear_attention") {
      config.fail("layers_block_type",
                  fmt::format("`{}` is not known; allowed are linear_attention and hybrid", clip(word, 40)));
    }
  }
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    Block own = plain;
    if (number[at(layer)] < 0) return own;
    shared.number = number[at(layer)];
    own.shared = shared;
    return own;
  });
}

// Attention over the stream beside the embeddings, twice as wide as the stream.
SharedBlock read_shared_block(Config& config, std::int64_t hidden) {
  const std::int64_t heads = config.size({"num_attention_heads"}, kMaxHeads);
  const std::int64_t kv_heads = config.size_unless_null("num_key_value_heads", heads, kMaxHeads).value_or(heads);
  SharedBlock shared;
  shared.attention = make_attention(config, {"num_attention_heads"}, 2 * hidden, heads, kv_heads, std::nullopt);
  shared.attention.rotary_fraction = 0;
  shared.feed_forward =
      FeedForward{.width = config.size_unless_null("intermediate_size", 4 * hidden, kMaxWidth).value_or(4 * hidden),
                  .gated = true,
                  .activation = config.activation_or({"hidden_act"}, Activation::gelu)};
  return shared;
}

std::optional<std::vector<std::string>> listed_hybrids(Config& config) {
  auto words = config.maybe_names("layers_block_type", kMaxLayers);
  const std::int64_t layers = config.size({"num_hidden_layers"}, kMaxLayers);
  if (words && std::ssize(*words) != layers) {
    config.fail("layers_block_type",
                fmt::format("{} entries for {} layers; allowed is one per layer", words->size(), layers));
  }
  return words;
}

Architecture read_zamba(Config& config) {
  const std::int64_t hidden = config.size({"hidden_size"}, kMaxHidden / 2);
  const StateMixer state = mamba_of(config, config.size_or({"mamba_expand"}, 2, 64) * hidden, hidden);
  auto words = listed_hybrids(config);
  if (!words) {
    const std::int64_t period = config.size_or({"attn_layer_period"}, 6, kMaxLayers);
    const std::int64_t offset = config.size_unless_null("attn_layer_offset", 4, kMaxLayers).value_or(0);
    const std::int64_t layers = config.size({"num_hidden_layers"}, kMaxLayers);
    words.emplace();
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const bool hybrid = layer < 3 ? layer == 2 : (layer - 3) % period == offset;
      words->emplace_back(hybrid ? "hybrid" : "mamba");
    }
  }
  return assemble_hybrid(config, state, words, 1, read_shared_block(config, hidden), PositionKind::none);
}

Architecture read_zamba2(Config& config) {
  const std::int64_t hidden = config.size({"hidden_size"}, kMaxHidden / 2);
  StateMixer state;
  state.kind = StateKind::mamba2;
  state.heads = config.size_or({"n_mamba_heads"}, 8, kMaxHeads);
  state.width = config.size_or({"mamba_expand"}, 2, 64) * hidden / state.heads;
  state.groups = config.size_or({"mamba_ngroups"}, 1, kMaxHeads);
  state.state = config.size_or({"mamba_d_state"}, 64, kMaxState);
  state.taps = config.size_or({"mamba_d_conv"}, 4, kMaxTaps);
  state.conv_bias = true;
  state.proj_bias = config.flag_or("add_bias_linear", false);
  if (state.width == 0) config.fail("n_mamba_heads", "more heads than channels");
  check_state(config, "n_mamba_heads", state);
  auto words = listed_hybrids(config);
  if (!words) config.fail("layers_block_type", "missing: zamba2 lists what every layer is");
  const std::int64_t blocks = config.size_or({"num_mem_blocks"}, 1, kMaxLayers);
  SharedBlock shared = read_shared_block(config, hidden);
  const std::int64_t rank = config.size_or({"adapter_rank"}, 128, kMaxHidden);
  shared.feed_forward.adapter_rank = rank;
  if (config.flag_or("use_shared_attention_adapter", false)) shared.attention_rank = rank;
  set_feed_forward_bias(shared.feed_forward, state.proj_bias);
  const bool rotates = config.flag_or("use_mem_rope", false);
  if (rotates) shared.attention.rotary_fraction = 1;
  return assemble_hybrid(config, state, words, blocks, shared, rotates ? PositionKind::rotary : PositionKind::none);
}

// Convolutions over three positions between gates, attention in the layers that the file lists.
Architecture read_lfm2(Config& config) {
  const std::int64_t stated = config.size({"intermediate_size", "block_ff_dim"}, kMaxWidth);
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .positions = 128000, .tied = true, .width = stated});
  Block& block = decoder.block;
  block.attention.qk_norm = QkNorm::per_head;
  if (config.flag_or("block_auto_adjust_ff_dim", true)) {
    // Two thirds of what is stated, times a factor, up to a multiple.
    const double factor = config.number_or("block_ffn_dim_multiplier", 1.0);
    const std::int64_t multiple = config.size_or({"block_multiple_of"}, 256, kMaxWidth);
    const auto width = static_cast<std::int64_t>(factor * real(2 * stated / 3));
    block.feed_forward->width = std::max<std::int64_t>(multiple, (width + multiple - 1) / multiple * multiple);
  }
  StateMixer state;
  state.kind = StateKind::short_conv;
  state.width = decoder.architecture.hidden;
  state.taps = config.size_or({"conv_L_cache"}, 3, kMaxTaps);
  state.conv_bias = state.proj_bias = config.flag_or("conv_bias", false);
  const auto types = layer_words(config, "layer_types", decoder.layers, {"conv", "full_attention"});
  std::vector<bool> attends(at(decoder.layers), !types && !config.has("full_attn_idxs"));
  if (!types) {
    for (const std::int64_t layer :
         config.maybe_indices("full_attn_idxs", decoder.layers).value_or(std::vector<std::int64_t>())) {
      attends[at(layer)] = true;
    }
  }
  const Block common = block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    const bool attending = types ? (*types)[at(layer)] == "full_attention" : attends[at(layer)];
    return attending ? common : with_state(common, state);
  });
}

// Two recurrent layers to one that attends to a window.
Architecture read_recurrent_gemma(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 1, .positions = 8192, .tied = true, .rotary_fraction = 0.5});
  Block& block = decoder.block;
  block.feed_forward->activation = config.activation_or({"hidden_activation"}, Activation::gelu_tanh);
  // The stated width is of both halves together.
  block.feed_forward->width = std::max<std::int64_t>(1, block.feed_forward->width / 2);
  set_feed_forward_bias(*block.feed_forward, true);
  set_attention_bias(block.attention, config.flag_or("attention_bias", false));
  block.attention.output_bias = true;
  block.attention.window = config.size_or({"attention_window_size"}, 2048, kMaxPositions);
  StateMixer state;
  state.kind = StateKind::rg_lru;
  state.heads = block.attention.heads;
  state.width =
      std::max<std::int64_t>(1, config.size_or({"lru_width"}, decoder.architecture.hidden, kMaxWidth) / state.heads);
  state.taps = config.size_or({"conv1d_width"}, 4, kMaxTaps);
  state.conv_bias = state.proj_bias = true;
  const Block common = block;
  return assemble(config, std::move(decoder),
                  [&](std::int64_t layer) { return layer % 3 == 2 ? common : with_state(common, state); });
}

// Linear attention with a fixed decay in every other layer, experts in all.
Architecture read_minimax(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .positions = 131072});
  Block& block = decoder.block;
  StateMixer state;
  state.kind = StateKind::lightning;
  state.heads = state.groups = block.attention.heads;
  state.width = state.state = block.attention.head_dim;
  const Mixture mixture = make_mixture(config, kExpertKeys, config.size_or(kExpertKeys, 8, kMaxExperts), kTopKKeys,
                                       config.size_or(kTopKKeys, 2, kMaxExperts), *block.feed_forward);
  block = with_mixture(block, mixture);
  const auto types = layer_words(config, "layer_types", decoder.layers, {"linear_attention", "full_attention"});
  const Block common = block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    const bool linear = types ? (*types)[at(layer)] == "linear_attention" : layer % 2 == 0;
    return linear ? with_state(common, state) : common;
  });
}

// A decayed sum per channel; the feed-forward is gated by its input. The first block norms the embeddings besides.
Architecture read_rwkv(Config& config) {
  Decoder decoder;
  Architecture& architecture = decoder.architecture;
  architecture.hidden = config.size({"hidden_size"}, kMaxHidden);
  architecture.vocabulary = config.size({"vocab_size"}, kMaxVocabulary);
  architecture.tied_embeddings = config.flag_or("tie_word_embeddings", false);
  architecture.position = PositionKind::none;
  architecture.max_positions = config.size_or({"context_length"}, 1024, kMaxPositions);
  architecture.embedding_norm = true;
  decoder.layers = config.size({"num_hidden_layers"}, kMaxLayers);
  Block& block = decoder.block;
  block.norm = NormKind::layer;
  block.norm_bias = true;
  StateMixer state;
  state.kind = StateKind::rwkv;
  state.width =
      config.size_unless_null("attention_hidden_size", architecture.hidden, kMaxWidth).value_or(architecture.hidden);
  block.state = state;
  const std::int64_t usual = 4 * architecture.hidden;
  block.feed_forward =
      FeedForward{.width = config.size_unless_null("intermediate_size", usual, kMaxWidth).value_or(usual),
                  .gated = false,
                  .activation = Activation::relu_squared,
                  .output_gate = true};
  block.scales = 2 * architecture.hidden;  // how the feed-forward's inputs mix two tokens
  return assemble(config, std::move(decoder));
}

constexpr std::array kStateFamilies = std::to_array<Family>({
    {"bamba", read_bamba},
    {"falcon_h1", read_falcon_h1},
    {"falcon_mamba", read_mamba},
    {"granitemoehybrid", read_granite_hybrid},
    {"jamba", read_jamba},
    {"lfm2", read_lfm2},
    {"mamba", read_mamba},
    {"mamba2", read_mamba2},
    {"minimax", read_minimax},
    {"nemotron_h", read_nemotron_h},
    {"recurrent_gemma", read_recurrent_gemma},
    {"rwkv", read_rwkv},
    {"zamba", read_zamba},
    {"zamba2", read_zamba2},
});

}  // namespace

void check_state(const Config& config, std::string_view key, const StateMixer& state) {
  if (state.width > kMaxWidth / state.heads || state.state > kMaxWidth / state.groups) {
    config.fail(key, fmt::format("heads and states are wider together than {}, the most allowed", kMaxWidth));
  }
  if (state.heads % state.groups != 0) {
    config.fail(key, fmt::format("{} groups do not divide the {} heads of the state", state.groups, state.heads));
  }
}

Block with_state(Block block, const StateMixer& state) {
  block.attention = {};
  block.state = state;
  return block;
}

std::span<const Family> state_families() { return kStateFamilies; }

}  // namespace nest::model::families
