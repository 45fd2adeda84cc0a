// Every bound of the search, against what it bounds.
#include "search/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "oracle.h"
#include "search/evaluate.h"
#include "search/space.h"
#include "search/tree.h"

namespace nest::search::test {
namespace {

std::int64_t flows_by_hand(std::int64_t source, std::int64_t target, std::int64_t count, std::int64_t unit) {
  std::map<std::int64_t, std::int64_t> leaving;
  std::int64_t most = 0;
  for (std::int64_t q = 0; q < count; ++q) {
    if ((source + q) / unit != (target + q) / unit) most = std::max(most, ++leaving[(source + q) / unit]);
  }
  return most;
}

TEST(Flows, MatchCountingDevices) {
  for (std::int64_t unit = 1; unit <= 24; ++unit) {
    for (std::int64_t block = 1; block <= 24; ++block) {
      for (std::int64_t start = 0; start < 2 * unit; ++start) {
        const std::int64_t base = start + 100 * unit;
        for (std::int64_t stages : {1, 2, 5}) {
          ASSERT_EQ(LevelNetwork::flows(base, base + stages * block, block, unit),
                    flows_by_hand(base, base + stages * block, block, unit))
              << block << " devices from " << start << ", unit " << unit;
          ASSERT_EQ(LevelNetwork::flows(base + stages * block, base, block, unit),
                    flows_by_hand(base + stages * block, base, block, unit));
        }
      }
    }
  }
}

TEST(Plateaus, CoverEveryReplicaCountOnce) {
  for (std::int64_t batch = 1; batch <= 60; ++batch) {
    for (std::int64_t devices : {1, 3, 7, 16, 61, 64}) {
      for (std::int64_t size : {1, 2, 3}) {
        Problem problem;
        problem.splits = {{}};
        problem.micro_batches = {size};
        problem.global_batch = batch;
        problem.devices = devices;
        problem.replicas.low = 1 + batch % 3;
        const Space space(problem, 0, 0);
        if (!space.admissible()) continue;
        std::vector<std::int64_t> seen;
        Plateau plateau = space.plateau(1, 1);
        while (plateau.micro_batches > 0) {
          for (std::int64_t r = plateau.high; r >= plateau.low; --r) {
            EXPECT_EQ(space.micro_batches(r), plateau.micro_batches);
            seen.push_back(r);
          }
          plateau = space.plateau(1, plateau.micro_batches + 1);
        }
        std::vector<std::int64_t> expected;
        for (std::int64_t r = space.most_replicas(1); r >= space.least_replicas(); --r) expected.push_back(r);
        EXPECT_EQ(seen, expected) << "B " << batch << " N " << devices << " b " << size;
      }
    }
  }
}

TEST(Space, CountsItsKeys) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    World setup(random_instance(seed));
    setup.problem().padding = false;
    std::int64_t keys = 0;
    for (int split = 0; split < static_cast<int>(setup.problem().splits.size()); ++split) {
      for (int size = 0; size < static_cast<int>(setup.problem().micro_batches.size()); ++size) {
        keys += Space(setup.problem(), split, size).count_keys();
      }
    }
    EXPECT_EQ(keys, static_cast<std::int64_t>(all_keys(setup.instance()).size())) << "seed " << seed;
  }
}

bool no_worse(const Line& best, const Line& line) {
  return best.alpha_ps <= line.alpha_ps && best.beta_ps_per_mib <= line.beta_ps_per_mib;
}

bool no_worse(const ShardGroup& best, const ShardGroup& group) {
  return no_worse(best.dense_shard, group.dense_shard) && no_worse(best.dense_replicate, group.dense_replicate) &&
         no_worse(best.expert_shard, group.expert_shard) && no_worse(best.expert_replicate, group.expert_replicate) &&
         best.dense_degree >= group.dense_degree && best.expert_degree >= group.expert_degree;
}

// Random placements of larger networks than the exhaustive search can take, and random boxes around each.
TEST(Bounds, BoxIsNoWorseThanItsPlacements) {
  std::mt19937_64 random(7);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int round = 0; round < scaled(60000); ++round) {
    std::vector<NetworkLevel> levels;
    std::int64_t unit = 1;
    for (std::int64_t l = between(1, 4); l > 0; --l) {
      levels.push_back({unit, 1e9 * static_cast<double>(between(1, 900)), between(0, 9) * 1000});
      unit = unit * between(2, 6) + (between(1, 5) == 1 ? 1 : 0);
    }
    const LevelNetwork network(levels);
    Placement placement;
    placement.split = {between(1, 6), between(1, 2), between(1, 2), 0};
    placement.stages = between(1, 30);
    placement.inner_replicas = between(1, 9);
    placement.replicas = placement.inner_replicas * between(1, 9);
    placement.pitch = placement.stages * placement.inner_replicas * placement.split.devices();
    if (between(0, 1) == 1)
      placement.pitch = (placement.pitch + levels.back().unit - 1) / levels.back().unit * levels.back().unit;
    PlacementBox box{placement.split, placement.stages, 0, 0, 0, 0, 0};
    box.inner_low = between(1, placement.inner_replicas);
    box.inner_high = placement.inner_replicas + between(0, 5);
    box.replicas_low = std::max(box.inner_low, between(1, placement.replicas));
    box.replicas_high = std::max(box.inner_high, placement.replicas + between(0, 9));
    if (between(0, 3) == 0) {
      box.inner_low = box.inner_high = placement.inner_replicas;
      box.replicas_low = placement.inner_replicas * between(1, placement.replicas / placement.inner_replicas);
      box.pitch = placement.pitch;
    }
    const PlacementClass placed = network.place(placement);
    const BoxClass best = network.optimistic(box);
    for (const Line& hop : placed.hop) ASSERT_TRUE(no_worse(best.hop, hop)) << round;
    ASSERT_TRUE(no_worse(best.wrap, placed.wrap)) << round;
    for (std::size_t g = 0; g < 2; ++g)
      ASSERT_TRUE(no_worse(best.sync.group[g], placed.sync.group[g])) << round << " " << g;
    for (const HopFloor& floor : best.floors) {
      const auto many =
          std::count_if(placed.hop.begin(), placed.hop.end(), [&](const Line& l) { return no_worse(floor.line, l); });
      ASSERT_GE(many, floor.boundaries) << round;
    }
    Placement more = placement;
    more.replicas += placement.inner_replicas;
    const PlacementClass grown = network.place(more);
    for (std::size_t s = 0; s < placed.hop.size(); ++s) ASSERT_TRUE(no_worse(placed.hop[s], grown.hop[s])) << round;
  }
}

TEST(Bounds, PlacementMatchesCountingDevices) {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(scaled(400)); ++seed) {
    World setup(random_instance(seed));
    for (const Key& key : all_keys(setup.instance())) {
      const PlacementClass placed =
          setup.problem().network->place({setup.problem().splits[static_cast<std::size_t>(key.split)], key.stages,
                                          key.replicas, key.inner_replicas, key.pitch});
      const PlacementClass counted = place_by_hand(setup.instance(), key);
      ASSERT_EQ(placed.hop, counted.hop) << "seed " << seed;
      ASSERT_EQ(placed.wrap, counted.wrap) << "seed " << seed;
      ASSERT_EQ(placed.sync, counted.sync) << "seed " << seed;
    }
  }
}

// Arithmetic bounds of every key and of every pair against the exact optimum of the key.
TEST(Bounds, ArithmeticNeverExceedsTheOptimum) {
  int compared = 0;
  for (std::uint64_t seed = 1; compared < scaled(20000); ++seed) {
    World setup(random_instance(seed));
    const Problem& problem = setup.problem();
    Shared shared(problem);
    Opener opener(shared, false);
    CutCostCache cache;
    for (const Key& key : all_keys(setup.instance())) {
      if (!shared.is_priced(key.split, key.micro_batch)) shared.price(key.split, key.micro_batch);
      Counters counters;
      const std::optional<Offer> optimum = opener.solve(key, static_cast<Score>(1) << 100, counters);
      if (!optimum) continue;
      ++compared;
      const Priced& priced = shared.priced(key);
      const std::int64_t time = optimum->plan.time_ps, v = shared.chunks(key.schedule);
      const PlacementClass placed = shared.place(key);
      PlacementBox box{shared.split(key), key.stages, key.replicas, key.replicas, 1, key.replicas, 0};
      const BoxClass best = problem.network->optimistic(box);
      const TrafficBound exact(problem, priced, placed.sync), relaxed(problem, priced, best.sync);
      const std::int64_t m = micro_batches_of(problem, key);
      ASSERT_LE(iteration_bound(chain_bound(priced, placed, key.stages, v), exact, key.stages, m, v).time_ps, time)
          << seed;
      const ChainBound chain = chain_bound(priced, best, key.stages, v, cache);
      ASSERT_LE(iteration_bound(chain, relaxed, key.stages, m, v, &cache.peaks(priced), time).time_ps, time) << seed;
      ASSERT_LE(work_bound(problem, key.split, key.micro_batch, {priced.total.time_ps, priced.largest_time_ps}),
                optimum->score)
          << seed;
    }
  }
}

}  // namespace
}  // namespace nest::search::test
