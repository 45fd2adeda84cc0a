// Configurations for torchtitan's main: the text itself, what it cannot run, and that what is written comes back.
#include "exporter/titan_main.h"

#include <gmock/gmock.h>

#include "export_support.h"
#include "launch/setup.h"
#include "test_support/scale.h"

namespace nest::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr launch::Framework kMain = launch::Framework::torchtitan_main;

// 16 sequences of 4096 tokens a step in micro-batches of one on 2 x 4 ranks: 4 micro-batches in one flush.
TEST(TitanMain, IsAFunctionOfPython) {
  const cost::Job job = export_job("llama3.2-3b", 8, 16, 4096, "fsdp2");
  Strategy s;
  s.split = {.tp = 2, .sp = true};
  s.dp = s.dp_inner = 4;
  const exporter::TitanMainExport done =
      exporter::export_titan_main({job, s, cost::even_stages(job, s, Recompute::full, 3)});
  EXPECT_THAT(done.notes, IsEmpty());
  EXPECT_EQ(done.python,
            "# A plan of nest for torchtitan's main. As nest_plan.py in a folder of PYTHONPATH, on every host:\n"
            "#     torchrun … -m torchtitan.train --module nest_plan --config plan\n"
            "import dataclasses\n"
            "\n"
            "from torchtitan.components.loss import CrossEntropyLoss\n"
            "from torchtitan.config import CompileConfig, ParallelismConfig\n"
            "from torchtitan.distributed.activation_checkpoint import FullAC\n"
            "from torchtitan.models.common.config_utils import decoder_vocab_size\n"
            "from torchtitan.models.llama3 import model_registry\n"
            "from torchtitan.models.llama3.config_registry import llama3_8b\n"
            "from torchtitan.trainer import Trainer\n"
            "\n"
            "\n"
            "def plan() -> Trainer.Config:\n"
            "    model_spec = model_registry(\"3B\")\n"
            "    base = dataclasses.replace(\n"
            "        llama3_8b(),\n"
            "        model_spec=model_spec,\n"
            "        loss=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)),\n"
            "    )\n"
            "    return dataclasses.replace(\n"
            "        base,\n"
            "        training=dataclasses.replace(\n"
            "            base.training,\n"
            "            num_tokens_per_microbatch_per_dp_rank=4096,\n"
            "            num_tokens_per_train_step=65536,\n"
            "            max_context_length=4096,\n"
            "            mixed_precision_param=\"bfloat16\",\n"
            "            disable_cuda_graphs=True,\n"
            "        ),\n"
            "        parallelism=ParallelismConfig(\n"
            "            data_parallel_replicate_degree=1,\n"
            "            data_parallel_shard_degree=4,\n"
            "            fsdp_reshard_after_forward=\"always\",\n"
            "            tensor_parallel_degree=2,\n"
            "            context_parallel_degree=1,\n"
            "            expert_parallel_degree=1,\n"
            "            pipeline_parallel_degree=1,\n"
            "        ),\n"
            "        activation_checkpoint=FullAC.Config(),\n"
            "        compile=CompileConfig(enable=True, components=[\"model\", \"loss\"], "
            "enable_async_tensor_parallel=False),\n"
            "    )\n");
}

// An order from a file: the graph trainer's, whose policy of memory says what is recomputed.
TEST(TitanMain, NamesTheFileOfAnOrder) {
  const cost::Job job = export_job("llama3-8b", 8, 16, 4096, "torchtitan-graph");
  Strategy s;
  s.pp = 2;
  s.dp = s.dp_inner = 4;
  s.schedule = Schedule::v_half;
  s.virtual_stages = 2;
  const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::full, 2);
  ASSERT_THAT(exporter::obstacles(kMain, job, s, stages), IsEmpty());
  const exporter::TitanMainExport done = exporter::export_titan_main({job, s, stages});
  EXPECT_THAT(done.notes, Contains(HasSubstr("`--format csv`")));
  for (const char* line :
       {"from torchtitan.experiments.graph_trainer.llama3 import model_registry as graph_registry\n",
        "    base = to_graph_trainer_config(base, graph_registry)\n", "pipeline_parallel_schedule=\"ZBVZeroBubble\",\n",
        "pipeline_parallel_schedule_csv=\"v-half.csv\",\n", "num_pp_microbatches=4,\n", "[\"layers.24\", \"layers.25\"",
        "\"norm\", \"lm_head\"],\n", "spmd_backend=\"partial_dtensor\",\n",
        "compile=GraphTrainerCompileConfig(enable=True, mode=\"aot_fx_trace\", memory_policy=\"full\"),\n"}) {
    EXPECT_THAT(done.python, HasSubstr(line));
  }
  const launch::LaunchedPlan back = launch::lay_out(launch::read_launch("p.py", done.python, {}, "", nullptr), job);
  EXPECT_EQ(back.strategy, s);
  EXPECT_EQ(back.stages.front().recompute, Recompute::full);
}

TEST(TitanMain, KnowsWhatItCannotRun) {
  const auto found = [](const char* preset, const char* stack, const Strategy& s, Recompute recompute) {
    const cost::Job job = export_job(preset, 32, 64, 4096, stack);
    return exporter::obstacles(kMain, job, s, cost::even_stages(job, s, recompute, 2));
  };
  Strategy cut, ring;
  cut.pp = 4;
  cut.dp = cut.dp_inner = 4;
  ring.split.cp = 2;
  ring.dp = ring.dp_inner = 4;
  EXPECT_THAT(found("qwen3-8b", "fsdp2", cut, Recompute::none), IsEmpty());  // 0.2.2 has no pipelines of qwen3
  EXPECT_THAT(found("qwen3-4b", "fsdp2", cut, Recompute::none), ElementsAre(HasSubstr("whose head is its table")));
  EXPECT_THAT(found("llama3-8b", "fsdp2", ring, Recompute::none), ElementsAre(HasSubstr("around a ring")));
  ring.split.cp_comm = ContextExchange::all_gather;
  EXPECT_THAT(found("llama3-8b", "fsdp2", ring, Recompute::none), IsEmpty());
  EXPECT_THAT(found("deepseek-v2-lite", "fsdp2", ring, Recompute::none), IsEmpty());
  EXPECT_THAT(found("llama3-8b", "torchtitan-graph", ring, Recompute::full),
              ElementsAre("cannot split contexts in its graph trainer"));
  cut.schedule = Schedule::zbv;
  cut.virtual_stages = 2;
  EXPECT_THAT(found("llama3-8b", "torchtitan-graph", cut, Recompute::none),
              ElementsAre("cannot keep all activations in its graph trainer"));
  EXPECT_THAT(found("llama3-8b", "torchtitan-graph", cut, Recompute::selective), IsEmpty());
}

TEST(TitanMain, ComesBack) {
  std::mt19937 random(37);
  std::uint32_t exported = 0, cut = 0, spread = 0, contexts = 0;
  const std::uint32_t rounds = test::scaled(6000, 800);
  for (const char* name : {"llama3-8b", "llama3-405b", "qwen3-30b-a3b"}) {
    const cost::Job job = export_job(name, 256, 768, 4096, "fsdp2");
    for (std::uint32_t round = 0; round < rounds; ++round) {
      SomePlan plan = random_plan(job, random);
      plan.strategy.dp_inner = plan.strategy.dp;
      if (plan.strategy.split.cp > 1) plan.strategy.split.cp_comm = ContextExchange::all_gather;
      if (!exporter::obstacles(kMain, job, plan.strategy, plan.stages).empty()) continue;
      const exporter::TitanMainExport done = exporter::export_titan_main({job, plan.strategy, plan.stages});
      const launch::LaunchSetup setup = launch::read_launch("plan.py", done.python, {}, "", nullptr);
      EXPECT_EQ(setup.framework, kMain);
      EXPECT_EQ(setup.model_name, name);
      EXPECT_EQ(setup.world, plan.strategy.devices_used());
      EXPECT_EQ(setup.global_batch, job.run.global_batch);
      const launch::LaunchedPlan back = launch::lay_out(setup, job);
      EXPECT_EQ(back.strategy, plan.strategy) << done.python;
      for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        EXPECT_EQ(back.stages[i].first, plan.stages[i].first);
        EXPECT_EQ(back.stages[i].last, plan.stages[i].last);
        EXPECT_EQ(back.stages[i].recompute, plan.stages[i].recompute);
        EXPECT_EQ(exporter::sharding_of(back.strategy, back.stages[i]),
                  exporter::sharding_of(plan.strategy, plan.stages[i]));
      }
      ++exported;
      cut += plan.strategy.pp > 1;
      spread += plan.strategy.split.ep > 1;
      contexts += plan.strategy.split.cp > 1;
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(exported, rounds / 40);
  EXPECT_GT(cut, 0U);
  EXPECT_GT(spread, 0U);
  EXPECT_GT(contexts, 0U);
}

}  // namespace
}  // namespace nest::test
