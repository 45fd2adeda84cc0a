// What a stack says reaches Megatron's options, and a script that holds them is priced like the plan it was written for.
#include "exporter/megatron_stack.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "export_support.h"
#include "exporter/nemo.h"
#include "launch/setup.h"
#include "launch/stack_options.h"
#include "megatron_parser.h"
#include "model/config.h"

namespace nest::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

cost::Job stack_job(const std::string& model, const std::string& cluster, std::int64_t devices, Precision precision,
                    const std::string& stack, Optimizer optimizer = Optimizer::adam, std::int64_t offload = 0) {
  Run run;
  run.optimizer = optimizer;
  run.optimizer_offload = offload;
  run.global_batch = 768;
  run.sequence = 4096;
  run.precision = precision;
  run.stack = stack;
  return cost::make_job(*model::find_model_preset(model), run, *cost::find_stack(stack),
                        *cluster::find_cluster(cluster, devices));
}

std::string script_of(const exporter::ExportTask& task) {
  const std::int64_t world = task.strategy.devices_used();
  return exporter::launch_script(exporter::export_megatron(task), world / 4, 4, "");
}

// The plan of a launch script, priced on the devices of `job`.
Plan price_script(const std::string& script, const cost::Job& job) {
  const launch::LaunchSetup setup = launch::read_launch("run.sh", script, {}, "", nullptr);
  EXPECT_THAT(setup.notes, Not(::testing::Contains(HasSubstr("not known")))) << script;
  const model::Architecture architecture =
      model::read_config(doc::parse_json("launch", setup.model_config.dump()), "launch");
  Run run = job.run;
  run.global_batch = setup.global_batch.value_or(0);
  run.sequence = setup.sequence.value_or(0);
  run.precision = setup.precision;
  run.optimizer = setup.optimizer;
  run.optimizer_offload = setup.optimizer_offload;
  run.mtp_layers = setup.mtp_layers;
  // No option of Megatron's says how evenly tokens will be routed.
  if (job.stack.routing.kind == cost::RoutingKind::variation)
    run.routing = "cv=" + std::to_string(job.stack.routing.value);
  const cost::Job returned = cost::make_job(architecture, run, setup.stack, job.cluster);
  const launch::LaunchedPlan plan = launch::lay_out(setup, returned);
  return cost::evaluate(returned, plan.strategy, plan.stages);
}

struct StackCase {
  const char* model;
  const char* cluster;
  Precision precision;
  const char* stack;
  Optimizer optimizer = Optimizer::adam;
  std::int64_t offload = 0;
};

TEST(MegatronStack, ScriptsArePricedLikeThePlansTheyAreOf) {
  std::mt19937 random(11);
  int paired = 0, captured = 0, away = 0;
  for (const StackCase& one :
       {StackCase{"qwen3-30b-a3b", "dgx-h100", Precision::bf16, "megatron-core-moe"},
        StackCase{"qwen3-30b-a3b", "dgx-h100", Precision::bf16, "megatron-bridge-2026-moe"},
        StackCase{"qwen3-30b-a3b", "gb200-nvl72", Precision::fp8, "megatron-bridge-2026-moe-mxfp8"},
        StackCase{"deepseek-v3", "gb200-nvl72", Precision::bf16, "megatron-bridge-2026-moe-mla"},
        StackCase{"deepseek-v3", "gb200-nvl72", Precision::fp8, "megatron-bridge-2026-moe-mla-mxfp8"},
        StackCase{"llama3-70b", "dgx-h100", Precision::fp8, "megatron-bridge-2026-fp8"},
        StackCase{"llama3-70b", "gb200-nvl72", Precision::fp8, "megatron-bridge-2026-mxfp8"},
        StackCase{"llama3-70b", "gb200-nvl72", Precision::fp4, "megatron-bridge-2026-nvfp4"},
        StackCase{"llama3-70b", "dgx-h100", Precision::bf16, "megatron-bridge-2026"},
        StackCase{"llama3-70b", "dgx-h100", Precision::bf16, "megatron-bridge-2026", Optimizer::muon},
        StackCase{"qwen3-30b-a3b", "dgx-h100", Precision::bf16, "megatron-bridge-2026-moe", Optimizer::muon},
        StackCase{"llama3-70b", "dgx-h100", Precision::bf16, "megatron-bridge-2026", Optimizer::adam8bit},
        StackCase{"llama3-70b", "dgx-h100", Precision::bf16, "megatron-bridge-2026", Optimizer::adam, 75},
        StackCase{"qwen3-30b-a3b", "dgx-h100", Precision::bf16, "megatron-core-moe", Optimizer::adam, 25}}) {
    const cost::Job job = stack_job(one.model, one.cluster, 256, one.precision, one.stack, one.optimizer, one.offload);
    const bool layers_captured =
        !job.stack.graph_scopes.empty() && job.stack.graph_scopes.front() != cost::GraphScope::full;
    int done = 0;
    for (int round = 0; round < 600 && done < 8; ++round) {
      SomePlan plan = random_plan(job, random);
      plan.strategy.dp_inner = plan.strategy.dp;
      plan.strategy.split.sp = plan.strategy.split.tp > 1;
      // Weights and moments in formats of their own need a sharded optimizer; a pipeline shards nothing more.
      for (StagePlan& stage : plan.stages) {
        stage.zero = 1;
        stage.zero_degree = groups::dense_replicas(plan.strategy);
        // Graphs of layers exclude it: the script leaves them out, and the price is another.
        if (layers_captured && stage.recompute == Recompute::full) stage.recompute = Recompute::selective;
      }
      // Some with what modules keep on the host.
      constexpr OffloadSet kAttention = set_of(OffloadModule::core_attn) | set_of(OffloadModule::attn_proj);
      if (round % 3 == 1) plan.strategy.split.offload = kAttention;
      if (round % 6 == 4) plan.strategy.split.offload |= set_of(OffloadModule::qkv_linear);
      if (!cost::refuse_strategy(job, plan.strategy, plan.stages).empty()) plan.strategy.split.offload = 0;
      if (plan.strategy.devices_used() % 4 != 0 || !cost::refuse_strategy(job, plan.strategy, plan.stages).empty())
        continue;
      if (!exporter::obstacles(launch::Framework::megatron, job, plan.strategy, plan.stages).empty()) continue;
      const std::int64_t used = plan.strategy.devices_used();
      if (used > 64 && used % 64 != 0) continue;  // racks are used in parts of 64
      cost::Job smaller = job;
      smaller.cluster = cluster::resized(job.cluster, used);
      const exporter::ExportTask task{smaller, plan.strategy, plan.stages};
      const std::string script = script_of(task);
      const Plan asked = cost::evaluate(smaller, plan.strategy, plan.stages);
      const Plan returned = price_script(script, smaller);
      // Where the stack could pair passes and this plan cannot, gradients hide behind the shorter passes of a pair.
      const bool could = smaller.stack.expert_overlap && !exporter::overlaps_experts(task);
      EXPECT_NEAR(returned.prediction.iteration_s / asked.prediction.iteration_s, 1, could ? 0.002 : 1e-9)
          << one.stack << "\n"
          << script;
      // Where experts are whole on every rank, there is no dispatcher to give a capacity.
      const bool routes = plan.strategy.split.ep * plan.strategy.split.expert_tp() > 1;
      // And where nothing has replicas, no option speaks of their buffers.
      const bool comparable = exporter::has_replicas(task) && (routes || smaller.stack.rank_capacity == 0);
      for (std::size_t s = 0; comparable && s < asked.stages.size(); ++s) {
        EXPECT_EQ(returned.stages[s].memory.needed, asked.stages[s].memory.needed) << one.stack << "\n" << script;
      }
      ASSERT_FALSE(HasFailure()) << one.model;
      paired += exporter::overlaps_experts(task) ? 1 : 0;
      captured += script.find("--cuda-graph-impl") != std::string::npos ? 1 : 0;
      away += script.find("--offload-modules core_attn") != std::string::npos ? 1 : 0;
      ++done;
    }
    EXPECT_GE(done, 4) << one.model << " " << one.stack;
  }
  EXPECT_GT(paired, 5);
  EXPECT_GT(captured, 20);
  EXPECT_GT(away, 5);
}

TEST(MegatronStack, OptionsAreThoseThatRecipesSet) {
  const cost::Job job =
      stack_job("deepseek-v3", "gb200-nvl72", 256, Precision::fp8, "megatron-bridge-2026-moe-mla-mxfp8");
  Strategy s;
  s.split.ep = 64;
  s.pp = 4;
  s.dp = s.dp_inner = 64;
  s.virtual_stages = 4;
  s.schedule = Schedule::interleaved;
  const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 1);
  ASSERT_EQ(cost::refuse_strategy(job, s, stages), "");
  const std::string script = script_of({job, s, stages});
  for (const char* line :
       {"--moe-token-dispatcher-type flex", "--moe-flex-dispatcher-backend hybridep",
        "--moe-flex-dispatcher-num-sms 32", "--overlap-moe-expert-parallel-comm", "--delay-wgrad-compute",
        "--moe-expert-rank-capacity-factor 1.5", "--moe-paged-stash ", "--moe-paged-stash-buffer-size-factor-cuda 1.2",
        "--use-transformer-engine-op-fuser", "--cuda-graph-impl full_iteration", "--no-check-for-nan-in-loss-and-grad",
        "--fp8-recipe mxfp8", "--fp8-format e4m3", "--fp8-param-gather", "--use-precision-aware-optimizer",
        "--exp-avg-dtype bf16", "--cross-entropy-loss-fusion",
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}) {
    EXPECT_THAT(script, HasSubstr(line));
  }
  EXPECT_THAT(script, Not(HasSubstr("--cuda-graph-modules")));
  // Graphs of layers need another setting beside the allocator's pages.
  const cost::Job layers =
      stack_job("deepseek-v3", "gb200-nvl72", 256, Precision::bf16, "megatron-bridge-2026-moe-mla");
  const std::string partial = script_of({layers, s, stages});
  EXPECT_THAT(partial, HasSubstr("--cuda-graph-impl transformer_engine"));
  EXPECT_THAT(partial, HasSubstr("--cuda-graph-modules moe_router moe_preprocess"));
  EXPECT_THAT(partial, HasSubstr("export NCCL_GRAPH_REGISTER=0"));
}

TEST(MegatronStack, OptimizersAreWordsAndFormats) {
  Strategy s;
  s.dp = s.dp_inner = 8;
  const auto text = [&](Optimizer optimizer) {
    const cost::Job job = stack_job("llama3-8b", "dgx-h100", 8, Precision::bf16, "megatron-bridge-2026", optimizer);
    std::string all = exporter::arguments_text(
        exporter::export_megatron({job, s, cost::even_stages(job, s, Recompute::none, 1)}).options);
    std::vector<std::string> problems;
    validate_megatron(parse_megatron(all, problems), 8, false,
                      {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}}, problems);
    EXPECT_THAT(problems, IsEmpty());
    return all;
  };
  EXPECT_THAT(text(Optimizer::muon), HasSubstr("--optimizer muon"));
  EXPECT_THAT(text(Optimizer::muon), HasSubstr("--use-distributed-optimizer"));
  EXPECT_THAT(text(Optimizer::muon), Not(HasSubstr("precision-aware")));
  EXPECT_THAT(text(Optimizer::adam8bit), HasSubstr("--optimizer adam\n"));
  EXPECT_THAT(text(Optimizer::adam8bit), HasSubstr("--use-precision-aware-optimizer"));
  EXPECT_THAT(text(Optimizer::adam8bit), HasSubstr("--exp-avg-dtype fp8"));
  EXPECT_THAT(text(Optimizer::adam8bit), HasSubstr("--exp-avg-sq-dtype fp8"));
  EXPECT_THAT(text(Optimizer::sgd), HasSubstr("--optimizer sgd"));
  const cost::Job host =
      stack_job("llama3-8b", "dgx-h100", 8, Precision::bf16, "megatron-bridge-2026", Optimizer::adam, 50);
  const exporter::ExportTask task{host, s, cost::even_stages(host, s, Recompute::none, 1)};
  EXPECT_THAT(exporter::arguments_text(exporter::export_megatron(task).options),
              ::testing::AllOf(HasSubstr("--use-precision-aware-optimizer"), HasSubstr("--optimizer-cpu-offload\n"),
                               HasSubstr("--optimizer-offload-fraction 0.5"),
                               HasSubstr("--overlap-cpu-optimizer-d2h-h2d"), Not(HasSubstr("--exp-avg"))));
  // Muon updates whole matrices.
  const cost::Job muon =
      stack_job("llama3-8b", "dgx-h100", 8, Precision::bf16, "megatron-bridge-2026", Optimizer::muon);
  EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, muon, s, cost::even_stages(muon, s, Recompute::none, 3)),
              ::testing::Contains(HasSubstr("with Muon")));
}

// Megatron's own check of what it is told, and back.
TEST(MegatronStack, ActivationsOnTheHost) {
  cost::Job job = stack_job("qwen3-30b-a3b", "dgx-h100", 16, Precision::bf16, "megatron-core-moe");
  Strategy s;
  s.dp = s.dp_inner = 16;
  s.split.ep = 4;
  s.split.offload = *parse_offload("core_attn+attn_proj+expert_fc1+moe_act");
  const auto exported = [&](const Recomputation& recompute) {
    return exporter::export_megatron({job, s, cost::even_stages(job, s, recompute, 1)});
  };
  const exporter::MegatronExport plain = exported(Recompute::none);
  const std::string text = exporter::arguments_text(plain.options);
  EXPECT_THAT(text, HasSubstr("--fine-grained-activation-offloading\n"));
  EXPECT_THAT(text, HasSubstr("--offload-modules core_attn attn_proj expert_fc1 moe_act\n"));
  EXPECT_THAT(plain.environment, ::testing::Contains(std::pair<std::string, std::string>("NVTE_CPU_OFFLOAD_V1", "1")));
  std::vector<std::string> problems;
  validate_megatron(parse_megatron(text, problems), 16, false, {{"NVTE_CPU_OFFLOAD_V1", "1"}}, problems);
  EXPECT_THAT(problems, IsEmpty());
  const exporter::NemoExport fields =
      exporter::export_nemo({job, s, cost::even_stages(job, s, Recompute::none, 1)}, exporter::NemoForm::bridge);
  EXPECT_THAT(exporter::overrides_text(fields),
              HasSubstr("model.offload_modules=[core_attn,attn_proj,expert_fc1,moe_act]"));
  for (const launch::Framework other : {launch::Framework::deepspeed, launch::Framework::torchtitan}) {
    EXPECT_THAT(exporter::obstacles(other, job, s, cost::even_stages(job, s, Recompute::none, 1)),
                ::testing::Contains(HasSubstr("on the host (offload=core_attn+attn_proj+expert_fc1+moe_act)")));
  }
}

// 16 replicas of everything else and 4 of every expert, in two instances: shards of 8 and of 2 ranks.
TEST(MegatronStack, InstancesOfTheOptimizerDivideExpertsToo) {
  const cost::Job job = stack_job("qwen3-30b-a3b", "dgx-h100", 16, Precision::bf16, "megatron-core-moe");
  Strategy s;
  s.dp = s.dp_inner = 16;
  s.split.ep = 4;
  const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::full, 1, 8);
  ASSERT_EQ(cost::refuse_strategy(job, s, stages), "");
  EXPECT_EQ(groups::zero_degrees(s, 8).expert, 2);
  EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, stages), IsEmpty());
  const exporter::ExportTask task{job, s, stages};
  const std::string script = script_of(task);
  EXPECT_THAT(script, HasSubstr("--num-distributed-optimizer-instances 2"));
  std::vector<std::string> problems;
  validate_megatron(parse_megatron(exporter::arguments_text(exporter::export_megatron(task).options), problems), 16,
                    false, {}, problems);
  EXPECT_THAT(problems, IsEmpty());
  const Plan asked = cost::evaluate(job, s, stages), returned = price_script(script, job);
  EXPECT_EQ(returned.stages.front().zero_degree, 8);
  EXPECT_EQ(returned.stages.front().memory.optimizer, asked.stages.front().memory.optimizer);
  // Experts that have one replica have one instance.
  s.split.ep = 16;
  EXPECT_THAT(
      exporter::obstacles(launch::Framework::megatron, job, s, cost::even_stages(job, s, Recompute::full, 1, 8)),
      ::testing::Contains(HasSubstr("2 instances of its optimizer do not divide the 1 replicas")));
}

TEST(MegatronStack, WhatMegatronRefusesIsNotWritten) {
  const cost::Job job = stack_job("qwen3-30b-a3b", "gb200-nvl72", 64, Precision::fp8, "megatron-bridge-2026-moe-mxfp8");
  Strategy alone;  // experts whole on every rank
  alone.dp = alone.dp_inner = 64;
  std::vector<StagePlan> stages = cost::even_stages(job, alone, Recompute::none, 1);
  std::string text = exporter::arguments_text(exporter::export_megatron({job, alone, stages}).options);
  EXPECT_THAT(text, HasSubstr("--moe-token-dispatcher-type alltoall"));
  EXPECT_THAT(text, Not(HasSubstr("rank-capacity")));
  EXPECT_THAT(text, Not(HasSubstr("--overlap-moe")));
  std::vector<std::string> problems;
  validate_megatron(parse_megatron(text, problems), 64, false,
                    {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}}, problems);
  EXPECT_THAT(problems, IsEmpty());

  const cost::Job layers = stack_job("qwen3-30b-a3b", "dgx-h100", 64, Precision::bf16, "megatron-core-moe");
  Strategy spread = alone;
  spread.split.ep = 8;
  stages = cost::even_stages(layers, spread, Recompute::full, 1);
  const exporter::MegatronExport repeated = exporter::export_megatron({layers, spread, stages});
  EXPECT_THAT(exporter::arguments_text(repeated.options), Not(HasSubstr("cuda-graph")));
  EXPECT_THAT(repeated.notes, ::testing::Contains(HasSubstr("left out")));
}

TEST(MegatronStack, RefusesOptionsByName) {
  const auto refusal = [](const std::string& options) {
    try {
      launch::read_launch("run.args", options, {}, "", nullptr);
      return std::string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  const std::string flex = "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend ";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {flex + "deepep --moe-expert-rank-capacity-factor 1.5", "--moe-expert-rank-capacity-factor"},
      {flex + "hybridep --moe-expert-rank-capacity-factor 0.5", "--moe-expert-rank-capacity-factor"},
      {flex + "hybridep --moe-paged-stash", "--moe-paged-stash"},
      {flex + "hybridep --moe-flex-dispatcher-num-sms 0", "--moe-flex-dispatcher-num-sms"},
      {flex + "fast", "--moe-flex-dispatcher-backend"},
      {"--moe-pad-expert-input-to-capacity", "--moe-pad-expert-input-to-capacity"},
      {"--moe-expert-capacity-factor many", "--moe-expert-capacity-factor"},
      {"--bf16 --fp8-dot-product-attention", "--fp8-dot-product-attention"},
      {"--bf16 --fp8-format e4m3 --fp8-recipe mx", "--fp8-recipe"},
      {"--exp-avg-dtype bf16", "--exp-avg-dtype"},
      {"--cuda-graph-impl full_iteration --cuda-graph-modules attn", "--cuda-graph-modules"},
      {"--cuda-graph-impl local --cuda-graph-modules attn --cuda-graph-scope attn", "--cuda-graph-scope"}};
  for (const auto& [options, name] : wrong) EXPECT_THAT(refusal(options), HasSubstr(name)) << options;
}

// Transformer Engine's buffers are of one node, of layers without latents, and of devices with multicast.
TEST(MegatronStack, TensorOverlapIsWrittenWhereItRuns) {
  const auto exported_on = [](const char* preset, const char* cluster, std::int64_t tp) {
    const cost::Job job = export_job(*model::find_model_preset(preset), cluster, 32, 64, 4096, "megatron-core");
    Strategy s;
    s.split.tp = tp;
    s.split.sp = true;
    s.dp = s.dp_inner = 32 / tp;
    return exporter::export_megatron({job, s, cost::even_stages(job, s, Recompute::none, 1)});
  };
  const auto overlaps = [](const exporter::MegatronExport& exported) {
    return exporter::arguments_text(exported.options).find("--tp-comm-overlap\n") != std::string::npos;
  };
  const std::pair<std::string, std::string> handles = {"UB_SKIPMC", "1"};
  const auto plain = exported_on("llama3-70b", "dgx-h100", 8);
  EXPECT_TRUE(overlaps(plain));
  EXPECT_THAT(plain.environment, Not(Contains(handles)));
  const auto older = exported_on("llama3-70b", "dgx-a100", 8);
  EXPECT_TRUE(overlaps(older));
  EXPECT_THAT(older.environment, Contains(handles));
  const auto wide = exported_on("gpt3-175b", "dgx-h100", 16);
  EXPECT_FALSE(overlaps(wide));
  EXPECT_THAT(wide.notes, Contains(HasSubstr("not overlapped")));
  const auto latent = exported_on("deepseek-v2-lite", "dgx-h100", 2);
  EXPECT_FALSE(overlaps(latent));
  EXPECT_THAT(latent.notes, Contains(HasSubstr("not overlapped")));
  EXPECT_TRUE(overlaps(exported_on("llama3-70b", "gb200-nvl64", 16)));
}

TEST(MegatronStack, DeterministicRunsSaySo) {
  cost::Job job = export_job("llama3-8b", 16, 64, 4096, "megatron-core");
  job.stack.deterministic = true;
  job.stack.loss = cost::LossKernel::fused;
  job.stack.attention = cost::AttentionKernel::flash2;
  Strategy s;
  s.split.tp = 2;
  s.split.sp = true;
  s.dp = s.dp_inner = 8;
  const auto exported = exporter::export_megatron({job, s, cost::even_stages(job, s, Recompute::none, 1)});
  const std::string text = exporter::arguments_text(exported.options);
  EXPECT_THAT(text, HasSubstr("--deterministic-mode\n"));
  EXPECT_THAT(text, HasSubstr("--attention-backend flash\n"));
  EXPECT_THAT(text, Not(HasSubstr("--cross-entropy-loss-fusion")));
  EXPECT_THAT(text, Not(HasSubstr("--tp-comm-overlap")));
  EXPECT_THAT(exported.environment, Contains(std::pair<std::string, std::string>{"NCCL_ALGO", "Ring"}));
  EXPECT_THAT(exported.notes, Contains(HasSubstr("fused loss is left out")));
}

}  // namespace
}  // namespace nest::test
