// Frozen weights and adapters in prices: sums that a reader can redo.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "cost/layer_price.h"
#include "cost/memory.h"
#include "cost/tables.h"
#include "cost_support.h"
#include "model/training.h"

namespace nest::cost {
namespace {

struct FrozenSpec {
  const char* freeze = "";
  const char* lora = "";
  const char* stack = "megatron-core";
};

Job frozen_job(const FrozenSpec& spec) {
  Run run;
  run.global_batch = 64;
  run.sequence = 4096;
  run.freeze = spec.freeze;
  run.lora = spec.lora;
  return make_job(model::find_model_preset("llama3-8b").value(), run, find_stack(spec.stack).value(),
                  rail_cluster("h100", 8));
}

const LayerPrice& price_at(const Job& job, const PriceTable& table, std::size_t position) {
  return table.kinds[at(job.model.layers[position])];
}

TEST(FrozenPrices, BelowTheFirstTrainedLayerOnlyForwardTakesTime) {
  const Job job = frozen_job({"embedding,blocks.0-3"}), all = frozen_job({});
  const PriceTable table = price_table(job, {}, 1), whole = price_table(all, {}, 1);
  const LayerPrice &below = price_at(job, table, 1), &free = price_at(all, whole, 1);
  EXPECT_EQ(below.forward_s, free.forward_s);
  EXPECT_EQ(below.backward_s, 0);
  EXPECT_EQ(below.weight_s, 0);
  EXPECT_EQ(below.dense_parameters, 0);
  for (const double seconds : below.recompute_s) EXPECT_EQ(seconds, 0);
  EXPECT_EQ(price_at(job, table, 20).backward_s, price_at(all, whole, 20).backward_s);
}

TEST(FrozenPrices, AFrozenBlockSavesItsWeightGradients) {
  const Job job = frozen_job({"blocks.9"}), all = frozen_job({});
  const PriceTable table = price_table(job, {}, 1), whole = price_table(all, {}, 1);
  const LayerPrice &frozen = price_at(job, table, 10), &free = price_at(all, whole, 10);
  EXPECT_EQ(frozen.forward_s, free.forward_s);
  EXPECT_EQ(frozen.weight_s, 0);
  EXPECT_NEAR(free.backward_s - frozen.backward_s, free.weight_s, 1e-12);
  EXPECT_EQ(frozen.frozen_dense, free.dense_parameters);
}

// Groups of four blocks keep one input each: 4096 tokens of 4096 channels in 16 bits. Of 32 blocks the first five are frozen; nothing is kept
// of the first group, and of the second, whose first block is frozen too and the others are not, its input.
TEST(FrozenMemory, AGroupOfWhichSomeBlockIsTrainedKeepsItsInput) {
  Strategy strategy;
  StagePlan stage;
  stage.last = 33;
  stage.recompute = Recomputation::of_layers(Recompute::uniform, 4);
  const auto kept_beside = [&](const char* frozen) {
    const StageMemory some = stage_memory(frozen_job({frozen}), strategy, stage, 0);
    const StageMemory whole = stage_memory(frozen_job({}), strategy, stage, 0);
    return whole.activations - some.activations;
  };
  constexpr std::int64_t kInput = std::int64_t{4096} * 4096 * 2;
  EXPECT_EQ(kept_beside("embedding,blocks.0-3"), kInput);
  EXPECT_EQ(kept_beside("embedding,blocks.0-4"), kInput);
  EXPECT_EQ(kept_beside("embedding,blocks.0-7"), 2 * kInput);
}

// 16 bits a weight, 4 bytes of gradient and 12 of optimizer state per trained parameter, nothing more of a frozen one.
TEST(FrozenMemory, StateIsOfWhatIsTrained) {
  const double all = 8'030'261'248, adapters = 32 * 16 * (2 * 4096.0 + 4096 + 1024);
  const Layout layout{.dp = 8};
  const Plan plan = evaluate_even(frozen_job({"", "rank=16,targets=q,v"}), layout, Recompute::none, 0);
  const StageMemory& memory = plan.stages.front().memory;
  EXPECT_EQ(memory.weights, std::llround(2 * (all + adapters)));
  EXPECT_EQ(memory.gradients, std::llround(4 * adapters));
  EXPECT_EQ(memory.optimizer, std::llround(12 * adapters));
  const Plan narrow = evaluate_even(frozen_job({"", "rank=16,targets=q,v,base=nf4"}), layout, Recompute::none, 0);
  const double table = 128'256.0 * 4096, norms = 65 * 4096, matrices = all - 2 * table - norms;
  EXPECT_NEAR(static_cast<double>(narrow.stages.front().memory.weights),
              2 * (2 * table + norms + adapters) + model::kNf4Bytes * matrices, 1);
  EXPECT_GT(narrow.prediction.iteration_s, plan.prediction.iteration_s);  // they are written out first
}

// Weights that are sharded at rest are gathered whether they are trained or not; gradients are of adapters alone.
TEST(FrozenTraffic, GathersAllAndScattersWhatIsTrained) {
  const Strategy strategy = strategy_of({.dp = 8});
  const Job job = frozen_job({"", "rank=16"}), all = frozen_job({});
  const auto traffic = [&](const Job& of, int zero) {
    const PriceTable table = price_table(of, strategy.split, 1);
    const SyncRule rule = sync_rule(of, 1);
    const StageSums sums = sum_stage(of, table, 0, static_cast<int>(of.model.layers.size()) - 1, 1);
    return stage_traffic(rule, sums, sync_lines(of, strategy, table, zero, 8), zero);
  };
  EXPECT_LT(traffic(job, 1).reduce_s, traffic(all, 1).reduce_s / 100);
  EXPECT_LT(traffic(job, 1).gather_s, traffic(all, 1).gather_s / 100);
  // Two gathers and a scatter of 2 and 4 bytes: without the scatter half of it.
  const double gathers = traffic(job, 3).micro_s / traffic(all, 3).micro_s;
  EXPECT_GT(gathers, 0.45);
  EXPECT_LT(gathers, 0.60);
}

TEST(FrozenPlans, AGraphSaysItselfWhatIsTrained) {
  Job job = frozen_job({});
  job.model.traced = job.fused_model.traced = true;
  auto run = job.run;
  run.freeze = "embedding";
  EXPECT_THROW(make_job(job.model, job.fused_model, run, job.stack, job.cluster), InputError);
}

}  // namespace
}  // namespace nest::cost
