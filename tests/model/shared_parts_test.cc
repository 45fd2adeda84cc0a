// Families with parts that layers share or hand to each other: weights counted by hand, and what crosses cuts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "config_support.h"
#include "test_support/refusal.h"

namespace nest::model {
namespace {

using test::architecture_of;
using test::ConfigKeys;
using test::parameters_of;
using test::with;

std::string object_of(const ConfigKeys& keys) {
  std::string inner;
  for (const auto& [key, value] : keys) inner += (inner.empty() ? "\"" : ", \"") + key + "\": " + value;
  return "{" + inner + "}";
}

std::string words(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& word : list) text += (text.empty() ? "\"" : ", \"") + word + "\"";
  return "[" + text + "]";
}

// Tensors other than a layer's output that later layers read: from -> readers, by width.
std::vector<Edge> further_edges(const Model& model) {
  std::vector<Edge> further;
  std::set<int> seen;
  for (const Edge& edge : model.edges) {
    if (!seen.insert(edge.from).second) further.push_back(edge);
  }
  return further;
}

TEST(SharedParts, DbrxHasThePublishedNumberOfParameters) {
  const ConfigKeys keys = {{"model_type", "\"dbrx\""},
                           {"d_model", "6144"},
                           {"n_heads", "48"},
                           {"n_layers", "40"},
                           {"max_seq_len", "32768"},
                           {"vocab_size", "100352"},
                           {"attn_config", R"({"kv_n_heads": 8, "clip_qkv": 8, "rope_theta": 500000})"},
                           {"ffn_config", R"({"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4})"}};
  const std::int64_t d = 6144;
  const std::int64_t attention = d * (d + 2 * 8 * 128) + d * d;
  const std::int64_t experts = 16 * 3 * d * 10752 + 16 * d;
  const std::int64_t total = 2 * 100352 * d + 40 * (attention + experts + 2 * d) + d;
  EXPECT_EQ(total, 131596523520);
  EXPECT_EQ(parameters_of(keys), total);
}

TEST(SharedParts, ElectraHasNarrowTables) {
  const ConfigKeys keys = {
      {"model_type", "\"electra\""}, {"vocab_size", "30522"},     {"embedding_size", "128"},
      {"hidden_size", "256"},        {"num_hidden_layers", "12"}, {"num_attention_heads", "4"},
      {"intermediate_size", "1024"}, {"type_vocab_size", "2"},    {"max_position_embeddings", "512"}};
  const std::int64_t h = 256, e = 128, w = 1024, v = 30522;
  const std::int64_t tables = (v + 512 + 2) * e + 2 * e + e * h + h;
  const std::int64_t block = 4 * (h * h + h) + 2 * h * w + w + h + 4 * h;
  const std::int64_t head = h * e + e + 2 * e + v;  // the matrix is the token table
  EXPECT_EQ(parameters_of(keys), tables + 12 * block + head);
  const std::int64_t same = parameters_of(with(keys, {{"embedding_size", "256"}}));
  EXPECT_EQ(same, (v + 512 + 2) * h + 2 * h + 12 * block + h * h + h + 2 * h + v);
}

TEST(SharedParts, AlbertAndDistilBertHaveThePublishedNumbersOfParameters) {
  const ConfigKeys albert = {
      {"model_type", "\"albert\""},  {"vocab_size", "30000"},     {"embedding_size", "128"},
      {"hidden_size", "768"},        {"num_hidden_layers", "12"}, {"num_attention_heads", "12"},
      {"intermediate_size", "3072"}, {"num_hidden_groups", "1"},  {"hidden_act", "\"gelu_new\""}};
  EXPECT_EQ(parameters_of(albert), 11221680);
  const std::int64_t block = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768;
  EXPECT_EQ(parameters_of(with(albert, {{"num_hidden_groups", "3"}})), 11221680 + 2 * block);
  const ConfigKeys distilbert = {{"model_type", "\"distilbert\""},
                                 {"vocab_size", "30522"},
                                 {"dim", "768"},
                                 {"n_layers", "6"},
                                 {"n_heads", "12"},
                                 {"hidden_dim", "3072"}};
  EXPECT_EQ(parameters_of(distilbert), 66985530);
}

// Hy3: 80 layers of which the first is dense.
TEST(SharedParts, HyV3CountsSharedExperts) {
  const ConfigKeys keys = {
      {"model_type", "\"hy_v3\""},  {"hidden_size", "4096"},       {"intermediate_size", "13312"},
      {"num_hidden_layers", "80"},  {"num_attention_heads", "64"}, {"num_key_value_heads", "8"},
      {"head_dim", "128"},          {"vocab_size", "120832"},      {"num_experts", "192"},
      {"num_experts_per_tok", "8"}, {"num_shared_experts", "1"},   {"moe_intermediate_size", "1536"}};
  const std::int64_t h = 4096;
  const std::int64_t attention = 2 * h * 64 * 128 + 2 * h * 8 * 128 + 2 * 128 + 2 * h;
  const std::int64_t sparse = 193 * 3 * h * 1536 + 192 * h;
  EXPECT_EQ(parameters_of(keys), 2 * 120832 * h + 80 * attention + 3 * h * 13312 + 79 * sparse + h);
}

// GLM-5's attention; of six layers two choose keys, and the last three of each four take what was chosen.
TEST(SharedParts, GlmMoeDsaSharesChosenKeys) {
  const ConfigKeys keys = {
      {"model_type", "\"glm_moe_dsa\""}, {"hidden_size", "6144"},       {"intermediate_size", "12288"},
      {"moe_intermediate_size", "2048"}, {"num_hidden_layers", "6"},    {"num_attention_heads", "64"},
      {"num_key_value_heads", "64"},     {"vocab_size", "154880"},      {"n_routed_experts", "256"},
      {"n_shared_experts", "1"},         {"first_k_dense_replace", "3"}};
  const std::int64_t h = 6144, q = 2048, kv = 512;
  const std::int64_t attention = h * q + q + q * 64 * 256 + h * (kv + 64) + kv + kv * 64 * (192 + 256) + 64 * 256 * h;
  const std::int64_t indexer = q * 32 * 128 + h * 128 + 2 * 128 + h * 32;
  const std::int64_t dense = 3 * h * 12288, sparse = 257 * 3 * h * 2048 + 256 * h;
  const std::int64_t rest = 2 * 154880 * h + 6 * (attention + 2 * h) + 3 * dense + 3 * sparse + h;
  EXPECT_EQ(parameters_of(keys), rest + 6 * indexer);  // every layer chooses where the file says nothing

  const ConfigKeys listed =
      with(keys, {{"indexer_types", words({"full", "full", "shared", "shared", "shared", "full"})}});
  EXPECT_EQ(parameters_of(listed), rest + 3 * indexer);
  EXPECT_EQ(parameters_of(with(keys, {{"index_topk_pattern", "\"FFSSSF\""}})), rest + 3 * indexer);
  EXPECT_EQ(parameters_of(with(keys, {{"index_topk_freq", "4"}})), rest + 3 * indexer);  // layers 0, 1 and 5
  const std::vector<Edge> further = further_edges(build_model(architecture_of(listed)));
  ASSERT_EQ(further.size(), 1U);
  EXPECT_EQ(further.front().from, 2);  // the second block
  EXPECT_THAT(further.front().to, testing::ElementsAre(3, 4, 5));
  EXPECT_EQ(further.front().width, 2048);
  EXPECT_EQ(further.front().element_bytes, 4);
  EXPECT_THAT(test::refusal_of([&] {
                architecture_of(with(keys, {{"index_topk_pattern", "\"SFSSSF\""}}));
              }),
              testing::HasSubstr("nobody to share with"));
}

const ConfigKeys kZamba2 = {
    {"model_type", "\"zamba2\""},
    {"hidden_size", "2560"},
    {"vocab_size", "32000"},
    {"num_attention_heads", "32"},
    {"intermediate_size", "10240"},
    {"num_hidden_layers", "8"},
    {"mamba_d_state", "64"},
    {"n_mamba_heads", "80"},
    {"mamba_ngroups", "1"},
    {"adapter_rank", "128"},
    {"num_mem_blocks", "2"},
    {"use_shared_attention_adapter", "false"},
    {"layers_block_type", words({"mamba", "hybrid", "hybrid", "mamba", "hybrid", "mamba", "hybrid", "mamba"})}};

TEST(SharedParts, Zamba2SharesBlocksInTurns) {
  const std::int64_t h = 2560, d = 5120, n = 64, heads = 80, w = 10240, rank = 128;
  const std::int64_t in = h * (2 * d + 2 * n + heads), conv = 5 * (d + 2 * n);
  const std::int64_t state = in + conv + 3 * heads + d + d * h + h;
  const std::int64_t shared = 3 * 2 * h * 2 * h + 2 * h * h + 2 * h + h + 3 * h * w;
  const std::int64_t own = h * h + h * rank + rank * 2 * w;  // the projection and the adapter
  const std::int64_t total = 32000 * h + 8 * state + 2 * shared + 4 * own + h;
  EXPECT_EQ(parameters_of(kZamba2), total);
  const std::int64_t attention_adapters = 3 * 2 * (2 * h * rank);
  EXPECT_EQ(parameters_of(with(kZamba2, {{"use_shared_attention_adapter", "true"}})), total + 4 * attention_adapters);
  EXPECT_EQ(parameters_of(with(kZamba2, {{"num_mem_blocks", "1"}})), total - shared);
}

TEST(SharedParts, ZambaBlocksReadTheEmbeddings) {
  const Model model = build_model(architecture_of(kZamba2));
  // Layer 0 is the embedding; hybrids are blocks 1, 2, 4 and 6.
  const auto edge =
      std::find_if(model.edges.begin(), model.edges.end(), [](const Edge& each) { return each.from == 0; });
  ASSERT_NE(edge, model.edges.end());
  EXPECT_THAT(edge->to, testing::ElementsAre(1, 2, 3, 5, 7));
  EXPECT_EQ(edge->width, 2560);
  EXPECT_EQ(refuse_mtp(model.architecture, 1), "");  // its last block is no hybrid
  const std::string hybrid_last = words({"mamba", "hybrid", "hybrid", "mamba", "hybrid", "mamba", "mamba", "hybrid"});
  EXPECT_THAT(refuse_mtp(architecture_of(with(kZamba2, {{"layers_block_type", hybrid_last}})), 1),
              testing::HasSubstr("more than the stream"));
}

// Two sliding layers, one that sees all, and three that borrow: of Gemma 4's parts one of each.
const ConfigKeys kGemma4Text = {{"model_type", "\"gemma4_text\""},
                                {"hidden_size", "64"},
                                {"intermediate_size", "96"},
                                {"num_hidden_layers", "6"},
                                {"num_attention_heads", "8"},
                                {"num_key_value_heads", "2"},
                                {"head_dim", "16"},
                                {"global_head_dim", "32"},
                                {"vocab_size", "101"},
                                {"vocab_size_per_layer_input", "97"},
                                {"hidden_size_per_layer_input", "12"},
                                {"num_kv_shared_layers", "3"},
                                {"layer_types", words({"sliding_attention", "sliding_attention", "full_attention",
                                                       "sliding_attention", "sliding_attention", "full_attention"})}};

struct Gemma4Sizes {
  std::int64_t h = 64, w = 96, p = 12, layers = 6;
  std::int64_t norms = 4 * h, feed_forward = 3 * h * w;
  std::int64_t layer_input = 2 * h * p + h;
  // Queries and the output of heads of width d, and their norm; keys, values and the keys' norm.
  static std::int64_t queries(std::int64_t d) { return 2 * 64 * 8 * d + d; }
  static std::int64_t keys(std::int64_t d, std::int64_t heads) { return 2 * 64 * heads * d + d; }
  std::int64_t blocks =
      layers * (norms + feed_forward + layer_input) + 4 * queries(16) + 2 * queries(32) + 2 * keys(16, 2) + keys(32, 2);
  std::int64_t tables = 101 * h + 97 * layers * p + h * layers * p + p;
};

TEST(SharedParts, Gemma4BorrowsKeysAndHasEmbeddingsPerLayer) {
  const Gemma4Sizes sizes;
  const std::int64_t total = sizes.tables + sizes.blocks + sizes.h;
  EXPECT_EQ(parameters_of(kGemma4Text), total);
  EXPECT_EQ(parameters_of(with(kGemma4Text, {{"use_double_wide_mlp", "true"}})), total + 3 * sizes.feed_forward);
  // One head of keys, which are the values too, in the layer that sees all and has its own.
  const std::int64_t fewer = Gemma4Sizes::keys(32, 2) - (64 * 32 + 32);
  EXPECT_EQ(parameters_of(with(kGemma4Text, {{"attention_k_eq_v", "true"}, {"num_global_key_value_heads", "1"}})),
            total - fewer);
  // As transformers writes it, of many layers with leading zeros.
  for (const char* own :
       {R"({"2": {"head_dim": 32}, "5": {"head_dim": 32}})", R"({"02": {"head_dim": 32}, "05": {"head_dim": 32}})"}) {
    EXPECT_EQ(parameters_of(with(kGemma4Text, {{"global_head_dim", "8"}, {"per_layer_config", own}})), total);
  }
  EXPECT_EQ(parameters_of(with(kGemma4Text, {{"hidden_size_per_layer_input", "0"}})),
            101 * sizes.h + sizes.blocks - 6 * sizes.layer_input + sizes.h);
}

TEST(SharedParts, Gemma4MixesBesideItsFeedForward) {
  const Gemma4Sizes sizes;
  const std::int64_t experts = 5 * 3 * 64 * 40 + 5 * 64;  // and their router
  const std::int64_t around = 3 * 64 + 64 + 5;            // norms; scales of the router's input and of experts
  EXPECT_EQ(parameters_of(with(kGemma4Text, {{"enable_moe_block", "true"},
                                             {"num_experts", "5"},
                                             {"top_k_experts", "2"},
                                             {"moe_intermediate_size", "40"}})),
            sizes.tables + sizes.blocks + 6 * (experts + around) + sizes.h);
}

TEST(SharedParts, Gemma4TensorsThatCrossCuts) {
  const std::vector<Edge> further = further_edges(build_model(architecture_of(kGemma4Text)));
  int inputs = 0;
  for (const Edge& edge : further) {
    if (edge.from == 0) {
      EXPECT_EQ(edge.width, 12);
      EXPECT_EQ(edge.to.size(), 1U);
      ++inputs;
    } else if (edge.from == 2) {  // the second sliding block
      EXPECT_EQ(edge.width, 2 * 2 * 16);
      EXPECT_THAT(edge.to, testing::ElementsAre(4, 5));
    } else {
      EXPECT_EQ(edge.from, 3);
      EXPECT_EQ(edge.width, 2 * 2 * 32);
      EXPECT_THAT(edge.to, testing::ElementsAre(6));
    }
  }
  EXPECT_EQ(inputs, 6);
  EXPECT_EQ(further.size(), 8U);
  const std::string all_sliding = words({"sliding_attention", "sliding_attention", "sliding_attention",
                                         "sliding_attention", "sliding_attention", "full_attention"});
  EXPECT_THAT(test::refusal_of([&] {
                architecture_of(with(kGemma4Text, {{"layer_types", all_sliding}}));
              }),
              testing::AllOf(testing::HasSubstr("num_kv_shared_layers"), testing::HasSubstr("layer 5")));
}

TEST(SharedParts, Gemma4ReadsPicturesAndSound) {
  const Gemma4Sizes sizes;
  const ConfigKeys vision = {{"model_type", "\"gemma4_vision\""},
                             {"hidden_size", "48"},
                             {"intermediate_size", "80"},
                             {"num_hidden_layers", "2"},
                             {"num_attention_heads", "4"},
                             {"num_key_value_heads", "4"},
                             {"head_dim", "12"},
                             {"patch_size", "16"},
                             {"position_embedding_size", "50"}};
  const ConfigKeys audio = {{"model_type", "\"gemma4_audio\""},
                            {"hidden_size", "32"},
                            {"num_hidden_layers", "3"},
                            {"num_attention_heads", "4"},
                            {"output_proj_dims", "40"}};
  const ConfigKeys keys = {{"model_type", "\"gemma4\""},
                           {"text_config", object_of(kGemma4Text)},
                           {"vision_config", object_of(vision)},
                           {"audio_config", object_of(audio)}};
  const std::int64_t v = 48, a = 32, h = sizes.h;
  const std::int64_t pictures = 768 * v + 2 * 50 * v + 2 * (4 * v * 48 + 3 * v * 80 + 4 * v + 2 * 12) + v * h;
  // Feed-forwards before and after, attention with relative positions and a scale, the convolution, norms of each.
  const std::int64_t conformer =
      2 * (2 * 4 * a * a + 2 * a) + (5 * a * a + 8 + 2 * a) + (2 * a * a + a * a + 5 * a + 2 * a) + a;
  const std::int64_t sound = 9 * 128 + 128 + 9 * 128 * 32 + 32 + 1024 * a + 3 * conformer + a * 40 + 40 + 40 * h;
  const std::int64_t text = sizes.tables + sizes.blocks + h;
  EXPECT_EQ(parameters_of(keys), text + pictures + sound);
  EXPECT_EQ(parameters_of(with(keys, {{"audio_config", "null"}})), text + pictures);
  const Architecture alone = architecture_of(with(keys, {{"architectures", words({"Gemma4ForCausalLM"})}}));
  EXPECT_EQ(count_parameters(build_model(alone)).total, text);
  EXPECT_THAT(alone.notes, testing::ElementsAre(testing::HasSubstr("text only")));
}

// The row of measurements has the whole of Gemma 3n; here is its text, and what its streams make of the edges.
TEST(SharedParts, Gemma3nHasSeveralStreams) {
  const ConfigKeys keys = {{"model_type", "\"gemma3n_text\""},
                           {"hidden_size", "64"},
                           {"intermediate_size", "[96, 96, 104, 96, 96, 96]"},
                           {"num_hidden_layers", "6"},
                           {"num_attention_heads", "8"},
                           {"num_key_value_heads", "2"},
                           {"head_dim", "16"},
                           {"vocab_size", "101"},
                           {"vocab_size_per_layer_input", "97"},
                           {"hidden_size_per_layer_input", "12"},
                           {"num_kv_shared_layers", "1"},
                           {"laurel_rank", "5"},
                           {"altup_num_inputs", "3"}};
  const std::int64_t h = 64, p = 12;
  const std::int64_t streams = h + 9 + 27 + 3 * h + h;  // scale, two sets of coefficients, router and its norm
  const std::int64_t laurel = 2 * 5 * h + h;
  const std::int64_t common = 4 * h + (2 * h * p + h) + streams + laurel + 2 * h * 128 + 16;
  const std::int64_t feed_forward = 3 * h * (5 * 96 + 104);
  const std::int64_t borrowed = 5 * (2 * h * 32 + 16);
  const std::int64_t ends = 101 * h + 97 * 6 * p + h * 6 * p + p + 2 * 2 * h * h + h;
  EXPECT_EQ(parameters_of(keys), 6 * common + feed_forward + borrowed + ends);
  const Model model = build_model(architecture_of(keys));
  EXPECT_EQ(model.edges.front().width, 3 * h);
  EXPECT_THAT(test::refusal_of([&] {
                architecture_of(with(keys, {{"intermediate_size", "[96, 96]"}}));
              }),
              testing::HasSubstr("2 widths for 6 layers"));
}

}  // namespace
}  // namespace nest::model
