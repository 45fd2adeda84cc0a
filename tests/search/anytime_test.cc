// Searches that are stopped: a plan by rules, bounds that hold, limits that are kept.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>

#include "base/error.h"
#include "problem.h"
#include "problem_text.h"
#include "search/first_plan.h"
#include "search/simplest.h"
#include "test_support/scale.h"

namespace nest::search {
namespace {

constexpr double kRounding = 1e-9;

TEST(Anytime, PlansByRulesFitAndAreNoBetterThanTheBest) {
  int solvable = 0, found = 0;
  for (std::uint32_t seed = 1; seed <= test::scaled(1500, 100); ++seed) {
    const test::Problem problem = test::random_problem(seed);
    SCOPED_TRACE(test::problem_text(problem));
    PlanRequest request = problem.request();
    request.search.top = 1;
    PlanAnswer best;
    try {
      best = make_plan(request);
    } catch (const InputError&) {
      continue;  // the limits admit nothing
    }
    const PlanSpace space(problem.job, problem.limits, problem.devices());
    const std::optional<Plan> first = first_plan(space, problem.objective, {}, Deadline(0.01, nullptr));
    ASSERT_TRUE(!first || !best.plans.empty()) << "a plan where none fits";
    if (best.plans.empty()) continue;
    ++solvable;
    if (!first) continue;
    ++found;
    EXPECT_TRUE(first->fits);
    EXPECT_GE(score_of(*first, problem.objective), score_of(best.plans.front(), problem.objective) * (1 - kRounding));
  }
  ASSERT_GT(solvable, 20);
  EXPECT_GE(found, solvable * 6 / 7) << found << " of " << solvable;
}

// Whoever is stopped while a simpler plan within the tie is looked for keeps to the tie.
TEST(Anytime, SimplerPlansOfStoppedSearchesAreWithinTheTie) {
  constexpr double kTie = 0.01;
  int looked = 0;
  for (std::uint32_t seed = 1; seed <= test::scaled(1500, 150); ++seed) {
    const test::Problem problem = test::random_problem(seed);
    SCOPED_TRACE(test::problem_text(problem));
    PlanRequest request = problem.request();
    request.search.top = 1;
    try {
      PlanAnswer answer = make_plan(request);
      if (answer.plans.empty()) continue;
      ++looked;
      const double best = score_of(answer.plans.front(), problem.objective);
      answer.wall_s = 0;
      request.search.first = true;
      request.search.time_limit_s = 1e-5 * static_cast<double>(1 + seed % 400);
      prefer_simplest(request, kTie, answer);
      EXPECT_LE(score_of(answer.plans.front(), problem.objective), best * (1 + kTie) * (1 + kRounding));
    } catch (const InputError&) {  // the limits admit nothing
    }
  }
  EXPECT_GT(looked, 20);
}

// Whenever it is stopped, its bound is one and its plan is a plan.
TEST(Anytime, BoundsOfStoppedSearchesHold) {
  int stopped = 0;
  for (std::uint32_t seed = 1; seed <= test::scaled(1500, 150); ++seed) {
    const test::Problem problem = test::random_problem(seed);
    SCOPED_TRACE(test::problem_text(problem));
    PlanRequest request = problem.request();
    request.search.top = 1;
    try {
      const PlanAnswer best = make_plan(request);
      request.search.first = true;
      request.search.time_limit_s = 1e-5 * static_cast<double>(1 + seed % 400);
      const PlanAnswer early = make_plan(request);
      if (early.outcome != PlanOutcome::limit) {
        EXPECT_EQ(early.outcome, best.outcome);
        continue;
      }
      ++stopped;
      if (best.plans.empty()) {
        EXPECT_TRUE(early.plans.empty());
        continue;
      }
      const double least = score_of(best.plans.front(), problem.objective);
      EXPECT_LE(early.lower_bound, least * (1 + kRounding));
      EXPECT_GT(early.lower_bound, 0);
      for (const Plan& plan : early.plans) {
        EXPECT_GE(score_of(plan, problem.objective), least * (1 - kRounding));
        EXPECT_FALSE(plan.search->optimal);
      }
    } catch (const InputError&) {  // the limits admit nothing
    }
  }
  EXPECT_GT(stopped, 10);
}

TEST(Anytime, DeadlinesAndFlagsInterrupt) {
  std::atomic<bool> stop{false};
  const Deadline never, later(3600, &stop), past(0, nullptr);
  EXPECT_FALSE(never.has_passed());
  EXPECT_EQ(never.left_s(), std::numeric_limits<double>::infinity());
  EXPECT_FALSE(later.has_passed());
  EXPECT_NEAR(later.left_s(), 3600, 60);
  EXPECT_TRUE(past.has_passed());
  EXPECT_EQ(past.left_s(), 0);
  EXPECT_THROW(past.check(), Interrupted);
  stop.store(true);
  EXPECT_THROW(later.check(), Interrupted);
}

}  // namespace
}  // namespace nest::search
