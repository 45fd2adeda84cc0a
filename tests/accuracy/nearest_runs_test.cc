#include "report/nearest_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accuracy/sets.h"
#include "doc/value.h"
#include "test_support/data.h"

namespace nest::report {
namespace {

using ::testing::HasSubstr;

// What answers are compared with is what nest predicts today: `make accuracy` writes it anew.
TEST(NearestRuns, ThoseThatShipAreOfToday) {
  const auto folder = test::source_dir() / "data";
  const std::vector<PublishedTime> today = accuracy::published_times(folder / "accuracy");
  EXPECT_GT(today.size(), 30U);
  EXPECT_EQ(write_runs(today), test::read_file(folder / "runs" / "published.yaml"));
  EXPECT_EQ(write_runs(published_runs()), write_runs(today));
}

PlanReport report_of(const char* device, std::int64_t devices, std::int64_t parameters) {
  PlanReport report;
  report.plan.cluster.device = device;
  report.plan.strategy.dp = devices;
  report.plan.model.parameters = parameters;
  report.plan.run.sequence = 8192;
  report.plan.run.precision = Precision::fp8;
  return report;
}

TEST(NearestRuns, TheNearestIsOfThatDeviceAndSize) {
  const std::vector<NearRun> near = nearest_runs(report_of("b200", 128, 405'000'000'000));
  ASSERT_EQ(near.size(), 3U);
  EXPECT_EQ(near[0].run.id, "mbridge-25.11-llama3.1-405b-b200-128");
  EXPECT_LE(near[0].distance, near[1].distance);
  EXPECT_THAT(nearest_text(near), HasSubstr("405"));
}

TEST(NearestRuns, HowFarByHand) {
  // Twice the parameters and four times the devices: 1 + 2 / 2.
  const std::vector<NearRun> near = nearest_runs(report_of("b200", 512, 2 * 405'853'388'800), 1);
  const PublishedTime& run = near[0].run;
  ASSERT_EQ(run.id, "mbridge-25.11-llama3.1-405b-b200-128");
  const double stack = run.stack == "megatron-core" ? 0 : 1;
  EXPECT_NEAR(near[0].distance, 1 + 1 + stack + (run.complete ? 0 : 0.5), 0.01);
  EXPECT_THAT(near[0].apart, HasSubstr("2 x the parameters, 4 x the devices"));
}

TEST(NearestRuns, BadRowsAreNamed) {
  EXPECT_THROW(read_runs(doc::parse_yaml("runs.yaml", "runs:\n  - id: a\n")), InputError);
}

}  // namespace
}  // namespace nest::report
