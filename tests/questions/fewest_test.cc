#include "questions/fewest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "test_support/scale.h"

namespace nest::questions {
namespace {

// The best plans of a made-up cluster by the devices that each spans, and how often somebody asked.
struct Staircase {
  std::vector<double> step_s;  // of the best plan that spans exactly n devices; infinite: there is none
  double limit_s = 0;
  int asked = 0;

  std::optional<Corner> fastest(std::int64_t most) {
    ++asked;
    Corner best{0, std::numeric_limits<double>::infinity()};
    for (std::int64_t n = 1; n <= most; ++n) {
      const double time_s = step_s[static_cast<std::size_t>(n)];
      if (time_s < best.step_s) best = {n, time_s};
    }
    return best.step_s <= limit_s ? std::optional(best) : std::nullopt;
  }
};

// Steps of 24 s on one device: 24, 12, none, 6, 7, 4, 4, 3 on 1 … 8.
Staircase small(double limit_s) {
  const double none = std::numeric_limits<double>::infinity();
  return {{none, 24, 12, none, 6, 7, 4, 4, 3}, limit_s, 0};
}

Fewest ask(Staircase& stairs, std::int64_t low = 1, CountOrder order = CountOrder::nested) {
  return fewest_devices(low, std::ssize(stairs.step_s) - 1, stairs.limit_s, order,
                        [&](std::int64_t n) { return stairs.fastest(n); });
}

TEST(Fewest, OfASmallCluster) {
  for (const auto& [limit_s, devices] : std::vector<std::pair<double, std::int64_t>>{
           {24, 1}, {23, 2}, {12, 2}, {11, 4}, {6.5, 4}, {5, 6}, {4, 6}, {3, 8}}) {
    Staircase stairs = small(limit_s);
    const Fewest found = ask(stairs);
    ASSERT_TRUE(found.best) << limit_s;
    EXPECT_EQ(found.best->devices, devices) << limit_s;
    EXPECT_TRUE(found.proven);
  }
}

TEST(Fewest, NoneIsProven) {
  Staircase stairs = small(2.9);
  const Fewest found = ask(stairs);
  EXPECT_FALSE(found.best);
  EXPECT_TRUE(found.proven);
}

TEST(Fewest, NothingToTryWhereTheBoundIsAboveAll) {
  Staircase stairs = small(3);
  const Fewest found = ask(stairs, 9);
  EXPECT_FALSE(found.best);
  EXPECT_TRUE(found.proven);
  EXPECT_EQ(stairs.asked, 0);
}

TEST(Fewest, StoppedKeepsWhatItHas) {
  Staircase stairs = small(6);
  const Fewest found = fewest_devices(
      1, 8, 6, CountOrder::nested, [&](std::int64_t n) { return stairs.fastest(n); }, [&] { return stairs.asked > 2; });
  // 2 misses, 4 meets it, 3 misses when time is over: it says nothing then.
  ASSERT_TRUE(found.best);
  EXPECT_EQ(found.best->devices, 4);
  EXPECT_FALSE(found.proven);
}

// Where all devices must be used: exactly 3 of 4 meet it and 4 do not.
TEST(Fewest, EachCountWhereTheyAreNotNested) {
  const std::vector<double> exact = {0, 24, 12, 7, 9};
  const Fewest found = fewest_devices(1, 4, 8, CountOrder::each, [&](std::int64_t n) {
    const double time_s = exact[static_cast<std::size_t>(n)];
    return time_s <= 8 ? std::optional(Corner{n, time_s}) : std::nullopt;
  });
  ASSERT_TRUE(found.best);
  EXPECT_EQ(found.best->devices, 3);
  EXPECT_TRUE(found.proven);
}

// Clusters of 128 to 4,096 devices, on which only some counts divide the batch, scaling is lost with size, and small counts
// have too little memory: exact, and 20 times fewer searches than one for every count.
TEST(Fewest, IsExactAndAsksSeldom) {
  std::mt19937_64 random(20);
  const auto real_in = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11U) * 0x1p-53;
  };
  double ratios = 0;
  int cases = 0;
  for (std::uint32_t k = 0; k < test::scaled(2000, 200); ++k) {
    const auto devices = static_cast<std::int64_t>(std::exp2(real_in(7, 12)));
    Staircase stairs;
    stairs.step_s.assign(static_cast<std::size_t>(devices) + 1, std::numeric_limits<double>::infinity());
    const double loss = real_in(0, 0.5), share = real_in(0.02, 1), fits = real_in(1, 16);
    for (std::int64_t n = static_cast<std::int64_t>(fits); n <= devices; ++n) {
      if (real_in(0, 1) > share && (n & (n - 1)) != 0) continue;  // powers of two are always there
      const double of_all = static_cast<double>(n) / static_cast<double>(devices);
      stairs.step_s[static_cast<std::size_t>(n)] = (1 + loss * of_all) * real_in(1, 1.1) / of_all;
    }
    stairs.limit_s = std::exp(real_in(0, std::log(static_cast<double>(devices))));
    std::int64_t expected = 0;
    for (std::int64_t n = 1; n <= devices && expected == 0; ++n) {
      if (stairs.step_s[static_cast<std::size_t>(n)] <= stairs.limit_s) expected = n;
    }
    // No plan takes fewer device-seconds than 1 x devices.
    const auto low = static_cast<std::int64_t>(std::ceil(static_cast<double>(devices) / stairs.limit_s));
    const Fewest found = ask(stairs, std::max<std::int64_t>(1, low));
    ASSERT_TRUE(found.proven);
    ASSERT_EQ(found.best ? found.best->devices : 0, expected) << "case " << k;
    EXPECT_LE(stairs.asked, 3 * std::log2(devices) + 3);
    ratios += static_cast<double>(devices) / std::max(1, stairs.asked);
    ++cases;
  }
  EXPECT_GE(ratios / cases, 20);
}

}  // namespace
}  // namespace nest::questions
