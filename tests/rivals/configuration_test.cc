// Points of the space: their price is evaluate()'s, and strategies are found in the space they come from.
#include "rivals/configuration.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cost/evaluate.h"
#include "rivals/neighbours.h"
#include "rivals/settle.h"
#include "small_jobs.h"

namespace nest::rivals {
namespace {

// A key drawn from the space, with cuts that were moved about and options at random; nothing when the draw is not
// legal.
std::optional<Configuration> draw(const search::PlanSpace& space, ConfigurationPricer& pricer, Lots& lots) {
  Configuration drawn;
  search::Key& key = drawn.key;
  key.split = static_cast<int>(lots.below(static_cast<std::int64_t>(space.splits().size())));
  key.micro_batch = static_cast<int>(lots.below(static_cast<std::int64_t>(space.micro_batches().size())));
  key.schedule = static_cast<int>(lots.below(static_cast<std::int64_t>(space.schedules().size())));
  key.stages = 1 + lots.below(std::max<std::int64_t>(1, space.most_stages(key)));
  if (!space.admits_pair(key) || !space.limits().pp.admits(key.stages) || !space.admits_schedule(key)) return {};
  if (key.stages > space.most_stages(key)) return {};
  const auto replicas = most_admitted_replicas(space, key);
  if (!replicas) return {};
  key.replicas = *replicas;
  const auto inner = space.inner_replicas(key);
  if (inner.empty()) return {};
  key.inner_replicas = lots.any(inner);
  const auto pitches = space.pitches(key);
  if (pitches.empty()) return {};
  key.pitch = lots.any(pitches);
  const auto cuts = balanced_cuts(space, pricer.pair(key), key);
  if (!cuts) return {};
  drawn.cuts = *cuts;
  for (std::int64_t s = 1; s < key.stages; ++s) move_cut(space, drawn, s, lots.chance(0.5) ? 1 : -1);
  const auto codes = admitted_options(space, space.strategy(key));
  const int code = lots.any(codes);
  for (std::int64_t s = 0; s < key.stages; ++s) {
    drawn.options.push_back(space.limits().uniform ? code : lots.any(codes));
  }
  return drawn;
}

TEST(Configurations, PriceIsThatOfTheEvaluation) {
  int compared = 0, misfits = 0, piped = 0;
  for (std::uint32_t seed = 0; seed < 24; ++seed) {
    const test::SmallJob small = test::small_job(seed);
    SCOPED_TRACE(small.name);
    const search::PlanSpace space(small.job, small.limits, small.job.cluster.devices);
    search::PriceCache prices(small.job);
    ConfigurationPricer pricer(space, prices);
    Lots lots(seed);
    for (int k = 0; k < 40; ++k) {
      const std::optional<Configuration> drawn = draw(space, pricer, lots);
      if (!drawn) continue;
      const Strategy strategy = space.strategy(drawn->key);
      const std::vector<StagePlan> stages = stages_of(space, *drawn);
      ASSERT_EQ(cost::refuse_strategy(small.job, strategy, stages), "");
      EXPECT_TRUE(admits_stages(space, strategy, stages));
      const std::optional<search::Key> found = key_of(space, strategy);
      ASSERT_TRUE(found.has_value());
      EXPECT_TRUE(*found == drawn->key);
      const Plan evaluation = cost::evaluate(small.job, strategy, stages);
      const ConfigurationPrice& price = pricer.price(*drawn);
      ASSERT_NEAR(price.time_s, evaluation.prediction.iteration_s, 1e-9 * evaluation.prediction.iteration_s);
      ASSERT_EQ(price.fits(), evaluation.fits);
      for (std::size_t s = 0; s < stages.size(); ++s) {
        ASSERT_NEAR(price.stages[s].time_s, evaluation.stages[s].time.total, 1e-9 * price.stages[s].time_s);
      }
      ++compared;
      misfits += evaluation.fits ? 0 : 1;
      piped += strategy.pp > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(compared, 200);
  EXPECT_GT(misfits, 5);
  EXPECT_GT(piped, 50);
}

TEST(Configurations, StrategiesOutsideTheLimitsHaveNoKey) {
  test::SmallJob small = test::small_job(1);
  small.job.cluster = cluster::find_cluster("dgx-h100", 8).value();
  small.limits = {};
  plan::set_limit(small.limits, "tp=2");
  plan::set_limit(small.limits, "uneven_batch=0");
  const search::PlanSpace space(small.job, small.limits, 8);
  Strategy strategy;
  strategy.split.tp = 2;
  strategy.split.sp = true;
  strategy.dp = strategy.dp_inner = 4;
  EXPECT_TRUE(key_of(space, strategy).has_value());
  Strategy other = strategy;
  other.split = {};
  EXPECT_FALSE(key_of(space, other).has_value()) << "tp";
  other = strategy;
  other.dp = other.dp_inner = 3;
  EXPECT_FALSE(key_of(space, other).has_value()) << "a batch that does not divide";
  other = strategy;
  other.dp = other.dp_inner = 8;
  EXPECT_FALSE(key_of(space, other).has_value()) << "devices";
  other = strategy;
  other.micro_batch = 3;
  EXPECT_FALSE(key_of(space, other).has_value()) << "micro-batch";
}

TEST(Configurations, BalancedCutsAreCloseToEven) {
  const test::SmallJob small = test::small_job(0);
  const search::PlanSpace space(small.job, {}, small.job.cluster.devices);
  search::PriceCache prices(small.job);
  ConfigurationPricer pricer(space, prices);
  search::Key key;
  for (key.stages = 1; key.stages <= std::min<std::int64_t>(4, space.layers()); ++key.stages) {
    const auto cuts = balanced_cuts(space, pricer.pair(key), key);
    ASSERT_TRUE(cuts.has_value());
    const std::vector<double>& prefix = pricer.pair(key).prefix(key.stages > 1);
    double largest = 0, slowest = 0;
    for (std::size_t i = 1; i < prefix.size(); ++i) largest = std::max(largest, prefix[i] - prefix[i - 1]);
    for (std::size_t s = 1; s < cuts->size(); ++s) {
      slowest = std::max(
          slowest, prefix[static_cast<std::size_t>((*cuts)[s])] - prefix[static_cast<std::size_t>((*cuts)[s - 1])]);
    }
    EXPECT_LE(slowest, prefix.back() / static_cast<double>(key.stages) + largest);
  }
}

TEST(Neighbours, SplitsDifferInOneDegree) {
  const cost::Job job = test::small_job(3).job;
  const search::PlanSpace space(job, {}, 16);
  int neighbours = 0;
  for (int k = 0; k < static_cast<int>(space.splits().size()); ++k) {
    const Split& here = space.splits()[static_cast<std::size_t>(k)];
    for (const int other : neighbouring_splits(space, k)) {
      const Split& there = space.splits()[static_cast<std::size_t>(other)];
      EXPECT_LE((here.tp != there.tp) + (here.cp != there.cp) + (here.ep != there.ep), 1);
      EXPECT_FALSE(here == there);
      ++neighbours;
    }
  }
  EXPECT_GE(neighbours, static_cast<int>(space.splits().size())) << "every split has one";
  EXPECT_GT(space.splits().size(), 4U);
}

TEST(Neighbours, OptionsAreCarriedOver) {
  const test::SmallJob small = test::small_job(0);
  const search::PlanSpace space(small.job, {}, small.job.cluster.devices);
  const auto option = [&](Recompute recompute, int zero, bool in_node) {
    return search::find_choice(space.choices(), {recompute, zero, in_node}).value();
  };
  const int plain = option(Recompute::none, 0, false), selective = option(Recompute::selective, 1, false),
            full = option(Recompute::full, 0, false);
  const std::vector<int> admitted = {plain, selective, full};
  const auto carried = [&](const std::vector<int>& options, std::int64_t stages) {
    return carried_options(space, options, stages, admitted);
  };
  EXPECT_EQ(carried({plain, selective}, 4), (std::vector<int>{plain, plain, selective, selective}));
  EXPECT_EQ(carried({plain, selective, full, full}, 2), (std::vector<int>{plain, full}));
  // Sharding inside a node where there is none becomes sharding over all; what is not admitted at all, the first.
  EXPECT_EQ(carried({option(Recompute::selective, 1, true), option(Recompute::none, 1, true)}, 2),
            (std::vector<int>{selective, plain}));
}

}  // namespace
}  // namespace nest::rivals
