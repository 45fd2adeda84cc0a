#include "questions/goodput.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "test_support/scale.h"

namespace nest::questions {
namespace {

// M = 1000 s, R = 100 s, d = 10 s, tau = 140 s: 1000 e^0.1 (e^0.15 - 1) = 1105.1709 x 0.1618342 = 178.8545 s.
TEST(Goodput, ExpectedTimeByHand) { EXPECT_NEAR(expected_s(1000, 10, 100, 140), 178.8545, 1e-3); }

// Where saving is short, Young's: sqrt(2 x 1 x 1e6) = 1414.2 s; less 2 d / 3 in the next order: 1413.5 (Daly 2006).
TEST(Goodput, IntervalIsYoungsWhereSavingIsShort) {
  EXPECT_NEAR(best_interval_s(1e6, 1), std::sqrt(2e6) - 2 / 3.0, 1e-3);
}

// tau/M = 1 - e^(-(tau+d)/M): with M = 1 and tau = 0.5, d = ln 2 - 0.5.
TEST(Goodput, IntervalByHand) { EXPECT_NEAR(best_interval_s(1, std::log(2.0) - 0.5), 0.5, 1e-12); }

TEST(Goodput, IntervalIsBestOfAGrid) {
  std::mt19937_64 random(3);
  for (std::uint32_t k = 0; k < test::scaled(200, 20); ++k) {
    const double mtbf_s = std::exp2(static_cast<double>(random() % 2000) / 100);
    const double save_s = mtbf_s * std::exp2(-static_cast<double>(random() % 2000) / 100);
    const double best_s = best_interval_s(mtbf_s, save_s);
    const auto rate = [&](double tau) { return expected_s(mtbf_s, save_s, 0, tau) / tau; };
    for (double factor = 0.01; factor < 100; factor *= 1.1) {
      EXPECT_GE(rate(best_s * factor), rate(best_s) * (1 - 1e-12)) << mtbf_s << " " << save_s << " " << factor;
    }
  }
}

// Whole steps, against all numbers of them; the shares add up.
TEST(Goodput, StepsAreTheBestOfAll) {
  std::mt19937_64 random(4);
  for (std::uint32_t k = 0; k < test::scaled(100, 10); ++k) {
    const Reliability reliability{1e8, std::exp2(static_cast<double>(random() % 1000) / 100), 600};
    const auto devices = static_cast<std::int64_t>(64 + random() % 16384);
    const double step_s = std::exp2(static_cast<double>(random() % 800) / 100 - 2);
    const SavingPlan plan = save_best(reliability, devices, step_s);
    const double mtbf_s = 1e8 / static_cast<double>(devices);
    for (std::int64_t steps = 1; steps < 4 * plan.steps + 8; ++steps) {
      const auto n = static_cast<double>(steps);
      EXPECT_GE(expected_s(mtbf_s, reliability.save_s, 600, n * step_s) / n, plan.step_s * (1 - 1e-12));
    }
    EXPECT_NEAR(plan.goodput + plan.saving + plan.lost + plan.restarting, 1, 1e-12);
    EXPECT_GT(plan.lost, 0);
    EXPECT_NEAR(plan.goodput * plan.step_s, step_s, 1e-9 * step_s);
  }
}

// Llama 3 405B (Grattafiori et al. 2024, 3.3): 419 unexpected interruptions in 54 days of 16,384 H100, storage that takes
// 2 TB/s, "higher than 90 % effective training time". Its state is 14 bytes for each of 405.9 B parameters, 5.7 TB: 2.8 s.
// How long it took to come back is not told; 90 % are kept as long as that is no more than about a quarter of an hour.
TEST(Goodput, OfLlama3) {
  const double run_s = 54 * 86400.0;
  Reliability reliability;
  reliability.device_mtbf_s = run_s * 16384 / 419;
  reliability.save_s = 405.9e9 * 14 / 2e12;
  reliability.restart_s = 600;
  const SavingPlan plan = save_best(reliability, 16384, 20);
  EXPECT_NEAR(plan.system_mtbf_s / 3600, 3.09, 0.01);
  EXPECT_NEAR(plan.interval_s, 252, 20);
  EXPECT_GT(plan.goodput, 0.90);
  EXPECT_NEAR(plan.goodput, 0.926, 0.005);
  const auto longest_s = longest_restart_s(reliability, 16384, 20, 0.90);
  ASSERT_TRUE(longest_s);
  EXPECT_NEAR(*longest_s / 60, 15.3, 0.5);
  reliability.restart_s = *longest_s;
  EXPECT_NEAR(save_best(reliability, 16384, 20).goodput, 0.90, 1e-9);
}

// Fewer devices are slower and fail less often; against all of them.
TEST(Goodput, BestPlanAgainstAllDeviceCounts) {
  std::mt19937_64 random(5);
  const auto real_in = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11U) * 0x1p-53;
  };
  int smaller = 0;
  for (std::uint32_t k = 0; k < test::scaled(300, 60); ++k) {
    const std::int64_t devices = 100 + static_cast<std::int64_t>(random() % 200);
    std::vector<double> exact(static_cast<std::size_t>(devices) + 1, std::numeric_limits<double>::infinity());
    for (std::int64_t n = 1; n <= devices; ++n) {
      if (random() % 3 == 0) continue;
      exact[static_cast<std::size_t>(n)] = 100 / std::pow(static_cast<double>(n), real_in(0.2, 1));
    }
    const Reliability reliability{std::exp2(real_in(12, 24)), real_in(1, 60), real_in(0, 1000)};
    int asked = 0;
    const auto fastest = [&](std::int64_t most, double below_s) {
      ++asked;
      Corner best{0, below_s};
      for (std::int64_t n = 1; n <= most; ++n) {
        if (exact[static_cast<std::size_t>(n)] < best.step_s) best = {n, exact[static_cast<std::size_t>(n)]};
      }
      return best.devices > 0 ? std::optional(best) : std::nullopt;
    };
    double expected = std::numeric_limits<double>::infinity();
    std::int64_t at = 0;
    for (std::int64_t n = 1; n <= devices; ++n) {
      if (std::isinf(exact[static_cast<std::size_t>(n)])) continue;
      const double told = save_best(reliability, n, exact[static_cast<std::size_t>(n)]).step_s;
      if (told < expected) {
        expected = told;
        at = n;
      }
    }
    const auto found = best_goodput(reliability, devices, fastest);
    ASSERT_TRUE(found);
    EXPECT_NEAR(save_best(reliability, found->devices, found->step_s).step_s / expected, 1, 1e-12);
    smaller += at < fastest(devices, 1e300)->devices;
  }
  EXPECT_GT(smaller, 0);  // it is not always the fastest plan
}

// 2,048 nodes that fail every 6,335 h (8 devices of 50,680 h) and are away for a day: 7.76 away in the mean. P(more than 15
// away) is 0.63 %, P(more than 14) 1.35 %.
TEST(Goodput, Spares) {
  EXPECT_EQ(spares_needed(2048, 6335 * 3600.0, 86400, 0.01), 15);
  EXPECT_EQ(spares_needed(2048, 6335 * 3600.0, 0, 0.01), 0);
  EXPECT_EQ(spares_needed(2, 10, 1e6, 0.01), 2);
}

}  // namespace
}  // namespace nest::questions
