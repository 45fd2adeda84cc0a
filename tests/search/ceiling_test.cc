// Plans under a ceiling, and the fewest devices, against a search for every number of devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "problem.h"
#include "questions/fewest.h"
#include "search/planner.h"
#include "test_support/scale.h"

namespace nest::search {
namespace {

using questions::Corner;
constexpr double kNoCeiling = std::numeric_limits<double>::infinity();

std::optional<Corner> best_of(PlanRequest request, std::int64_t devices, const PlanCeiling& ceiling) {
  request.most_devices = devices;
  request.search.ceiling = ceiling;
  try {
    const PlanAnswer answer = make_plan(request);
    EXPECT_NE(answer.outcome, PlanOutcome::limit);
    if (answer.plans.empty()) return std::nullopt;
    const Plan& plan = answer.plans.front();
    return Corner{plan.strategy.devices_spanned(), plan.prediction.iteration_s};
  } catch (const InputError&) {
    return std::nullopt;  // no plan at all on so few
  }
}

double score(PlanObjective objective, const Corner& corner) {
  return objective == PlanObjective::time ? corner.step_s : corner.step_s * static_cast<double>(corner.devices);
}

// The best of the fastest plans of 1 … n devices that is under the ceiling. A plan under it that is none of these spans as
// many devices as one of them, or more, and takes no less.
double brute_force(const std::vector<std::optional<Corner>>& fastest, PlanObjective objective,
                   const PlanCeiling& ceiling) {
  double best = kNoCeiling;
  for (const auto& corner : fastest) {
    if (corner && ceiling.holds(corner->step_s, corner->devices)) best = std::min(best, score(objective, *corner));
  }
  return best;
}

TEST(Ceiling, IsExactAgainstALoopOverAllDeviceCounts) {
  const std::uint32_t problems = test::scaled(200, 8);
  int met = 0, unmet = 0, checked = 0;
  for (std::uint32_t seed = 4'000'000; checked < static_cast<int>(problems); ++seed) {
    test::Problem problem = test::random_problem(seed);
    if (problem.limits.all_devices) continue;
    ++checked;
    test::Dice dice(seed);
    PlanRequest request = problem.request();
    request.search.objective = PlanObjective::time;
    request.search.top = 1;
    const std::int64_t devices = problem.devices();
    std::vector<std::optional<Corner>> fastest;
    for (std::int64_t n = 1; n <= devices; ++n) {
      fastest.push_back(best_of(request, n, {}));
      if (n > 1 && fastest[fastest.size() - 2]) {
        ASSERT_TRUE(fastest.back());
        ASSERT_LE(fastest.back()->step_s, fastest[fastest.size() - 2]->step_s * (1 + 1e-12)) << "seed " << seed;
      }
    }
    const std::optional<Corner>& all = fastest.back();
    const double around_s = all ? all->step_s : 1;
    PlanCeiling ceiling;
    if (!dice.one_in(3)) ceiling.step_s = around_s * dice.magnitude(0.9, static_cast<double>(devices) * 2);
    if (dice.one_in(2) || std::isinf(ceiling.step_s)) {
      ceiling.device_s = around_s * static_cast<double>(devices) * dice.magnitude(0.3, 1.5);
    }
    // On the very edge now and then: what takes exactly the limit is within it.
    if (all && dice.one_in(4)) ceiling = {all->step_s, kNoCeiling};

    std::int64_t fewest = devices + 1;
    for (const auto& corner : fastest) {
      if (corner && ceiling.holds(corner->step_s, corner->devices)) fewest = std::min(fewest, corner->devices);
    }
    for (const PlanObjective objective : {PlanObjective::time, PlanObjective::device_hours}) {
      const double expected = brute_force(fastest, objective, ceiling);
      PlanRequest under = request;
      under.search.objective = objective;
      const std::optional<Corner> found = best_of(under, devices, ceiling);
      ASSERT_EQ(found.has_value(), std::isfinite(expected)) << "seed " << seed;
      if (!found) continue;
      EXPECT_NEAR(score(objective, *found) / expected, 1, 1e-9) << "seed " << seed;
      EXPECT_TRUE(ceiling.holds(found->step_s, found->devices));
    }
    (std::isfinite(brute_force(fastest, PlanObjective::time, ceiling)) ? met : unmet)++;
    const questions::Fewest found =
        questions::fewest_devices(1, devices, around_s, questions::CountOrder::nested,
                                  [&](std::int64_t n) { return best_of(request, n, ceiling); });
    EXPECT_TRUE(found.proven);
    EXPECT_EQ(found.best ? found.best->devices : devices + 1, fewest) << "seed " << seed;
  }
  EXPECT_GT(met, 0);
  EXPECT_GT(unmet, 0);
}

}  // namespace
}  // namespace nest::search
