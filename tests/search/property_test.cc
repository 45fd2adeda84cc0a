// Properties the search relies on (P1-P3), relations between problems, and how a search may be run.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <random>

#include "base/error.h"
#include "oracle.h"
#include "search/evaluate.h"
#include "search/priced.h"
#include "search/search.h"
#include "search/stage_cost.h"

namespace nest::search::test {
namespace {

Score best_score(const Problem& problem, int top = 1) {
  Settings settings;
  settings.top = top;
  const Result result = find_plans(problem, settings);
  if (result.plans.empty()) return static_cast<Score>(1) << 110;
  return result.lower_bound;
}

TEST(Costs, IntervalsAreSumsAndMaxima) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Instance instance = random_instance(seed);
    const ChainIndex index(instance.problem.chain);
    const Priced priced(instance.problem.chain, index, instance.table(0, 0));
    const std::int64_t n = instance.problem.chain.size();
    for (std::int64_t i = 0; i < n; ++i) {
      IntervalSums sums;
      for (std::int64_t j = i + 1; j <= n; ++j) {
        const LayerCost& layer = priced.layer(j - 1);
        sums.time_ps += layer.time_ps;
        sums.kept_bytes[1] += layer.kept_bytes[1];
        sums.working_bytes[2] = std::max(sums.working_bytes[2], layer.working_bytes[2]);
        sums.dense_parameters += layer.dense_parameters;
        const IntervalSums fast = priced.sums(i, j);
        ASSERT_EQ(fast.time_ps, sums.time_ps);
        ASSERT_EQ(fast.kept_bytes[1], sums.kept_bytes[1]);
        ASSERT_EQ(fast.working_bytes[2], sums.working_bytes[2]);
        ASSERT_EQ(fast.dense_parameters, sums.dense_parameters);
      }
    }
  }
}

TEST(Costs, GrowWithLinesAndFallWithDegrees) {
  std::mt19937_64 random(3);
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  for (int round = 0; round < 50000; ++round) {
    StateRecipe state;
    state.step_ps_per_mi_sharded = up_to(1 << 22);
    state.step_ps_per_mi_local = up_to(1 << 20);
    state.exposed_1024ths = up_to(1) * up_to(1024);
    IntervalSums sums;
    sums.hide_ps = up_to(100000);
    sums.dense_parameters = up_to(1 << 20);
    sums.expert_parameters = up_to(1) * up_to(1 << 20);
    ShardGroup group;
    for (Line* line : {&group.dense_shard, &group.expert_shard, &group.dense_replicate, &group.expert_replicate}) {
      *line = {up_to(1000), up_to(1 << 18)};
    }
    group.dense_degree = 1 + up_to(20);
    group.expert_degree = 1 + up_to(20);
    ShardGroup worse = group;
    Line* lines[] = {&worse.dense_shard, &worse.expert_shard, &worse.dense_replicate, &worse.expert_replicate};
    Line& line = *lines[up_to(3)];
    line.alpha_ps += up_to(500);
    line.beta_ps_per_mib += up_to(5000);
    worse.dense_degree = std::max<std::int64_t>(1, worse.dense_degree - up_to(3));
    worse.expert_degree = std::max<std::int64_t>(1, worse.expert_degree - up_to(3));
    for (int zero = 0; zero < 4; ++zero) {
      const ZeroCost a = zero_cost(state, zero, {state, group, sums}, sums),
                     b = zero_cost(state, zero, {state, worse, sums}, sums);
      ASSERT_LE(a.per_micro_batch_ps, b.per_micro_batch_ps);
      ASSERT_LE(a.per_iteration_ps, b.per_iteration_ps);
      ASSERT_LE(a.state_bytes, b.state_bytes);
    }
  }
}

TEST(Costs, ActivationsPerChunkNeverFallBelowPlainPipelines) {
  for (std::int64_t stages = 1; stages <= 12; ++stages) {
    for (std::int64_t m = 1; m <= 30; ++m) {
      for (std::int64_t v = 2; v <= 8; ++v) {
        for (std::int64_t s = 0; s < stages; ++s) {
          EXPECT_GE(in_flight({ScheduleKind::interleaved, v}, stages, m, s), v * in_flight({}, stages, m, s));
          EXPECT_GE(in_flight({ScheduleKind::gpipe, 1}, stages, m, s), in_flight({}, stages, m, s));
        }
      }
    }
  }
}

// Each relation on many random problems.
class Relations : public ::testing::Test {
 protected:
  template <typename Change>
  void compare(const Change& change, const std::function<void(Score before, Score after, std::uint64_t seed)>& check) {
    for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(scaled(400)); ++seed) {
      const Instance instance = random_instance(seed);
      World before{Instance(instance)};
      Instance changed = instance;
      change(changed);
      World after(std::move(changed));
      check(best_score(before.problem()), best_score(after.problem()), seed);
    }
  }
  void never_worse(const std::function<void(Instance&)>& change) {
    compare(change, [](Score before, Score after, std::uint64_t seed) { EXPECT_LE(after, before) << "seed " << seed; });
  }
};

TEST_F(Relations, MoreMemoryIsNeverWorse) {
  never_worse([](Instance& i) { i.problem.memory_bytes += 57; });
}

TEST_F(Relations, MoreDevicesAreNeverWorse) {
  never_worse([](Instance& i) { i.problem.devices += i.levels.back().unit; });
}

TEST_F(Relations, WiderLimitsAreNeverWorse) {
  never_worse([](Instance& i) {
    i.problem.stages = i.problem.replicas = i.problem.inner_replicas = Limit{};
    i.problem.options = AllowedOptions{};
    i.problem.even_batch = i.problem.interleave_multiple = false;
    i.problem.padding = true;
  });
}

TEST_F(Relations, LowerLatencyIsNeverWorse) {
  never_worse([](Instance& i) {
    for (NetworkLevel& level : i.levels) level.latency_ps /= 2;
  });
}

// A plan keeps its cuts and options and every line of it falls.
TEST_F(Relations, MoreBandwidthIsNeverWorse) {
  never_worse([](Instance& i) {
    for (NetworkLevel& level : i.levels) level.bytes_per_s *= 2;
  });
}

TEST_F(Relations, RelabellingLayerTypesChangesNothing) {
  compare(
      [](Instance& i) {
        const int types = static_cast<int>(i.tables[0].layers.size());
        for (int& type : i.problem.chain.layer_type) type = types - 1 - type;
        for (LayerTable& table : i.tables) std::reverse(table.layers.begin(), table.layers.end());
      },
      [](Score before, Score after, std::uint64_t seed) { EXPECT_EQ(after, before) << "seed " << seed; });
}

// A problem whose every time is a multiple of a power of two, so that scaling is exact.
TEST_F(Relations, ScalingAllTimesScalesTheOptimum) {
  const auto tidy = [](Instance& i, std::int64_t factor) {
    i.problem.state.step_ps_per_mi_sharded = i.problem.state.step_ps_per_mi_local = 0;
    i.problem.state.exposed_1024ths = 0;
    for (Schedule& schedule : i.problem.schedules) schedule = {ScheduleKind::one_f_one_b, 1};
    for (NetworkLevel& level : i.levels) level = {level.unit, 1e30, level.latency_ps * factor};
    for (LayerTable& table : i.tables) {
      for (LayerCost& layer : table.layers) {
        for (std::int64_t* time : {&layer.time_ps, &layer.selective_ps, &layer.full_ps, &layer.hide_ps})
          *time *= factor;
      }
    }
  };
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(scaled(300)); ++seed) {
    Instance one = random_instance(seed), three = one;
    tidy(one, 1);
    tidy(three, 3);
    World a(std::move(one)), b(std::move(three));
    const Score first = best_score(a.problem()), second = best_score(b.problem());
    if (first >= static_cast<Score>(1) << 110) continue;
    EXPECT_EQ(second, 3 * first) << "seed " << seed;
  }
}

// Large enough for many rounds: a transformer-like chain of different layers on a slow network.
Instance larger_instance() {
  Instance instance;
  Problem& p = instance.problem;
  std::mt19937_64 random(11);
  LayerTable base;
  for (int i = 0; i < 24; ++i) {
    p.chain.layer_type.push_back(i);
    LayerCost layer;
    layer.time_ps = 3'000'000'000 + static_cast<std::int64_t>(random() % 2'000'000'000);
    layer.selective_ps = layer.time_ps / 20;
    layer.full_ps = layer.time_ps / 3;
    layer.hide_ps = layer.time_ps / 2;
    layer.kept_bytes = {900'000'000, 500'000'000, 60'000'000};
    layer.working_bytes = {300'000'000, 300'000'000, 900'000'000};
    layer.gather_bytes = 800'000'000;
    layer.dense_parameters = 200'000'000 + static_cast<std::int64_t>(random() % 100'000'000);
    base.layers.push_back(layer);
  }
  for (int i = 0; i <= 24; ++i) p.chain.cut_kind.push_back(i % 3);
  base.cut_bytes = {64'000'000, 48'000'000, 80'000'000};
  base.wrap_bytes = 64'000'000;
  p.schedules.push_back({ScheduleKind::interleaved, 2});
  p.micro_batches = {1, 2};
  for (std::int64_t tp : {1, 2, 4}) {
    p.splits.push_back({tp, 1, 1, 0});
    for (std::int64_t b : p.micro_batches) {
      LayerTable table = base;
      for (LayerCost& layer : table.layers) {
        layer.time_ps = layer.time_ps * b / tp + 200'000'000 * (tp - 1);
        layer.hide_ps = layer.time_ps / 2;
        layer.dense_parameters /= tp;
        for (std::int64_t& bytes : layer.kept_bytes) bytes = bytes * b / tp;
      }
      instance.tables.push_back(table);
    }
  }
  p.global_batch = 96;
  p.devices = 64;
  p.memory_bytes = 24'000'000'000;
  instance.levels = {{1, 200e9, 3'000'000}, {4, 25e9, 8'000'000}, {16, 50e9, 12'000'000}};
  return instance;
}

TEST(Running, ThreadsDoNotChangeAnything) {
  World setup(larger_instance());
  Settings settings;
  settings.top = 5;
  const Result one = find_plans(setup.problem(), settings);
  ASSERT_EQ(one.outcome, Outcome::optimal);
  ASSERT_GT(one.counters.opened, 64);
  for (int threads : {2, 3, 8}) {
    settings.threads = threads;
    const Result many = find_plans(setup.problem(), settings);
    ASSERT_EQ(many.plans.size(), one.plans.size());
    for (std::size_t i = 0; i < one.plans.size(); ++i) {
      EXPECT_EQ(many.plans[i].key, one.plans[i].key);
      EXPECT_EQ(many.plans[i].cuts, one.plans[i].cuts);
      EXPECT_EQ(many.plans[i].options, one.plans[i].options);
    }
    EXPECT_EQ(many.counters.opened, one.counters.opened);
    EXPECT_EQ(many.counters.relaxed, one.counters.relaxed);
    EXPECT_EQ(many.counters.leaves, one.counters.leaves);
    EXPECT_EQ(many.counters.passes, one.counters.passes);
    EXPECT_EQ(many.counters.closed, one.counters.closed);
  }
}

TEST(Running, FirstOfManyIsTheBest) {
  World setup(larger_instance());
  Settings settings;
  const Result one = find_plans(setup.problem(), settings);
  settings.top = 100;
  const Result many = find_plans(setup.problem(), settings);
  ASSERT_EQ(many.plans.size(), 100U);
  EXPECT_EQ(many.plans[0].key, one.plans[0].key);
  EXPECT_EQ(many.plans[0].cuts, one.plans[0].cuts);
  for (std::size_t i = 1; i < many.plans.size(); ++i) EXPECT_LE(many.plans[i - 1].time_ps, many.plans[i].time_ps);
}

TEST(Running, StoppedSearchReportsPlanAndGap) {
  World setup(larger_instance());
  const Result full = find_plans(setup.problem(), {});
  ASSERT_EQ(full.outcome, Outcome::optimal);
  EXPECT_EQ(full.gap, 0);
  Settings settings;
  std::atomic<bool> stop{false};
  settings.stop = &stop;
  settings.progress = [&](const Progress& progress) {
    EXPECT_LE(progress.lower_bound, full.lower_bound);
    stop = true;
  };
  const Result stopped = find_plans(setup.problem(), settings);
  ASSERT_EQ(stopped.outcome, Outcome::limit);
  ASSERT_FALSE(stopped.plans.empty());
  EXPECT_LE(stopped.lower_bound, full.lower_bound);
  EXPECT_GE(stopped.plans[0].time_ps, full.plans[0].time_ps);
  EXPECT_GE(stopped.gap, 0);
  EXPECT_TRUE(evaluate(setup.problem(), stopped.plans[0]).fits);
  Settings none;
  none.time_limit_s = 0;
  const Result nothing = find_plans(setup.problem(), none);
  EXPECT_EQ(nothing.outcome, Outcome::limit);
  EXPECT_LE(nothing.lower_bound, full.lower_bound);
}

TEST(Running, NothingFitsNamesTheNearest) {
  World setup(larger_instance());
  const Result full = find_plans(setup.problem(), {});
  setup.problem().memory_bytes = 1'000'000'000;
  const Result result = find_plans(setup.problem(), {});
  ASSERT_EQ(result.outcome, Outcome::infeasible);
  ASSERT_TRUE(result.shortfall.has_value());
  EXPECT_EQ(result.shortfall->needed_bytes - result.shortfall->missing_bytes, 1'000'000'000);
  setup.problem().memory_bytes = result.shortfall->needed_bytes;
  EXPECT_EQ(find_plans(setup.problem(), {}).outcome, Outcome::optimal) << "what it says would fit does fit";
}

TEST(Running, ContradictoryProblemsAreRefused) {
  World setup(larger_instance());
  setup.problem().schedules.push_back({ScheduleKind::gpipe, 2});
  EXPECT_THROW(find_plans(setup.problem(), {}), InputError);
  setup.problem().schedules.pop_back();
  setup.problem().chain.cut_kind.pop_back();
  EXPECT_THROW(find_plans(setup.problem(), {}), InputError);
}

}  // namespace
}  // namespace nest::search::test
