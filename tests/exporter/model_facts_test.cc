// What config.json says of positions, norms and routers is carried, or named as not carried.
#include "exporter/model_facts.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "export_support.h"
#include "exporter/megatron.h"
#include "exporter/nemo.h"
#include "model/config.h"

namespace nest::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

struct FactLine {
  std::string text;
  std::vector<std::string> notes;
};

FactLine fact_line(const model::Architecture& architecture) {
  const cost::Job job = export_job(architecture, "dgx-h100", 8, 64, 2048);
  Strategy s;
  s.dp = s.dp_inner = 8;
  const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 1);
  const exporter::MegatronExport exported = exporter::export_megatron({job, s, stages});
  return {"\n" + exporter::arguments_text(exported.options), exported.notes};
}

FactLine fact_line(const std::string& preset) { return fact_line(*model::find_model_preset(preset)); }

model::Architecture with_keys(const std::string& preset, const nlohmann::json& keys) {
  nlohmann::json config = nlohmann::json::parse(model::find_model_preset(preset)->document.json());
  config.update(keys);
  return model::read_config(doc::parse_json("config.json", config.dump()), "changed");
}

// Every value of the presets, against their files.
TEST(ModelFacts, PresetsAreTrainedWithTheirOwnPositionsAndNorms) {
  int rotary = 0;
  for (const char* name : {"llama2-7b", "llama3-8b", "llama3-405b", "mistral-7b", "mixtral-8x7b", "qwen2.5-72b",
                           "qwen3-8b", "qwen3-30b-a3b", "deepseek-v3", "kimi-k2", "nemotron4-15b"}) {
    const auto config = nlohmann::json::parse(model::find_model_preset(name)->document.json());
    const FactLine line = fact_line(name);
    const auto base = static_cast<std::int64_t>(config.at("rope_theta").get<double>());
    EXPECT_THAT(line.text, HasSubstr("\n--rotary-base " + std::to_string(base) + "\n")) << name;
    const char* key = config.contains("rms_norm_eps") ? "rms_norm_eps" : "norm_eps";
    EXPECT_THAT(line.text, HasSubstr(config.at(key).get<double>() == 1e-6 ? "\n--norm-epsilon 1e-06\n"
                                                                          : "\n--norm-epsilon 1e-05\n"))
        << name;
    ++rotary;
  }
  EXPECT_EQ(rotary, 11);
  EXPECT_THAT(fact_line("gpt3-35b").text, HasSubstr("\n--norm-epsilon 1e-05\n"));
  EXPECT_THAT(fact_line("gpt3-35b").text, Not(HasSubstr("--rotary-base")));
}

TEST(ModelFacts, LlamasStretchTheirPositions) {
  const FactLine large = fact_line("llama3-405b");
  EXPECT_THAT(large.text, HasSubstr("\n--use-rope-scaling\n--rope-scaling-factor 8\n"));
  EXPECT_THAT(large.notes, Not(Contains(HasSubstr("positions"))));
  // pretrain_gpt.py hands on that positions are stretched, not by how much.
  const FactLine small = fact_line("llama3.2-1b");
  EXPECT_THAT(small.text, HasSubstr("\n--use-rope-scaling\n--rope-scaling-factor 32\n"));
  EXPECT_THAT(small.notes, Contains(HasSubstr("stretched by 8, config.json says 32")));
  EXPECT_THAT(fact_line("llama3-8b").text, Not(HasSubstr("--use-rope-scaling")));
  const nlohmann::json other = {{"rope_scaling",
                                 {{"rope_type", "llama3"},
                                  {"factor", 8},
                                  {"low_freq_factor", 2},
                                  {"high_freq_factor", 4},
                                  {"original_max_position_embeddings", 4096}}}};
  EXPECT_THAT(fact_line(with_keys("llama3-8b", other)).notes, Contains(HasSubstr("config.json says 2, 4 and 4096")));
}

TEST(ModelFacts, YarnOfLatentAttention) {
  // A factor of 1 is no stretching: what Megatron's fused kernels take where config.json says nothing.
  EXPECT_THAT(fact_line("deepseek-v3").text,
              HasSubstr("\n--rope-type yarn\n--rotary-scaling-factor 1\n--mscale 1\n--mscale-all-dim 0\n"));
  nlohmann::json yarn = {{"type", "yarn"},      {"factor", 40},    {"mscale", 1.0},
                         {"mscale_all_dim", 1}, {"beta_fast", 32}, {"original_max_position_embeddings", 4096}};
  const FactLine line = fact_line(with_keys("deepseek-v3", {{"rope_scaling", yarn}}));
  EXPECT_THAT(line.text, HasSubstr("\n--rope-type yarn\n--rotary-scaling-factor 40\n--mscale 1\n--mscale-all-dim 1\n"));
  EXPECT_THAT(line.notes, Not(Contains(HasSubstr("YaRN"))));
  yarn["original_max_position_embeddings"] = 8192;
  EXPECT_THAT(fact_line(with_keys("deepseek-v3", {{"rope_scaling", yarn}})).notes,
              Contains(HasSubstr("config.json says 8192, 32 and 1, which no option carries")));
}

TEST(ModelFacts, YarnOfPlainAttention) {
  const FactLine line = fact_line(with_keys(
      "qwen3-8b",
      {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}}}}));
  EXPECT_THAT(line.text, HasSubstr("\n--position-embedding-type yarn\n"));
  EXPECT_THAT(line.text, HasSubstr("\n--rotary-scaling-factor 4\n--mscale 1\n--mscale-all-dim 0\n"
                                   "--yarn-original-max-position-embeddings 32768\n--yarn-beta-fast 32\n"
                                   "--yarn-beta-slow 1\n"));
  EXPECT_THAT(line.notes, Contains(HasSubstr("Megatron-Core 0.19")));
}

TEST(ModelFacts, OtherWaysToStretchAreWrittenOrNamed) {
  const auto scaled = [](const nlohmann::json& scaling) {
    return fact_line(with_keys("llama2-7b", {{"rope_scaling", scaling}}));
  };
  EXPECT_THAT(scaled({{"type", "linear"}, {"factor", 4.0}}).text,
              HasSubstr("\n--rotary-seq-len-interpolation-factor 4\n"));
  EXPECT_THAT(scaled({{"type", "dynamic"}, {"factor", 2.0}}).notes,
              Contains(HasSubstr("stretches positions by dynamic (factor 2)")));
  EXPECT_THAT(scaled(nullptr).notes, Not(Contains(HasSubstr("positions"))));
  // transformers 5 keeps base and scaling in one object.
  model::Architecture five = with_keys(
      "llama2-7b", {{"rope_theta", nullptr}, {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 20000.0}}}});
  EXPECT_THAT(fact_line(five).text, HasSubstr("\n--rotary-base 20000\n"));
}

TEST(ModelFacts, NormsRoutersAndWhatNobodyCarries) {
  EXPECT_THAT(fact_line("nemotron4-340b").text, HasSubstr("\n--apply-layernorm-1p\n"));
  EXPECT_THAT(fact_line("llama3-8b").text, Not(HasSubstr("layernorm-1p")));
  const FactLine routed = fact_line(with_keys("deepseek-v3", {{"scoring_func", "sigmoid"},
                                                              {"routed_scaling_factor", 2.5},
                                                              {"topk_method", "noaux_tc"},
                                                              {"initializer_range", 0.006}}));
  EXPECT_THAT(routed.text, HasSubstr("\n--init-method-std 0.006\n"));
  EXPECT_THAT(routed.text, HasSubstr("\n--moe-router-score-function sigmoid\n--moe-router-topk-scaling-factor 2.5\n"
                                     "--moe-router-enable-expert-bias\n"));
  EXPECT_THAT(fact_line("mixtral-8x7b").notes, Contains(HasSubstr("the router's scores")));
  EXPECT_THAT(fact_line("deepseek-v3").notes, Contains(HasSubstr("1 layer that predict further tokens, of which 0")));
  EXPECT_THAT(fact_line(with_keys("llama3-8b", {{"final_logit_softcapping", 30.0}})).notes,
              Contains(HasSubstr("final_logit_softcapping = 30")));
  EXPECT_THAT(fact_line("llama3-8b").text, HasSubstr("\n--no-create-attention-mask-in-dataloader\n"));
  // 4096 keys, the query's own among them.
  EXPECT_THAT(fact_line(with_keys("mistral-7b", {{"sliding_window", 4096}})).text,
              HasSubstr("\n--window-size 4095,0\n"));
}

TEST(ModelFacts, RecipesAreToldToo) {
  const cost::Job job = export_job("llama3-405b", 64, 64, 4096);
  Strategy s;
  s.split.tp = 8;
  s.split.sp = true;
  s.dp = s.dp_inner = 8;
  const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 1);
  const std::string text =
      exporter::overrides_text(exporter::export_nemo({job, s, stages}, exporter::NemoForm::bridge));
  EXPECT_THAT(text, HasSubstr("\nmodel.rotary_base=500000\nmodel.rope_scaling=true\nmodel.rope_scaling_factor=8\n"
                              "model.layernorm_epsilon=1e-05\n"));
  // NeMo 2 has no rope_scaling of GPTConfig: Llama31Config scales positions.
  const std::string nemo2 =
      exporter::overrides_text(exporter::export_nemo({job, s, stages}, exporter::NemoForm::nemo2));
  EXPECT_THAT(nemo2, HasSubstr("\nmodel.config.rotary_base=500000\nmodel.config.scale_factor=8\n"));
  EXPECT_THAT(nemo2, ::testing::Not(HasSubstr("rope_scaling")));
}

}  // namespace
}  // namespace nest::test
