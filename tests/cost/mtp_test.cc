// What predicting further tokens costs.
#include <gmock/gmock.h>

#include "base/error.h"
#include "cost/evaluate.h"
#include "cost/tables.h"
#include "cost_support.h"

namespace nest::cost {
namespace {

using testing::HasSubstr;

Job deepseek(std::int64_t depths, const std::string& model = "deepseek-v3") {
  Run run;
  run.global_batch = 256;
  run.sequence = 4096;
  run.mtp_layers = depths;
  return make_job(model::find_model_preset(model).value(), run, find_stack("megatron-core-moe").value(),
                  rail_cluster("h100", 256));
}

double forward_flops(const Job& job) {
  const split::RunShape shape{1, job.run.sequence, 0, 1.0};
  model::Implementation implementation = timed_implementation(job);
  implementation.stack = model::Stack::plain;
  double sum = 0;
  for (const int kind : job.fused_model.layers) {
    sum += split::localise(job.fused_model.kinds[at(kind)], shape, Split{}, implementation).flops_forward();
  }
  return sum / real(job.run.sequence);
}

// Per token: the layer's products 1.17 GFLOP and its attention 0.17, 4h² = 0.21, 2hV = 1.85: 3.4 in all, 4.1 % of the
// model with it.
TEST(Mtp, DeepSeekFlopsByHand) {
  const double h = 7168, heads = 128, vocabulary = 129280;
  const double attention = h * 1536 + 1536 * heads * 192 + h * (512 + 64) + 512 * heads * 256 + heads * 128 * h;
  const double experts = (8 + 1) * 3 * h * 2048 + 256 * h;
  const double core = 2 * heads * (192 + 128) * 4097 / 2;  // of the pairs that the mask leaves
  const double by_hand = 2 * (attention + experts) + core + 4 * h * h + 2 * h * vocabulary;
  EXPECT_NEAR(by_hand, 3.4e9, 0.03e9);
  const double without = forward_flops(deepseek(0)), with = forward_flops(deepseek(1));
  EXPECT_NEAR(with - without, by_hand, 1e-3 * by_hand);
  EXPECT_NEAR((with - without) / with, 0.041, 0.005);
}

TEST(Mtp, StandsOnTheLastStageAndKeepsACopyOfTheTable) {
  const Job job = deepseek(1), bare = deepseek(0);
  const Split split;
  const PriceTable table = price_table(job, split, 1), before = price_table(bare, split, 1);
  const int mtp = static_cast<int>(job.model.layer_count()) - 2, head = mtp + 1;
  const double copy = 129280.0 * 7168;
  EXPECT_DOUBLE_EQ(real(table.copied_parameters), copy);
  // On its stage: the layer and the table; together with the embedding the table counts once.
  const double own = sum_stage(job, table, mtp, mtp, 2).dense_parameters - copy;
  const double whole = sum_stage(job, table, 0, head, 1).dense_parameters;
  const double whole_before = sum_stage(bare, before, 0, head - 1, 1).dense_parameters;
  EXPECT_NEAR(whole - whole_before, own, 1);
  // The head projects twice.
  const double once = before.kinds[at(bare.model.layers.back())].flops;
  EXPECT_NEAR(table.kinds[at(job.model.layers.back())].flops, 2 * once, 1e-9 * once);

  Strategy strategy = strategy_of(Layout{.ep = 16, .pp = 16, .dp = 16});
  const std::vector<StagePlan> stages = even_stages(job, strategy, Recompute::full, 1);
  EXPECT_GE(mtp, stages.back().first);
  const Plan plan = evaluate(job, strategy, stages),
             plain = evaluate(bare, strategy, even_stages(bare, strategy, Recompute::full, 1));
  EXPECT_GT(plan.prediction.iteration_s, plain.prediction.iteration_s);
  EXPECT_GT(plan.stages.back().memory.weights, plain.stages.back().memory.weights);
  EXPECT_EQ(plan.run.mtp_layers, 1);
}

TEST(Mtp, IsRefusedByName) {
  EXPECT_THROW(deepseek(1, "bert-large"), InputError);
  const Job job = deepseek(1);
  const Strategy strategy = strategy_of(Layout{.cp = 2, .ep = 16, .pp = 8});
  EXPECT_THAT(refuse_strategy(job, strategy, even_stages(job, strategy, Recompute::none, 1)),
              HasSubstr("cp=2: layers that predict"));
}

}  // namespace
}  // namespace nest::cost
