// Families whose layers do more than attend and feed forward: their parts counted by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config_support.h"
#include "test_support/refusal.h"

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

std::int64_t kind_of(const ConfigKeys& keys, const std::string& kind) {
  const ParameterCount count = count_parameters(build_model(architecture_of(keys)));
  const auto found = count.by_kind.find(kind);
  return found == count.by_kind.end() ? 0 : found->second;
}

constexpr std::int64_t kTables = 2 * kVocabulary * kHidden;
constexpr std::int64_t kAttentionWeights = 2 * kHidden * kHeadDim * (kHeads + kKvHeads);
constexpr std::int64_t kGatedWeights = 3 * kHidden * kWidth;

TEST(Mixers, GatedDeltaRuleOfQwen3Next) {
  // One such layer at the published sizes: inputs 2048 (2 2048 + 2 4096 + 2 32), convolution 4 (2 2048 + 4096), two
  // numbers a head, a norm of 128, the output.
  const ConfigKeys keys = {{"model_type", "\"qwen3_next\""},
                           {"hidden_size", "2048"},
                           {"num_hidden_layers", "1"},
                           {"num_attention_heads", "16"},
                           {"num_key_value_heads", "2"},
                           {"vocab_size", "101"},
                           {"layer_types", "[\"linear_attention\"]"}};
  EXPECT_EQ(kind_of(keys, "state"), 33718464);
  EXPECT_EQ(kind_of(keys, "attention"), 0);
}

TEST(Mixers, GatedAttentionDoublesItsQueries) {
  const ConfigKeys keys = with(tiny("qwen3_5_text"), {{"head_dim", "8"}, {"full_attention_interval", "1"}});
  // q and its gate, k, v, the output; norms of q and k.
  EXPECT_EQ(kind_of(keys, "attention"), kLayers * (kHidden * 8 * (3 * kHeads + 2 * kKvHeads) + 2 * 8));
  EXPECT_EQ(kind_of(keys, "state"), 0);
}

TEST(Mixers, KimiLinearPassesDecayAndGateThroughARank) {
  const ConfigKeys keys = with(tiny("kimi_linear"), {{"num_key_value_heads", "6"},
                                                     {"linear_num_heads", "3"},
                                                     {"linear_head_dim", "8"},
                                                     {"num_experts", "4"},
                                                     {"num_experts_per_token", "2"},
                                                     {"moe_intermediate_size", "10"},
                                                     {"layer_types", R"(["linear_attention", "linear_attention",
                                                        "linear_attention", "full_attention"])"}});
  constexpr std::int64_t inner = 3 * 8;
  const std::int64_t in = kHidden * (3 * inner + 3);        // q, k, v, beta
  const std::int64_t low = 2 * (kHidden * 8 + 8 * inner);   // decay and gate
  const std::int64_t rest = 4 * 3 * inner + inner + 3 + 8;  // convolution, decay's bias and rate, norm
  EXPECT_EQ(kind_of(keys, "state"), 3 * (in + low + rest + inner * kHidden));
}

TEST(Mixers, Mamba2OfNemotronH) {
  // 4096 (2 8192 + 2 8 128 + 128) in, 10,240 channels of four taps and a bias, three numbers a head, a norm, the output.
  const ConfigKeys keys = {
      {"model_type", "\"nemotron_h\""}, {"hidden_size", "4096"}, {"intermediate_size", "21504"},
      {"num_attention_heads", "32"},    {"vocab_size", "101"},   {"hybrid_override_pattern", "\"M*-M\""}};
  EXPECT_EQ(kind_of(keys, "state"), 2 * 109635968);
  const Architecture architecture = architecture_of(keys);
  EXPECT_EQ(architecture.layers(), 4);
  // One norm a layer, and the last.
  EXPECT_EQ(kind_of(keys, "norm"), 4 * 4096);
  EXPECT_EQ(kind_of(keys, "ffn"), 2 * 4096 * 21504);
}

TEST(Mixers, ExpertsOnALatentStream) {
  const ConfigKeys keys = with(tiny("nemotron_h"), {{"layers_block_type", "[\"moe\"]"},
                                                    {"n_routed_experts", "4"},
                                                    {"num_experts_per_tok", "2"},
                                                    {"moe_intermediate_size", "10"},
                                                    {"moe_shared_expert_intermediate_size", "20"},
                                                    {"moe_latent_size", "6"}});
  EXPECT_EQ(kind_of(keys, "experts"), 4 * 2 * 6 * 10 + 2 * kHidden * 6);
  EXPECT_EQ(kind_of(keys, "shared"), 2 * kHidden * 20);
}

TEST(Mixers, MambaOfOneLayer) {
  const ConfigKeys keys = {{"model_type", "\"mamba\""}, {"hidden_size", "24"}, {"num_hidden_layers", "2"},
                           {"vocab_size", "101"},       {"state_size", "5"},   {"time_step_rank", "3"},
                           {"intermediate_size", "48"}};
  constexpr std::int64_t d = 48;
  const std::int64_t layer = 2 * d * 24 + (4 * d + d) + (3 + 2 * 5) * d + (3 * d + d) + 5 * d + d + d * 24;
  EXPECT_EQ(kind_of(keys, "state"), 2 * layer);
  EXPECT_EQ(parameters_of(keys), 2 * layer + 101 * 24 + 3 * 24);
  EXPECT_THAT(test::refusal_of([&] {
                architecture_of(with(keys, {{"time_step_rank", "\"some\""}}));
              }),
              testing::HasSubstr("time_step_rank: expected a size or `auto`"));
}

TEST(Mixers, ShortConvolutionsBetweenAttentions) {
  const ConfigKeys keys = with(tiny("lfm2"), {{"block_auto_adjust_ff_dim", "false"},
                                              {"layer_types", R"(["conv", "full_attention", "conv", "conv"])"}});
  EXPECT_EQ(kind_of(keys, "state"), 3 * (3 * kHidden * kHidden + 3 * kHidden + kHidden * kHidden));
  EXPECT_EQ(kind_of(keys, "attention"), kAttentionWeights + 2 * kHeadDim);
}

TEST(Mixers, AttentionBesideAState) {
  const ConfigKeys keys = with(tiny("falcon_h1"), {{"mamba_n_heads", "4"},
                                                   {"mamba_d_head", "6"},
                                                   {"mamba_n_groups", "2"},
                                                   {"mamba_d_state", "8"},
                                                   {"mamba_rms_norm", "false"}});
  constexpr std::int64_t d = 24, gn = 16;
  const std::int64_t state = kHidden * (2 * d + 2 * gn + 4) + 5 * (d + 2 * gn) + 3 * 4 + d * kHidden;
  EXPECT_EQ(parameters_of(keys),
            kTables + kHidden + kLayers * (kAttentionWeights + kGatedWeights + state + 2 * kHidden));
}

TEST(Mixers, IndexerOfDeepseekV32) {
  const ConfigKeys keys = {
      {"model_type", "\"deepseek_v32\""}, {"hidden_size", "7168"},        {"intermediate_size", "18432"},
      {"num_hidden_layers", "1"},         {"num_attention_heads", "128"}, {"vocab_size", "101"},
      {"n_routed_experts", "8"},          {"num_experts_per_tok", "2"},   {"moe_intermediate_size", "64"}};
  EXPECT_EQ(kind_of(keys, "indexer"), 13959424);
  EXPECT_THAT(test::refusal_of([&] {
                architecture_of(with(keys, {{"q_lora_rank", "null"}}));
              }),
              testing::HasSubstr("q_lora_rank"));
}

TEST(Mixers, GatesAndNormsInsideAttention) {
  EXPECT_EQ(parameters_of(tiny("bitnet")) - parameters_of(tiny("llama")), kLayers * (kHeads * kHeadDim + kWidth));
  EXPECT_EQ(parameters_of(tiny("arcee")), parameters_of(tiny("llama")) - kLayers * kHidden * kWidth);
  EXPECT_EQ(parameters_of(tiny("granite_swa")),
            parameters_of(tiny("llama")) - kVocabulary * kHidden + kLayers * kHeads);
}

TEST(Mixers, EncodersAndDecodersOfBart) {
  const ConfigKeys keys = {{"model_type", "\"bart\""},        {"d_model", "24"},       {"vocab_size", "101"},
                           {"max_position_embeddings", "50"}, {"encoder_layers", "2"}, {"encoder_attention_heads", "6"},
                           {"encoder_ffn_dim", "56"},         {"decoder_layers", "3"}, {"decoder_attention_heads", "4"},
                           {"decoder_ffn_dim", "40"}};
  const std::int64_t attention = 4 * 24 * 24 + 4 * 24;
  const auto feed = [](std::int64_t width) { return 2 * 24 * width + width + 24; };
  const std::int64_t encoder = 52 * 24 + 2 * 24 + 2 * (attention + feed(56) + 4 * 24);
  const std::int64_t decoder = 52 * 24 + 2 * 24 + 3 * (2 * attention + feed(40) + 6 * 24);
  EXPECT_EQ(parameters_of(keys), 101 * 24 + encoder + decoder);
  // The decoder alone holds its cross attention and does not run it.
  EXPECT_EQ(parameters_of(with(keys, {{"is_decoder", "true"}})), 101 * 24 + decoder);
}

TEST(Mixers, RefusalsOfUnknownFamiliesNameTheWayOut) {
  for (const char* type : {"blip", "llava_nex", "gemma7", "nobody"}) {
    const std::string message = test::refusal_of([&] { architecture_of(tiny(type)); });
    EXPECT_THAT(message, testing::HasSubstr("python -m nest.trace config.json -o graph.json")) << type;
  }
  EXPECT_THAT(test::refusal_of([] { architecture_of(tiny("llava_nex")); }),
              testing::HasSubstr("did you mean `llava_next`?"));
  // A family of another number is no misspelling.
  EXPECT_THAT(test::refusal_of([] { architecture_of(tiny("gemma7")); }), testing::Not(testing::HasSubstr("mean")));
}

TEST(Mixers, TowersAreCountedOrTheirAbsenceSaid) {
  ConfigKeys text = without(tiny("llama"), "model_type");
  std::string inner;
  for (const auto& [key, value] : text) inner += (inner.empty() ? "\"" : ", \"") + key + "\": " + value;
  const ConfigKeys keys = {{"model_type", "\"llava\""},
                           {"text_config", "{" + inner + "}"},
                           {"vision_config", R"({"hidden_size": 16, "intermediate_size": 40, "num_hidden_layers": 2,
                              "num_attention_heads": 4, "image_size": 28, "patch_size": 7})"}};
  // 16 patches and a class token.
  const std::int64_t stem = 16 * 3 * 49 + 16 + 17 * 16 + 2 * 16;
  const std::int64_t block = 4 * 16 * 16 + 4 * 16 + 2 * 16 * 40 + 40 + 16 + 4 * 16;
  const std::int64_t projector = 2 * 16 + 16 * kHidden + kHidden + kHidden * kHidden + kHidden;
  EXPECT_EQ(parameters_of(keys), parameters_of(tiny("llama")) + stem + 2 * block + projector);
  const Model model = build_model(architecture_of(keys));
  // Stem, two blocks and projector stand before the embedding, which reads what they yield.
  ASSERT_GE(model.layers.size(), 5u);
  EXPECT_EQ(model.layer(4).kind, LayerKind::embedding);
  EXPECT_EQ(model.layer(4).side_inputs.size(), 1u);

  const ConfigKeys gemma = {{"model_type", "\"gemma3\""}, {"text_config", "{" + inner + "}"}};
  EXPECT_THAT(build_model(architecture_of(gemma)).notes, testing::ElementsAre(testing::HasSubstr("text only")));
}

// Rows of four patches, as wide as the tower's feed-forward, pass two projections and one to the decoder.
TEST(Mixers, Llama4JoinsPatchesBeforeItsProjections) {
  const ConfigKeys text = with(tiny("llama4_text"), {{"num_local_experts", "4"},
                                                     {"num_experts_per_tok", "1"},
                                                     {"intermediate_size_mlp", "48"},
                                                     {"interleave_moe_layer_step", "1"}});
  std::string inner;
  for (const auto& [key, value] : text) inner += (inner.empty() ? "\"" : ", \"") + key + "\": " + value;
  const ConfigKeys keys = {
      {"model_type", "\"llama4\""},
      {"text_config", "{" + inner + "}"},
      {"vision_config",
       R"({"hidden_size": 16, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
           "image_size": 28, "patch_size": 7, "projector_input_dim": 24, "projector_output_dim": 24, "vision_output_dim": 24})"}};
  const std::int64_t stem = 16 * 3 * 49 + 16 + 17 * 16 + 2 * 16;
  const std::int64_t block = 4 * 16 * 16 + 4 * 16 + 2 * 16 * 64 + 64 + 16 + 4 * 16;
  const std::int64_t projector = 2 * 16 + 64 * 24 + 24 * 24 + 24 * kHidden;
  EXPECT_EQ(parameters_of(keys), parameters_of(text) + stem + 2 * block + projector);
  EXPECT_THAT(build_model(architecture_of(without(keys, "vision_config"))).notes,
              testing::Contains(testing::HasSubstr("text only")));
  const ConfigKeys odd =
      with(keys, {{"vision_config", R"({"hidden_size": 16, "intermediate_size": 60, "num_hidden_layers": 2,
      "num_attention_heads": 4, "image_size": 28, "patch_size": 7})"}});
  EXPECT_THAT(test::refusal_of([&] { architecture_of(odd); }),
              testing::HasSubstr("expected a multiple of hidden_size"));
}

}  // namespace
}  // namespace nest::model
