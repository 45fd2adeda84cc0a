// Steps that are not executed, beside those that are.
#include "simulate/step_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/index.h"
#include "plan/strategy_text.h"
#include "simulate/lower.h"
#include "simulate/step_judge.h"
#include "simulation_check/random_plan.h"
#include "test_support/scale.h"

namespace nest::simulate {
namespace {

double executed_s(const RandomPlan& plan) {
  return execute(lower_plan(plan.job, plan.strategy, plan.stages).program).total_s;
}

StepEstimate estimated(const RandomPlan& plan) {
  ExchangeCache none(plan.job.cluster);
  return StepEstimator(plan.job, plan.strategy, plan.stages, none)
      .of(micro_batches(plan.strategy, plan.job.run.global_batch));
}

TEST(StepEstimate, NoPlanIsFaster) {
  const std::uint32_t plans = test::scaled(4000, 60);
  std::uint32_t exact = 0;
  for (std::uint32_t seed = 0; seed < plans; ++seed) {
    const RandomPlan plan = random_plan(seed / 2, seed % 2 == 0 ? DrawnFrom::presets : DrawnFrom::slow);
    const double taken_s = executed_s(plan), least_s = estimated(plan).least_s;
    EXPECT_LE(least_s, taken_s * (1 + 1e-9)) << "seed " << seed << ", " << plan::strategy_text(plan.strategy);
    exact += least_s >= taken_s * (1 - 1e-9);
  }
  EXPECT_GT(exact, plans / 4);  // where nothing is shared it is the time
}

// Absolute errors, in percent.
class Errors {
 public:
  void add(double estimate_s, double taken_s) { errors_.push_back(100 * std::abs(estimate_s / taken_s - 1)); }
  std::size_t size() const { return errors_.size(); }
  double quantile(double share) {
    std::sort(errors_.begin(), errors_.end());
    return errors_[std::min(errors_.size() - 1, static_cast<std::size_t>(share * real(errors_.size())))];
  }
  std::string text() {
    return std::to_string(size()) + " plans: " + std::to_string(quantile(0.5)) + " / " + std::to_string(quantile(0.9)) +
           " / " + std::to_string(quantile(1));
  }

 private:
  std::vector<double> errors_;
};

struct Kind {
  const char* name;
  bool (*holds)(const RandomPlan& plan);
  double median, p90;  // percent that the estimate may be off
};

bool shards_every_pass(const RandomPlan& plan) {
  return plan.strategy.pp > 1 &&
         std::any_of(plan.stages.begin(), plan.stages.end(), [](const StagePlan& stage) { return stage.zero >= 2; });
}

TEST(StepEstimate, IsCloseOnSlowNetworks) {
  const Kind kinds[] = {
      {"all", [](const RandomPlan&) { return true; }, 0.3, 6},
      {"sharded_every_pass", shards_every_pass, 0.3, 8},
      {"staggered",
       [](const RandomPlan& plan) {
         const Strategy& strategy = plan.strategy;
         return strategy.schedule == Schedule::one_f_one_b && strategy.pp > 1 && strategy.dp_inner < strategy.dp &&
                !shards_every_pass(plan);
       },
       0.3, 4},
      {"interleaved", [](const RandomPlan& plan) { return plan.strategy.virtual_stages > 1; }, 1.5, 9},
  };
  std::vector<Errors> estimates(std::size(kinds)), formulas(std::size(kinds));
  const std::uint32_t plans = test::scaled(1200, 300);
  for (std::uint32_t seed = 0; seed < plans; ++seed) {
    const RandomPlan plan = random_plan(seed, DrawnFrom::slow);
    const double taken_s = executed_s(plan), estimate_s = estimated(plan).seconds;
    for (std::size_t k = 0; k < std::size(kinds); ++k) {
      if (!kinds[k].holds(plan)) continue;
      estimates[k].add(estimate_s, taken_s);
      formulas[k].add(plan.evaluation.prediction.iteration_s, taken_s);
    }
  }
  for (std::size_t k = 0; k < std::size(kinds); ++k) {
    SCOPED_TRACE(kinds[k].name);
    ASSERT_GT(estimates[k].size(), 10U);
    RecordProperty(kinds[k].name, estimates[k].text() + "; by the formula " + formulas[k].text());
    EXPECT_LE(estimates[k].quantile(0.5), kinds[k].median) << estimates[k].text();
    EXPECT_LE(estimates[k].quantile(0.9), kinds[k].p90) << estimates[k].text();
    EXPECT_LT(estimates[k].quantile(0.9), formulas[k].quantile(0.9)) << formulas[k].text();
  }
}

// The parts of a long step that are looked at are those that are executed.
TEST(StepEstimate, ContinuesLongSteps) {
  RandomPlan plan = random_plan(3);
  plan.job.run.global_batch = (12 * plan.strategy.pp + 120) * plan.strategy.micro_batch * plan.strategy.dp;
  const StepJudge judge(plan.job);
  EXPECT_NEAR(judge.estimate(plan.strategy, plan.stages).least_s / judge.least_s(plan.strategy, plan.stages), 1, 0.02);
}

TEST(StepJudge, ExecutesWhatMayBeFaster) {
  const RandomPlan plan = random_plan(5);
  const StepJudge judge(plan.job);
  const double seconds = judge.seconds(plan.strategy, plan.stages), least = judge.least_s(plan.strategy, plan.stages);
  EXPECT_EQ(judge.seconds_below(plan.strategy, plan.stages, least), std::nullopt);
  EXPECT_EQ(judge.seconds_below(plan.strategy, plan.stages, least * 1.001), seconds);
}

}  // namespace
}  // namespace nest::simulate
