// The planner against every plan of thousands of small problems.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "base/error.h"
#include "cluster/cluster.h"
#include "cost/evaluate.h"
#include "cost/profile.h"
#include "model/config.h"
#include "oracle.h"
#include "problem.h"
#include "problem_text.h"
#include "test_support/scale.h"

namespace nest::search {
namespace {

using test::Dice;
using test::OracleAnswer;
using test::OracleBest;
using test::Problem;

constexpr std::uint32_t kShards = 10, kPerShard = 500;
constexpr std::uint32_t kGridShards = 10, kFirstOfGrids = 1'000'000;       // mixtures of experts: two grids
constexpr std::uint32_t kContextShards = 2, kFirstOfContexts = 2'000'000;  // long sequences: exchanges of contexts
constexpr std::uint32_t kTinyShards = 4, kPerTinyShard = 5'000, kFirstOfTiny = 3'000'000;
constexpr double kAgreement = 1e-9;
constexpr int kPinned = 2;        // keys of every problem that are searched for alone
constexpr int kMostFailures = 3;  // that are written down

std::uint32_t per_shard() { return test::scaled(kPerShard, 12); }

double score_of(const Problem& problem, const Strategy& strategy, double time_s) {
  if (problem.objective == PlanObjective::time) return time_s;
  return time_s * static_cast<double>(strategy.devices_spanned());
}

using Counts = std::map<std::string, int>;

void count_stages(const Plan& best, const cost::Job& job, Counts& seen) {
  const std::vector<StagePlan>& stages = best.stages;
  const Strategy& strategy = best.strategy;
  const auto any = [&](const auto& test) { return std::any_of(stages.begin(), stages.end(), test); };
  const std::int64_t all = strategy.dp * strategy.split.cp;
  seen["recomputation"] += any([](const StagePlan& s) { return s.recompute != Recompute::none; });
  seen["sets of modules"] += any([](const StagePlan& s) { return s.recompute.kind == Recompute::modules; });
  seen["some layers from their inputs"] += any([](const StagePlan& s) { return s.recompute.kind == Recompute::block; });
  seen["ZeRO 2"] += all > 1 && any([](const StagePlan& s) { return s.zero == 2; });
  seen["ZeRO 3"] += all > 1 && any([](const StagePlan& s) { return s.zero == 3; });
  seen["sharding in a node"] +=
      any([&](const StagePlan& s) { return s.zero > 0 && s.zero_degree > 1 && s.zero_degree < all; });
  seen["optimizer over all replicas"] += any([](const StagePlan& s) { return s.zero_outer; });
  seen["different stages"] += any([&](const StagePlan& s) {
    const StagePlan& first = stages.front();
    return s.recompute != first.recompute || s.zero != first.zero || s.zero_degree != first.zero_degree ||
           s.zero_outer != first.zero_outer;
  });
  const std::vector<StagePlan> even = cost::even_stages(job, strategy, Recompute::none, 0);
  bool uneven = false;
  for (std::size_t s = 0; s < stages.size(); ++s) uneven = uneven || stages[s].last != even[s].last;
  seen["uneven cuts"] += uneven;
}

void count_features(const Plan& best, const Problem& problem, Counts& seen) {
  const Strategy& strategy = best.strategy;
  const Split& split = strategy.split;
  seen["pipeline"] += strategy.pp > 1;
  seen["three stages or more"] += strategy.pp > 2;
  seen["interleaved"] += strategy.schedule == Schedule::interleaved;
  seen["interleaved motif"] += strategy.virtual_stages > 1 && test::chain_pattern(problem.job.model.layers).motif > 1;
  seen["tensor"] += split.tp > 1;
  seen["sequence"] += split.sp;
  seen["context"] += split.cp > 1;
  seen["expert"] += split.ep > 1;
  seen["whole experts"] += split.expert_tp() < split.tp;
  seen["some replicas together"] += strategy.dp_inner > 1 && strategy.dp_inner < strategy.dp;
  seen["pitch"] += strategy.pitch > 0;
  seen["idle devices"] += strategy.devices_used() < problem.devices();
  seen["uneven batch"] += problem.job.run.global_batch % (strategy.micro_batch * strategy.dp) != 0;
  seen["activations on the host"] += split.offload != 0;
  seen["gpipe"] += strategy.schedule == Schedule::gpipe;
  for (const Schedule kind : {Schedule::zb_h1, Schedule::zbv, Schedule::v_half, Schedule::v_min, Schedule::dualpipev}) {
    seen[to_string(kind)] += strategy.schedule == kind && strategy.pp > 1;
  }
  seen["torus"] += problem.job.cluster.torus.has_value();
  seen["full mesh"] += problem.job.cluster.fabric.full_mesh;
  seen["irregular levels"] += !problem.job.cluster.torus && !problem.job.cluster.fabric.regular;
  seen["crossing tensors"] += problem.job.model.architecture.towers.size() > 1 || !problem.more_edges.empty();
  seen["measured"] += problem.job.profile != nullptr;
  seen["device-hours"] += problem.objective == PlanObjective::device_hours;
  count_stages(best, problem.job, seen);
}

// How the grids of a mixture's best plan meet. A set of experts takes the ranks of tp first, then of cp, then of dp.
void count_grids(const Split& best, Counts& seen) {
  const auto any = [&](const char* name, const auto& test) { seen[name] += test(best); };
  any("experts over tensor ranks", [](const Split& s) { return s.tp > 1 && s.ep > 1 && s.expert_tp() < s.tp; });
  any("experts over replicas", [](const Split& s) { return s.ep > 1 && s.expert_devices() > s.replica_devices(); });
  any("experts over context ranks", [](const Split& s) { return s.cp > 1 && s.expert_devices() > s.tp; });
  any("fewer ranks than a replica", [](const Split& s) { return s.expert_devices() < s.replica_devices(); });
  any("divided less than the rest", [](const Split& s) { return s.expert_tp() > 1 && s.expert_tp() < s.tp; });
  any("divided more than the rest", [](const Split& s) { return s.expert_tp() > s.tp; });
  any("sets that cut tensor groups", [](const Split& s) { return s.tp > 1 && s.expert_devices() % s.tp != 0; });
}

// How the context ranks of the best plan exchange.
void count_contexts(const Split& best, Counts& seen) {
  seen["a ring"] += best.cp > 1 && best.cp_comm == ContextExchange::p2p;
  seen["heads"] += best.cp_comm == ContextExchange::a2a;
  seen["gathered keys"] += best.cp_comm == ContextExchange::all_gather;
  seen["heads and rings"] += best.cp_comm == ContextExchange::a2a_p2p;
}

// Of one key: whether head gradients wait is part of its best plan.
bool same_key(Strategy a, const Strategy& b) {
  a.defer_head = b.defer_head;
  return a == b;
}

// The oracle's sums are evaluate()'s, and so is what fits.
void check_prices(const Problem& problem, const OracleAnswer& all) {
  Dice dice(problem.seed + 1'000'000'000ULL);
  if (!all.keys.empty()) {
    const OracleBest& best = dice.any(all.keys);
    ASSERT_EQ(cost::refuse_strategy(problem.job, best.strategy, best.stages), "");
    const Plan evaluation = cost::evaluate(problem.job, best.strategy, best.stages);
    EXPECT_TRUE(evaluation.fits) << evaluation.misfit << "\n" << test::strategy_line(best.strategy, best.stages);
    EXPECT_NEAR(evaluation.prediction.iteration_s / best.time_s, 1, 1e-12);
  }
  Strategy strategy = dice.any(test::all_strategies(problem.job, problem.limits, problem.devices()));
  strategy.defer_head = problem.limits.defer_head[1];
  const std::vector<StagePlan> stages = random_stages(dice, problem.job, problem.limits, strategy);
  if (stages.empty()) return;
  ASSERT_EQ(cost::refuse_strategy(problem.job, strategy, stages), "");
  const Plan evaluation = cost::evaluate(problem.job, strategy, stages);
  if (!evaluation.fits) return;
  const auto own = std::find_if(all.keys.begin(), all.keys.end(),
                                [&](const OracleBest& key) { return same_key(key.strategy, strategy); });
  ASSERT_NE(own, all.keys.end()) << "evaluate() says that this fits: " << test::strategy_line(strategy, stages);
  EXPECT_LE(own->time_s, evaluation.prediction.iteration_s * (1 + 1e-12));
}

// Best first.
std::vector<const OracleBest*> ranked(const Problem& problem, const OracleAnswer& all) {
  std::vector<const OracleBest*> keys;
  for (const OracleBest& key : all.keys) keys.push_back(&key);
  std::stable_sort(keys.begin(), keys.end(), [&](const OracleBest* a, const OracleBest* b) {
    return score_of(problem, a->strategy, a->time_s) < score_of(problem, b->strategy, b->time_s);
  });
  return keys;
}

void check_answer(const Problem& problem, const OracleAnswer& all, const PlanAnswer& answer) {
  const std::vector<const OracleBest*> keys = ranked(problem, all);
  const std::size_t wanted = std::min(keys.size(), static_cast<std::size_t>(problem.top));
  ASSERT_EQ(answer.outcome, keys.empty() ? PlanOutcome::no_plan : PlanOutcome::optimal)
      << (keys.empty() ? "" : "a plan that fits: " + test::strategy_line(keys[0]->strategy, keys[0]->stages));
  for (std::size_t k = 0; k < std::min(wanted, answer.plans.size()); ++k) {
    const Plan& plan = answer.plans[k];
    const double time_s = plan.prediction.iteration_s;
    const double best = score_of(problem, keys[k]->strategy, keys[k]->time_s);
    ASSERT_NEAR(score_of(problem, plan.strategy, time_s) / best, 1, kAgreement)
        << "place " << k << "\n planner: " << test::strategy_line(plan.strategy, plan.stages)
        << "\n oracle:  " << test::strategy_line(keys[k]->strategy, keys[k]->stages);
    const auto own = std::find_if(all.keys.begin(), all.keys.end(),
                                  [&](const OracleBest& key) { return same_key(key.strategy, plan.strategy); });
    ASSERT_NE(own, all.keys.end()) << test::strategy_line(plan.strategy, plan.stages);
    EXPECT_NEAR(time_s / own->time_s, 1, kAgreement) << test::strategy_line(plan.strategy, plan.stages);
  }
  EXPECT_EQ(answer.plans.size(), wanted);
  if (!keys.empty()) {
    EXPECT_NEAR(answer.lower_bound / score_of(problem, keys[0]->strategy, keys[0]->time_s), 1, kAgreement);
  }
}

// A search that knows a value just above the best must still find it: bounds that are too high show where nothing else
// hides them.
void check_bounds(const Problem& problem, const OracleAnswer& all) {
  if (all.keys.empty()) return;
  const OracleBest& best = *ranked(problem, all).front();
  const auto is_found = [&](double excess) {
    PlanRequest request = problem.request();
    request.search.top = 1;
    request.search.known_score = score_of(problem, best.strategy, best.time_s) * (1 + excess);
    return make_plan(request).plans.size() == 1;
  };
  if (is_found(kAgreement)) return;
  double excess = kAgreement;
  while (excess < 10 && !is_found(excess)) excess *= 2;
  ADD_FAILURE() << "a bound exceeds " << test::strategy_line(best.strategy, best.stages) << " by up to " << excess;
}

// The limits that leave one choice of everything but pitch, cuts and options.
Problem pinned(const Problem& problem, const Strategy& strategy) {
  Problem one = problem;
  const auto exactly = [](std::int64_t value) { return plan::Limit{value, value, {value}}; };
  plan::PlanLimits& limits = one.limits;
  limits.tp = exactly(strategy.split.tp);
  limits.cp = exactly(strategy.split.cp);
  limits.cp_inner = exactly(strategy.split.cp_inner);
  limits.cp_comm = {};
  limits.cp_comm.at(static_cast<std::size_t>(strategy.split.cp_comm)) = true;
  const OffloadSet away = strategy.split.offload;
  limits.offload = {away == 0, false};
  limits.offload_only.clear();
  if (away != 0) limits.offload_only.push_back(away);
  limits.ep = exactly(strategy.split.ep);
  limits.etp = exactly(strategy.split.expert_tp());
  limits.sp = {!strategy.split.sp, strategy.split.sp};
  limits.pp = exactly(strategy.pp);
  limits.dp = exactly(strategy.dp);
  limits.dp_inner = exactly(strategy.dp_inner);
  limits.vpp = exactly(strategy.virtual_stages);
  limits.micro_batch = exactly(strategy.micro_batch);
  limits.schedule = {};
  limits.more_schedules = false;
  limits.schedule.at(static_cast<std::size_t>(strategy.schedule)) = true;
  one.top = 2;
  return one;
}

struct Tally {
  Counts seen, grids, contexts;
  std::int64_t problems = 0, plans = 0;
  int infeasible = 0, impossible = 0;
};

void compare(const Problem& problem, Tally& tally) {
  const bool possible = !test::all_strategies(problem.job, problem.limits, problem.devices()).empty();
  if (!possible) {
    ++tally.impossible;
    EXPECT_THROW(make_plan(problem.request()), InputError);
    return;
  }
  const OracleAnswer all = test::try_everything(problem.job, problem.limits, problem.devices());
  tally.plans += all.plans;
  ++tally.problems;
  check_prices(problem, all);
  const PlanAnswer answer = make_plan(problem.request());
  check_answer(problem, all, answer);
  check_bounds(problem, all);
  Dice dice(problem.seed + 2'000'000'000ULL);
  const std::vector<Strategy> strategies = test::all_strategies(problem.job, problem.limits, problem.devices());
  for (int k = 0; k < kPinned && !problem.tiny; ++k) {
    const Problem one = pinned(problem, dice.any(strategies));
    const OracleAnswer own = test::try_everything(one.job, one.limits, one.devices());
    check_answer(one, own, make_plan(one.request()));
    check_bounds(one, own);
    tally.plans += own.plans;
    ++tally.problems;
  }
  tally.infeasible += all.keys.empty();
  if (answer.plans.empty()) return;
  count_features(answer.plans.front(), problem, tally.seen);
  count_grids(answer.plans.front().strategy.split, tally.grids);
  count_contexts(answer.plans.front().strategy.split, tally.contexts);
}

// Returns false when it failed, having written down the problem.
bool compare_problem(const Problem& problem, Tally& tally) {
  const auto failures = [] {
    return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  };
  const int before = failures();
  try {
    compare(problem, tally);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  if (failures() == before) return true;
  const auto folder = std::filesystem::path(testing::TempDir()) / fmt::format("oracle-{}", problem.seed);
  ADD_FAILURE() << "written to " << test::save_problem(problem, folder) << "\n" << test::problem_text(problem);
  return false;
}

Problem problem_of(std::uint32_t seed, std::uint64_t draw = test::draw()) {
  if (seed >= kFirstOfTiny) return test::tiny_problem(seed, draw);
  if (seed < kFirstOfGrids) return test::random_problem(seed, draw);
  return test::random_problem(seed, seed < kFirstOfContexts ? test::Leaning::experts : test::Leaning::context, draw);
}

// One shard of problems. What `counts` saw is recorded, if there are any; in a whole shard every feature is part of some optimum.
Tally compare_shard(std::uint32_t first_seed, std::uint32_t shard, Counts Tally::*counts,
                    std::uint32_t per_whole_shard = kPerShard) {
  const std::uint32_t count = test::scaled(per_whole_shard, 12), first = first_seed + shard * count;
  Tally tally;
  int failed = 0;
  for (std::uint32_t seed = first; seed < first + count && failed < kMostFailures; ++seed) {
    failed += compare_problem(problem_of(seed), tally) ? 0 : 1;
  }
  testing::Test::RecordProperty("problems", std::to_string(tally.problems));
  testing::Test::RecordProperty("plans", std::to_string(tally.plans));
  testing::Test::RecordProperty("infeasible", tally.infeasible);
  testing::Test::RecordProperty("impossible", tally.impossible);
  if (counts == nullptr) return tally;
  const bool whole = count >= per_whole_shard && failed == 0;
  for (const auto& [feature, times] : tally.*counts) {
    testing::Test::RecordProperty(feature, times);
    if (whole) {
      EXPECT_GE(times, 1) << feature;
    }
  }
  return tally;
}

class Exhaustive : public testing::TestWithParam<std::uint32_t> {};

TEST_P(Exhaustive, FindsTheBestOfAllPlans) {
  const Tally tally = compare_shard(1, GetParam(), &Tally::seen);
  if (per_shard() >= kPerShard && !HasFailure()) {
    EXPECT_GE(tally.infeasible, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Planner, Exhaustive, testing::Range(0U, kShards));

class ExhaustiveGrids : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ExhaustiveGrids, FindsTheBestOfAllPlans) { compare_shard(kFirstOfGrids, GetParam(), &Tally::grids); }

INSTANTIATE_TEST_SUITE_P(Planner, ExhaustiveGrids, testing::Range(0U, kGridShards));

class ExhaustiveContexts : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ExhaustiveContexts, FindsTheBestOfAllPlans) { compare_shard(kFirstOfContexts, GetParam(), &Tally::contexts); }

INSTANTIATE_TEST_SUITE_P(Planner, ExhaustiveContexts, testing::Range(0U, kContextShards));

// Fewer layers, devices, keys and options, and many more of them.
class ExhaustiveTiny : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ExhaustiveTiny, FindsTheBestOfAllPlans) {
  const Tally tally = compare_shard(kFirstOfTiny, GetParam(), nullptr, kPerTinyShard);
  EXPECT_LT(tally.impossible + tally.infeasible, test::scaled(kPerTinyShard, 12) / 2);
}

INSTANTIATE_TEST_SUITE_P(Planner, ExhaustiveTiny, testing::Range(0U, kTinyShards));

// Nothing is lost by leaving out options of a stage that another one beats in both times.
TEST(ExhaustiveOracle, DominatedOptionsAreNeverBetter) {
  for (std::uint32_t seed = 1; seed <= per_shard() / 10; ++seed) {
    Problem problem = test::random_problem(seed);
    problem.limits.pp.high = std::min<std::int64_t>(problem.limits.pp.high, 2);
    if (problem.job.model.layers.size() > 8) continue;
    const OracleAnswer some = test::try_everything(problem.job, problem.limits, problem.devices());
    const OracleAnswer all =
        test::try_everything(problem.job, problem.limits, problem.devices(), test::Dominated::looked_at);
    ASSERT_EQ(some.keys.size(), all.keys.size());
    for (std::size_t k = 0; k < all.keys.size(); ++k) {
      EXPECT_NEAR(some.keys[k].time_s / all.keys[k].time_s, 1, 1e-14);
    }
  }
}

// What a failure writes down is the problem.
TEST(ExhaustiveOracle, WrittenProblemsAreTheProblems) {
  for (std::uint32_t seed = 1; seed <= per_shard() / 10; ++seed) {
    const Problem problem = test::random_problem(seed);
    if (!problem.more_edges.empty()) continue;  // no file can say that
    SCOPED_TRACE(test::problem_text(problem));
    const cost::Job& job = problem.job;
    cost::Job read = cost::make_job(
        model::read_config(doc::parse_json("model.json", problem.config), "model"), job.run, job.stack,
        cluster::read_cluster(doc::parse_yaml("cluster.yaml", test::cluster_yaml(job.cluster)), "cluster"));
    if (job.profile)
      cost::attach_profile(read, cost::read_profile(doc::parse_json("profile.json", test::profile_json(job))));
    Dice dice(seed);
    const std::vector<Strategy> strategies = test::all_strategies(job, problem.limits, problem.devices());
    ASSERT_EQ(strategies, test::all_strategies(read, problem.limits, problem.devices()));
    if (strategies.empty()) continue;
    const Strategy& strategy = dice.any(strategies);
    const std::vector<StagePlan> stages = random_stages(dice, job, problem.limits, strategy);
    if (stages.empty()) continue;
    const Plan before = cost::evaluate(job, strategy, stages), after = cost::evaluate(read, strategy, stages);
    EXPECT_EQ(before.prediction.iteration_s, after.prediction.iteration_s);
    EXPECT_EQ(before.stages.front().memory.needed, after.stages.front().memory.needed);
    EXPECT_EQ(before.fits, after.fits);
  }
}

// Problems on which the search once was wrong: a floor on the memory of recomputed blocks beside overlapped exchanges, sets
// of modules dropped for others that need more while they work, tables of encoder and decoder counted twice, sets that keep
// more than everything, groups of blocks of which the first is frozen.
TEST(ExhaustiveReplay, OnceWrong) {
  struct Drawn {
    std::uint64_t draw;
    std::uint32_t seed;
  };
  Tally tally;
  for (const Drawn& one : {Drawn{1, 1'000'481}, Drawn{4, 1'000'093}, Drawn{4, 2'000'008}, Drawn{103, 202},
                           Drawn{6, 3'004'137}, Drawn{6, 3'018'263}, Drawn{7, 3'014'259}}) {
    compare_problem(problem_of(one.seed, one.draw), tally);
  }
  EXPECT_GT(tally.plans, 0);
}

// One problem, named by $NEST_ORACLE_SEED.
TEST(ExhaustiveReplay, OneSeed) {
  const char* seed = std::getenv("NEST_ORACLE_SEED");
  if (seed == nullptr) GTEST_SKIP() << "set NEST_ORACLE_SEED to look at one problem";
  Tally tally;
  compare_problem(problem_of(static_cast<std::uint32_t>(std::strtoul(seed, nullptr, 10))), tally);
}

}  // namespace
}  // namespace nest::search
