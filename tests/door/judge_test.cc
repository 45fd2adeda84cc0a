// Executions and formula of the search, and what a user is told of them.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "nest/nest.h"

namespace nest {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// 32 devices whose nodes of 8 share one narrow uplink: interleaved messages meet there, which the formula does not see.
constexpr const char* kNarrowCluster =
    "name: narrow\ndevice: h100\nlevels:\n"
    "  - {name: node, group: 8, bandwidth: 450GB/s, latency: 3us}\n"
    "  - {name: spine, group: 4, bandwidth: 3GB/s, latency: 10us}\n";

Question narrow_question() {
  Question question;
  question.model = "llama3-8b";
  question.cluster = Input::memory("cluster.yaml", kNarrowCluster);
  question.devices = 32;
  question.global_batch = 64;
  question.seq = 4096;
  return question;
}

Answer narrow_answer(PlanJudge judge, std::int64_t top = 1) {
  SearchOptions options;
  options.target = "any";
  options.judge = judge;
  options.top = top;
  options.why = false;
  return find_plan(read_job(narrow_question()), options);
}

// The simulated network is the judge: nobody's plan is faster there, and the record says what was executed.
TEST(Judge, ExecutionIsNoSlowerThanTheFormulasPlan) {
  const Answer formula = narrow_answer(PlanJudge::formula), judged = narrow_answer(PlanJudge::simulation, 3);
  EXPECT_FALSE(formula.plans.front().search->execution.has_value());
  const auto taken_s = [](const Plan& plan, std::int64_t runs) {
    const Simulation simulation = simulate_plan(plan, {.runs = runs});
    if (runs == 0) return simulation.iteration_s;
    return std::accumulate(simulation.noisy_s.begin(), simulation.noisy_s.end(), 0.0) / static_cast<double>(runs);
  };
  for (const Plan& plan : judged.plans) {
    ASSERT_TRUE(plan.search->execution.has_value());
    const ExecutionRecord& record = *plan.search->execution;
    EXPECT_NEAR(taken_s(plan, record.runs) / record.simulated_s, 1, 0.02);
    EXPECT_GT(record.executed, 3);
    EXPECT_GT(record.bounded, 20);
  }
  const ExecutionRecord& first = *judged.plans.front().search->execution;
  EXPECT_THAT(first.formula, HasSubstr("mbs="));
  EXPECT_GT(first.runs, 1);
  EXPECT_GT(first.least_s, 0);
  EXPECT_LT(first.least_s, first.simulated_s);
  EXPECT_THAT(to_text(judged), HasSubstr("No plan takes less"));
  EXPECT_NEAR(first.formula_simulated_s / taken_s(formula.plans.front(), first.runs), 1, 0.02);
  EXPECT_LE(first.simulated_s, first.formula_simulated_s * 1.005);  // it may be the simplest within the tie
  EXPECT_THAT(to_text(judged), HasSubstr("The fastest when executed on the simulated network"));
  const Plan again = read_plan(Input::memory("plan.json", plan_file(judged.plans.front())));
  EXPECT_EQ(again.search->execution->formula, first.formula);
  EXPECT_EQ(again.search->execution->bounded, first.bounded);
  EXPECT_EQ(again.search->execution->least_s, first.least_s);
}

TEST(Judge, WhereNothingIsSharedTheFormulaStands) {
  Question question = narrow_question();
  question.cluster = "dgx-h100";
  question.devices = 8;
  SearchOptions options;
  options.why = false;
  const Answer answer = find_plan(read_job(question), options);
  const ExecutionRecord& record = *answer.plans.front().search->execution;
  EXPECT_EQ(record.formula, "");
  EXPECT_EQ(record.executed, 1);
  EXPECT_FALSE(answer.plans.front().executed.has_value());
  EXPECT_THAT(to_text(answer), HasSubstr("Simulated: "));
  EXPECT_THAT(to_text(answer), Not(HasSubstr("as executed")));
}

double parts_s(const Prediction& prediction) {
  double sum = 0;
  for (const BreakdownPart& part : kBreakdownParts) sum += prediction.breakdown_s.*part.seconds;
  return sum;
}

// The formula's own plan, which takes longer than it says.
Plan slow_plan() { return evaluate_plan(narrow_answer(PlanJudge::formula).plans.front()); }

// What people read, and what training takes in all, is the execution's time; the formula's stands beside it.
TEST(Judge, ExecutionIsWhatIsExpected) {
  const Plan plan = slow_plan();
  ASSERT_TRUE(plan.executed.has_value());
  const Prediction& executed = *plan.executed;
  EXPECT_EQ(&plan.expected(), &executed);
  EXPECT_GT(executed.iteration_s, 1.01 * plan.prediction.iteration_s);
  EXPECT_NEAR(parts_s(executed), executed.iteration_s, 1e-9 * executed.iteration_s);
  EXPECT_NEAR(executed.samples_per_s * executed.iteration_s, 64, 1e-9);
  EXPECT_NEAR(executed.mfu * executed.iteration_s, plan.prediction.mfu * plan.prediction.iteration_s, 1e-9);
  ReportOptions training;
  training.tokens = 64.0 * 4096 * 1000;
  EXPECT_NEAR(json::parse(to_json(plan, training))["evaluation"]["training"]["time_s"].get<double>(),
              1000 * executed.iteration_s, 1e-6);
  EXPECT_THAT(to_text(plan), HasSubstr("as executed on the simulated network; "));
  EXPECT_THAT(to_html(plan), HasSubstr("when executed on the simulated network; the formula says"));
  ASSERT_FALSE(plan.contended.empty());
  EXPECT_THAT(plan.contended.front(), HasSubstr(" times as long as alone ("));
  EXPECT_THAT(to_text(plan), HasSubstr("  contended: "));
  EXPECT_EQ(json::parse(to_json(plan))["evaluation"]["contended"], plan.contended);
  EXPECT_THAT(to_html(plan), HasSubstr("Contended: "));
  EXPECT_THAT(to_html(simulate_plan(plan)), HasSubstr("Transfers that others slow down"));
  EXPECT_TRUE(check_plan(plan).sound());
  const Plan again = read_plan(Input::memory("plan.json", plan_file(plan)));
  EXPECT_EQ(plan_file(again), plan_file(plan));
  EXPECT_EQ(plan_file(evaluate_plan(again)), plan_file(plan));
  EXPECT_FALSE(evaluate_plan(plan, PlanJudge::formula).executed.has_value());
}

TEST(Judge, ClaimsOfExecutionAreJudged) {
  const Plan plan = slow_plan();
  const auto tampered = [&](auto change) {
    Plan wrong = plan;
    change(*wrong.executed);
    const Verdict verdict = check_plan(wrong);
    return verdict.sound() ? std::string("sound") : verdict.violations.front().code;
  };
  EXPECT_EQ(tampered([](Prediction& /*p*/) {}), "sound");
  EXPECT_EQ(tampered([](Prediction& p) { p.breakdown_s.bubble += 0.1; }), "time_sum");
  EXPECT_EQ(tampered([](Prediction& p) { p.samples_per_s *= 2; }), "throughput");
  EXPECT_EQ(tampered([](Prediction& p) { p.iteration_s = 0; }), "time_peak");
}

}  // namespace
}  // namespace nest
