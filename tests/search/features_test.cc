// Every choice of the search is part of some optimum: what no problem ever needs would only cost time.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "problem.h"
#include "search/planner.h"
#include "test_support/scale.h"

namespace nest::search {
namespace {

using test::Leaning;
using test::Problem;

constexpr std::uint32_t kFeatureProblems = 3000, kFirstFeature = 40'000;

using FeatureCounts = std::map<std::string, int>;

// Selective recomputation is that of the modules that the stack names.
bool repeats_attention(const cost::SoftwareStack& stack, const Recomputation& recompute) {
  const auto& own = stack.selective_modules;
  return recompute == Recompute::selective && stack.selective == cost::SelectiveKind::modules &&
         std::find(own.begin(), own.end(), model::Module::core_attention) != own.end();
}

void count_recomputations(const cost::SoftwareStack& stack, const Plan& plan, FeatureCounts& seen) {
  const auto any = [&](const std::string& name, const auto& test) {
    seen[name] += std::any_of(plan.stages.begin(), plan.stages.end(), test) ? 1 : 0;
  };
  for (const auto& word : kRecomputeWords) {
    any(std::string("recompute ") + word.text, [&](const StagePlan& s) { return s.recompute.kind == word.value; });
  }
  for (const auto& word : kRecomputeModuleWords) {
    any(std::string("recompute module ") + word.text, [&](const StagePlan& s) {
      if (word.value == RecomputeModule::core_attn && repeats_attention(stack, s.recompute)) return true;
      return s.recompute.kind == Recompute::modules && (s.recompute.modules & set_of(word.value)) != 0;
    });
  }
}

// Groups of more micro-batches than stages are not among them: the same plan with groups of as many takes as long and
// needs less (schedule/rules.h).
void count_choices(const Problem& problem, const Plan& plan, FeatureCounts& seen) {
  const Strategy& strategy = plan.strategy;
  count_recomputations(problem.job.stack, plan, seen);
  for (int zero = 0; zero < 4; ++zero) {
    seen["ZeRO " + std::to_string(zero)] +=
        std::any_of(plan.stages.begin(), plan.stages.end(), [&](const StagePlan& s) { return s.zero == zero; }) ? 1 : 0;
  }
  seen["zero_outer"] +=
      std::any_of(plan.stages.begin(), plan.stages.end(), [](const StagePlan& s) { return s.zero_outer; }) ? 1 : 0;
  for (const auto& word : kScheduleWords) {
    seen[std::string("schedule ") + word.text] += strategy.pp > 1 && strategy.schedule == word.value ? 1 : 0;
  }
  for (const auto& word : kContextWords) {
    seen[std::string("cp_comm ") + word.text] += strategy.split.cp > 1 && strategy.split.cp_comm == word.value ? 1 : 0;
  }
  seen["offload"] += strategy.split.offload != 0 ? 1 : 0;
  seen["optimizer offload"] += problem.job.run.optimizer_offload > 0 ? 1 : 0;
}

TEST(Features, EveryChoiceIsBestSomewhere) {
  const std::uint32_t count = test::scaled(kFeatureProblems, 60);
  FeatureCounts seen;
  int optima = 0;
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint32_t seed = kFirstFeature + k;
    const Problem problem = k % 4 == 1   ? test::random_problem(seed, Leaning::experts)
                            : k % 4 == 3 ? test::random_problem(seed, Leaning::context)
                                         : test::random_problem(seed);
    PlanRequest request = problem.request();
    request.search.top = 1;
    PlanAnswer answer;
    try {
      answer = make_plan(request);
    } catch (const InputError&) {
      continue;  // limits that admit no plan at all
    }
    if (answer.plans.empty()) continue;
    ASSERT_EQ(answer.outcome, PlanOutcome::optimal) << "seed " << seed;
    ++optima;
    count_choices(problem, answer.plans.front(), seen);
  }
  EXPECT_GE(optima, static_cast<int>(count) / 2);
  for (const auto& [name, times] : seen) {
    RecordProperty(name, times);
    if (count >= kFeatureProblems) {
      EXPECT_GE(times, 1) << name;
    }
  }
}

}  // namespace
}  // namespace nest::search
