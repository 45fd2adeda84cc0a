// The simplest plan within the tie against every plan of small problems, and the best of every kind.
#include "search/simplest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/error.h"
#include "cost/evaluate.h"
#include "model/presets.h"
#include "oracle.h"
#include "problem.h"
#include "problem_text.h"
#include "search/even_cuts.h"
#include "search/kind.h"
#include "test_support/scale.h"

namespace nest::search {
namespace {

using test::Dice;
using test::Problem;

constexpr std::uint32_t kProblems = 600, kFirst = 20'000;
constexpr double kNear = 1e-9;

// Whether a plan has what makes it odd, in the order of simplest.h; written from those words.
using Words = std::array<bool, 9>;

class Judge {
 public:
  explicit Judge(const Problem& problem) : problem_(problem) {
    const model::Model& model = problem.job.model;
    for (const int kind : model.layers) {
      const model::Layer& layer = model.kinds[static_cast<std::size_t>(kind)];
      blocks_ += layer.kind == model::LayerKind::block && !layer.mtp ? 1 : 0;
    }
  }

  Words words_of(const Strategy& s, const std::vector<StagePlan>& stages) {
    const std::int64_t batch = problem_.job.run.global_batch, at_once = s.micro_batch * s.dp;
    const std::int64_t rounds = (batch + at_once - 1) / at_once;
    bool differ = false, groups = false;
    for (const StagePlan& stage : stages) {
      groups = groups || (stage.zero > 0 && stage.zero_degree != 0 && stage.zero_degree != s.dp * s.split.cp);
      differ = differ || stage.recompute != stages[0].recompute || stage.zero != stages[0].zero ||
               stage.zero_degree != stages[0].zero_degree || stage.zero_outer != stages[0].zero_outer;
    }
    const bool counts = problem_.objective == PlanObjective::time;
    return {counts && s.pp * s.dp * s.split.tp * s.split.cp < problem_.devices(),
            s.dp_inner != s.dp,
            batch % at_once != 0 || (s.schedule == Schedule::interleaved && rounds % s.pp != 0),
            s.schedule != Schedule::one_f_one_b && s.schedule != Schedule::interleaved,
            s.split.offload != 0,
            differ,
            is_uneven(s, stages),
            groups,
            s.schedule == Schedule::interleaved};
  }

 private:
  bool is_uneven(const Strategy& s, const std::vector<StagePlan>& stages) {
    if (s.pp == 1) return false;
    const auto layers = static_cast<std::int64_t>(problem_.job.model.layers.size());
    const std::int64_t chunks = s.pp * s.virtual_stages;
    if (blocks_ == 0 || (blocks_ % chunks != 0 && layers % chunks != 0)) return true;
    const auto [place, fresh] = even_.try_emplace({s.pp, s.virtual_stages});
    if (fresh) place->second = cost::even_stages(problem_.job, s, Recompute::none, 0);
    return !std::equal(stages.begin(), stages.end(), place->second.begin(), place->second.end(),
                       [](const StagePlan& a, const StagePlan& b) { return a.last == b.last; });
  }

  const Problem& problem_;
  std::int64_t blocks_ = 0;
  std::map<std::array<std::int64_t, 2>, std::vector<StagePlan>> even_;
};

double score_of_plan(const Problem& problem, const Strategy& strategy, double time_s) {
  return problem.objective == PlanObjective::time ? time_s : time_s * static_cast<double>(strategy.devices_spanned());
}

struct Best {
  double score = std::numeric_limits<double>::infinity();
  Strategy strategy;
  std::vector<StagePlan> stages;

  std::string line() const { return test::strategy_line(strategy, stages); }
};

// The best of every combination of words.
std::map<Words, Best> best_by_words(const Problem& problem) {
  std::map<Words, Best> best;
  Judge judge(problem);
  test::visit_plans(problem.job, problem.limits, problem.devices(),
                    [&](const Strategy& strategy, const std::vector<StagePlan>& stages, double time_s) {
                      const double score = score_of_plan(problem, strategy, time_s);
                      Best& known = best[judge.words_of(strategy, stages)];
                      if (score < known.score) known = {score, strategy, stages};
                    });
  return best;
}

// All sets of modules and numbers of layers are too many to combine; the exhaustive tests look at them. Here two at a
// time, instead of selective and full recomputation, or none of them.
void narrow_recomputations(Dice& dice, Problem& problem) {
  plan::PlanLimits& limits = problem.limits;
  const auto admitted = [&](Recompute kind) -> bool& { return limits.recompute.at(static_cast<std::size_t>(kind)); };
  std::vector<Recomputation> fine = test::all_recomputations(problem.job, limits);
  std::erase_if(fine, [](const Recomputation& one) { return one.kind <= Recompute::full; });
  for (const Recompute kind : {Recompute::modules, Recompute::block, Recompute::uniform}) admitted(kind) = false;
  limits.recompute_only.clear();
  if (fine.empty() || dice.one_in(3)) return;
  for (const Recompute kind : {Recompute::selective, Recompute::full}) admitted(kind) = false;
  for (int k = 0; k < 2; ++k) {
    const Recomputation& one = dice.any(fine);
    admitted(one.kind) = true;
    limits.recompute_only.push_back(one);
  }
}

// Small enough to look at every combination of what stages do.
Problem small_problem(std::uint32_t seed, std::uint64_t draw = test::draw()) {
  Problem problem = test::random_problem(seed, draw);
  problem.limits.pp.high = std::min<std::int64_t>(problem.limits.pp.high, problem.job.model.layers.size() > 6 ? 2 : 3);
  Dice dice(seed);
  narrow_recomputations(dice, problem);
  if (dice.one_in(2)) problem.limits.zero[2] = problem.limits.zero[3] = false;
  if (!problem.limits.zero[3]) problem.limits.zero_outer = {true, true};
  if (dice.one_in(3)) problem.limits.schedule[static_cast<std::size_t>(Schedule::gpipe)] = true;
  return problem;
}

TEST(Simplest, IsTheFirstOfAllPlansWithinTheTie) {
  std::map<std::string, int> avoided, kinds;
  int simpler = 0;
  const std::uint32_t count = test::scaled(kProblems, 60);
  for (std::uint32_t seed = kFirst; seed < kFirst + count; ++seed) {
    const Problem problem = small_problem(seed);
    if (problem.job.model.layers.size() > 9) continue;
    if (test::all_strategies(problem.job, problem.limits, problem.devices()).empty()) continue;
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << test::problem_text(problem));
    const std::map<Words, Best> best = best_by_words(problem);
    PlanRequest request = problem.request();
    request.search.top = 1;
    PlanAnswer answer = make_plan(request);
    if (best.empty()) {
      prefer_simplest(request, 0.01, answer);
      EXPECT_TRUE(answer.plans.empty());
      continue;
    }
    const Best& optimum = std::min_element(best.begin(), best.end(), [](auto& a, auto& b) {
                            return a.second.score < b.second.score;
                          })->second;
    const double tie = Dice(seed).any({0.005, 0.02, 0.1, 0.5});
    // A plan on the very border may count or not.
    const double border = optimum.score * (1 + tie);
    if (std::any_of(best.begin(), best.end(),
                    [&](const auto& entry) { return std::abs(entry.second.score / border - 1) < kNear; })) {
      continue;
    }
    const auto first = std::find_if(best.begin(), best.end(), [&](const auto& e) { return e.second.score < border; });
    const Plan fastest = answer.plans.front();
    prefer_simplest(request, tie, answer);
    ASSERT_EQ(answer.plans.size(), 1U);
    const Plan& plan = answer.plans.front();
    ASSERT_NEAR(score_of_plan(problem, plan.strategy, plan.prediction.iteration_s) / first->second.score, 1, kNear)
        << test::strategy_line(plan.strategy, plan.stages) << "\n oracle:  " << first->second.line()
        << "\n fastest: " << test::strategy_line(fastest.strategy, fastest.stages) << "\n of all:  " << optimum.line();
    Judge judge(problem);
    ASSERT_EQ(judge.words_of(plan.strategy, plan.stages), first->first)
        << test::strategy_line(plan.strategy, plan.stages);
    EXPECT_NEAR(plan.search->fastest_s / fastest.prediction.iteration_s, 1, kNear);
    EXPECT_EQ(plan.search->tie, tie);
    EXPECT_TRUE(plan.search->optimal);
    simpler += plan.search->simpler.empty() ? 0 : 1;
    for (const StagePlan& stage : plan.stages) kinds[to_string(stage.recompute.kind)] += 1;
    kinds["activations on the host"] += plan.strategy.split.offload != 0 ? 1 : 0;
    const Words before = judge.words_of(fastest.strategy, fastest.stages);
    const auto list = oddities(PlanObjective::time);
    for (std::size_t k = 0; k < before.size(); ++k) avoided[list[k].name] += before[k] && !first->first[k] ? 1 : 0;
  }
  for (const auto& [name, times] : avoided) RecordProperty(name, times);
  for (const auto& [name, times] : kinds) RecordProperty("with " + name, times);
  EXPECT_GE(simpler, static_cast<int>(count) / 20);
  if (count < kProblems) return;
  for (const Oddity& oddity : oddities(PlanObjective::time)) EXPECT_GE(avoided[oddity.name], 1) << oddity.name;
}

// What limits leave out is what they say, no more and no less. Whether a problem has plans at all.
bool check_limits(Problem problem) {
  problem.objective = PlanObjective::time;
  if (test::all_strategies(problem.job, problem.limits, problem.devices()).empty()) return false;
  const std::map<Words, Best> best = best_by_words(problem);
  const auto list = oddities(PlanObjective::time);
  for (std::size_t k = 0; k < list.size(); ++k) {
    SCOPED_TRACE(testing::Message() << list[k].name << "\n" << test::problem_text(problem));
    Best expected;
    for (const auto& [words, known] : best) {
      if (!words[k] && known.score < expected.score) expected = known;
    }
    PlanRequest request = problem.request();
    request.search.top = 1;
    list[k].avoid(request.limits);
    double found = std::numeric_limits<double>::infinity();
    try {
      const PlanAnswer answer = make_plan(request);
      if (!answer.plans.empty()) found = answer.plans.front().prediction.iteration_s;
    } catch (const InputError&) {
      EXPECT_TRUE(std::isinf(expected.score));  // no such plan at all
    }
    EXPECT_EQ(std::isinf(found), std::isinf(expected.score)) << expected.line();
    if (std::isinf(found) || std::isinf(expected.score)) continue;
    EXPECT_NEAR(found / expected.score, 1, kNear) << expected.line();
  }
  return true;
}

TEST(Simplest, LimitsAvoidWhatTheySay) {
  int checked = 0;
  for (std::uint32_t seed = kFirst; seed < kFirst + test::scaled(kProblems / 3, 30) && !HasFailure(); ++seed) {
    const Problem problem = small_problem(seed);
    if (problem.job.model.layers.size() <= 9) checked += check_limits(problem) ? 1 : 0;
  }
  EXPECT_GT(checked, 10);
  // Limits that name numbers of blocks which are more than a stage has: all that it has.
  for (const auto& [draw, seed] : {std::pair{3U, 20'012U}, {5U, 20'012U}, {7U, 20'007U}}) {
    EXPECT_TRUE(check_limits(small_problem(seed, draw)));
  }
}

TEST(Simplest, NoTieIsNoPreference) {
  const auto answer_of = [](const Problem& problem) {
    return test::all_strategies(problem.job, problem.limits, problem.devices()).empty() ? PlanAnswer{}
                                                                                        : make_plan(problem.request());
  };
  Problem problem = test::random_problem(kFirst);
  PlanAnswer answer = answer_of(problem);
  for (std::uint32_t seed = kFirst + 1; answer.plans.empty(); ++seed) {
    problem = test::random_problem(seed);
    answer = answer_of(problem);
  }
  const Strategy before = answer.plans.front().strategy;
  prefer_simplest(problem.request(), 0, answer);
  EXPECT_EQ(answer.plans.front().strategy, before);
  EXPECT_EQ(answer.plans.front().search->tie, 0);
}

// 80 blocks: 4 stages of 5 chunks hold 20 each; 6 stages do not divide, nor do 82 layers; 126 + 2 divide by 16.
TEST(EvenCuts, CountBlocksOrAllLayers) {
  const auto job_of = [](const std::string& name) {
    nest::Run run;
    run.global_batch = 8;
    run.sequence = 2048;
    return cost::make_job(model::find_model_preset(name).value(), run, cost::find_stack("megatron-core").value(),
                          cluster::find_cluster("dgx-h100", 8).value());
  };
  const cost::Job medium = job_of("llama3-70b"), large = job_of("llama3-405b");
  EXPECT_EQ(even_cuts(medium, 4, 5), (std::vector<std::int64_t>{0, 21, 41, 61, 82}));
  EXPECT_TRUE(even_cuts(medium, 6, 1).empty());
  EXPECT_TRUE(even_cuts(medium, 4, 3).empty());
  EXPECT_EQ(even_cuts(medium, 1, 1), (std::vector<std::int64_t>{0, 82}));
  const std::vector<std::int64_t> sixteen = even_cuts(large, 16, 8);
  ASSERT_EQ(sixteen.size(), 17U);
  for (std::size_t s = 0; s < sixteen.size(); ++s) EXPECT_EQ(sixteen[s], static_cast<std::int64_t>(8 * s));
}

// --top: the best of every kind, in order, of all keys that the oracle knows.
TEST(Kinds, AreTheBestOfAllOfTheirKind) {
  const std::uint32_t count = test::scaled(kProblems, 60);
  int several = 0;
  for (std::uint32_t seed = kFirst; seed < kFirst + count; ++seed) {
    const Problem problem = test::random_problem(seed);
    if (problem.job.model.layers.size() > 9) continue;
    if (test::all_strategies(problem.job, problem.limits, problem.devices()).empty()) continue;
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << test::problem_text(problem));
    using Kind = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, Schedule>;
    std::map<Kind, double> best;
    for (const auto& key : test::try_everything(problem.job, problem.limits, problem.devices()).keys) {
      const Strategy& s = key.strategy;
      const double score = score_of_plan(problem, s, key.time_s);
      const std::int64_t etp = s.split.etp == 0 ? s.split.tp : s.split.etp;
      const auto [place, fresh] =
          best.try_emplace(Kind{s.split.tp, s.split.cp, s.split.ep, etp, s.pp, s.schedule}, score);
      place->second = std::min(place->second, score);
    }
    std::vector<double> scores;
    for (const auto& [kind, score] : best) scores.push_back(score);
    std::sort(scores.begin(), scores.end());
    PlanRequest request = problem.request();
    request.search.top = 4;
    request.search.listing = Listing::kinds;
    const PlanAnswer answer = make_plan(request);
    ASSERT_EQ(answer.plans.size(), std::min<std::size_t>(4, scores.size()));
    for (std::size_t k = 0; k < answer.plans.size(); ++k) {
      const Plan& plan = answer.plans[k];
      EXPECT_NEAR(score_of_plan(problem, plan.strategy, plan.prediction.iteration_s) / scores[k], 1, kNear);
      for (std::size_t j = 0; j < k; ++j) EXPECT_FALSE(same_kind(plan.strategy, answer.plans[j].strategy));
    }
    several += answer.plans.size() > 2 ? 1 : 0;
  }
  EXPECT_GE(several, static_cast<int>(count) / 10);
}

}  // namespace
}  // namespace nest::search
