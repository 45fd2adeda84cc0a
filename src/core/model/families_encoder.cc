// Encoders, alone or before a decoder.
#include <fmt/format.h>

#include "base/text.h"
#include "model/families.h"

namespace nest::model::families {
namespace {

constexpr Keys kHeadKeys = {"num_heads", "num_attention_heads"};  // of t5

// BERT and its kin, with the head that predicts masked tokens. `offset` rows of the position table are not positions.
Architecture read_bert_like(Config& config, std::int64_t default_rows, std::int64_t offset) {
  const std::string positions = config.maybe_text("position_embedding_type").value_or("absolute");
  if (positions != "absolute") {
    config.fail("position_embedding_type",
                fmt::format("`{}` is not supported; allowed is absolute", clip(positions, 40)));
  }
  Architecture architecture;
  architecture.hidden = config.size({"hidden_size"}, kMaxHidden);
  architecture.vocabulary = config.size({"vocab_size"}, kMaxVocabulary);
  architecture.position = PositionKind::learned;
  architecture.position_rows = config.size_or({"max_position_embeddings"}, default_rows, kMaxPositions);
  if (architecture.position_rows <= offset) {
    config.fail("max_position_embeddings", fmt::format("{} rows leave no position; allowed is {} or more",
                                                       architecture.position_rows, offset + 1));
  }
  architecture.max_positions = architecture.position_rows - offset;
  architecture.token_types = config.size_or({"type_vocab_size"}, 2, kMaxVocabulary);
  architecture.embedding_norm = true;
  architecture.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  architecture.head_bias = true;
  architecture.head_transform = true;
  architecture.dropout = config.probability_or("hidden_dropout_prob", 0.1);
  architecture.attention_dropout = config.probability_or("attention_probs_dropout_prob", 0.1);

  const std::int64_t layers = config.size({"num_hidden_layers"}, kMaxLayers);
  const std::int64_t heads = config.size({"num_attention_heads"}, kMaxHeads);
  Block block;
  block.attention = make_attention(config, {"num_attention_heads"}, architecture.hidden, heads, heads, std::nullopt);
  set_attention_bias(block.attention, true);
  block.attention.causal = config.flag_or("is_decoder", false);
  block.feed_forward = FeedForward{.width = config.size({"intermediate_size"}, kMaxWidth),
                                   .gated = false,
                                   .activation = config.activation_or({"hidden_act"}, Activation::gelu)};
  set_feed_forward_bias(*block.feed_forward, true);
  block.wiring = Wiring::post_norm;
  block.norm = NormKind::layer;
  block.norm_bias = true;
  architecture.towers.push_back(make_tower("encoder", layers, [&](std::int64_t) { return block; }));
  architecture.towers.front().final_norm = false;  // every block ends with one
  return architecture;
}

// "relu", "gated-gelu", "gated-silu": the activation, and whether it gates a second projection.
FeedForward read_t5_feed_forward(Config& config) {
  FeedForward feed_forward{.width = config.size({"d_ff"}, kMaxWidth), .gated = false, .activation = Activation::relu};
  const auto stated = config.maybe_text("feed_forward_proj");
  if (!stated) return feed_forward;
  std::string_view name = *stated;
  constexpr std::string_view kGated = "gated-";
  if (name.starts_with(kGated)) {
    feed_forward.gated = true;
    name.remove_prefix(kGated.size());
  }
  const auto activation = parse_activation(name);
  if (!activation) {
    config.fail("feed_forward_proj", fmt::format("`{}` is not known; allowed are relu, gated-gelu, gated-silu and the "
                                                 "like",
                                                 clip(*stated, 40)));
  }
  // "gated-gelu" has always meant the tanh approximation there.
  feed_forward.activation = *stated == "gated-gelu" ? Activation::gelu_tanh : *activation;
  return feed_forward;
}

}  // namespace

Architecture read_bert(Config& config) { return read_bert_like(config, 512, 0); }

// Positions are counted from the padding token's row on, which is 1: a table of 514 rows serves 512 positions.
Architecture read_roberta(Config& config) { return read_bert_like(config, 512, 2); }

Architecture read_t5(Config& config) {
  Architecture architecture;
  architecture.hidden = config.size({"d_model", "hidden_size"}, kMaxHidden);
  architecture.vocabulary = config.size({"vocab_size"}, kMaxVocabulary);
  architecture.position = PositionKind::relative;
  architecture.max_positions = config.size_or({"n_positions"}, 512, kMaxPositions);
  architecture.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  architecture.dropout = architecture.attention_dropout = config.probability_or("dropout_rate", 0.1);
  const std::int64_t layers = config.size({"num_layers", "num_hidden_layers"}, kMaxLayers);
  const std::int64_t decoder_layers = config.size_or({"num_decoder_layers"}, layers, kMaxLayers);
  const std::int64_t heads = config.size(kHeadKeys, kMaxHeads);
  const std::int64_t buckets = config.size_or({"relative_attention_num_buckets"}, 32, kMaxWidth / heads);

  Block encoder;
  encoder.attention = make_attention(config, kHeadKeys, architecture.hidden, heads, heads,
                                     config.size_or({"d_kv", "head_dim"}, 64, kMaxWidth));
  encoder.attention.causal = false;
  encoder.feed_forward = read_t5_feed_forward(config);
  Block decoder = encoder;
  decoder.cross_attention = encoder.attention;
  decoder.attention.causal = true;

  // The first block of each tower owns the table of position biases that all its blocks add.
  const auto first_owns_table = [&](const Block& block) {
    return [block, buckets](std::int64_t layer) {
      Block own = block;
      if (layer == 0) own.attention.relative_buckets = buckets;
      return own;
    };
  };
  architecture.towers.push_back(make_tower("encoder", layers, first_owns_table(encoder)));
  architecture.towers.push_back(make_tower("decoder", decoder_layers, first_owns_table(decoder)));
  return architecture;
}

}  // namespace nest::model::families
