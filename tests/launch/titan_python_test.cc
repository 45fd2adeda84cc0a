// Configurations of torchtitan's main as people write them.
#include <gmock/gmock.h>

#include "launch/setup.h"
#include "test_support/refusal.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;

launch::LaunchSetup read_titan(const std::string& text, const launch::ReadNamedFile& read_file = nullptr) {
  return launch::read_launch("mine.py", text, {}, "", read_file);
}

std::string titan_refusal(const std::string& text) {
  return refusal_of([&] { read_titan(text); }, "");
}

// torchtitan's README: a configuration that changes another. 8 x 8192 tokens is what llama3_70b has.
TEST(TitanPython, ReadsWhatIsChanged) {
  const launch::LaunchSetup setup = read_titan(R"(
"""Mine: ParallelismConfig(tensor_parallel_degree=64) is only talked about here."""
from torchtitan.models.llama3.config_registry import llama3_70b
from torchtitan.trainer import Trainer


def mine() -> Trainer.Config:
    config = llama3_70b()
    # config.parallelism.context_parallel_degree = 8
    config.parallelism.context_parallel_degree = 2
    config.training.num_tokens_per_train_step = 64 * 8_192  # 64 sequences
    config.training.steps = len(config.parallelism)
    config.activation_checkpoint = None
    config.compile.enable = True
    return config
)");
  EXPECT_EQ(setup.framework, launch::Framework::torchtitan_main);
  EXPECT_EQ(setup.model_name, "llama3-70b");
  EXPECT_EQ(setup.tp, 8);
  EXPECT_EQ(setup.cp, 2);
  EXPECT_EQ(setup.cp_comm, ContextExchange::all_gather);
  EXPECT_EQ(setup.micro_batch, 8);
  EXPECT_EQ(setup.global_batch, 64);
  EXPECT_EQ(setup.sequence, 8192);
  EXPECT_EQ(setup.zero, 3);
  EXPECT_EQ(setup.recompute, Recompute::none);
  EXPECT_TRUE(setup.stack.fused_rowwise);
}

TEST(TitanPython, ReadsWholeConfigurations) {
  const launch::LaunchSetup setup = read_titan(R"(
from torchtitan.models.deepseek_v3 import model_registry
def mine() -> Trainer.Config:
    return Trainer.Config(
        model_spec=model_registry("671B", converters=[Float8LinearConverter.Config(filter_fqns=["lm_head"])]),
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 4096, max_context_length=4096),
        parallelism=ParallelismConfig(
            data_parallel_shard_degree=4, data_parallel_replicate_degree=2, expert_parallel_degree=8,
            tensor_parallel_degree=2, pipeline_parallel_degree=4, num_pp_microbatches=16,
            pipeline_parallel_schedule="Interleaved1F1B"),
        activation_checkpoint=SelectiveAC.Config(),
    )
)");
  EXPECT_EQ(setup.model_name, "deepseek-v3");
  EXPECT_EQ(setup.precision, Precision::fp8);
  EXPECT_EQ(setup.world, 4 * 2 * 2 * 4);
  EXPECT_EQ(setup.shard_instances, 2);
  EXPECT_EQ(setup.ep, 8);
  EXPECT_EQ(setup.pp, 4);
  EXPECT_EQ(setup.vpp, 2);
  EXPECT_EQ(setup.micro_batch, 2);
  EXPECT_EQ(setup.local_batch, 32);
  EXPECT_EQ(setup.zero, 2);  // a pipeline does not gather again
  EXPECT_EQ(setup.recompute, Recompute::selective);
  EXPECT_FALSE(setup.stack.fused_rowwise);  // compile is off
}

TEST(TitanPython, RefusesWhatItCannotKnow) {
  const std::string head = "from torchtitan.trainer import Trainer\ndef mine() -> Trainer.Config:\n";
  EXPECT_THAT(titan_refusal(head + "    config.parallelism.tensor_parallel_degree = WORLD // 2\n"),
              HasSubstr("mine.py: line 3: parallelism.tensor_parallel_degree is no literal; write its value"));
  EXPECT_THAT(titan_refusal(head + "    return ParallelismConfig(tensor_parallel_degree=2 * N)\n"),
              HasSubstr("parallelism.tensor_parallel_degree is no literal"));
  EXPECT_THAT(titan_refusal(head + "    return TrainingConfig(max_context_length=3000)\n"),
              HasSubstr("micro-batches of 16384 tokens and steps of -1 are no whole sequences of 3000"));
  EXPECT_THAT(titan_refusal(head + "    pass\ndef another() -> Trainer.Config:\n    pass\n"),
              HasSubstr("configurations are mine and another; name one: --config mine"));
  EXPECT_THAT(titan_refusal(head + "    return MemoryBudgetAC.Config()\n"),
              HasSubstr("`memory_budget` is not modelled"));
}

// Lines that start main: its own configurations are known, others are read where the module lies.
TEST(TitanPython, ReadsLaunchLines) {
  const launch::LaunchSetup own = read_titan(
      "torchrun --nproc_per_node=8 --nnodes 4 -m torchtitan.train --module llama3 --config llama3_405b "
      "--parallelism.tensor_parallel_degree 4 --compile.no-enable\n");
  EXPECT_EQ(own.model_name, "llama3-405b");
  EXPECT_EQ(own.world, 32);
  EXPECT_EQ(own.tp, 4);
  EXPECT_EQ(own.precision, Precision::fp8);
  EXPECT_EQ(own.recompute, Recompute::full);
  EXPECT_FALSE(own.stack.fused_rowwise);
  const launch::ReadNamedFile files = [](const std::string& path) -> std::optional<std::string> {
    if (path != "my/runs.py") return std::nullopt;
    return "from torchtitan.models.qwen3 import config_registry\ndef a():\n    return qwen3_32b()\n"
           "def b():\n    config = qwen3_14b()\n    config.parallelism.pipeline_parallel_degree = 2\n"
           "    config.parallelism.num_pp_microbatches = 8\n    return config\n";
  };
  const launch::LaunchSetup mine =
      read_titan("torchrun --nproc_per_node=8 -m torchtitan.train --module=my.runs --config=b\n", files);
  EXPECT_EQ(mine.model_name, "qwen3-14b");
  EXPECT_EQ(mine.pp, 2);
  EXPECT_EQ(mine.micro_batch, 4);
  EXPECT_EQ(mine.local_batch, 32);
  EXPECT_THAT(refusal_of([&] { read_titan("torchrun -m torchtitan.train --module x.y --config z\n", files); }, ""),
              HasSubstr("--module x.y --config z: neither torchtitan's own nor a file that can be read here"));
}

}  // namespace
}  // namespace nest::test
