// Recomputation by module and by layer, against sums by hand.
#include <gtest/gtest.h>

#include "cost/evaluate.h"
#include "cost/memory.h"
#include "cost/tables.h"
#include "cost_support.h"
#include "model/presets.h"

namespace nest::cost {
namespace {

constexpr double kTokens = 8192;

// h 4096, f 14336, 32 heads of 128 and 8 of keys, bf16.
Job dense_job() {
  Run run;
  run.global_batch = 8;
  run.sequence = static_cast<std::int64_t>(kTokens);
  return make_job(model::find_model_preset("llama3-8b").value(), run, find_stack("megatron-core").value(),
                  cluster::find_cluster("dgx-h100", 8).value());
}

constexpr RecomputeSet kMlp = set_of(RecomputeModule::mlp);

TEST(Recomputation, BytesOfADenseLayerByHand) {
  const Job job = dense_job();
  LayerPrice price;
  price_layer_memory(job, 1, {}, 1, price, {{kMlp}});
  constexpr double h = 4096, f = 14336, heads = 32, wide = 128;
  const double all = 8 * h + 2 * (32 + 2 * 8) * wide + 2 * h + 4 * heads + 8 + 6 * f;
  EXPECT_EQ(all, 139'400);
  EXPECT_DOUBLE_EQ(price.kept_bytes[kNothing], kTokens * all);
  // The input of the norm that runs inside the first product stays: its output and statistics go as well.
  EXPECT_DOUBLE_EQ(price.kept_bytes[kFirstSet], kTokens * (all - 6 * f - 2 * h - 4));
  EXPECT_DOUBLE_EQ(price.kept_bytes[kEverything], kTokens * 2 * h);
}

// Of 8 layers with 4 micro-batches in flight and 20 GB: n = ceil((36.54 - 20) / 4.30) = 4 must be recomputed.
TEST(Recomputation, FewestBlocksByHand) {
  constexpr double kept = kTokens * 139'400, inputs = kTokens * 8192, flight = 4, room = 20e9;
  int n = 0;
  while (flight * (n * inputs + (8 - n) * kept) > room) ++n;
  EXPECT_EQ(n, 4);
  const Job job = dense_job();
  Strategy strategy;
  strategy.pp = 4;
  std::vector<StagePlan> stages = even_stages(job, strategy, Recomputation::of_layers(Recompute::block, n), 1);
  const Plan plan = evaluate(job, strategy, stages);
  EXPECT_NEAR(static_cast<double>(plan.stages[0].memory.activations), flight * (n * inputs + (8 - n) * kept),
              flight * kTokens * 8192 * 2);  // and what the embedding keeps
}

TEST(Recomputation, BlocksAreBetweenNothingAndEverything) {
  const Job job = dense_job();
  Strategy strategy;
  strategy.pp = 2;
  const auto with = [&](const Recomputation& recompute) {
    return evaluate(job, strategy, even_stages(job, strategy, recompute, 1));
  };
  const Plan none = with(Recompute::none), full = with(Recompute::full);
  double before_s = none.prediction.iteration_s;
  std::int64_t before = none.stages[0].memory.activations;
  for (std::int32_t n = 1; n <= 16; ++n) {
    const Plan plan = with(Recomputation::of_layers(Recompute::block, n));
    EXPECT_GT(plan.prediction.iteration_s, before_s) << n;
    EXPECT_LT(plan.stages[0].memory.activations, before) << n;
    EXPECT_NEAR(plan.stages[0].time.recompute, full.stages[0].time.recompute * n / 16, 1e-9) << n;
    before_s = plan.prediction.iteration_s;
    before = plan.stages[0].memory.activations;
  }
  EXPECT_EQ(before, full.stages[0].memory.activations);
}

// One input of two layers is kept, and both layers' tensors live at once.
TEST(Recomputation, GroupsKeepFewerInputsAndNeedMoreAtOnce) {
  const Job job = dense_job();
  Strategy strategy;
  strategy.pp = 2;
  const auto with = [&](const Recomputation& recompute) {
    return evaluate(job, strategy, even_stages(job, strategy, recompute, 1)).stages[0];
  };
  const StagePlan full = with(Recompute::full), pairs = with(Recomputation::of_layers(Recompute::uniform, 2));
  EXPECT_EQ(pairs.time.recompute, full.time.recompute);
  const double input = kTokens * 8192;
  EXPECT_NEAR(static_cast<double>(full.memory.activations - pairs.memory.activations), 2 * 8 * input,
              1);  // 2 in flight
  EXPECT_NEAR(static_cast<double>(pairs.memory.working - full.memory.working), kTokens * 139'400, 1);
}

TEST(Recomputation, StacksSayWhatTheyCanBeTold) {
  Job job = dense_job();
  Strategy strategy;
  const auto reason = [&](const Recomputation& recompute) {
    return refuse_strategy(job, strategy, even_stages(job, strategy, recompute, 1));
  };
  EXPECT_EQ(reason(Recomputation::of_modules(kMlp)), "");
  EXPECT_EQ(reason(Recomputation::of_layers(Recompute::block, 3)), "");
  job.stack.shared_expert_overlap = true;
  EXPECT_NE(reason(Recomputation::of_modules(set_of(RecomputeModule::shared_experts))), "");
  job.stack.graph_scopes = {GraphScope::router};
  EXPECT_NE(reason(Recomputation::of_modules(set_of(RecomputeModule::moe))), "");
  job.stack.recompute_modules = job.stack.recompute_layers = false;
  EXPECT_NE(reason(Recomputation::of_modules(kMlp)), "");
  EXPECT_NE(reason(Recomputation::of_layers(Recompute::block, 3)), "");
}

}  // namespace
}  // namespace nest::cost
