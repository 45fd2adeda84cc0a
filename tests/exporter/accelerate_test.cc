// Plans for Hugging Face accelerate: what is written, and that it comes back.
#include "exporter/accelerate.h"

#include <gmock/gmock.h>

#include "export_support.h"
#include "exporter/exporters.h"
#include "exporter/framework_rules.h"
#include "launch/setup.h"

namespace nest::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Strategy replicas_of(std::int64_t dp, std::int64_t micro_batch) {
  Strategy s;
  s.dp = s.dp_inner = dp;
  s.micro_batch = micro_batch;
  return s;
}

TEST(AccelerateExport, SaysShardingCheckpointsAndBatches) {
  const cost::Job job = export_job("llama3-8b", 16, 64, 4096, "hf-fsdp");
  const Strategy s = replicas_of(16, 2);
  const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::full, 3);
  EXPECT_THAT(exporter::obstacles(launch::Framework::fsdp, job, s, stages), IsEmpty());
  const exporter::AccelerateExport written = exporter::export_accelerate({job, s, stages});
  EXPECT_EQ(written.yaml,
            "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 1\n"
            "num_processes: 16\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"
            "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_activation_checkpointing: true\n"
            "  fsdp_cpu_ram_efficient_loading: true\n  fsdp_offload_params: false\n"
            "  fsdp_state_dict_type: SHARDED_STATE_DICT\n");
  const exporter::Exporter* exporter = exporter::find_exporter("fsdp");
  // 64 sequences = 2 x 2 x 16; gradients are scattered after each of the two micro-batches.
  EXPECT_EQ(exporter->write({job, s, stages}, exporter::format_index(*exporter, "trainer")).text,
            "--per_device_train_batch_size 2\n--gradient_accumulation_steps 2\n--bf16 true\n"
            "--accelerator_config '{\"gradient_accumulation_kwargs\": {\"sync_each_batch\": true}}'\n");
}

TEST(AccelerateExport, ComesBack) {
  const cost::Job job = export_job("llama3-8b", 16, 64, 4096, "hf-fsdp");
  for (const int zero : {2, 3}) {
    for (const std::int64_t degree : {0, 8}) {
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        const Strategy s = replicas_of(16, 2);
        const std::vector<StagePlan> stages = cost::even_stages(job, s, recompute, zero, degree);
        EXPECT_THAT(exporter::obstacles(launch::Framework::fsdp, job, s, stages), IsEmpty());
        const exporter::AccelerateExport written = exporter::export_accelerate({job, s, stages});
        const launch::LaunchSetup setup =
            launch::read_launch("a.yaml", written.yaml, {},
                                "--per_device_train_batch_size 2 --gradient-accumulation-steps=2 --bf16", nullptr);
        EXPECT_EQ(setup.framework, launch::Framework::fsdp);
        EXPECT_EQ(setup.stack.name, "hf-fsdp");
        EXPECT_EQ(setup.world, 16);
        EXPECT_EQ(setup.accumulation, 2);
        const launch::LaunchedPlan back = launch::lay_out(setup, job);
        EXPECT_EQ(back.strategy, s);
        EXPECT_EQ(back.stages.front().recompute, stages.front().recompute);
        EXPECT_EQ(exporter::sharding_of(s, back.stages.front()), exporter::sharding_of(s, stages.front()));
        EXPECT_EQ(cost::evaluate(job, s, back.stages).prediction.iteration_s,
                  cost::evaluate(job, s, stages).prediction.iteration_s);
      }
    }
  }
}

TEST(AccelerateExport, RefusesWhatItDoesNotWrite) {
  const cost::Job job = export_job("llama3-8b", 16, 64, 4096, "hf-fsdp");
  Strategy s = replicas_of(8, 1);
  s.split.tp = 2;
  const auto found = [&](const Recomputation& recompute, int zero) {
    return exporter::obstacles(launch::Framework::fsdp, job, s, cost::even_stages(job, s, recompute, zero));
  };
  EXPECT_THAT(found(Recompute::none, 3), Contains(HasSubstr("not with tp=2")));
  s = replicas_of(8, 1);
  s.pp = 2;
  EXPECT_THAT(found(Recompute::none, 3), Contains("cannot cut a model into stages (pp=2)"));
  s = replicas_of(16, 1);
  EXPECT_THAT(found(Recompute::none, 1), Contains(HasSubstr("(ZeRO 1)")));
  EXPECT_THAT(found(Recompute::none, 0), Contains(HasSubstr("(ZeRO 0)")));
  EXPECT_THAT(found(Recompute::selective, 3), Contains(HasSubstr("selectively")));
  // Experts that are divided over data-parallel ranks.
  const cost::Job mixture = export_job("mixtral-790m", 16, 64, 4096, "hf-fsdp");
  s.split.etp = 2;
  EXPECT_THAT(
      exporter::obstacles(launch::Framework::fsdp, mixture, s, cost::even_stages(mixture, s, Recompute::none, 3)),
      Contains(HasSubstr("not with etp=2")));
}

}  // namespace
}  // namespace nest::test
