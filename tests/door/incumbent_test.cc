// Plans that are told while an answer is still searched for: SearchOptions::incumbent.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "nest/nest.h"

namespace nest {
namespace {

using nlohmann::json;

struct Told {
  std::vector<Plan> plans;
  Answer answer;
};

Told ask(const Question& question, SearchOptions options = {}) {
  options.threads = 1;
  options.why = false;
  std::vector<Plan> plans;
  options.incumbent = [&](const Plan& plan) { plans.push_back(plan); };
  Answer answer = find_plan(read_job(question), options);
  return {std::move(plans), std::move(answer)};
}

// Without what a clock says.
json timeless(const Answer& answer) {
  json file = json::parse(to_json(answer));
  if (file.contains("search")) file["search"].erase("wall_s");
  return file;
}

Question mixture() {
  Question question;
  question.model = "mixtral-8x7b";
  question.devices = 64;
  question.global_batch = 128;
  return question;
}

// Replicas of both nodes share slow links: the formula's plan takes longer than it says, and others are executed.
Question slow_network() {
  Question question;
  question.model = "mixtral-8x7b";
  question.cluster = Input::memory("cluster.yaml",
                                   "name: slow\ndevice: h100\nlevels:\n"
                                   "  - {name: node, group: 8, bandwidth: 450GB/s, latency: 3us}\n"
                                   "  - {name: rack, group: 4, bandwidth: 5GB/s, latency: 20us}\n");
  question.global_batch = 64;
  return question;
}

TEST(Incumbent, AnswersDoNotDependOnWhoListens) {
  for (const Question& question : {mixture(), slow_network()}) {
    SearchOptions options;
    options.threads = 1;
    options.why = false;
    EXPECT_EQ(timeless(ask(question).answer), timeless(find_plan(read_job(question), options)));
  }
}

// Takes most of a second at least, so that plans are told on the way whatever the machine.
TEST(Incumbent, EveryPlanFitsAndSaysHowFarTheSearchIs) {
  Question question = mixture();
  question.model = "qwen3-235b-a22b";
  question.devices = 256;
  SearchOptions options;
  options.judge = PlanJudge::formula;
  const Told told = ask(question, options);
  ASSERT_FALSE(told.plans.empty());
  ASSERT_EQ(told.answer.outcome, PlanOutcome::optimal);
  const double best = told.answer.plans.front().search->fastest_s;
  double last = std::numeric_limits<double>::infinity(), bound = 0;
  for (const Plan& plan : told.plans) {
    SCOPED_TRACE(to_json(plan));
    ASSERT_TRUE(plan.search);
    EXPECT_TRUE(plan.fits);
    EXPECT_EQ(plan.search->target, "megatron");
    EXPECT_EQ(to_json(read_plan(Input::memory("plan.json", to_json(plan)))), to_json(plan));
    if (plan.search->execution || plan.search->optimal) continue;
    EXPECT_LE(plan.prediction.iteration_s, last);
    EXPECT_GE(plan.search->lower_bound_s, bound);
    EXPECT_LE(plan.search->lower_bound_s, best * (1 + 1e-9));
    EXPECT_GE(plan.prediction.iteration_s, best * (1 - 1e-9));
    last = plan.prediction.iteration_s;
    bound = plan.search->lower_bound_s;
  }
  EXPECT_FALSE(told.plans.front().search->optimal);
  EXPECT_TRUE(told.plans.back().search->optimal);
  EXPECT_LE(last, best * 1.2) << "what is usual is not far from the best";
  EXPECT_GT(bound, 0);
}

TEST(Incumbent, ExecutedPlansGetBetter) {
  const Told told = ask(slow_network());
  double last = std::numeric_limits<double>::infinity(), bound = 0;
  int executed = 0;
  for (const Plan& plan : told.plans) {
    if (!plan.search->execution) {
      EXPECT_EQ(executed, 0) << "execution comes after the search";
      continue;
    }
    ++executed;
    EXPECT_FALSE(plan.search->execution->complete);
    EXPECT_LE(plan.search->execution->simulated_s, last);
    EXPECT_TRUE(plan.search->execution->simulated_s < last || plan.search->execution->least_s > bound);
    last = plan.search->execution->simulated_s;
    bound = plan.search->execution->least_s;
    if (plan.executed) {
      EXPECT_EQ(plan.executed->iteration_s, last);
    }
  }
  EXPECT_GE(executed, 2);
  ASSERT_FALSE(told.answer.plans.empty());
  EXPECT_TRUE(told.answer.plans.front().search->execution);
}

TEST(Incumbent, DeviceHoursAreBoundedInSecondsOfThePlan) {
  SearchOptions options;
  options.objective = PlanObjective::device_hours;
  const Told told = ask(mixture(), options);
  ASSERT_FALSE(told.plans.empty());
  for (const Plan& plan : told.plans) {
    EXPECT_LE(plan.search->lower_bound_s, plan.prediction.iteration_s * (1 + 1e-9)) << to_json(plan);
  }
}

// Where something may wait on the host several searches follow each other: the bound of one says nothing of the others.
TEST(Incumbent, BoundsHoldForAllSearches) {
  Question question;
  question.model = "llama3-70b";
  question.devices = 8;
  question.global_batch = 16;
  SearchOptions options;
  options.offload = OffloadSearch::any;
  const Told told = ask(question, options);
  ASSERT_FALSE(told.answer.plans.empty());
  ASSERT_FALSE(told.plans.empty());
  const double best = told.answer.plans.front().prediction.iteration_s;
  double last = std::numeric_limits<double>::infinity();
  for (const Plan& plan : told.plans) {
    EXPECT_LE(plan.search->lower_bound_s, best * (1 + 1e-9)) << to_json(plan);
    if (plan.search->optimal) continue;
    EXPECT_LT(plan.prediction.iteration_s, last * (1 + 1e-9));
    last = plan.prediction.iteration_s;
  }
}

TEST(Incumbent, NothingFitsNothingIsTold) {
  Question question;
  question.model = "llama3-405b";
  question.devices = 8;
  SearchOptions options;
  options.explain = false;
  options.offload = OffloadSearch::never;
  const Told told = ask(question, options);
  EXPECT_EQ(told.answer.outcome, PlanOutcome::no_plan);
  EXPECT_TRUE(told.plans.empty());
}

}  // namespace
}  // namespace nest
