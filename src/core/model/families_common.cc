#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/index.h"
#include "base/text.h"
#include "model/families.h"

namespace nest::model::families {
namespace {

struct ActivationName {
  std::string_view name;
  Activation activation;
};

constexpr std::array kActivations = std::to_array<ActivationName>({
    {"gelu", Activation::gelu},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_new", Activation::gelu_new},
    {"gelu_python", Activation::gelu},
    {"quick_gelu", Activation::quick_gelu},
    {"xielu", Activation::relu_squared},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"relu", Activation::relu},
    {"relu2", Activation::relu_squared},
    {"silu", Activation::silu},
    {"swish", Activation::silu},
});

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  names.reserve(kActivations.size());
  for (const ActivationName& entry : kActivations) names.emplace_back(entry.name);
  return names;
}

doc::Range up_to(std::int64_t limit) { return {1, real(limit)}; }

// Rotary embeddings turn pairs, so the rotated part of a head must be even.
void check_rotary(const Config& config, const Attention& attention) {
  if (attention.latent) return;  // has its own rotated part, checked where it is read
  const auto rotated =
      static_cast<std::int64_t>(std::floor(real(attention.head_dim) * attention.rotary_fraction + 1e-9));
  if (rotated % 2 == 0) return;
  config.fail(
      config.spelling({"head_dim", "num_attention_heads", "n_head"}),
      fmt::format("heads of width {} rotate {} elements; allowed is an even number", attention.head_dim, rotated));
}

double estimate_attention(const Attention& attention, double hidden) {
  const auto heads = real(attention.heads);
  if (attention.latent) {
    const LatentAttention& latent = *attention.latent;
    const auto kv_rank = real(latent.kv_rank);
    const auto query_rank = real(latent.query_rank);
    const double query = heads * real(latent.nope_dim + latent.rope_dim);
    const double key_value = heads * real(latent.nope_dim + latent.value_dim);
    return (latent.query_rank > 0 ? query_rank * (hidden + query) : hidden * query) +
           hidden * (kv_rank + real(latent.rope_dim)) + kv_rank * key_value + hidden * heads * real(latent.value_dim);
  }
  return 2 * hidden * real(attention.head_dim) * (heads + real(attention.kv_heads));
}

double estimate_feed_forward(const FeedForward& feed_forward, double hidden) {
  return (feed_forward.gated ? 3 : 2) * hidden * real(feed_forward.width);
}

double estimate_block(const Block& block, double hidden) {
  double total = block.attends() ? estimate_attention(block.attention, hidden) : 0;
  if (block.state) {
    const StateMixer& state = *block.state;
    total += 5 * hidden * real(state.inner()) + 2 * hidden * real(state.groups) * real(state.state);
    total += real(state.inner()) * (2 * real(state.rank) + 3 * real(state.state) + real(state.taps));
  }
  total += real(block.unused) + real(block.scales);
  if (block.cross_attention) total += estimate_attention(*block.cross_attention, hidden);
  if (block.shared) {
    total += 2 * estimate_attention(block.shared->attention, hidden) + hidden * hidden +
             estimate_feed_forward(block.shared->feed_forward, hidden);
  }
  total += 2 * hidden * real(block.layer_input + block.laurel_rank);
  if (block.feed_forward) total += estimate_feed_forward(*block.feed_forward, hidden);
  if (block.mixture) {
    total += real(block.mixture->experts) * (hidden + estimate_feed_forward(block.mixture->expert, hidden));
    if (block.mixture->shared) total += estimate_feed_forward(*block.mixture->shared, hidden);
  }
  return total;
}

}  // namespace

bool Config::mentions(std::string_view key) const {
  const auto keys = reader_.keys();
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool Config::is_list(std::string_view key) { return has(key) && reader_.raw(key)->as_array() != nullptr; }

std::int64_t Config::length_or(std::string_view key, std::int64_t otherwise) {
  if (!has(key)) return otherwise;
  if (!is_list(key)) fail(key, "expected a list");
  return std::ssize(*reader_.raw(key)->as_array());
}

std::string_view Config::spelling(Keys keys) const {
  for (const std::string_view key : {keys.first, keys.second, keys.third}) {
    if (!key.empty() && reader_.has(key)) return key;
  }
  return keys.first;
}

std::int64_t Config::size(Keys keys, std::int64_t limit) { return reader_.integer(spelling(keys), up_to(limit)); }

std::int64_t Config::size_or(Keys keys, std::int64_t otherwise, std::int64_t limit) {
  return maybe_size(keys, limit).value_or(otherwise);
}

std::optional<std::int64_t> Config::maybe_size(Keys keys, std::int64_t limit) {
  return reader_.maybe_integer(spelling(keys), up_to(limit));
}

std::optional<std::int64_t> Config::size_unless_null(std::string_view key, std::int64_t otherwise, std::int64_t limit) {
  if (!mentions(key)) return otherwise;
  const auto size = reader_.maybe_integer(key, {0, real(limit)});
  return size == 0 ? std::nullopt : size;
}

std::optional<std::vector<std::int64_t>> Config::maybe_indices(std::string_view key, std::int64_t limit) {
  return reader_.maybe_integers(key, {0, real(limit - 1)}, at(limit));
}

std::optional<std::vector<std::string>> Config::maybe_names(std::string_view key, std::int64_t limit) {
  return reader_.maybe_texts(key, at(limit));
}

double Config::probability_or(std::string_view key, double otherwise) {
  return reader_.maybe_number(key, {0, 1}).value_or(otherwise);
}

double Config::number_or(std::string_view key, double otherwise) {
  return reader_.maybe_number(key, {0, 1000}).value_or(otherwise);
}

std::int64_t Config::word_or_size(std::string_view key, std::string_view word, std::int64_t usual, std::int64_t limit) {
  if (!reader_.has(key)) return usual;
  if (reader_.raw(key)->as_string() != nullptr) {
    if (reader_.text(key) == word) return usual;
    fail(key, fmt::format("expected a size or `{}`", word));
  }
  return reader_.integer(key, up_to(limit));
}

Activation Config::activation_or(Keys keys, Activation otherwise) {
  const std::string_view key = spelling(keys);
  const auto name = reader_.maybe_text(key);
  if (!name) return otherwise;
  if (const auto activation = parse_activation(*name)) return *activation;
  const auto known = activation_names();
  fail(key, fmt::format("`{}` is not an activation nest knows; allowed are {}{}", clip(*name, 40), join_words(known),
                        did_you_mean(*name, known)));
}

double Config::rotary_fraction_or(std::string_view key, double otherwise) {
  if (reader_.has(key)) return probability_or(key, otherwise);
  if (auto rope = reader_.maybe_object("rope_parameters")) {
    return rope->maybe_number("partial_rotary_factor", {0, 1}).value_or(otherwise);
  }
  return otherwise;
}

std::optional<Config> Config::maybe_section(std::string_view key) {
  auto object = reader_.maybe_object(key);
  if (!object) return std::nullopt;
  return Config(std::move(*object));
}

std::optional<Activation> parse_activation(std::string_view name) {
  for (const ActivationName& entry : kActivations) {
    if (entry.name == name) return entry.activation;
  }
  return std::nullopt;
}

Attention make_attention(const Config& config, Keys heads_keys, std::int64_t hidden, std::int64_t heads,
                         std::int64_t kv_heads, std::optional<std::int64_t> head_dim) {
  const std::string_view heads_key = config.spelling(heads_keys);
  if (!head_dim && hidden % heads != 0) {
    config.fail(heads_key, fmt::format("{} heads do not divide the hidden size {}; allowed are its divisors, or an "
                                       "explicit head width",
                                       heads, hidden));
  }
  if (kv_heads > heads || heads % kv_heads != 0) {
    config.fail(config.spelling({"num_key_value_heads", "num_kv_heads", "n_head_kv"}),
                fmt::format("{} key/value heads do not divide the {} heads; allowed are divisors of {}", kv_heads,
                            heads, heads));
  }
  Attention attention;
  attention.heads = heads;
  attention.kv_heads = kv_heads;
  attention.head_dim = head_dim.value_or(hidden / heads);
  if (attention.head_dim > kMaxWidth / heads) {
    config.fail(config.spelling({"head_dim", "d_kv"}),
                fmt::format("{} heads of width {} are wider together than {}, the most allowed", heads,
                            attention.head_dim, kMaxWidth));
  }
  return attention;
}

Decoder read_decoder(Config& config, const Habits& habits) {
  const auto size = [&](std::string_view key, std::int64_t otherwise, std::int64_t limit) {
    return otherwise > 0 ? config.size_or({key}, otherwise, limit) : config.size({key}, limit);
  };
  Decoder decoder;
  Architecture& architecture = decoder.architecture;
  architecture.hidden = size("hidden_size", habits.hidden, kMaxHidden);
  architecture.vocabulary = size("vocab_size", habits.vocabulary, kMaxVocabulary);
  architecture.max_positions = config.size_or({"max_position_embeddings"}, habits.positions, kMaxPositions);
  architecture.tied_embeddings = config.flag_or("tie_word_embeddings", habits.tied);
  architecture.attention_dropout = config.probability_or("attention_dropout", 0);
  decoder.layers = size("num_hidden_layers", habits.layers, kMaxLayers);

  const std::int64_t heads = size("num_attention_heads", habits.heads, kMaxHeads);
  const std::int64_t kv_heads =
      config.size_unless_null("num_key_value_heads", habits.kv_heads.value_or(heads), kMaxHeads).value_or(heads);
  std::optional<std::int64_t> head_dim = config.maybe_size({"head_dim"}, kMaxWidth);
  if (!head_dim && !config.mentions("head_dim")) head_dim = habits.head_dim;
  Block& block = decoder.block;
  block.attention = make_attention(config, {"num_attention_heads"}, architecture.hidden, heads, kv_heads, head_dim);
  block.attention.rotary_fraction = config.rotary_fraction_or(habits.rotary_key, habits.rotary_fraction);
  block.feed_forward =
      FeedForward{.width = habits.width_key.empty() ? habits.width : size(habits.width_key, habits.width, kMaxWidth),
                  .gated = habits.gated,
                  .activation = config.activation_or({"hidden_act"}, habits.activation)};
  block.norm = habits.norm;
  block.norm_bias = habits.norm == NormKind::layer;
  return decoder;
}

void set_attention_bias(Attention& attention, bool bias) {
  attention.query_bias = attention.key_bias = attention.value_bias = attention.output_bias = bias;
}

void set_feed_forward_bias(FeedForward& feed_forward, bool bias) {
  feed_forward.up_bias = feed_forward.down_bias = bias;
}

Tower make_tower(std::string name, std::int64_t layers, const BlockOfLayer& block_of) {
  Tower tower;
  tower.name = std::move(name);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const Block block = block_of(layer);
    const auto known = std::find(tower.kinds.begin(), tower.kinds.end(), block);
    tower.blocks.push_back(static_cast<int>(known - tower.kinds.begin()));
    if (known == tower.kinds.end()) tower.kinds.push_back(block);
  }
  return tower;
}

Architecture assemble(Config& config, Decoder decoder, const BlockOfLayer& block_of) {
  Tower tower = make_tower("decoder", decoder.layers, block_of);
  tower.final_norm_kind = decoder.block.norm;
  tower.final_norm_bias = decoder.block.norm_bias;
  tower.final_norm_weight = decoder.block.norm_weight;
  if (decoder.architecture.position == PositionKind::rotary) {
    for (const Block& block : tower.kinds) {
      if (block.attends()) check_rotary(config, block.attention);
    }
  }
  decoder.architecture.towers.push_back(std::move(tower));
  return std::move(decoder.architecture);
}

Architecture assemble(Config& config, Decoder decoder) {
  const Block block = decoder.block;
  return assemble(config, std::move(decoder), [&](std::int64_t) { return block; });
}

std::optional<std::vector<std::string>> layer_words(Config& config, std::string_view key, std::int64_t layers,
                                                    const std::vector<std::string>& allowed) {
  auto words = config.maybe_names(key, kMaxLayers);
  if (!words) return std::nullopt;
  if (words->size() != at(layers)) {
    config.fail(key, fmt::format("{} entries for {} layers; allowed is one per layer", words->size(), layers));
  }
  for (const std::string& word : *words) {
    if (std::find(allowed.begin(), allowed.end(), word) != allowed.end()) continue;
    config.fail(key, fmt::format("`{}` is not known; allowed are {}", clip(word, 40), join_words(allowed)));
  }
  return words;
}

std::vector<bool> sliding_layers(Config& config, std::int64_t layers,
                                 const std::function<bool(std::int64_t)>& by_default) {
  const auto types = layer_words(config, "layer_types", layers, {"full_attention", "sliding_attention"});
  std::vector<bool> sliding;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    sliding.push_back(types ? (*types)[at(layer)] == "sliding_attention" : by_default(layer));
  }
  return sliding;
}

std::vector<bool> sparse_layers(Config& config, std::int64_t layers,
                                const std::function<bool(std::int64_t)>& by_default) {
  const auto types = layer_words(config, "mlp_layer_types", layers, {"dense", "sparse"});
  std::vector<bool> sparse;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    sparse.push_back(types ? (*types)[at(layer)] == "sparse" : by_default(layer));
  }
  return sparse;
}

Block with_mixture(Block block, const Mixture& mixture) {
  block.feed_forward.reset();
  block.mixture = mixture;
  return block;
}

void read_shared_experts(Config& config, std::string_view key, std::int64_t otherwise, Mixture& mixture) {
  const std::int64_t shared = config.size_unless_null(key, otherwise, kMaxExperts).value_or(0);
  if (shared == 0) return;
  if (shared > kMaxWidth / mixture.expert.width) {
    config.fail(key, fmt::format("{} shared experts of width {} are wider together than {}, the most allowed", shared,
                                 mixture.expert.width, kMaxWidth));
  }
  mixture.shared = mixture.expert;
  mixture.shared->width = shared * mixture.expert.width;
}

Architecture assemble_sparse(Config& config, Decoder decoder, const Mixture& mixture, const std::vector<bool>& sparse,
                             std::optional<std::int64_t> window, const std::vector<bool>& sliding) {
  const Block block = decoder.block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    const auto index = at(layer);
    Block chosen = sparse[index] ? with_mixture(block, mixture) : block;
    if (sliding[index]) chosen.attention.window = window.value_or(0);
    return chosen;
  });
}

void read_latent_attention(Config& config, Attention& attention, const LatentAttention& defaults) {
  LatentAttention latent;
  latent.query_rank = defaults.query_rank > 0 || config.has("q_lora_rank")
                          ? config.size_unless_null("q_lora_rank", defaults.query_rank, kMaxWidth).value_or(0)
                          : 0;
  latent.kv_rank = config.size_or({"kv_lora_rank"}, defaults.kv_rank, kMaxWidth);
  latent.nope_dim = config.size_or({"qk_nope_head_dim"}, defaults.nope_dim, kMaxWidth / attention.heads);
  latent.rope_dim = config.size_or({"qk_rope_head_dim"}, defaults.rope_dim, kMaxWidth / attention.heads);
  latent.value_dim = config.size_or({"v_head_dim"}, defaults.value_dim, kMaxWidth / attention.heads);
  if (latent.rope_dim % 2 != 0) {
    config.fail("qk_rope_head_dim", fmt::format("{} elements are rotated; allowed is an even number", latent.rope_dim));
  }
  attention.latent = latent;
  attention.kv_heads = attention.heads;
  attention.head_dim = latent.nope_dim + latent.rope_dim;
  attention.rotary_fraction = real(latent.rope_dim) / real(attention.head_dim);
}

Architecture assemble_sliding(Config& config, Decoder decoder, std::optional<std::int64_t> window,
                              const std::vector<bool>& sliding) {
  if (!window && config.has("layer_types") && std::find(sliding.begin(), sliding.end(), true) != sliding.end()) {
    config.fail("layer_types", "has sliding_attention, but sliding_window is null; allowed is a window of 1 or more");
  }
  const Block block = decoder.block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    Block windowed = block;
    if (sliding[at(layer)]) windowed.attention.window = window.value_or(0);
    return windowed;
  });
}

Mixture make_mixture(const Config& config, Keys experts_keys, std::int64_t experts, Keys top_k_keys, std::int64_t top_k,
                     const FeedForward& expert) {
  if (top_k > experts) {
    config.fail(config.spelling(top_k_keys), fmt::format("{} experts per token of {} ({}); allowed is 1 … {}", top_k,
                                                         experts, config.spelling(experts_keys), experts));
  }
  Mixture mixture;
  mixture.experts = experts;
  mixture.top_k = top_k;
  mixture.expert = expert;
  return mixture;
}

void read_groups(Config& config, std::string_view groups_key, std::string_view top_key, Mixture& mixture) {
  const std::int64_t groups = config.size_unless_null(groups_key, 1, kMaxExperts).value_or(1);
  const std::int64_t top = config.size_unless_null(top_key, groups, kMaxExperts).value_or(groups);
  if (mixture.experts % groups != 0) {
    config.fail(groups_key, fmt::format("{} groups do not divide the {} experts", groups, mixture.experts));
  }
  if (top > groups) config.fail(top_key, fmt::format("{} groups of {}; allowed is 1 … {}", top, groups, groups));
  if (mixture.top_k > top * (mixture.experts / groups)) {
    config.fail(top_key, fmt::format("{} groups of {} experts hold fewer than the {} experts of a token", top,
                                     mixture.experts / groups, mixture.top_k));
  }
  mixture.groups = groups;
  mixture.top_groups = top;
}

double estimate_parameters(const Architecture& architecture) {
  const auto hidden = real(architecture.hidden);
  const double tables = (architecture.tied_embeddings ? 1 : 2) * real(architecture.vocabulary) +
                        real(architecture.position_rows) + real(architecture.token_types);
  double total = hidden * tables + real(architecture.layer_inputs) * (real(architecture.layer_vocabulary) + hidden);
  for (const Tower& tower : architecture.towers) {
    std::vector<double> kinds;
    for (const Block& block : tower.kinds) kinds.push_back(estimate_block(block, hidden));
    for (const int kind : tower.blocks) total += kinds[at(kind)];
  }
  return total;
}

}  // namespace nest::model::families
