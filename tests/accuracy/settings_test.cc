// Settings of a row, and the layouts in them.
#include "accuracy/settings.h"

#include <gmock/gmock.h>

#include "accuracy/case.h"
#include "accuracy/software.h"

namespace nest::accuracy {
namespace {

// A small mixture with settings; `settings` and `more` are members.
PublishedRun mixture_with(const std::string& settings, const std::string& parallel = {}) {
  return read_run(
      doc::parse_json("row", R"({"id": "mbridge-26.08-toy", "release": "26.08", "model": {"name": "toy", "layers": 7,
      "hidden": 1024, "heads": 16, "ffn_hidden": 4096, "vocab": 32000, "seq": 2048, "gated_mlp": true, "experts": 8, "topk": 2,
      "moe_ffn_hidden": 512, "dense_layers": 1}, "gpu": "GB200", "gpus": 16, "mbs": 1, "gbs": 64, "precision": "MXFP8",
      "tier": "A", "config_complete": true, "measured": {"iter_time_s": 1},
      "parallel": {"tp": 1, "pp": 2, "dp": 8, "cp": 1, "ep": 4, "etp": 1, "vpp": 2, "zero": 1, "recompute": "none")" +
                                 parallel + R"(}, "settings": {)" + settings + "}}")
          .root());
}

TEST(RunSettings, AreFactsOfTheStack) {
  const PublishedRun run = mixture_with(
      R"("grad_reduce_in_fp32": false, "main_params_dtype": "fp32", "exp_avg_dtype": "bf16", "exp_avg_sq_dtype": "bf16",
         "overlap_grad_reduce": false, "overlap_param_gather": false, "tp_comm_overlap": false, "ep_overlap": true,
         "cuda_graph": {"impl": "none", "scope": []}, "force_balanced_routing": true, "cross_entropy_fusion": "te")",
      R"(, "recompute_modules": ["mla_up_proj", "mlp"])");
  const cost::SoftwareStack stack = stack_for(run);
  EXPECT_EQ(stack.gradient_bytes, 2);
  EXPECT_EQ(stack.gradient_traffic_bytes, 2);
  EXPECT_EQ(stack.master_bytes, 4);
  EXPECT_EQ(stack.moments_bytes, 4);
  EXPECT_EQ(stack.data_overlap, cost::DataOverlap::none);
  EXPECT_FALSE(stack.tensor_overlap);
  EXPECT_TRUE(stack.expert_overlap);
  EXPECT_TRUE(stack.graph_scopes.empty());
  EXPECT_EQ(stack.loss, cost::LossKernel::fused);
  EXPECT_THAT(stack.selective_modules, ::testing::ElementsAre(model::Module::latent_up, model::Module::feed_forward));
  EXPECT_EQ(stack_for(mixture_with(R"("grad_reduce_in_fp32": true)")).gradient_bytes, 4);
  EXPECT_EQ(software_for(mixture_with(R"("optimizer": "dist_muon")")).optimizer, Optimizer::muon);
  EXPECT_EQ(software_for(mixture_with(R"("optimizer": "adam")")).optimizer, Optimizer::adam);
  EXPECT_EQ(software_for(mixture_with(R"("optimizer_offload_fraction": 0.25)")).optimizer_offload, 25);
}

TEST(RunSettings, SayInWhatFormatProductsFindTheirOperands) {
  const auto storage = [](const char* recipe) {
    return stack_for(mixture_with(std::string(R"("precision_recipe": ")") + recipe + '"')).storage;
  };
  EXPECT_EQ(storage("fp8 mxfp8"), cost::Storage::mxfp8);
  EXPECT_EQ(storage("nvfp4"), cost::Storage::nvfp4);
  EXPECT_EQ(storage("fp8 current scaling, per tensor"), cost::Storage::fp8_tensor);
  EXPECT_EQ(storage("bf16"), cost::Storage::bf16);
}

TEST(RunSettings, NameWhatIsNotExpressed) {
  const Software software = software_for(
      mixture_with(R"("activation_offload_layers": 4, "optimizer": "dist_muon", "overlap_grad_reduce": true,
                      "overlap_param_gather": false)"));
  EXPECT_THAT(software.not_expressed,
              ::testing::UnorderedElementsAre("activations kept on the host", "gather of weights exposed"));
}

TEST(RunSettings, SayHowManyLayersPredictFurtherTokens) {
  EXPECT_EQ(mixture_with(R"("mtp_layers": 1)").model.extra_layers, 1);
  EXPECT_EQ(mixture_with(R"("mtp_layers": 0)").model.extra_layers, 0);
}

TEST(RunSettings, AreNotUpsetByNonsense) {
  for (const char* text : {R"("cuda_graph": 3, "paged_stash": [1], "env": "x", "mtp_layers": -4)",
                           R"("pipeline_layout": 7, "dispatcher": null, "overlap_grad_reduce": "yes")"}) {
    const PublishedRun run = mixture_with(text);
    EXPECT_TRUE(run.settings.stated);
    EXPECT_GE(run.model.extra_layers, 0);
    EXPECT_TRUE(std::holds_alternative<Case>(make_case(run, false))) << text;
  }
}

std::vector<std::int64_t> layers_of(const std::string& layout, std::int64_t stages) {
  std::vector<std::int64_t> layers;
  for (const StageLetters& stage : read_layout(layout, stages).value_or(std::vector<StageLetters>{}))
    layers.push_back(stage.layers);
  return layers;
}

TEST(PipelineLayout, IsReadAsMegatronWritesIt) {
  // DeepSeek-V3 on 2 stages of 8 chunks: 16 chunks in turn, 4 layers each but for the last one of 1.
  EXPECT_THAT(layers_of("Et*4|(t*4|)*14tmL", 2), ::testing::ElementsAre(32, 29));
  EXPECT_THAT(layers_of("Et*4|(t*4|)*14tmL", 4), ::testing::ElementsAre(16, 16, 16, 13));
  const auto letters = read_layout("Et|(tt|)*30mL", 8);
  ASSERT_TRUE(letters);
  EXPECT_EQ(letters->front().embedding, 1);
  EXPECT_EQ(letters->back().extra, 1);
  EXPECT_EQ(letters->back().loss, 1);
  EXPECT_EQ(letters->back().layers, 6);
}

TEST(PipelineLayout, IsRefusedWhereItIsNone) {
  for (const char* text : {"", "Et|x|tL", "Et|tL|", "(Et|tL", "Et*|tL", "Et)|tL", "t*99999|(t*99999)*9"}) {
    EXPECT_FALSE(read_layout(text, 2)) << text;
  }
  EXPECT_FALSE(read_layout("Et|t|tL", 2));  // three chunks for two stages
  EXPECT_FALSE(read_layout("Et|tL", 0));
}

TEST(PipelineLayout, DecidesTheStages) {
  const auto made = make_case(mixture_with(R"("pipeline_layout": "Et|tt|tt|ttL")"), false);
  ASSERT_TRUE(std::holds_alternative<Case>(made));
  const Case& one = std::get<Case>(made);
  // Stage 0 holds chunks 0 and 2, three layers with the embedding; stage 1 four, the norm and the head.
  ASSERT_EQ(one.stages.size(), 2U);
  EXPECT_EQ(one.stages[0].first, 0);
  EXPECT_EQ(one.stages[0].last, 3);
  EXPECT_EQ(one.stages[1].first, 4);
}

TEST(RunSettings, LeaveHybridModelsOut) {
  const auto reason = [](const char* row) {
    const auto made = make_case(read_run(doc::parse_json("row", row).root()), false);
    return std::holds_alternative<Refusal>(made) ? std::get<Refusal>(made).reason : "";
  };
  EXPECT_EQ(reason(R"({"id": "a-1", "model": {"layers": null, "hybrid": {"layers": 8}}})"), "hybrid model: not read");
}

// Megatron-Bridge's recipes put adapters beside qkv alone: 80 blocks of 32 (8192 + 10240) weights.
TEST(RunSettings, RunsWithAdaptersTrainNothingElse) {
  const char* const row = R"({"id": "mbridge-lora-LLAMA3_70B", "source": "NVIDIA-NeMo/Megatron-Bridge",
      "model": {"name": "Llama3-70B", "layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8, "head_dim": 128,
                "ffn_hidden": 28672, "vocab": 128256, "gated_mlp": true, "seq": 4096},
      "gpu": "H100-SXM5-80GB", "gpus": 8, "gpus_per_node": 8, "parallel": {"tp": 2, "pp": 4, "dp": 1},
      "mbs": 1, "gbs": 32, "precision": "bf16", "measured": {}})";
  const auto made = make_case(read_run(doc::parse_json("row", row).root()), false);
  ASSERT_TRUE(std::holds_alternative<Case>(made)) << std::get<Refusal>(made).reason;
  const model::Model& model = std::get<Case>(made).job.model;
  std::int64_t trained = 0;
  for (const int kind : model.layers) {
    for (const model::Operator& op : model.kinds[static_cast<std::size_t>(kind)].operators) {
      for (const model::Weight& weight : op.weights) trained += weight.frozen ? 0 : model::elements(weight);
    }
  }
  EXPECT_EQ(trained, 80 * 32 * (8192 + 10240));
}

}  // namespace
}  // namespace nest::accuracy
