#include "questions/largest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "test_support/scale.h"

namespace nest::questions {
namespace {

// Plans of a made-up job: each needs a multiple of a divisor, and fits up to some value.
struct Made {
  struct Plan {
    std::int64_t divisor = 1, most = 0;
  };
  std::vector<Plan> plans;
  int asked = 0;

  bool fits(std::int64_t value) {
    ++asked;
    for (const Plan& plan : plans) {
      if (value % plan.divisor == 0 && value <= plan.most) return true;
    }
    return false;
  }
  std::int64_t divisor() const {
    std::int64_t all = 1;
    for (const Plan& plan : plans) all = std::lcm(all, plan.divisor);
    return all;
  }
};

Largest ask(Made& made, const ValueGrid& grid, std::int64_t start) {
  const auto fits = [&](std::int64_t value) { return made.fits(value); };
  return largest_value(grid, start, fits, fits);
}

TEST(Largest, OfAFewPlans) {
  // 4 divides up to 70, 6 up to 50, everything up to 13: 68 = 17 x 4 is the largest.
  Made made{{{4, 70}, {6, 50}, {1, 13}}};
  const Largest found = ask(made, {1, 12, 1000}, 1);
  EXPECT_EQ(found.best, 68);
  EXPECT_TRUE(found.proven);
  // Of multiples of 10: 60, by the first; of multiples of 9: 36 = 4 x 9, by both.
  EXPECT_EQ(ask(made, {10, 60, 1000}, 1).best, 60);
  EXPECT_EQ(ask(made, {9, 36, 1000}, 900).best, 36);
}

TEST(Largest, AsFarAsItIsLookedAt) {
  Made made{{{4, 70}, {1, 13}}};
  EXPECT_EQ(ask(made, {1, 4, 63}, 40).best, 60);
  EXPECT_EQ(ask(made, {1, 4, 3}, 1).best, 3);  // below the first round
  EXPECT_EQ(ask(made, {1, 4, 4}, 100).best, 4);
}

TEST(Largest, NoneIsProven) {
  Made made{{{4, 3}}};
  const Largest found = ask(made, {1, 4, 1 << 20}, 4096);
  EXPECT_FALSE(found.best);
  EXPECT_TRUE(found.proven);
}

TEST(Largest, StoppedSaysSo) {
  Made made{{{1, 1000}}};
  const auto fits = [&](std::int64_t value) { return made.fits(value); };
  const Largest found = largest_value({1, 1, 1 << 20}, 1, fits, fits, [&] { return made.asked > 8; });
  EXPECT_FALSE(found.proven);
  EXPECT_EQ(found.best, 512);  // 1, 2, 4 … 512 hold
}

// A bound that is not exact: what it admits is tried from above.
TEST(Largest, ABoundAboveIsNoAnswer) {
  const auto even_below_30 = [](std::int64_t value) { return value < 30 && value % 7 == 0; };
  const Largest found = largest_value(
      {1, 1, 100}, 5, [](std::int64_t value) { return value < 40; }, even_below_30);
  EXPECT_EQ(found.best, 28);
  EXPECT_TRUE(found.proven);
}

TEST(Largest, IsThatOfALoop) {
  std::mt19937_64 random(7);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (std::uint32_t k = 0; k < test::scaled(2000, 200); ++k) {
    Made made;
    for (std::int64_t n = pick(1, 6); n > 0; --n) made.plans.push_back({pick(1, 12), pick(0, 3000)});
    const std::int64_t step = pick(1, 8), high = pick(1, 4000);
    const ValueGrid grid{step, std::lcm(step, made.divisor()), high};
    std::int64_t expected = 0;
    for (std::int64_t value = step; value <= high; value += step) {
      if (made.fits(value)) expected = value;
    }
    made.asked = 0;
    const Largest found = ask(made, grid, pick(1, 5000));
    ASSERT_TRUE(found.proven);
    ASSERT_EQ(found.best.value_or(0), expected) << "case " << k;
    EXPECT_LE(made.asked, 2 * std::log2(4096) + 4 + static_cast<double>(grid.round / grid.step));
  }
}

TEST(LargestProduct, IsThatOfALoop) {
  std::mt19937_64 random(8);
  for (std::uint32_t k = 0; k < test::scaled(2000, 200); ++k) {
    const auto counts = static_cast<std::int64_t>(1 + random() % 64);
    std::vector<std::int64_t> most(static_cast<std::size_t>(counts) + 1), all;
    for (std::int64_t count = counts; count >= 1; --count) {
      most[static_cast<std::size_t>(count)] = static_cast<std::int64_t>(random() % 40);
      all.push_back(count);
    }
    const auto high = static_cast<std::int64_t>(1 + random() % 3000);
    std::int64_t expected = 0;
    int asked = 0;
    for (std::int64_t count = 1; count <= counts; ++count) {
      for (std::int64_t each = 1; each <= most[static_cast<std::size_t>(count)] && count * each <= high; ++each)
        expected = std::max(expected, count * each);
    }
    const LargestProduct found = largest_product(all, high, [&](std::int64_t count, std::int64_t each) {
      ++asked;
      return each <= most[static_cast<std::size_t>(count)];
    });
    ASSERT_TRUE(found.proven);
    ASSERT_EQ(found.product(), expected) << "case " << k;
    EXPECT_LE(asked, counts + 2 * 6 * counts);  // one each, and twice log2 of up to 40 where that fits
  }
}

}  // namespace
}  // namespace nest::questions
