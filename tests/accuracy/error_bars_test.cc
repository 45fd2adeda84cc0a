#include "accuracy/error_bars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "nest/interval.h"

namespace nest::accuracy {
namespace {

using ::testing::HasSubstr;

// Runs whose errors are drawn from the law itself.
std::vector<ErrorRow> drawn_rows(std::size_t count, const ErrorCoefficients& truth, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<ErrorRow> rows(count);
  for (std::size_t i = 0; i < count; ++i) {
    ErrorRow& row = rows[i];
    row.source = "source " + std::to_string(i % 7);
    row.strict = i % 4 != 0;
    const auto some = [&](double most) { return uniform(random) < 0.7 ? 0.0 : most * uniform(random); };
    row.shares = {1,
                  some(0.5),
                  some(0.5),
                  some(0.5),
                  some(0.5),
                  some(4),
                  uniform(random) < 0.4 ? 1.0 : 0.0,
                  row.strict ? 0.0 : 1.0,
                  0};
    row.z = student4_quantile(std::clamp(uniform(random), 1e-9, 1 - 1e-9)) * spread_with(row.shares, truth);
  }
  return rows;
}

TEST(ErrorBars, TheFitFindsTheCoefficientsThatTheRowsWereDrawnWith) {
  const ErrorCoefficients truth = {0.03, 0.4, 0.3, 0.5, 0.35, 0.03, 0.1, 0.2, 0.15};
  const ErrorCoefficients fitted = fit_coefficients(drawn_rows(20'000, truth, 7));
  for (std::size_t k = 0; k + 1 < truth.size(); ++k) {
    EXPECT_NEAR(fitted[k], truth[k], 0.1 * truth[k] + 0.002) << cost::kErrorTerms[k].key;
  }
  EXPECT_EQ(fitted.back(), shipped_coefficients().back()) << "no row has the term: it stays";
}

Set set_of(const std::vector<ErrorRow>& rows) {
  Set set{"published_time", "", "s", rows.size(), {}, {}};
  for (const ErrorRow& row : rows) {
    Reading reading;
    reading.source = row.source;
    reading.strict = row.strict;
    reading.point = {1, std::exp(row.z)};
    Prediction prediction;
    prediction.iteration_s = 1;
    prediction.breakdown_s.tp = row.shares[1];
    prediction.breakdown_s.ep = row.shares[2];
    prediction.breakdown_s.grad_sync = row.shares[3];
    prediction.breakdown_s.bubble = row.shares[4];
    reading.run.prediction = prediction;
    reading.run.circumstances = {512 * std::exp2(row.shares[5]), row.shares[6] > 0, row.shares[7] > 0, false};
    set.readings.push_back(reading);
  }
  return set;
}

TEST(ErrorBars, IntervalsCoverWhatTheySay) {
  const ErrorBars bars = judge_error_bars(set_of(drawn_rows(2'000, shipped_coefficients(), 11)));
  ASSERT_EQ(bars.coverage.size(), 4u);
  for (const Coverage& one : bars.coverage) {
    EXPECT_NEAR(one.strict, one.share, 0.04);
    EXPECT_NEAR(one.all, one.share, 0.04);
    EXPECT_NEAR(one.shipped, one.share, 0.04);
    EXPECT_EQ(one.rows, 2'000u);
  }
  EXPECT_THAT(error_bars_section(bars), HasSubstr("| 80 % |"));
}

TEST(ErrorBars, OverconfidenceIsSeen) {
  std::vector<ErrorRow> rows = drawn_rows(2'000, shipped_coefficients(), 13);
  for (ErrorRow& row : rows) row.z *= 2;
  const ErrorBars bars = judge_error_bars(set_of(rows));
  EXPECT_LT(bars.coverage[1].shipped, 0.62);
  EXPECT_NEAR(bars.coverage[1].strict, 0.8, 0.04) << "a new fit widens them";
}

TEST(ErrorBars, OrdersAreCountedInsideOneJob) {
  Set set{"published_time", "", "s", 4, {}, {}};
  const auto add = [&](const char* job, double predicted, double measured) {
    Reading reading;
    reading.source = "site";
    reading.point = {predicted, measured};
    reading.run.job = job;
    Prediction prediction;
    prediction.iteration_s = predicted;
    reading.run.prediction = prediction;
    set.readings.push_back(reading);
  };
  add("a", 1.0, 1.0);
  add("a", 1.5, 1.4);  // far apart, and so it was
  add("b", 2.0, 1.9);
  add("b", 2.01, 1.8);  // a toss-up, and wrong
  const ErrorBars bars = judge_error_bars(set);
  EXPECT_EQ(bars.orders.back().pairs, 1u);
  EXPECT_EQ(bars.orders.back().right, 1u);
  EXPECT_EQ(bars.orders.front().pairs, 1u);
  EXPECT_EQ(bars.orders.front().right, 0u);
}

}  // namespace
}  // namespace nest::accuracy
