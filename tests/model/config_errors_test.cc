// Files that lie, one kind of lie each: refused with a message that names the file, the key, what was seen and what is
// allowed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "config_support.h"
#include "test_support/refusal.h"

namespace nest::model {
namespace {

using test::architecture_of;
using test::ConfigKeys;
using test::tiny;
using test::with;
using test::without;

std::string refusal(const ConfigKeys& keys) {
  return test::refusal_of([&] { architecture_of(keys); });
}

struct Lie {
  std::string model_type;
  std::string key;
  std::string value;
  std::string says;  // part of the message after the key

  friend void PrintTo(const Lie& lie, std::ostream* out) {
    *out << lie.model_type << " " << lie.key << " = " << lie.value;
  }
};

class RefusedConfig : public testing::TestWithParam<Lie> {};

TEST_P(RefusedConfig, NamesFileKeyValueAndRange) {
  const Lie& lie = GetParam();
  const std::string message = refusal(with(tiny(lie.model_type), {{lie.key, lie.value}}));
  EXPECT_THAT(message, testing::StartsWith("config.json: "));
  EXPECT_THAT(message, testing::HasSubstr(lie.key));
  EXPECT_THAT(message, testing::HasSubstr(lie.says));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, RefusedConfig,
    testing::Values(Lie{"llama", "hidden_size", "0", "0 is out of range; allowed is 1 … 1,048,576"},
                    Lie{"llama", "hidden_size", "-4096", "-4096 is out of range"},
                    Lie{"llama", "hidden_size", "1048577", "1048577 is out of range"},
                    Lie{"llama", "hidden_size", "\"big\"", "expected an integer"},
                    Lie{"llama", "hidden_size", "24.5", "expected an integer"},
                    Lie{"llama", "hidden_size", "[24]", "expected an integer"},
                    Lie{"llama", "hidden_size", "1e300", "expected an integer"},
                    Lie{"llama", "intermediate_size", "16777217", "out of range; allowed is 1 … 16,777,216"},
                    Lie{"llama", "vocab_size", "67108865", "out of range"},
                    Lie{"llama", "num_hidden_layers", "16385", "allowed is 1 … 16,384"},
                    Lie{"llama", "num_hidden_layers", "9223372036854775807", "out of range"},
                    Lie{"llama", "num_attention_heads", "16385", "out of range"},
                    Lie{"llama", "num_attention_heads", "5", "5 heads do not divide the hidden size 24"},
                    Lie{"llama", "num_key_value_heads", "4", "4 key/value heads do not divide the 6 heads"},
                    Lie{"llama", "num_key_value_heads", "12", "12 key/value heads do not divide the 6 heads"},
                    Lie{"llama", "num_key_value_heads", "-1", "out of range"},
                    Lie{"llama", "max_position_embeddings", "2147483649", "out of range"},
                    Lie{"llama", "head_dim", "7", "rotate 7 elements; allowed is an even number"},
                    Lie{"llama", "head_dim", "16777216", "wider together than 16777216"},
                    Lie{"llama", "hidden_act", "\"sillu\"", "did you mean `silu`?"},
                    Lie{"llama", "tie_word_embeddings", "\"yes\"", "expected true or false"},
                    Lie{"llama", "attention_dropout", "2", "out of range"},
                    Lie{"nemotron", "partial_rotary_factor", "1.5", "out of range"},
                    Lie{"nemotron", "rope_parameters", "3", "expected an object"},
                    Lie{"mistral", "sliding_window", "-3", "out of range"},
                    Lie{"mixtral", "num_local_experts", "16385", "out of range"},
                    Lie{"mixtral", "num_experts_per_tok", "9", "9 experts per token of 8"},
                    Lie{"qwen2", "layer_types", "[\"full_attention\"]", "1 entries for 4 layers"},
                    Lie{"qwen2", "layer_types", "[\"a\", \"b\", \"c\", \"d\"]",
                        "`a` is not known; allowed are full_attention"},
                    Lie{"qwen2", "layer_types", "[1, 2, 3, 4]", "not a string"},
                    Lie{"qwen3_moe", "mlp_only_layers", "[4]", "entry 4 is not an integer in 0 … 3"},
                    Lie{"qwen3_moe", "decoder_sparse_step", "0", "out of range"},
                    Lie{"gemma3_text", "sliding_window_pattern", "0", "out of range"},
                    Lie{"phi", "qk_layernorm", "true", "not supported"},
                    Lie{"gpt_neox", "rotary_pct", "-0.5", "out of range"},
                    Lie{"falcon", "num_ln_in_parallel_attn", "3", "out of range"},
                    Lie{"bert", "position_embedding_type", "\"relative_key\"", "not supported; allowed is absolute"},
                    Lie{"roberta", "max_position_embeddings", "2", "leave no position; allowed is 3 or more"},
                    Lie{"llama", "nest", "{\"sequence\": 0}", "sequence: 0 is out of range"},
                    Lie{"llama", "nest", "7", "expected an object"}));

TEST(ConfigErrors, SlidingLayersNeedAWindow) {
  const ConfigKeys keys =
      with(tiny("gemma2"), {{"sliding_window", "null"}, {"layer_types", R"(["sliding_attention", "full_attention",
                                                                    "full_attention", "full_attention"])"}});
  EXPECT_THAT(refusal(keys), testing::HasSubstr("layer_types: has sliding_attention, but sliding_window is null"));
}

TEST(ConfigErrors, LatentAttention) {
  const ConfigKeys keys = with(
      tiny("deepseek_v3"), {{"num_experts_per_tok", "2"}, {"n_routed_experts", "8"}, {"moe_intermediate_size", "9"}});
  EXPECT_EQ(refusal(keys), "accepted");
  EXPECT_THAT(refusal(with(keys, {{"qk_rope_head_dim", "3"}})), testing::HasSubstr("allowed is an even number"));
  EXPECT_THAT(refusal(with(keys, {{"attention_bias", "true"}})),
              testing::HasSubstr("attention_bias: true is not supported"));
  EXPECT_THAT(refusal(with(keys, {{"moe_intermediate_size", "16777216"}, {"n_shared_experts", "2"}})),
              testing::HasSubstr("n_shared_experts: 2 shared experts"));
  EXPECT_THAT(refusal(with(keys, {{"mlp_layer_types", "[\"dense\"]"}})), testing::HasSubstr("1 entries for 4 layers"));
  EXPECT_THAT(refusal(without(keys, "n_routed_experts")), testing::HasSubstr("missing"));
  EXPECT_EQ(refusal(with(keys, {{"n_group", "4"}, {"topk_group", "2"}})), "accepted");
  EXPECT_THAT(refusal(with(keys, {{"n_group", "3"}})), testing::HasSubstr("n_group: 3 groups do not divide the 8"));
  EXPECT_THAT(refusal(with(keys, {{"n_group", "4"}, {"topk_group", "5"}})),
              testing::HasSubstr("topk_group: 5 groups of 4"));
  EXPECT_THAT(refusal(with(keys, {{"n_group", "8"}, {"topk_group", "1"}})),
              testing::HasSubstr("hold fewer than the 2"));
}

TEST(ConfigErrors, T5FeedForward) {
  const ConfigKeys keys = {{"model_type", "\"t5\""},
                           {"d_model", "24"},
                           {"d_ff", "56"},
                           {"num_heads", "6"},
                           {"num_layers", "3"},
                           {"vocab_size", "101"},
                           {"feed_forward_proj", "\"gated-tanh\""}};
  EXPECT_THAT(refusal(keys), testing::HasSubstr("feed_forward_proj: `gated-tanh` is not known"));
}

TEST(ConfigErrors, MissingKeysAndMisspelledOnes) {
  EXPECT_THAT(refusal(without(tiny("llama"), "hidden_size")), testing::HasSubstr("hidden_size: missing"));
  EXPECT_THAT(refusal(with(without(tiny("llama"), "hidden_size"), {{"hiden_size", "24"}})),
              testing::HasSubstr("is `hiden_size` a misspelling of it?"));
  EXPECT_THAT(refusal(without(tiny("llama"), "model_type")), testing::HasSubstr("model_type: missing"));
  EXPECT_THAT(refusal({{"model_type", "\"gemma3\""}}), testing::HasSubstr("text_config: missing"));
}

TEST(ConfigErrors, UnknownFamilyIsToldTheWayOut) {
  const std::string message = refusal(tiny("lama"));
  EXPECT_THAT(message, testing::HasSubstr("model_type: `lama` is not supported"));
  EXPECT_THAT(message, testing::HasSubstr("`python -m nest.trace config.json -o graph.json`"));
  EXPECT_THAT(message, testing::HasSubstr("did you mean `llama`?"));
  EXPECT_THAT(refusal(with(tiny("llama"), {{"model_type", "12"}})), testing::HasSubstr("expected a string"));
}

TEST(ConfigErrors, MoreParametersThanAnyModelHas) {
  const ConfigKeys keys = with(tiny("mixtral"), {{"hidden_size", "1048576"},
                                                 {"intermediate_size", "16777216"},
                                                 {"num_local_experts", "16384"},
                                                 {"num_attention_heads", "16384"},
                                                 {"num_key_value_heads", "8"},
                                                 {"num_hidden_layers", "16384"}});
  EXPECT_THAT(refusal(keys), testing::HasSubstr("parameters; allowed are up to"));
}

// Whatever stands in the place of a value, the answer is an architecture that can be counted or a refusal.
TEST(ConfigErrors, AnyValueAnywhereIsReadOrRefused) {
  const std::vector<std::string> values = {"null",  "true",   "0",     "-1", "1",   "2",  "3",
                                           "1e18",  "0.5",    "\"x\"", "[]", "[1]", "{}", "9223372036854775807",
                                           "16384", "1048576"};
  const std::vector<std::string> keys = {"hidden_size",
                                         "intermediate_size",
                                         "num_hidden_layers",
                                         "num_attention_heads",
                                         "num_key_value_heads",
                                         "head_dim",
                                         "vocab_size",
                                         "sliding_window",
                                         "layer_types",
                                         "num_local_experts",
                                         "num_experts_per_tok",
                                         "n_routed_experts",
                                         "moe_intermediate_size",
                                         "n_shared_experts",
                                         "q_lora_rank",
                                         "kv_lora_rank",
                                         "qk_rope_head_dim",
                                         "first_k_dense_replace",
                                         "moe_layer_freq",
                                         "mlp_only_layers",
                                         "decoder_sparse_step",
                                         "tie_word_embeddings",
                                         "rope_parameters",
                                         "max_window_layers",
                                         "use_sliding_window",
                                         "text_config",
                                         "hidden_act",
                                         "max_position_embeddings"};
  std::mt19937 random(20);  // NOLINT: the same lies every time
  const auto families = supported_families();
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    ConfigKeys config = tiny(families[random() % families.size()]);
    for (unsigned change = 0; change < 1 + random() % 3; ++change) {
      config[keys[random() % keys.size()]] = values[random() % values.size()];
    }
    try {
      const Architecture architecture = architecture_of(config);
      EXPECT_GT(architecture.hidden, 0);
      EXPECT_GT(architecture.layers(), 0);
      EXPECT_GT(count_parameters(build_model(architecture)).total, 0);
      ++accepted;
    } catch (const InputError&) {}
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace nest::model
