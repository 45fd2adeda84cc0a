// The evaluation's points, and records that are read as they were written.
#include "paper/record.h"

#include <gtest/gtest.h>

#include <set>

#include "paper/page.h"
#include "paper/summary.h"

namespace nest::paper {
namespace {

// A record of the point with nest and one rival.
Record record_of(const Point& point, const Effort& effort) {
  Record record;
  record.id = point.id();
  record.time_limit_s = effort.time_limit_s;
  record.seed = effort.seed;
  record.batch = kGlobalBatch;
  PlannerResult own;
  own.planner = "nest";
  own.iteration_s = 2.5;
  own.strategy = "tp=8 sp pp=4, recompute none, ZeRO 1";
  own.devices = 64;
  own.mfu = 0.4;
  own.search_s = 0.125;
  own.optimal = true;
  PlannerResult rival = own;
  rival.planner = "mist";
  rival.iteration_s = 3;
  rival.strategy = "tp=4 sp pp=4, recompute full, ZeRO 1";
  rival.optimal = false;
  rival.stopped = true;
  rival.note = "stopped by the time limit";
  record.planners = {own, rival};
  return record;
}

TEST(PaperPoints, PointsOfSeveralGroupsAreRunOnceAndSimulatedIfAnyWantsIt) {
  std::set<std::string> all, wanted, distinct;
  for (const Point& point : all_points()) {
    all.insert(point.id());
    if (point.simulate) wanted.insert(point.id());
  }
  for (const Point& point : distinct_points()) {
    EXPECT_TRUE(distinct.insert(point.id()).second) << point.id();
    EXPECT_EQ(point.simulate, wanted.contains(point.id())) << point.id();
  }
  EXPECT_EQ(distinct, all);
  EXPECT_LT(all.size(), all_points().size()) << "some are in several groups";
  for (const std::string& group : group_names()) {
    const std::vector<Point> of_group = distinct_points(group);
    EXPECT_FALSE(of_group.empty()) << group;
    for (const Point& point : of_group) {
      EXPECT_EQ(point.group, group);
      EXPECT_EQ(point.simulate, wanted.contains(point.id())) << "whichever group is run: " << point.id();
    }
  }
}

TEST(PaperPoints, EveryPointIsAJob) {
  for (const Point& point : distinct_points()) {
    const cost::Job job = job_of(point);
    EXPECT_EQ(job.cluster.devices, point.devices) << point.id();
    EXPECT_EQ(job.run.global_batch, kGlobalBatch);
    EXPECT_TRUE(limits_of(point).micro_batch.admits(point.micro_batch));
    if (point.memory_bytes > 0) {
      EXPECT_EQ(job.cluster.device.memory_bytes, point.memory_bytes);
    }
  }
}

TEST(PaperRecords, AreReadAsTheyWereWritten) {
  const Point point = all_points().front();
  const Record written = record_of(point, {});
  const Records records = read_records(to_line(written));
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(to_line(records.begin()->second), to_line(written));
  EXPECT_EQ(*records.at(written.id).ratio("mist"), 1.2);
  EXPECT_TRUE(records.at(written.id).find("mist")->stopped);
}

TEST(PaperRecords, BrokenAndStaleLinesAreLeftOut) {
  const std::vector<Point> points = distinct_points();
  Record first = record_of(points[0], {}), stale = record_of(points[1], {});
  stale.id = "no-such-model tpuv4-fat-tree 64 mbs=1";
  const std::string line = to_line(first);
  first.planners[0].iteration_s = 2;
  const Records records =
      read_records(line + line.substr(0, line.size() / 2) + "\n" + to_line(stale) + "{}\n" + to_line(first));
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records.begin()->second.planners[0].iteration_s, 2) << "the last line of a point holds";
}

TEST(PaperRecords, AnswerOnlyWhatIsAskedNow) {
  Point point = all_points().front();
  Effort effort;
  Record record = record_of(point, effort);
  EXPECT_FALSE(record.answers(point, effort)) << "another program";
  std::mutex solver;
  // The version is the program's own.
  Point small{"v100", "mixtral-790m", "v100-cluster", 8};
  const Record ran = run_point(small, effort, solver);
  record.program = ran.program;
  EXPECT_TRUE(record.answers(point, effort));
  Effort longer = effort;
  longer.time_limit_s *= 2;
  EXPECT_FALSE(record.answers(point, longer));
  Effort other_seed = effort;
  other_seed.seed = 2;
  EXPECT_FALSE(record.answers(point, other_seed));
  ASSERT_TRUE(point.simulate);
  effort.simulator = "some-simulator";
  EXPECT_FALSE(record.answers(point, effort)) << "not simulated yet";
  point.simulate = false;
  EXPECT_TRUE(record.answers(point, effort));
  point.simulate = true;
  for (PlannerResult& result : record.planners) result.simulated_s = 2.5;
  EXPECT_TRUE(record.answers(point, effort));
}

TEST(PaperPage, SaysNothingThatTheRecordsDoNot) {
  const Page none = make_page({}, "figures");
  EXPECT_NE(none.markdown.find("Nothing was simulated."), std::string::npos);
  EXPECT_EQ(none.markdown.find("% apart"), std::string::npos);
  Effort effort;
  effort.time_limit_s = 7;
  const Record record = record_of(all_points().front(), effort);
  const Page page = make_page({{record.id, record}}, "figures");
  EXPECT_NE(page.markdown.find("may take 7 s per point"), std::string::npos);
  EXPECT_NE(page.markdown.find("| mist | 125 ms | 125 ms | 1 |"), std::string::npos);
  EXPECT_EQ(page.figures.size(), 1U);
}

TEST(PaperSummary, DifferencesAreNamed) {
  EXPECT_EQ(differences("tp=8 sp pp=4, recompute none, ZeRO 1", "tp=4 sp pp=4, recompute full, ZeRO 1"),
            "recompute, tp");
  EXPECT_EQ(differences("tp=8, ZeRO 1", "tp=8, ZeRO 1"), "cuts");
}

}  // namespace
}  // namespace nest::paper
