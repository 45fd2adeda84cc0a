// What must hold whatever the numbers: sharding never costs memory, recomputation never keeps more, parts are the
// whole.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cost/layer_price.h"
#include "memory_support.h"
#include "model/presets.h"

namespace nest::cost {
namespace {

using namespace test;

std::vector<SoftwareStack> stacks() {
  return {megatron_fused(),
          megatron_deterministic(),
          bridge_moonlight({model::Module::core_attention, model::Module::moe_activation}),
          fsdp2(LossKernel::unfused),
          one_gpu_huggingface(),
          nanotron(),
          megatron_deepspeed(2),
          internevo()};
}

constexpr Recompute kModes[] = {Recompute::none, Recompute::selective, Recompute::full};

Job preset_job(const char* name, const SoftwareStack& stack, std::int64_t batch, std::int64_t sequence = 2048) {
  Job job;
  job.stack = stack;
  job.run.global_batch = batch;
  job.run.sequence = sequence;
  job.model = model::build_model(*model::find_model_preset(name), implementation_of(job));
  return job;
}

std::int64_t needed(const Job& job, const Strategy& strategy, Recompute mode, int zero, std::int64_t degree = 0) {
  std::int64_t most = 0;
  for (const auto& memory : all_memory(job, strategy, stages_of(job, strategy, mode, zero, degree))) {
    most = std::max(most, memory.needed - context_bytes(job, strategy));
  }
  return most;
}

TEST(MemoryProperties, PartsSumToTheTotal) {
  for (const SoftwareStack& stack : stacks()) {
    for (const char* name : {"llama3-8b", "mixtral-8x7b", "deepseek-v2-lite", "bert-large"}) {
      const Job job = preset_job(name, stack, 64, 512);
      for (const std::int64_t pp : {1, 4}) {
        for (const Recompute mode : kModes) {
          for (const int zero : {0, 1, 2, 3}) {
            Strategy strategy;
            strategy.pp = pp;
            strategy.dp = 4;
            for (const auto& m : all_memory(job, strategy, stages_of(job, strategy, mode, zero))) {
              const StageMemory& p = m;
              EXPECT_EQ(p.weights + p.gradients + p.optimizer + p.activations + p.working + p.buffers, p.total);
              EXPECT_EQ(p.total, m.total);
              EXPECT_GE(m.total, m.allocated);
              // What InternEvo was seen to hold is cache to a part, which need not fit.
              const bool cached = stack.memory == MemoryModel::internevo;
              EXPECT_TRUE(cached || m.needed > m.allocated) << stack.name;
              for (const std::int64_t part :
                   {p.weights, p.gradients, p.optimizer, p.activations, p.working, p.buffers}) {
                EXPECT_GE(part, 0) << stack.name << " " << name;
              }
            }
          }
        }
      }
    }
  }
}

TEST(MemoryProperties, RecomputationNeverKeepsMore) {
  for (const SoftwareStack& stack : stacks()) {
    for (const char* name : {"llama3-70b", "mixtral-8x7b", "deepseek-v3", "gpt3-175b", "t5-11b"}) {
      const Job job = preset_job(name, stack, 64);
      for (const Split& split : {Split{}, Split{.tp = 2, .sp = true}, Split{.cp = 2}}) {
        for (int kind = 0; kind < static_cast<int>(job.model.kinds.size()); ++kind) {
          LayerPrice price;
          price_layer_memory(job, kind, split, 2, price);
          EXPECT_LE(price.kept_bytes[2], price.kept_bytes[1]) << name << " " << kind;
          EXPECT_LE(price.kept_bytes[1], price.kept_bytes[0]) << name << " " << kind;
          for (const double bytes : price.working_bytes) EXPECT_GE(bytes, 0);
        }
      }
    }
  }
}

TEST(MemoryProperties, MoreDevicesNeverMoreMemory) {
  for (const SoftwareStack& stack : stacks()) {
    const Job job = preset_job("llama3-8b", stack, 4096);
    const Job moe = preset_job("mixtral-8x7b", stack, 4096);
    for (const Recompute mode : kModes) {
      Strategy strategy;
      for (const int zero : {1, 2, 3}) {
        std::int64_t before = needed(job, strategy, mode, zero);
        // The step from one replica to two may add buckets; from there on more ranks share the same state.
        for (std::int64_t dp = 2; dp <= 64; dp *= 2) {
          Strategy wider = strategy;
          wider.dp = dp;
          const std::int64_t now = needed(job, wider, mode, zero);
          if (dp > 2) {
            EXPECT_LE(now, before) << "dp " << dp << " zero " << zero;
          }
          before = now;
        }
      }
      std::int64_t before = needed(job, strategy, mode, 1);
      for (const std::int64_t cp : {2, 4, 8}) {
        Strategy wider = strategy;
        wider.split.cp = cp;
        const std::int64_t now = needed(job, wider, mode, 0);
        if (cp > 2) {
          EXPECT_LE(now, before) << "cp " << cp;
        }
        before = now;
      }
      before = 0;
      for (const std::int64_t tp : {2, 4, 8}) {
        Strategy wider = strategy;
        wider.split = {.tp = tp, .sp = true};
        const std::int64_t now = needed(job, wider, mode, 1);
        if (before > 0) {
          EXPECT_LE(now, before) << "tp " << tp;
        }
        before = now;
      }
      before = 0;
      for (const std::int64_t ep : {2, 4, 8}) {
        Strategy wider = strategy;
        wider.split = {.ep = ep};
        wider.dp = wider.dp_inner = ep;
        const std::int64_t now = needed(moe, wider, mode, 1);
        if (before > 0) {
          EXPECT_LE(now, before) << "ep " << ep;
        }
        before = now;
      }
    }
  }
}

TEST(MemoryProperties, ShardingDegreeAndStage) {
  const Job job = preset_job("llama3-8b", {}, 64);
  Strategy strategy;
  strategy.dp = 64;
  for (int zero = 1; zero <= 3; ++zero) {
    EXPECT_LT(needed(job, strategy, Recompute::none, zero), needed(job, strategy, Recompute::none, zero - 1)) << zero;
    EXPECT_LT(needed(job, strategy, Recompute::none, zero, 64), needed(job, strategy, Recompute::none, zero, 8));
  }
}

TEST(MemoryProperties, MoreInFlightNeverLess) {
  for (const SoftwareStack& stack : stacks()) {
    for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::gpipe, Schedule::interleaved}) {
      std::vector<std::int64_t> before(4, 0);
      for (std::int64_t batch = 1; batch <= 64; batch *= 2) {
        const Job job = preset_job("llama3-8b", stack, batch);
        Strategy strategy;
        strategy.pp = 4;
        strategy.schedule = schedule;
        strategy.virtual_stages = schedule == Schedule::interleaved ? 2 : 1;
        const auto memory = all_memory(job, strategy, stages_of(job, strategy, Recompute::none, 0));
        for (std::size_t s = 0; s < 4; ++s) {
          EXPECT_GE(memory[s].needed, before[s]);
          before[s] = memory[s].needed;
          if (s > 0) {
            EXPECT_LE(memory[s].in_flight, memory[s - 1].in_flight);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace nest::cost
