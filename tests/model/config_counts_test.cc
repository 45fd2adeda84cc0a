// Parameter counts against transformers' own modules, total and module by module.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "config_support.h"
#include "doc/reader.h"
#include "test_support/data.h"

namespace nest::model {
namespace {

// Parameters of transformers' modules by name, and the weights that hold the same numbers here. Norms are compared with
// their biases, and matrices that transformers fuses with the sum of their parts.
struct Counterpart {
  const char* module;  // the whole name, as a regular expression
  std::vector<std::string> weights;
};

const std::vector<Counterpart>& counterparts() {
  static const std::vector<Counterpart> kCounterparts = {
      {R"(.*(embed_tokens|wte|word_embeddings)\.weight|shared\.weight)", {"embedding.tokens"}},
      {R"(.*(embed_positions|wpe|position_embeddings)\.weight)", {"embedding.positions"}},
      {R"(.*token_type_embeddings\.weight)", {"embedding.types"}},
      {R"(.*embeddings\.LayerNorm\..*)", {"embedding.norm", "embedding.norm_bias"}},
      {R"(.*EncDecAttention\.q\.weight)", {"cross_attention.q"}},
      {R"(.*EncDecAttention\.k\.weight)", {"cross_attention.k"}},
      {R"(.*EncDecAttention\.v\.weight)", {"cross_attention.v"}},
      {R"(.*EncDecAttention\.o\.weight)", {"cross_attention.o"}},
      {R"(.*\.(c_attn|query_key_value)\.weight)", {"attention.q", "attention.k", "attention.v"}},
      {R"(.*\.(c_attn|query_key_value)\.bias)", {"attention.q_bias", "attention.k_bias", "attention.v_bias"}},
      {R"(.*(q_proj|self\.query|SelfAttention\.q)\.weight)", {"attention.q"}},
      {R"(.*(k_proj|self\.key|SelfAttention\.k)\.weight)", {"attention.k"}},
      {R"(.*(v_proj|self\.value|SelfAttention\.v)\.weight)", {"attention.v"}},
      {R"(.*(q_proj|self\.query)\.bias)", {"attention.q_bias"}},
      {R"(.*(k_proj|self\.key)\.bias)", {"attention.k_bias"}},
      {R"(.*(v_proj|self\.value)\.bias)", {"attention.v_bias"}},
      {R"(.*(o_proj|out_proj|attn\.c_proj|attention\.output\.dense|self_attention\.dense|SelfAttention\.o)\.weight)",
       {"attention.o"}},
      {R"(.*(o_proj|out_proj|attn\.c_proj|attention\.output\.dense|self_attention\.dense)\.bias)",
       {"attention.o_bias"}},
      {R"(.*q_a_proj\.weight)", {"attention.q_down"}},
      {R"(.*q_b_proj\.weight)", {"attention.q_up"}},
      {R"(.*kv_a_proj_with_mqa\.weight)", {"attention.kv_down"}},
      {R"(.*kv_b_proj\.weight)", {"attention.kv_up"}},
      {R"(.*q_a_layernorm\.weight)", {"attention.q_latent_norm"}},
      {R"(.*kv_a_layernorm\.weight)", {"attention.kv_latent_norm"}},
      {R"(.*\.q_norm\.weight)", {"attention.q_norm"}},
      {R"(.*\.k_norm\.weight)", {"attention.k_norm"}},
      {R"(.*relative_attention_bias\.weight)", {"attention.relative"}},
      {R"(.*experts\.gate_up_proj)", {"experts.gate", "experts.up"}},
      {R"(.*experts\.down_proj)", {"experts.down"}},
      {R"(.*shared_experts\.gate_proj\.weight)", {"shared.gate"}},
      {R"(.*shared_experts\.up_proj\.weight)", {"shared.up"}},
      {R"(.*shared_experts\.down_proj\.weight)", {"shared.down"}},
      {R"(.*mlp\.gate\.weight)", {"router.weight"}},
      {R"(.*mlp\.gate_proj\.weight)", {"ffn.gate"}},
      {R"(.*(mlp\.up_proj|fc1|c_fc|dense_h_to_4h|intermediate\.dense|DenseReluDense\.wi)\.weight)", {"ffn.up"}},
      {R"(.*(fc1|c_fc|intermediate\.dense)\.bias)", {"ffn.up_bias"}},
      {R"(.*(mlp\.down_proj|fc2|mlp\.c_proj|dense_4h_to_h|N\.output\.dense|DenseReluDense\.wo)\.weight)", {"ffn.down"}},
      {R"(.*(fc2|mlp\.c_proj|N\.output\.dense)\.bias)", {"ffn.down_bias"}},
      {R"(cls\.predictions\.bias)", {"head.bias"}},
      {R"(cls\.predictions\.transform\.dense\.weight)", {"head.transform"}},
      {R"(cls\.predictions\.transform\.dense\.bias)", {"head.transform_bias"}},
      {R"(cls\.predictions\.transform\.LayerNorm\..*)", {"head.norm", "head.norm_bias"}},
      {R"(lm_head\.weight)", {"head.weight"}},
      {R"((model\.norm|transformer\.ln_f|model\.decoder\.final_layer_norm|(en|de)coder\.final_layer_norm)\..*)",
       {"final.norm", "final.norm_bias"}},
      {R"(.*\.N\..*([Nn]orm|ln_[a-z0-9]+)\.(weight|bias))", {"norm.weight", "norm.weight_bias"}},
  };
  return kCounterparts;
}

const std::vector<std::string>& weights_for(const std::string& module) {
  static const std::vector<std::string> kNone;
  for (const Counterpart& entry : counterparts()) {
    if (std::regex_match(module, std::regex(entry.module))) return entry.weights;
  }
  return kNone;
}

void compare_modules(const doc::Object& modules, const ParameterCount& count) {
  std::map<std::vector<std::string>, std::int64_t> expected;
  for (const doc::Object::Member& member : modules.members()) {
    const auto& weights = weights_for(member.key);
    ASSERT_FALSE(weights.empty()) << "no counterpart of " << member.key;
    expected[weights] += *member.value.as_integer();
  }
  std::set<std::string> seen;
  for (const auto& [weights, elements] : expected) {
    std::int64_t ours = 0;
    for (const std::string& weight : weights) {
      EXPECT_TRUE(seen.insert(weight).second) << weight;
      const auto found = count.by_weight.find(weight);
      if (found != count.by_weight.end()) ours += found->second;
    }
    EXPECT_EQ(ours, elements) << weights.front();
  }
  for (const auto& [weight, elements] : count.by_weight) {
    EXPECT_TRUE(seen.contains(weight)) << weight << " has " << elements << " elements that transformers does not";
  }
}

TEST(ConfigCounts, EqualTransformersModuleByModule) {
  NEST_REQUIRE_DATA("h200/hf_params.json");
  const Document document = test::read_json(test::data_dir() / "h200/hf_params.json");
  ASSERT_TRUE(document.root().as_array());
  for (const doc::Value& entry : *document.root().as_array()) {
    const doc::Object& model = *entry.as_object();
    const std::string& name = *model.find("name")->as_string();
    SCOPED_TRACE(name);
    const Architecture architecture = read_config({document.source, *model.find("config")}, name);
    const ParameterCount count = count_parameters(build_model(architecture));
    EXPECT_EQ(count.total, *model.find("params")->as_integer());
    compare_modules(*model.find("by_module")->as_object(), count);
  }
}

// Published models of families and variants that the measurements above do not cover.
struct Published {
  const char* name;
  const char* config;
  std::int64_t parameters;
};

class PublishedCounts : public testing::TestWithParam<Published> {};

TEST_P(PublishedCounts, AreReached) {
  const Document document = doc::parse_json(GetParam().name, GetParam().config);
  EXPECT_EQ(count_parameters(build_model(read_config(document, GetParam().name))).total, GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(
    Models, PublishedCounts,
    testing::Values(
        Published{"opt-350m", R"({"model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 24,
            "num_attention_heads": 16, "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": 512,
            "do_layer_norm_before": false})",
                  331196416},
        Published{"flan-t5-xl", R"({"model_type": "t5", "d_model": 2048, "d_kv": 64, "d_ff": 5120, "num_layers": 24,
            "num_heads": 32, "vocab_size": 32128, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})",
                  2849757184},
        Published{"falcon-rw-1b", R"({"model_type": "falcon", "hidden_size": 2048, "num_hidden_layers": 24,
            "num_attention_heads": 32, "vocab_size": 50304, "alibi": true, "bias": true, "multi_query": false,
            "parallel_attn": false, "new_decoder_architecture": false})",
                  1311625216},
        Published{"starcoder2-3b", R"({"model_type": "starcoder2", "hidden_size": 3072, "intermediate_size": 12288,
            "num_hidden_layers": 30, "num_attention_heads": 24, "num_key_value_heads": 2, "vocab_size": 49152})",
                  3030371328},
        Published{"gemma-3-1b", R"({"model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912,
            "num_hidden_layers": 26, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
            "vocab_size": 262144})",
                  999885952},
        Published{"phi-4-mini", R"({"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192,
            "num_hidden_layers": 32, "num_attention_heads": 24, "num_key_value_heads": 8, "vocab_size": 200064,
            "partial_rotary_factor": 0.75, "tie_word_embeddings": true})",
                  3836021760},
        Published{"olmo-2-7b", R"({"model_type": "olmo2", "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 100352})",
                  7298617344},
        Published{"qwen1.5-moe-a2.7b", R"({"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632,
            "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 151936,
            "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts": 60,
            "num_experts_per_tok": 4})",
                  14315784192}),
    [](const testing::TestParamInfo<Published>& tested) {
      std::string name = tested.param.name;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      return name;
    });

}  // namespace
}  // namespace nest::model
