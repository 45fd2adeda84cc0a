#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config_support.h"

namespace nest::model {
namespace {

using test::architecture_of;
using test::ConfigKeys;
using test::kHeadDim;
using test::kHeads;
using test::kHidden;
using test::kKvHeads;
using test::kLayers;
using test::kVocabulary;
using test::kWidth;
using test::parameters_of;
using test::tiny;
using test::with;
using test::without;

// Pieces of the hand-made counts.
constexpr std::int64_t kTable = kVocabulary * kHidden;
constexpr std::int64_t kQ = kHidden * kHeads * kHeadDim;
constexpr std::int64_t kK = kHidden * kKvHeads * kHeadDim;
constexpr std::int64_t kGrouped = 2 * kQ + 2 * kK;     // q, o, k, v
constexpr std::int64_t kFull = 4 * kHidden * kHidden;  // with as many key/value heads as heads
constexpr std::int64_t kGated = 3 * kHidden * kWidth;
constexpr std::int64_t kPlain = 2 * kHidden * kWidth;
constexpr std::int64_t kPlainBias = kWidth + kHidden;
constexpr std::int64_t kLayerNorm = 2 * kHidden;  // weight and bias

const Block& block_of(const Architecture& architecture, std::size_t layer = 0, std::size_t tower = 0) {
  const Tower& chosen = architecture.towers.at(tower);
  return chosen.kinds.at(static_cast<std::size_t>(chosen.blocks.at(layer)));
}

std::vector<std::int64_t> windows_of(const Architecture& architecture) {
  std::vector<std::int64_t> windows;
  for (std::size_t layer = 0; layer < architecture.towers.at(0).blocks.size(); ++layer) {
    windows.push_back(block_of(architecture, layer).attention.window);
  }
  return windows;
}

std::vector<bool> sparse_layers_of(const Architecture& architecture) {
  std::vector<bool> sparse;
  for (std::size_t layer = 0; layer < architecture.towers.at(0).blocks.size(); ++layer) {
    sparse.push_back(block_of(architecture, layer).mixture.has_value());
  }
  return sparse;
}

TEST(Config, SaysWhatItRead) {
  const Architecture architecture = architecture_of(with(tiny("llama"), {{"max_position_embeddings", "65536"}}));
  EXPECT_EQ(architecture.name, "tiny");
  EXPECT_EQ(architecture.family, "llama");
  EXPECT_EQ(architecture.layers(), kLayers);
  EXPECT_EQ(architecture.max_positions, 65536);
  EXPECT_EQ(architecture.default_sequence, 8192);
  EXPECT_EQ(architecture_of(with(tiny("llama"), {{"nest", R"({"sequence": 333})"}})).default_sequence, 333);
}

TEST(Config, FamiliesAreSortedAndAllReachable) {
  const auto families = supported_families();
  EXPECT_TRUE(std::is_sorted(families.begin(), families.end()));
  EXPECT_EQ(std::adjacent_find(families.begin(), families.end()), families.end());  // none stands in two tables
  EXPECT_GE(families.size(), 150U);
}

TEST(Config, Llama) {
  const Architecture architecture = architecture_of(tiny("llama"));
  ASSERT_EQ(architecture.towers.size(), 1U);
  EXPECT_EQ(architecture.towers[0].kinds.size(), 1U);
  EXPECT_EQ(architecture.position, PositionKind::rotary);
  EXPECT_FALSE(architecture.tied_embeddings);
  EXPECT_EQ(block_of(architecture).wiring, Wiring::pre_norm);
  EXPECT_EQ(block_of(architecture).norm, NormKind::rms);
  EXPECT_EQ(parameters_of(tiny("llama")), 2 * kTable + kLayers * (kGrouped + kGated + 2 * kHidden) + kHidden);
}

TEST(Config, LlamaBiasesReachEveryProjection) {
  EXPECT_EQ(parameters_of(with(tiny("llama"), {{"attention_bias", "true"}})) - parameters_of(tiny("llama")),
            kLayers * (kHeads * kHeadDim + 2 * kKvHeads * kHeadDim + kHidden));
  EXPECT_EQ(parameters_of(with(tiny("llama"), {{"mlp_bias", "true"}})) - parameters_of(tiny("llama")),
            kLayers * (2 * kWidth + kHidden));
}

TEST(Config, FirstLlamaHasNoKeyValueHeadsInItsFile) {
  EXPECT_EQ(block_of(architecture_of(without(tiny("llama"), "num_key_value_heads"))).attention.kv_heads, kHeads);
  EXPECT_EQ(block_of(architecture_of(with(tiny("llama"), {{"num_key_value_heads", "null"}}))).attention.kv_heads,
            kHeads);
}

TEST(Config, HeadWidthMayDifferFromHiddenOverHeads) {
  EXPECT_EQ(parameters_of(with(tiny("llama"), {{"head_dim", "10"}, {"num_attention_heads", "4"}})),
            2 * kTable + kLayers * (2 * kHidden * 40 + 2 * kHidden * 20 + kGated + 2 * kHidden) + kHidden);
}

TEST(Config, MistralSlidesUnlessItsFileSaysNull) {
  EXPECT_EQ(block_of(architecture_of(tiny("mistral"))).attention.window, 4096);
  EXPECT_EQ(block_of(architecture_of(with(tiny("mistral"), {{"sliding_window", "null"}}))).attention.window, 0);
  EXPECT_EQ(block_of(architecture_of(with(tiny("mistral"), {{"sliding_window", "77"}}))).attention.window, 77);
}

TEST(Config, MixtralHasExpertsInEveryLayer) {
  const ConfigKeys keys = with(tiny("mixtral"), {{"num_local_experts", "5"}, {"num_experts_per_tok", "3"}});
  const Architecture architecture = architecture_of(keys);
  EXPECT_FALSE(block_of(architecture).feed_forward);
  EXPECT_EQ(block_of(architecture).mixture->top_k, 3);
  EXPECT_EQ(block_of(architecture).attention.window, 0);
  EXPECT_EQ(parameters_of(keys), 2 * kTable + kLayers * (kGrouped + 5 * (kGated + kHidden) + 2 * kHidden) + kHidden);
  EXPECT_EQ(block_of(architecture_of(with(keys, {{"sliding_window", "64"}}))).attention.window, 64);
}

TEST(Config, Qwen2HasBiasesButNotOnTheOutput) {
  EXPECT_EQ(
      parameters_of(tiny("qwen2")),
      2 * kTable + kHidden + kLayers * (kGrouped + kHeads * kHeadDim + 2 * kKvHeads * kHeadDim + kGated + 2 * kHidden));
}

TEST(Config, Qwen2SlidesFromMaxWindowLayersOn) {
  const ConfigKeys keys = with(tiny("qwen2"), {{"sliding_window", "16"}, {"max_window_layers", "3"}});
  EXPECT_THAT(windows_of(architecture_of(keys)), testing::ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(windows_of(architecture_of(with(keys, {{"use_sliding_window", "true"}}))),
              testing::ElementsAre(0, 0, 0, 16));
}

TEST(Config, Qwen2MoeHasASwitchedSharedExpertAndDenseExceptions) {
  const ConfigKeys keys = with(tiny("qwen2_moe"), {{"num_experts", "7"},
                                                   {"num_experts_per_tok", "2"},
                                                   {"moe_intermediate_size", "10"},
                                                   {"shared_expert_intermediate_size", "30"},
                                                   {"decoder_sparse_step", "2"},
                                                   {"mlp_only_layers", "[3]"}});
  EXPECT_THAT(sparse_layers_of(architecture_of(keys)), testing::ElementsAre(false, true, false, false));
  const std::int64_t attention = kGrouped + kHeads * kHeadDim + 2 * kKvHeads * kHeadDim + 2 * kHidden;
  const std::int64_t sparse = 7 * kHidden + 7 * 3 * kHidden * 10 + 3 * kHidden * 30 + kHidden;
  EXPECT_EQ(parameters_of(keys), 2 * kTable + kLayers * attention + 3 * kGated + sparse + kHidden);
}

TEST(Config, Qwen3NormsEachHead) {
  EXPECT_EQ(block_of(architecture_of(tiny("qwen3"))).attention.head_dim, 128);  // the class's default
  EXPECT_EQ(parameters_of(with(tiny("qwen3"), {{"head_dim", "4"}, {"tie_word_embeddings", "true"}})),
            kTable + kLayers * (kGrouped + 2 * kHeadDim + kGated + 2 * kHidden) + kHidden);
}

TEST(Config, Qwen3MoeReadsBothNamesOfItsExperts) {
  const ConfigKeys keys = with(tiny("qwen3_moe"), {{"num_experts_per_tok", "2"}, {"moe_intermediate_size", "10"}});
  const std::int64_t expected =
      2 * kTable + kHidden + kLayers * (kGrouped + 2 * kHeadDim + 2 * kHidden + 9 * kHidden + 9 * 3 * kHidden * 10);
  EXPECT_EQ(parameters_of(with(keys, {{"num_experts", "9"}})), expected);
  EXPECT_EQ(parameters_of(with(keys, {{"num_local_experts", "9"}})), expected);
}

TEST(Config, GemmaTiesItsTableAndIgnoresHiddenAct) {
  const ConfigKeys keys = with(tiny("gemma"), {{"head_dim", "8"}, {"hidden_act", "\"gelu\""}});
  EXPECT_EQ(block_of(architecture_of(keys)).feed_forward->activation, Activation::gelu_tanh);
  EXPECT_EQ(parameters_of(keys), kTable + kLayers * (2 * kGrouped + kGated + 2 * kHidden) + kHidden);
}

TEST(Config, Gemma2HasFourNormsAndAlternates) {
  const ConfigKeys keys = with(tiny("gemma2"), {{"head_dim", "4"}, {"sliding_window", "32"}});
  EXPECT_THAT(windows_of(architecture_of(keys)), testing::ElementsAre(32, 0, 32, 0));
  EXPECT_EQ(block_of(architecture_of(keys)).wiring, Wiring::sandwich);
  EXPECT_EQ(parameters_of(keys), kTable + kLayers * (kGrouped + kGated + 4 * kHidden) + kHidden);
}

TEST(Config, Gemma3SlidesInAllButEveryNthLayer) {
  const ConfigKeys keys =
      with(tiny("gemma3_text"), {{"head_dim", "4"}, {"sliding_window", "32"}, {"sliding_window_pattern", "3"}});
  EXPECT_THAT(windows_of(architecture_of(keys)), testing::ElementsAre(32, 32, 0, 32));
  EXPECT_EQ(parameters_of(keys), kTable + kLayers * (kGrouped + 2 * kHeadDim + kGated + 4 * kHidden) + kHidden);
  EXPECT_THAT(windows_of(architecture_of(
                  with(keys, {{"layer_types", R"(["full_attention", "sliding_attention", "full_attention",
                                            "full_attention"])"}}))),
              testing::ElementsAre(0, 32, 0, 0));
}

TEST(Config, Gemma3ReadsItsTextConfigWithDefaults) {
  const Architecture architecture = architecture_of(
      {{"model_type", "\"gemma3\""},
       {"text_config", R"({"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34})"}});
  EXPECT_EQ(architecture.vocabulary, 262208);
  EXPECT_EQ(architecture.layers(), 34);
  EXPECT_EQ(block_of(architecture).attention.heads, 8);
  EXPECT_EQ(block_of(architecture).attention.kv_heads, 4);
  EXPECT_EQ(block_of(architecture).attention.head_dim, 256);
  // The language model of google/gemma-3-4b-pt.
  EXPECT_EQ(count_parameters(build_model(architecture)).total, 3880263168);
}

TEST(Config, PhiRunsBothHalvesOnOneNormAndHasBiasesEverywhere) {
  const ConfigKeys keys = with(tiny("phi"), {{"num_key_value_heads", "null"}});
  EXPECT_EQ(block_of(architecture_of(keys)).wiring, Wiring::parallel_one);
  EXPECT_DOUBLE_EQ(block_of(architecture_of(keys)).attention.rotary_fraction, 0.5);
  EXPECT_EQ(parameters_of(keys),
            2 * kTable + kVocabulary + kLayerNorm + kLayers * (kFull + 4 * kHidden + kPlain + kPlainBias + kLayerNorm));
}

TEST(Config, Phi3IsLlamaWithFusedMatrices) {
  EXPECT_EQ(parameters_of(tiny("phi3")), parameters_of(tiny("llama")));
  EXPECT_EQ(block_of(architecture_of(with(tiny("phi3"), {{"sliding_window", "2047"}}))).attention.window, 2047);
}

const ConfigKeys kTinyOpt = {{"model_type", "\"opt\""},          {"hidden_size", "24"},        {"ffn_dim", "56"},
                             {"num_hidden_layers", "4"},         {"num_attention_heads", "6"}, {"vocab_size", "101"},
                             {"max_position_embeddings", "100"}, {"word_embed_proj_dim", "24"}};

TEST(Config, OptKeepsTwoMorePositions) {
  const Architecture architecture = architecture_of(kTinyOpt);
  EXPECT_EQ(architecture.max_positions, 100);
  EXPECT_EQ(architecture.position_rows, 102);
  EXPECT_EQ(block_of(architecture).feed_forward->activation, Activation::relu);
  EXPECT_EQ(parameters_of(kTinyOpt), kTable + 102 * kHidden + kLayerNorm +
                                         kLayers * (kFull + 4 * kHidden + kPlain + kPlainBias + 2 * kLayerNorm));
}

TEST(Config, SmallOptNormsAfterwardsAndProjectsItsTable) {
  const ConfigKeys keys = with(kTinyOpt, {{"do_layer_norm_before", "false"}, {"word_embed_proj_dim", "12"}});
  const Architecture architecture = architecture_of(keys);
  EXPECT_EQ(block_of(architecture).wiring, Wiring::post_norm);
  EXPECT_FALSE(architecture.towers[0].final_norm);
  EXPECT_EQ(architecture.embedding_width, 12);
  EXPECT_EQ(parameters_of(keys), kVocabulary * 12 + 2 * 12 * kHidden + 102 * kHidden +
                                     kLayers * (kFull + 4 * kHidden + kPlain + kPlainBias + 2 * kLayerNorm));
}

TEST(Config, OptWithoutBiasesAndNormWeights) {
  const ConfigKeys keys = with(kTinyOpt, {{"enable_bias", "false"}, {"layer_norm_elementwise_affine", "false"}});
  EXPECT_EQ(parameters_of(keys), kTable + 102 * kHidden + kLayers * (kFull + kPlain));
}

TEST(Config, Gpt2DerivesItsFeedForward) {
  const ConfigKeys keys = {{"model_type", "\"gpt2\""}, {"n_embd", "24"},      {"n_layer", "4"},   {"n_head", "6"},
                           {"vocab_size", "101"},      {"n_positions", "64"}, {"n_inner", "null"}};
  EXPECT_EQ(block_of(architecture_of(keys)).feed_forward->width, 96);
  EXPECT_EQ(block_of(architecture_of(with(keys, {{"n_inner", "40"}}))).feed_forward->width, 40);
  EXPECT_DOUBLE_EQ(architecture_of(keys).dropout, 0.1);
  EXPECT_EQ(parameters_of(keys),
            kTable + 64 * kHidden + kLayerNorm +
                kLayers * (kFull + 4 * kHidden + 2 * kHidden * 96 + 96 + kHidden + 2 * kLayerNorm));
}

TEST(Config, GptNeoxIsParallelOnTwoNormsAndUntied) {
  const ConfigKeys keys = with(without(tiny("gpt_neox"), "num_key_value_heads"), {{"rotary_pct", "0.5"}});
  EXPECT_EQ(block_of(architecture_of(keys)).wiring, Wiring::parallel_two);
  EXPECT_EQ(block_of(architecture_of(with(keys, {{"use_parallel_residual", "false"}}))).wiring, Wiring::pre_norm);
  const std::int64_t total =
      2 * kTable + kLayerNorm + kLayers * (kFull + 4 * kHidden + kPlain + kPlainBias + 2 * kLayerNorm);
  EXPECT_EQ(parameters_of(keys), total);
  EXPECT_EQ(parameters_of(with(keys, {{"attention_bias", "false"}})), total - kLayers * 4 * kHidden);
}

TEST(Config, BloomNormsItsEmbeddings) {
  const ConfigKeys keys = {{"model_type", "\"bloom\""},
                           {"n_embed", "24"},
                           {"n_layer", "4"},
                           {"num_attention_heads", "6"},
                           {"vocab_size", "101"}};
  EXPECT_EQ(architecture_of(keys).position, PositionKind::alibi);
  EXPECT_EQ(
      parameters_of(keys),
      kTable + 2 * kLayerNorm + kLayers * (kFull + 4 * kHidden + 8 * kHidden * kHidden + 5 * kHidden + 2 * kLayerNorm));
}

const ConfigKeys kTinyFalcon = {{"model_type", "\"falcon\""},
                                {"hidden_size", "24"},
                                {"num_hidden_layers", "4"},
                                {"num_attention_heads", "6"},
                                {"vocab_size", "101"}};
constexpr std::int64_t kFourfold = 8 * kHidden * kHidden;

TEST(Config, SmallFalconHasOneKeyValueHeadAndOneNorm) {
  EXPECT_EQ(block_of(architecture_of(kTinyFalcon)).wiring, Wiring::parallel_one);
  EXPECT_EQ(parameters_of(kTinyFalcon),
            kTable + kLayerNorm + kLayers * (2 * kHidden * kHidden + 2 * kHidden * kHeadDim + kFourfold + kLayerNorm));
}

TEST(Config, LargeFalconHasGroupsAndTwoNorms) {
  const ConfigKeys keys = with(kTinyFalcon, {{"new_decoder_architecture", "true"}, {"num_kv_heads", "2"}});
  EXPECT_EQ(block_of(architecture_of(keys)).wiring, Wiring::parallel_two);
  EXPECT_EQ(parameters_of(keys), kTable + kLayerNorm + kLayers * (kGrouped + kFourfold + 2 * kLayerNorm));
  const ConfigKeys one_norm = with(keys, {{"num_ln_in_parallel_attn", "1"}});
  EXPECT_EQ(block_of(architecture_of(one_norm)).wiring, Wiring::parallel_one);
}

TEST(Config, FirstFalconIsSequentialWithAlibiAndBiases) {
  const ConfigKeys keys =
      with(kTinyFalcon, {{"multi_query", "false"}, {"parallel_attn", "false"}, {"alibi", "true"}, {"bias", "true"}});
  EXPECT_EQ(architecture_of(keys).position, PositionKind::alibi);
  EXPECT_EQ(block_of(architecture_of(keys)).wiring, Wiring::pre_norm);
  EXPECT_EQ(parameters_of(keys),
            kTable + kLayerNorm + kLayers * (kFull + 4 * kHidden + kFourfold + 5 * kHidden + 2 * kLayerNorm));
}

TEST(Config, Starcoder2HasLayerNormsAndBiases) {
  EXPECT_EQ(parameters_of(tiny("starcoder2")),
            kTable + kLayerNorm +
                kLayers * (kGrouped + 2 * kHidden + 2 * kKvHeads * kHeadDim + kPlain + kPlainBias + 2 * kLayerNorm));
  EXPECT_EQ(parameters_of(with(tiny("starcoder2"), {{"use_bias", "false"}})),
            kTable + kLayerNorm + kLayers * (kGrouped + kPlain + 2 * kLayerNorm));
}

TEST(Config, NemotronSquaresItsRelu) {
  EXPECT_EQ(block_of(architecture_of(tiny("nemotron"))).feed_forward->activation, Activation::relu_squared);
  EXPECT_DOUBLE_EQ(block_of(architecture_of(tiny("nemotron"))).attention.rotary_fraction, 0.5);
  EXPECT_DOUBLE_EQ(
      block_of(architecture_of(with(tiny("nemotron"), {{"rope_parameters", R"({"partial_rotary_factor": 1.0})"}})))
          .attention.rotary_fraction,
      1.0);
  EXPECT_EQ(parameters_of(tiny("nemotron")), 2 * kTable + kLayerNorm + kLayers * (kGrouped + kPlain + 2 * kLayerNorm));
}

TEST(Config, Olmo2NormsOutputsAndWholeQueriesAndKeys) {
  EXPECT_EQ(block_of(architecture_of(tiny("olmo2"))).wiring, Wiring::output_norm);
  EXPECT_EQ(
      parameters_of(tiny("olmo2")),
      2 * kTable + kHidden + kLayers * (kGrouped + kHeads * kHeadDim + kKvHeads * kHeadDim + kGated + 2 * kHidden));
}

TEST(Config, GptOssHasSinksAndBiasesEverywhere) {
  const ConfigKeys keys =
      with(tiny("gpt_oss"), {{"head_dim", "4"}, {"num_local_experts", "5"}, {"num_experts_per_tok", "2"}});
  EXPECT_THAT(windows_of(architecture_of(keys)), testing::ElementsAre(128, 0, 128, 0));
  const std::int64_t attention = kGrouped + 2 * kHidden + 2 * kKvHeads * kHeadDim + kHeads;
  const std::int64_t experts = 5 * kHidden + 5 + 5 * (kGated + 2 * kWidth + kHidden);
  EXPECT_EQ(parameters_of(keys), 2 * kTable + kHidden + kLayers * (attention + experts + 2 * kHidden));
}

const ConfigKeys kTinyDeepseek = with(tiny("deepseek_v3"), {{"num_key_value_heads", "6"},
                                                            {"q_lora_rank", "10"},
                                                            {"kv_lora_rank", "7"},
                                                            {"qk_nope_head_dim", "5"},
                                                            {"qk_rope_head_dim", "2"},
                                                            {"v_head_dim", "3"},
                                                            {"n_routed_experts", "8"},
                                                            {"num_experts_per_tok", "2"},
                                                            {"moe_intermediate_size", "9"},
                                                            {"n_shared_experts", "2"},
                                                            {"first_k_dense_replace", "1"}});

TEST(Config, DeepseekHasLatentsSharedExpertsAndDenseLayersFirst) {
  EXPECT_THAT(sparse_layers_of(architecture_of(kTinyDeepseek)), testing::ElementsAre(false, true, true, true));
  const std::int64_t key_value = kHidden * (7 + 2) + 7 + 7 * kHeads * (5 + 3) + kHeads * 3 * kHidden;
  const std::int64_t query = kHidden * 10 + 10 + 10 * kHeads * (5 + 2);
  const std::int64_t sparse = 8 * kHidden + 8 * 3 * kHidden * 9 + 3 * kHidden * 18;
  EXPECT_EQ(parameters_of(kTinyDeepseek),
            2 * kTable + kHidden + kLayers * (query + key_value + 2 * kHidden) + kGated + 3 * sparse);
  const std::int64_t direct = kHidden * kHeads * (5 + 2);
  EXPECT_EQ(parameters_of(with(kTinyDeepseek, {{"q_lora_rank", "null"}})) - parameters_of(kTinyDeepseek),
            kLayers * (direct - query));
}

// Kimi K2's remote code is DeepSeek-V3's.
TEST(Config, KimiIsReadAsDeepseek) {
  const Architecture kimi = architecture_of(with(kTinyDeepseek, {{"model_type", "\"kimi_k2\""}}));
  EXPECT_EQ(kimi.family, "kimi_k2");
  EXPECT_THAT(sparse_layers_of(kimi), testing::ElementsAre(false, true, true, true));
  EXPECT_EQ(parameters_of(with(kTinyDeepseek, {{"model_type", "\"kimi_k2\""}})), parameters_of(kTinyDeepseek));
}

TEST(Config, DeepseekCountsEveryNthLayer) {
  EXPECT_THAT(sparse_layers_of(architecture_of(with(kTinyDeepseek, {{"moe_layer_freq", "2"}}))),
              testing::ElementsAre(false, false, true, false));
  EXPECT_THAT(sparse_layers_of(architecture_of(
                  with(kTinyDeepseek, {{"model_type", "\"deepseek_v2\""}, {"n_routed_experts", "null"}}))),
              testing::ElementsAre(false, false, false, false));
}

TEST(Config, BertHasSegmentsAndAMaskedLanguageHead) {
  const ConfigKeys keys = with(without(tiny("bert"), "num_key_value_heads"), {{"max_position_embeddings", "32"}});
  const Architecture architecture = architecture_of(keys);
  EXPECT_FALSE(block_of(architecture).attention.causal);
  EXPECT_EQ(block_of(architecture).wiring, Wiring::post_norm);
  EXPECT_EQ(parameters_of(keys), kTable + (32 + 2) * kHidden + kLayerNorm +
                                     kLayers * (kFull + 4 * kHidden + kPlain + kPlainBias + 2 * kLayerNorm) +
                                     kHidden * kHidden + kHidden + kLayerNorm + kVocabulary);
}

TEST(Config, RobertaLosesTwoPositions) {
  const ConfigKeys keys = with(without(tiny("roberta"), "num_key_value_heads"),
                               {{"max_position_embeddings", "34"}, {"type_vocab_size", "1"}});
  EXPECT_EQ(architecture_of(keys).position_rows, 34);
  EXPECT_EQ(architecture_of(keys).max_positions, 32);
  EXPECT_EQ(architecture_of(keys).default_sequence, 32);
}

const ConfigKeys kTinyT5 = {{"model_type", "\"t5\""}, {"d_model", "24"},   {"d_kv", "5"},        {"d_ff", "56"},
                            {"num_heads", "6"},       {"num_layers", "3"}, {"vocab_size", "101"}};

TEST(Config, T5HasTwoTowersAndOneTableEach) {
  const Architecture architecture = architecture_of(kTinyT5);
  ASSERT_EQ(architecture.towers.size(), 2U);
  EXPECT_EQ(architecture.layers(), 6);
  EXPECT_EQ(block_of(architecture, 0, 0).attention.relative_buckets, 32);
  EXPECT_EQ(block_of(architecture, 1, 0).attention.relative_buckets, 0);
  EXPECT_EQ(block_of(architecture, 0, 1).attention.relative_buckets, 32);
  EXPECT_FALSE(block_of(architecture, 0, 0).attention.causal);
  EXPECT_TRUE(block_of(architecture, 0, 1).attention.causal);
  const std::int64_t attention = 4 * kHidden * kHeads * 5;
  EXPECT_EQ(parameters_of(kTinyT5), kTable + 3 * (attention + kPlain + 2 * kHidden) +
                                        3 * (2 * attention + kPlain + 3 * kHidden) + 2 * 32 * kHeads + 2 * kHidden);
}

TEST(Config, LaterT5IsGatedAndUntied) {
  const ConfigKeys keys =
      with(kTinyT5,
           {{"feed_forward_proj", "\"gated-gelu\""}, {"tie_word_embeddings", "false"}, {"num_decoder_layers", "2"}});
  EXPECT_EQ(block_of(architecture_of(keys)).feed_forward->activation, Activation::gelu_tanh);
  const std::int64_t attention = 4 * kHidden * kHeads * 5;
  EXPECT_EQ(parameters_of(keys), 2 * kTable + 3 * (attention + kGated + 2 * kHidden) +
                                     2 * (2 * attention + kGated + 3 * kHidden) + 2 * 32 * kHeads + 2 * kHidden);
}

}  // namespace
}  // namespace nest::model
