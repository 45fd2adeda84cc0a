#include "nest/interval.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nest {
namespace {

// From tables of Student's t with four degrees of freedom.
TEST(Interval, QuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(student4_quantile(0.75), 0.741, 5e-4);
  EXPECT_NEAR(student4_quantile(0.90), 1.533, 5e-4);
  EXPECT_NEAR(student4_quantile(0.95), 2.132, 5e-4);
  EXPECT_NEAR(student4_quantile(0.975), 2.776, 5e-4);
  EXPECT_NEAR(student4_quantile(0.99), 3.747, 5e-4);
  EXPECT_DOUBLE_EQ(student4_quantile(0.5), 0);
}

TEST(Interval, ProbabilityIsTheInverseOfTheQuantile) {
  for (const double p : {1e-6, 0.001, 0.1, 0.3, 0.5, 0.77, 0.999, 1 - 1e-6}) {
    EXPECT_NEAR(student4_probability(student4_quantile(p)), p, 1e-9) << p;
  }
}

TEST(Interval, EndsAreThatFarOffAsARatio) {
  // exp(1.5332 * 0.04) = 1.0633.
  const Interval told = interval(10, 0.04);
  EXPECT_NEAR(told.high, 10.633, 1e-3);
  EXPECT_NEAR(told.low * told.high, 100, 1e-9);
  EXPECT_NEAR(half_width(0.04), 0.0633, 1e-4);
  EXPECT_EQ(sureness(0.04), "± 6 %");
  EXPECT_EQ(sureness(0), "");
  EXPECT_EQ(sure_text(0.864), "86 %");
  EXPECT_EQ(sure_text(0.9999), "> 99 %");
}

TEST(Interval, MemoryRunsOutAsOftenAsTheTailSays) {
  EXPECT_DOUBLE_EQ(probability_out_of_memory(80e9, 80e9, 0.015), 0.5);
  // 1.5332 spreads of room: one in ten.
  EXPECT_NEAR(probability_out_of_memory(80e9, 80e9 * std::exp(1.5332 * 0.015), 0.015), 0.1, 1e-4);
  EXPECT_EQ(probability_out_of_memory(1, 2, 0), 0);
  EXPECT_EQ(probability_out_of_memory(2, 1, 0), 1);
  EXPECT_EQ(probability_out_of_memory(2, 0, 0.1), 1);
}

TEST(Interval, TheMarginForARiskLeavesThatRisk) {
  for (const double risk : {0.001, 0.01, 0.1}) {
    const double margin = margin_for_risk(risk, 0.02);
    EXPECT_NEAR(probability_out_of_memory(1, 1 + margin, 0.02), risk, 1e-9);
  }
}

}  // namespace
}  // namespace nest
