// Overrides for Megatron-Bridge and NeMo 2 are priced like the plans they were written for, when they are read again.
#include <gmock/gmock.h>

#include "base/error.h"
#include "export_support.h"
#include "exporter/megatron_stack.h"
#include "exporter/nemo.h"
#include "launch/setup.h"

namespace nest::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

cost::Job recipe_job(const std::string& model, const std::string& cluster, Precision precision,
                     const std::string& stack, Optimizer optimizer = Optimizer::adam, std::int64_t offload = 0) {
  Run run;
  run.optimizer = optimizer;
  run.optimizer_offload = offload;
  run.global_batch = 768;
  run.sequence = 4096;
  run.precision = precision;
  run.stack = stack;
  return cost::make_job(*model::find_model_preset(model), run, *cost::find_stack(stack),
                        *cluster::find_cluster(cluster, 256));
}

// The plan of overrides, priced on the model and the devices of `job`. Variables of the environment are in no override.
Plan price_overrides(const std::string& text, const cost::Job& job) {
  launch::LaunchSetup setup = launch::read_launch("plan.overrides", text, {}, "", nullptr);
  EXPECT_THAT(setup.notes, Not(Contains(HasSubstr("not known")))) << text;
  EXPECT_EQ(setup.framework, launch::Framework::nemo);
  setup.world = job.cluster.devices;
  setup.stack.expandable_segments = job.stack.expandable_segments;
  setup.stack.memory_margin = job.stack.memory_margin;
  Run run = job.run;
  run.global_batch = setup.global_batch.value_or(0);
  run.sequence = setup.sequence.value_or(0);
  run.precision = setup.precision;
  run.optimizer = setup.optimizer;
  run.optimizer_offload = setup.optimizer_offload;
  if (job.stack.routing.kind == cost::RoutingKind::variation)
    run.routing = "cv=" + std::to_string(job.stack.routing.value);
  const cost::Job returned = cost::make_job(job.model.architecture, run, setup.stack, job.cluster);
  const launch::LaunchedPlan plan = launch::lay_out(setup, returned);
  return cost::evaluate(returned, plan.strategy, plan.stages);
}

struct RecipeCase {
  const char* model;
  const char* cluster;
  Precision precision;
  const char* stack;
  exporter::NemoForm form = exporter::NemoForm::bridge;
  Optimizer optimizer = Optimizer::adam;
  std::int64_t offload = 0;
};

TEST(NemoBack, OverridesArePricedLikeThePlansTheyAreOf) {
  std::mt19937 random(23);
  constexpr int kPlans = 24;
  int layouts = 0, sharded = 0;
  using enum exporter::NemoForm;
  for (const RecipeCase& one :
       {RecipeCase{"llama3-70b", "dgx-h100", Precision::bf16, "megatron-core"},
        RecipeCase{"llama3-70b", "dgx-h100", Precision::fp16, "megatron-core"},
        RecipeCase{"llama3-70b", "dgx-h100", Precision::fp32, "megatron-core"},
        RecipeCase{"llama3-70b", "dgx-h100", Precision::fp8, "megatron-core"},
        RecipeCase{"llama3-70b", "dgx-h100", Precision::bf16, "megatron-core-plain"},
        RecipeCase{"deepseek-v2-lite", "dgx-h100", Precision::bf16, "megatron-core"},
        RecipeCase{"qwen3-30b-a3b", "dgx-h100", Precision::bf16, "megatron-core-moe"},
        RecipeCase{"qwen3-30b-a3b", "dgx-h100", Precision::bf16, "megatron-bridge-2026-moe"},
        RecipeCase{"qwen3-30b-a3b", "gb200-nvl72", Precision::fp8, "megatron-bridge-2026-moe-mxfp8"},
        RecipeCase{"deepseek-v3", "gb200-nvl72", Precision::bf16, "megatron-bridge-2026-moe-mla"},
        RecipeCase{"deepseek-v3", "gb200-nvl72", Precision::fp8, "megatron-bridge-2026-moe-mla-mxfp8"},
        RecipeCase{"llama3-70b", "dgx-h100", Precision::fp8, "megatron-bridge-2026-fp8"},
        RecipeCase{"llama3-70b", "gb200-nvl72", Precision::fp8, "megatron-bridge-2026-mxfp8"},
        RecipeCase{"llama3-70b", "gb200-nvl72", Precision::fp4, "megatron-bridge-2026-nvfp4"},
        RecipeCase{"llama3-70b", "dgx-h100", Precision::bf16, "megatron-bridge-2026", bridge, Optimizer::muon},
        RecipeCase{"llama3-70b", "dgx-h100", Precision::bf16, "megatron-bridge-2026", bridge, Optimizer::adam8bit},
        RecipeCase{"llama3-70b", "dgx-h100", Precision::bf16, "megatron-bridge-2026", bridge, Optimizer::adam, 75},
        RecipeCase{"llama3-70b", "dgx-h100", Precision::bf16, "megatron-core", nemo2},
        RecipeCase{"llama3-70b", "dgx-h100", Precision::fp8, "megatron-core", nemo2},
        RecipeCase{"mixtral-8x7b", "dgx-h100", Precision::bf16, "megatron-core", nemo2}}) {
    const cost::Job job = recipe_job(one.model, one.cluster, one.precision, one.stack, one.optimizer, one.offload);
    const bool captured = !job.stack.graph_scopes.empty() && job.stack.graph_scopes.front() != cost::GraphScope::full;
    int done = 0;
    for (int round = 0; round < 3000 && done < kPlans; ++round) {
      SomePlan plan = random_plan(job, random);
      plan.strategy.dp_inner = plan.strategy.dp;
      plan.strategy.split.sp = plan.strategy.split.tp > 1;
      for (StagePlan& stage : plan.stages) {
        // Megatron-FSDP overlaps whatever the stack says.
        const bool overlaps = std::string_view(one.stack) == "megatron-core";
        stage.zero = plan.strategy.pp > 1 || !overlaps || one.precision != Precision::bf16 || one.form == nemo2
                         ? 1
                         : std::max(1, stage.zero);
        stage.zero_degree = groups::dense_replicas(plan.strategy);
        // Graphs of layers exclude it: they are left out, and the price is another.
        if (captured && stage.recompute == Recompute::full) stage.recompute = Recompute::selective;
      }
      constexpr OffloadSet kAttention = set_of(OffloadModule::core_attn) | set_of(OffloadModule::attn_proj);
      if (round % 3 == 1 && one.form == bridge) plan.strategy.split.offload = kAttention;
      if (!cost::refuse_strategy(job, plan.strategy, plan.stages).empty()) plan.strategy.split.offload = 0;
      if (!cost::refuse_strategy(job, plan.strategy, plan.stages).empty()) continue;
      if (!exporter::obstacles(launch::Framework::nemo, job, plan.strategy, plan.stages).empty()) continue;
      const std::int64_t used = plan.strategy.devices_used();
      if (used % 4 != 0 || (used > 64 && used % 64 != 0)) continue;
      cost::Job smaller = job;
      smaller.cluster = cluster::resized(job.cluster, used);
      const exporter::ExportTask task{smaller, plan.strategy, plan.stages};
      // Where the stack could pair passes and this plan cannot, it is priced a little otherwise (megatron_stack_test.cc).
      if (smaller.stack.expert_overlap && !exporter::overlaps_experts(task)) continue;
      const std::string text = exporter::overrides_text(exporter::export_nemo(task, one.form));
      const Plan asked = cost::evaluate(smaller, plan.strategy, plan.stages);
      const Plan returned = price_overrides(text, smaller);
      EXPECT_NEAR(returned.prediction.iteration_s / asked.prediction.iteration_s, 1, 1e-9) << one.stack << "\n" << text;
      const bool routes = plan.strategy.split.ep * plan.strategy.split.expert_tp() > 1;
      const bool comparable = exporter::has_replicas(task) && (routes || smaller.stack.rank_capacity == 0);
      for (std::size_t s = 0; comparable && s < asked.stages.size(); ++s) {
        EXPECT_EQ(returned.stages[s].memory.needed, asked.stages[s].memory.needed) << one.stack << "\n" << text;
      }
      ASSERT_FALSE(HasFailure()) << one.model;
      layouts += text.find("parallel_layout=null") == std::string::npos ? 1 : 0;
      sharded += plan.stages.front().zero > 1 ? 1 : 0;
      ++done;
    }
    EXPECT_GE(done, 4) << one.model << " " << one.stack;
  }
  EXPECT_GT(layouts, 10);
  EXPECT_GT(sharded, 4);
}

// What the recipe's own settings would be written over, or would overrule, is said where it counts.
TEST(NemoBack, PrecisionIsARecipeOrAnObject) {
  Strategy s;
  s.dp = s.dp_inner = 16;
  const auto text_of = [&](Precision precision, const char* stack) {
    cost::Job job = recipe_job("llama3-8b", "dgx-h100", precision, stack);
    job.cluster = cluster::resized(job.cluster, 16);
    return "\n" + exporter::overrides_text(exporter::export_nemo(
                      {job, s, cost::even_stages(job, s, Recompute::none, 1)}, exporter::NemoForm::bridge));
  };
  EXPECT_THAT(text_of(Precision::bf16, "megatron-core"), HasSubstr("\nmixed_precision=bf16_mixed\n"));
  EXPECT_THAT(text_of(Precision::fp32, "megatron-core"), HasSubstr("\nmixed_precision=null\n"));
  EXPECT_THAT(text_of(Precision::fp8, "megatron-core"),
              HasSubstr("\n++mixed_precision={_target_:megatron.bridge.training.mixed_precision.MixedPrecisionConfig,"
                        "bf16:true,params_dtype:{_target_:torch.bfloat16,_call_:false},"
                        "pipeline_dtype:{_target_:torch.bfloat16,_call_:false},grad_reduce_in_fp32:true,"
                        "fp8:hybrid,fp8_recipe:tensorwise,fp8_param_gather:false}\n"));
  EXPECT_THAT(text_of(Precision::bf16, "megatron-core"), HasSubstr("\nmodel.cross_entropy_loss_fusion=false\n"));
}

// Messages of the filling and draining pipeline.
TEST(NemoBack, TheFlushIsCarried) {
  cost::Job job = recipe_job("llama3-70b", "dgx-h100", Precision::bf16, "megatron-core");
  job.stack.flush_overlap = true;
  Strategy s;
  s.split.tp = 4;
  s.split.sp = true;
  s.pp = 4;
  s.dp = s.dp_inner = 16;
  s.virtual_stages = 5;
  s.schedule = Schedule::interleaved;
  const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 1);
  for (const auto& [form, line] :
       {std::pair{exporter::NemoForm::bridge, "model.overlap_p2p_comm_warmup_flush=true\n"},
        std::pair{exporter::NemoForm::nemo2, "model.config.overlap_p2p_comm_warmup_flush=true\n"}}) {
    const std::string text = exporter::overrides_text(exporter::export_nemo({job, s, stages}, form));
    EXPECT_THAT(text, HasSubstr(line));
    EXPECT_EQ(price_overrides(text, job).prediction.iteration_s, cost::evaluate(job, s, stages).prediction.iteration_s);
  }
  s.virtual_stages = 1;
  s.schedule = Schedule::one_f_one_b;
  const std::string plain = exporter::overrides_text(
      exporter::export_nemo({job, s, cost::even_stages(job, s, Recompute::none, 1)}, exporter::NemoForm::bridge));
  EXPECT_THAT(plain, Not(HasSubstr("warmup_flush")));
}

}  // namespace
}  // namespace nest::test
