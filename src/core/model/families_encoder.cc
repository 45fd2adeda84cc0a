// Encoders, alone or before a decoder.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/index.h"
#include "base/text.h"
#include "model/families.h"

namespace nest::model::families {
namespace {

constexpr Keys kHeadKeys = {"num_heads", "num_attention_heads"};  // of t5

// BERT and its kin, with the head that predicts masked tokens.
struct BertHabits {
  std::int64_t rows = 512;
  std::int64_t offset = 0;      // rows of the position table that are not positions
  std::int64_t added_rows = 0;  // rows of the table beyond what the file says
  std::int64_t token_types = 2;
  bool norm_first = false;  // norms before each part, and one at the end
  bool embedding_norm = true;
  bool pooler = false;  // holds a [hidden, hidden] pooler that predicting tokens does not reach
};

Architecture read_bert_like(Config& config, const BertHabits& habits) {
  const std::string positions = config.maybe_text("position_embedding_type").value_or("absolute");
  if (positions != "absolute") {
    config.fail("position_embedding_type",
                fmt::format("`{}` is not supported; allowed is absolute", clip(positions, 40)));
  }
  Architecture architecture;
  architecture.hidden = config.size({"hidden_size", "dim"}, kMaxHidden);
  architecture.vocabulary = config.size({"vocab_size"}, kMaxVocabulary);
  architecture.position = PositionKind::learned;
  architecture.position_rows =
      config.size_or({"max_position_embeddings"}, habits.rows, kMaxPositions - 2) + habits.added_rows;
  if (architecture.position_rows <= habits.offset) {
    config.fail("max_position_embeddings", fmt::format("{} rows leave no position; allowed is {} or more",
                                                       architecture.position_rows, habits.offset + 1));
  }
  architecture.max_positions = architecture.position_rows - habits.offset;
  architecture.token_types = config.size_unless_null("type_vocab_size", habits.token_types, kMaxVocabulary).value_or(0);
  architecture.embedding_norm = habits.embedding_norm;
  architecture.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  architecture.head_bias = true;
  architecture.head_transform = true;
  architecture.dropout = config.probability_or(config.spelling({"hidden_dropout_prob", "dropout"}), 0.1);
  architecture.attention_dropout =
      config.probability_or(config.spelling({"attention_probs_dropout_prob", "attention_dropout"}), 0.1);

  const std::int64_t layers = config.size({"num_hidden_layers", "n_layers"}, kMaxLayers);
  const Keys heads_keys = {"num_attention_heads", "n_heads"};
  const std::int64_t heads = config.size(heads_keys, kMaxHeads);
  Block block;
  block.attention = make_attention(config, heads_keys, architecture.hidden, heads, heads, std::nullopt);
  set_attention_bias(block.attention, true);
  block.attention.causal = config.flag_or("is_decoder", false);
  block.feed_forward = FeedForward{.width = config.size({"intermediate_size", "hidden_dim"}, kMaxWidth),
                                   .gated = false,
                                   .activation = config.activation_or({"hidden_act", "activation"}, Activation::gelu)};
  set_feed_forward_bias(*block.feed_forward, true);
  block.wiring = habits.norm_first ? Wiring::pre_norm : Wiring::post_norm;
  block.norm = NormKind::layer;
  block.norm_bias = true;
  if (habits.pooler) architecture.spare.push_back({"pooler", architecture.hidden * (architecture.hidden + 1)});
  architecture.towers.push_back(make_tower("encoder", layers, [&](std::int64_t) { return block; }));
  Tower& tower = architecture.towers.front();
  tower.final_norm = habits.norm_first;  // else every block ends with one
  tower.final_norm_kind = NormKind::layer;
  tower.final_norm_bias = true;
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

Architecture read_bert(Config& config) { return read_bert_like(config, {}); }

// Positions are counted from the padding token's row on, which is 1: a table of 514 rows serves 512 positions.
Architecture read_roberta(Config& config) { return read_bert_like(config, {.offset = 2}); }

Architecture read_roberta_first(Config& config) { return read_bert_like(config, {.offset = 2, .norm_first = true}); }

Architecture read_roberta_xl(Config& config) {
  return read_bert_like(config,
                        {.rows = 514, .offset = 2, .token_types = 1, .norm_first = true, .embedding_norm = false});
}

Architecture read_megatron_bert(Config& config) {
  return read_bert_like(config, {.norm_first = true, .embedding_norm = false});
}

// Its windows and random blocks are those of long sequences; priced as full attention.
Architecture read_big_bird(Config& config) {
  Architecture architecture = read_bert_like(config, {.rows = 4096, .pooler = true});
  architecture.notes.emplace_back("block-sparse attention is modelled as full attention");
  return architecture;
}

Architecture read_yoso(Config& config) {
  Architecture architecture = read_bert_like(config, {.rows = 4096, .offset = 2, .added_rows = 2, .token_types = 1});
  architecture.notes.emplace_back("hashed attention is modelled as full attention");
  return architecture;
}

// Four tables of coordinates besides that of positions.
Architecture read_layoutlm(Config& config) {
  Architecture architecture = read_bert_like(config, {.pooler = true});
  const std::int64_t rows = config.size_or({"max_2d_position_embeddings"}, 1024, kMaxPositions);
  architecture.further_tables.assign(4, rows);
  return architecture;
}

// Entities have tables, queries and a head of their own, which text alone does not reach.
Architecture read_luke(Config& config) {
  Architecture architecture = read_bert_like(config, {.offset = 2, .pooler = true});
  architecture.tied_embeddings = false;  // its classes hold two tables
  const std::int64_t h = architecture.hidden;
  const std::int64_t entities = config.size_or({"entity_vocab_size"}, 500000, kMaxVocabulary);
  const std::int64_t width = config.size_or({"entity_emb_size"}, 256, kMaxHidden);
  architecture.spare.push_back({"entities", entities * width + (width == h ? 0 : width * h)});
  architecture.spare.push_back({"entity_positions", (architecture.position_rows + architecture.token_types + 2) * h});
  architecture.spare.push_back({"entity_head", entities + width * h + 3 * width});
  for (Block& block : architecture.towers.front().kinds) {
    if (config.flag_or("use_entity_aware_attention", true)) block.unused = 3 * h * (h + 1);
  }
  architecture.notes.emplace_back("text only: what serves entities is held and not trained");
  return architecture;
}

// Tables, their norm and the head's transform are narrower than the stream; a projection with a bias leads to it.
void read_narrow_tables(Config& config, Architecture& architecture, std::int64_t otherwise) {
  const std::int64_t width = config.size_or({"embedding_size"}, otherwise, kMaxHidden);
  if (width == architecture.hidden) return;
  architecture.embedding_width = width;
  architecture.narrow_tables = true;
}

// Layers of a group run with the same weights.
Architecture read_albert(Config& config) {
  Architecture architecture = read_bert_like(config, {});
  read_narrow_tables(config, architecture, 128);
  Tower& tower = architecture.towers.front();
  const Block block = tower.kinds.front();
  const auto layers = std::ssize(tower.blocks);
  const std::int64_t groups = config.size_or({"num_hidden_groups"}, 1, layers);
  if (config.size_or({"inner_group_num"}, 1, kMaxLayers) != 1) {
    config.fail("inner_group_num", "other than 1 is not supported for albert");
  }
  const Tower grouped = make_tower(tower.name, layers, [&](std::int64_t layer) {
    Block own = block;
    own.same_weights = 1 + layer * groups / layers;
    return own;
  });
  tower.kinds = grouped.kinds;
  tower.blocks = grouped.blocks;
  return architecture;
}

Architecture read_distilbert(Config& config) { return read_bert_like(config, {.token_types = 0}); }

// The generator, which predicts masked tokens; the discriminator has the same blocks and a head of one number.
Architecture read_electra(Config& config) {
  Architecture architecture = read_bert_like(config, {});
  read_narrow_tables(config, architecture, 128);
  const auto classes = config.maybe_names("architectures", 64).value_or(std::vector<std::string>());
  if (std::find(classes.begin(), classes.end(), "ElectraForPreTraining") != classes.end()) {
    architecture.notes.emplace_back(
        "modelled as the generator, with a head over the vocabulary; the discriminator's is one number");
  }
  return architecture;
}

// Rotates by a table of sines that it holds as a weight.
Architecture read_roformer(Config& config) {
  Architecture architecture = read_bert_like(config, {.rows = 1536});
  read_narrow_tables(config, architecture, architecture.hidden);
  const Attention& attention = architecture.towers.front().kinds.front().attention;
  architecture.spare.push_back({"positions", architecture.position_rows * attention.head_dim});
  architecture.position = PositionKind::rotary;
  architecture.position_rows = 0;
  return architecture;
}

Architecture read_deberta_v2(Config& config) {
  if (config.flag_or("relative_attention", false)) {
    config.fail("relative_attention", "true is not supported for deberta-v2; allowed is false");
  }
  return read_bert_like(config, {.token_types = 0});
}

// Adapters of one language follow the feed-forward of every block.
Architecture read_xmod(Config& config) {
  Architecture architecture = read_bert_like(config, {.offset = 2, .norm_first = config.flag_or("pre_norm", false)});
  const auto languages = config.maybe_names("languages", 1 << 10);
  const std::int64_t count = languages ? std::max<std::int64_t>(1, std::ssize(*languages)) : 1;
  const std::int64_t factor = config.size_or({"adapter_reduction_factor"}, 2, kMaxHidden);
  const std::int64_t width = std::max<std::int64_t>(1, architecture.hidden / factor);
  for (Block& block : architecture.towers.front().kinds) {
    block.adapter = FeedForward{.width = width, .gated = false, .activation = Activation::gelu};
    set_feed_forward_bias(*block.adapter, true);
    // Those of the other languages wait.
    block.unused = (count - 1) * (2 * width * architecture.hidden + width + architecture.hidden);
  }
  return architecture;
}

Architecture read_xlm(Config& config) {
  Architecture architecture;
  architecture.hidden = config.size({"emb_dim", "hidden_size"}, kMaxHidden / 4);
  architecture.vocabulary = config.size({"vocab_size"}, kMaxVocabulary);
  architecture.position = PositionKind::learned;
  architecture.position_rows = architecture.max_positions =
      config.size_or({"max_position_embeddings"}, 512, kMaxPositions);
  architecture.embedding_norm = true;
  const std::int64_t languages = config.size_or({"n_langs"}, 1, kMaxVocabulary);
  if (languages > 1 && config.flag_or("use_lang_emb", true)) architecture.token_types = languages;
  architecture.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  architecture.head_bias = true;
  const std::int64_t layers = config.size({"n_layers", "num_hidden_layers"}, kMaxLayers);
  const std::int64_t heads = config.size({"n_heads", "num_attention_heads"}, kMaxHeads);
  Block block;
  block.attention =
      make_attention(config, {"n_heads", "num_attention_heads"}, architecture.hidden, heads, heads, std::nullopt);
  set_attention_bias(block.attention, true);
  block.attention.causal = config.flag_or("causal", false);
  block.feed_forward =
      FeedForward{.width = 4 * architecture.hidden,
                  .gated = false,
                  .activation = config.flag_or("gelu_activation", true) ? Activation::gelu : Activation::relu};
  set_feed_forward_bias(*block.feed_forward, true);
  block.wiring = Wiring::post_norm;
  block.norm = NormKind::layer;
  block.norm_bias = true;
  architecture.towers.push_back(make_tower("encoder", layers, [&](std::int64_t) { return block; }));
  architecture.towers.front().final_norm = false;
  return architecture;
}

// Rotary positions, gated feed-forwards, LayerNorms without bias; most layers attend to a window. The first layer reads
// the norm of the embeddings as it is.
Architecture read_modernbert(Config& config) {
  Decoder decoder = read_decoder(config, {.positions = 8192, .tied = true, .norm = NormKind::layer});
  Block& block = decoder.block;
  Architecture& architecture = decoder.architecture;
  block.attention.kv_heads = block.attention.heads;
  set_attention_bias(block.attention, config.flag_or("attention_bias", false));
  set_feed_forward_bias(*block.feed_forward, config.flag_or("mlp_bias", false));
  block.feed_forward->activation = config.activation_or({"hidden_activation"}, Activation::gelu);
  block.attention.causal = false;
  block.norm_bias = config.flag_or("norm_bias", false);
  architecture.embedding_norm = true;
  architecture.embedding_norm_bias = block.norm_bias;
  architecture.head_bias = config.flag_or("decoder_bias", true);
  architecture.head_transform = true;
  architecture.head_transform_bias = config.flag_or("classifier_bias", false);
  const std::int64_t window = config.size_or({"local_attention"}, 128, kMaxPositions);
  const std::int64_t every = config.size_or({"global_attn_every_n_layers"}, 3, kMaxLayers);
  const auto sliding = sliding_layers(config, decoder.layers, [&](std::int64_t layer) { return layer % every != 0; });
  const Block common = block;
  Architecture done = assemble(config, std::move(decoder), [&](std::int64_t layer) {
    Block own = common;
    if (sliding[at(layer)]) own.attention.window = window / 2 + 1;  // on either side
    own.first_norm = layer > 0;
    return own;
  });
  done.towers.front().name = "encoder";
  return done;
}

// What a family of T5's kind has beyond it.
struct T5Habits {
  bool every_layer_owns_table = false;
  bool experts = false;
};

Architecture read_t5_like(Config& config, const T5Habits& habits) {
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

  // The first block of each tower owns the table of position biases that all its blocks add, or every block its own.
  std::optional<Mixture> mixture;
  if (habits.experts) {
    mixture = make_mixture(config, kExpertKeys, config.size_or(kExpertKeys, 8, kMaxExperts), {"top_k"}, 1,
                           *encoder.feed_forward);
    mixture->router_bias = config.flag_or("router_bias", false);
  }
  const auto block_of = [&](const Block& block, std::string_view step_key) {
    const std::int64_t step = mixture ? config.size_or({step_key}, 4, kMaxLayers) : 0;
    return [&, block, step](std::int64_t layer) {
      Block own = mixture && (step == 1 || layer % step == 1) ? with_mixture(block, *mixture) : block;
      if (layer == 0 || habits.every_layer_owns_table) own.attention.relative_buckets = buckets;
      return own;
    };
  };
  architecture.towers.push_back(make_tower("encoder", layers, block_of(encoder, "encoder_sparse_step")));
  architecture.towers.push_back(make_tower("decoder", decoder_layers, block_of(decoder, "decoder_sparse_step")));
  return architecture;
}

Architecture read_t5(Config& config) { return read_t5_like(config, {}); }
Architecture read_umt5(Config& config) { return read_t5_like(config, {.every_layer_owns_table = true}); }
Architecture read_switch(Config& config) { return read_t5_like(config, {.experts = true}); }

constexpr std::array kEncoderFamilies = std::to_array<Family>({
    {"albert", read_albert},
    {"bert", read_bert},
    {"big_bird", read_big_bird},
    {"camembert", read_roberta},
    {"data2vec-text", read_roberta},
    {"deberta-v2", read_deberta_v2},
    {"distilbert", read_distilbert},
    {"electra", read_electra},
    {"ibert", read_roberta},
    {"layoutlm", read_layoutlm},
    {"luke", read_luke},
    {"megatron-bert", read_megatron_bert},
    {"modernbert", read_modernbert},
    {"mt5", read_t5},
    {"roberta", read_roberta},
    {"roberta-prelayernorm", read_roberta_first},
    {"roformer", read_roformer},
    {"switch_transformers", read_switch},
    {"t5", read_t5},
    {"umt5", read_umt5},
    {"xlm", read_xlm},
    {"xlm-roberta", read_roberta},
    {"xlm-roberta-xl", read_roberta_xl},
    {"xmod", read_xmod},
    {"yoso", read_yoso},
});

}  // namespace

std::span<const Family> encoder_families() { return kEncoderFamilies; }

}  // namespace nest::model::families
