#include "accuracy/statistics.h"

#include <gtest/gtest.h>

namespace nest::accuracy {
namespace {

TEST(Median, IsTheMiddle) {
  EXPECT_DOUBLE_EQ(median({}), 0);
  EXPECT_DOUBLE_EQ(median({7}), 7);
  EXPECT_DOUBLE_EQ(median({9, 1, 4}), 4);
  EXPECT_DOUBLE_EQ(median({9, 1, 4, 2}), 3);
}

TEST(Quantile, InterpolatesBetweenNeighbours) {
  const std::vector<double> values = {10, 0, 20, 30, 40};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 0);
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 10);
  EXPECT_DOUBLE_EQ(quantile(values, 0.3), 12);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 40);
}

TEST(Errors, AreFractionsOfTheMeasured) {
  // +10 %, -20 %, +0 %, +30 %
  const Errors errors = errors_of({{11, 10}, {8, 10}, {5, 5}, {1.3, 1}});
  EXPECT_EQ(errors.count, 4U);
  EXPECT_NEAR(errors.mean_absolute, 0.15, 1e-12);
  EXPECT_NEAR(errors.median_absolute, 0.15, 1e-12);
  EXPECT_NEAR(errors.bias, 0.05, 1e-12);
  EXPECT_NEAR(errors.worst, 0.3, 1e-12);
}

TEST(Errors, TheWorstKeepsItsSign) { EXPECT_NEAR(errors_of({{12, 10}, {5, 10}}).worst, -0.5, 1e-12); }

TEST(Errors, OfNothingAreZero) {
  const Errors errors = errors_of({});
  EXPECT_EQ(errors.count, 0U);
  EXPECT_EQ(errors.mean_absolute, 0);
}

TEST(Kendall, IsOneForTheSameOrderAndMinusOneForTheReverse) {
  EXPECT_DOUBLE_EQ(kendall({{1, 10}, {2, 20}, {3, 30}}).tau, 1);
  EXPECT_DOUBLE_EQ(kendall({{3, 10}, {2, 20}, {1, 30}}).tau, -1);
}

TEST(Kendall, CountsPairs) {
  // Of the six pairs only (20, 30) is predicted the wrong way round: (5 - 1) / 6.
  const Rank rank = kendall({{1, 10}, {3, 20}, {2, 30}, {4, 40}});
  EXPECT_EQ(rank.pairs, 6U);
  EXPECT_NEAR(rank.tau, 4.0 / 6, 1e-12);
}

TEST(Kendall, LeavesMeasuredTiesOutAndCountsPredictedOnesAsNeither) {
  // Pairs: (10, 10) tied in the measurement, not counted; (10, 20) twice, once alike and once predicted equal.
  const Rank rank = kendall({{1, 10}, {2, 10}, {2, 20}});
  EXPECT_EQ(rank.pairs, 2U);
  EXPECT_DOUBLE_EQ(rank.tau, 0.5);
}

TEST(Kendall, CanAskOnlyPairsThatAreApart) {
  // 100 and 104 are 4 % apart and wrongly ordered; the pairs with 200 are right.
  const std::vector<Point> points = {{2, 100}, {1, 104}, {3, 200}};
  EXPECT_NEAR(kendall(points).tau, 1.0 / 3, 1e-12);
  EXPECT_EQ(kendall(points, 0.05).pairs, 2U);
  EXPECT_DOUBLE_EQ(kendall(points, 0.05).tau, 1);
}

TEST(Kendall, OfNothingIsZero) {
  EXPECT_EQ(kendall({}).pairs, 0U);
  EXPECT_EQ(kendall({{1, 1}}).tau, 0);
}

}  // namespace
}  // namespace nest::accuracy
