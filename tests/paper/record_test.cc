// The evaluation's points, and records that are read as they were written.
#include "paper/record.h"

#include <gtest/gtest.h>

#include <set>

#include "paper/page.h"
#include "paper/publications.h"
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

TEST(PaperPoints, PointsOfSeveralGroupsAreRunOnce) {
  std::set<std::string> all, distinct;
  for (const Point& point : all_points()) all.insert(point.id());
  for (const Point& point : distinct_points()) {
    EXPECT_TRUE(distinct.insert(point.id()).second) << point.id();
    EXPECT_FALSE(point.published) << point.id();
  }
  for (const char* group : {"published-fat-tree", "published-spine-leaf"}) {
    for (const Point& point : distinct_points(group)) {
      EXPECT_TRUE(distinct.insert(point.id()).second) << point.id();
      EXPECT_TRUE(point.published);
    }
  }
  EXPECT_EQ(distinct, all);
  EXPECT_LT(all.size(), all_points().size()) << "some are in several groups";
  for (const std::string& group : group_names()) {
    const std::vector<Point> of_group = distinct_points(group);
    EXPECT_FALSE(of_group.empty()) << group;
    for (const Point& point : of_group) EXPECT_EQ(point.group, group);
  }
}

TEST(PaperPoints, EveryPointIsAJob) {
  for (const std::string& group : group_names()) {
    for (const Point& point : distinct_points(group)) {
      const cost::Job job = job_of(point);
      EXPECT_EQ(job.cluster.devices, point.devices) << point.id();
      EXPECT_EQ(job.run.global_batch, kGlobalBatch);
      EXPECT_EQ(job.run.optimizer, point.published ? Optimizer::sgd : Optimizer::adam);
      EXPECT_TRUE(limits_of(settings_of(point)).micro_batch.admits(point.micro_batch));
      if (point.memory_bytes > 0) {
        EXPECT_EQ(job.cluster.device.memory_bytes, point.memory_bytes);
      }
    }
  }
}

// What the artifact's instances and the publications admit, at every point.
TEST(PaperPublications, AdmitWhatWasPublished) {
  for (const char* group : {"published-fat-tree", "published-spine-leaf"}) {
    for (const Point& point : distinct_points(group)) {
      for (const Publication& one : publications()) {
        const plan::PlanLimits limits = publication_limits(one.planner, point);
        EXPECT_FALSE(limits.admits(Schedule::interleaved)) << one.planner;
        EXPECT_FALSE(limits.cp.admits(2) || limits.vpp.admits(2) || limits.pitch);
        EXPECT_EQ(limits.zero[1], one.planner == std::string("mist")) << one.planner;
        EXPECT_EQ(limits.recompute[static_cast<std::size_t>(Recompute::full)],
                  one.planner != std::string("alpa") &&
                      (point.model != "bert-large" || one.planner == std::string("manual") ||
                       one.planner == std::string("mist")))
            << one.planner << " " << point.model;
      }
      EXPECT_EQ(publication_limits("nest", point).tp.admits(8),
                point.model == "bert-large" || point.model.starts_with("gpt3"));
    }
  }
  const Point gpt{"published-fat-tree", "gpt3-175b", "tpuv4-fat-tree", 512};
  const plan::PlanLimits fixed = publication_limits("manual", gpt, 1);
  EXPECT_TRUE(fixed.pp.admits(16) && fixed.tp.admits(8) && fixed.replicas_together && fixed.even_cuts);
  EXPECT_FALSE(fixed.pp.admits(8) || fixed.tp.admits(4));
}

// A small point, restricted: everybody keeps to it, and every plan is executed.
TEST(PaperPublications, PlannersKeepToThem) {
  Point point{"published-spine-leaf", "bert-large", "h100-spine-leaf", 32};
  point.published = true;
  std::mutex solver;
  const Record record = run_point(point, {.time_limit_s = 20}, solver);
  EXPECT_EQ(record.find("aceso"), nullptr) << "the paper has no ratio of it";
  for (const char* planner : {"nest", "mcmc", "manual", "phaze", "mist"}) {
    const PlannerResult* result = record.find(planner);
    ASSERT_NE(result, nullptr) << planner;
    EXPECT_GT(result->simulated_s, 0) << planner << result->note << result->simulation_note;
    EXPECT_EQ(result->strategy.find("vpp"), std::string::npos) << result->strategy;
    EXPECT_EQ(result->strategy.find("cp="), std::string::npos) << result->strategy;
    if (std::string(planner) != "mist") {
      EXPECT_NE(result->strategy.find("ZeRO 0"), std::string::npos) << planner << " " << result->strategy;
    }
  }
  EXPECT_EQ(record.find("manual")->strategy.substr(0, 5), "dp=32") << record.find("manual")->strategy;
  const Page page = make_page({{record.id, record}}, "figures");
  EXPECT_EQ(page.markdown.find("## As published"), std::string::npos) << "no point of the evaluation";
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
  EXPECT_FALSE(record.answers(effort)) << "another program";
  std::mutex solver;
  // The version is the program's own.
  Point small{"v100", "mixtral-790m", "v100-cluster", 8};
  const Record ran = run_point(small, effort, solver);
  record.program = ran.program;
  EXPECT_TRUE(record.answers(effort));
  Effort longer = effort;
  longer.time_limit_s *= 2;
  EXPECT_FALSE(record.answers(longer));
  Effort other_seed = effort;
  other_seed.seed = 2;
  EXPECT_FALSE(record.answers(other_seed));
}

// Executed times count where both plans were executed.
TEST(PaperRecords, RatiosAreOfExecutedSteps) {
  Record record = record_of(all_points().front(), {});
  EXPECT_DOUBLE_EQ(*record.ratio("mist"), 1.2);
  record.planners[0].simulated_s = 2;
  record.planners[1].simulated_s = 3.5;
  EXPECT_DOUBLE_EQ(*record.ratio("mist"), 1.75);
  EXPECT_DOUBLE_EQ(*record.predicted_ratio("mist"), 1.2);
  EXPECT_TRUE(lost_points({{record.id, record}}).empty());
  record.planners[1].simulated_s = 1.99;
  EXPECT_TRUE(lost_points({{record.id, record}}).empty()) << "not worth a change";
  record.planners[1].simulated_s = 1.9;
  EXPECT_EQ(lost_points({{record.id, record}}).size(), 1U);
  record.planners[1].iteration_s = 0;
  EXPECT_FALSE(record.ratio("mist"));
}

TEST(PaperPage, SaysNothingThatTheRecordsDoNot) {
  const Page none = make_page({}, "figures");
  EXPECT_NE(none.markdown.find("Nothing was executed."), std::string::npos);
  EXPECT_EQ(none.markdown.find("% apart"), std::string::npos);
  Effort effort;
  effort.time_limit_s = 7;
  const Record record = record_of(all_points().front(), effort);
  const Page page = make_page({{record.id, record}}, "figures");
  EXPECT_NE(page.markdown.find("may take 7 s per point"), std::string::npos);
  EXPECT_NE(page.markdown.find("| mist | 125 ms | 125 ms | 1 |"), std::string::npos);
  EXPECT_EQ(page.figures.size(), 1U);
  EXPECT_EQ(page.markdown.find("## As published"), std::string::npos);
  Record published = record_of(distinct_points("published-fat-tree").front(), effort);
  const Page both = make_page({{record.id, record}, {published.id, published}}, "figures");
  EXPECT_NE(both.markdown.find("## As published"), std::string::npos);
  EXPECT_NE(both.markdown.find("| mist | 1.200 (1 of 1) | - | - | 1.49 |"), std::string::npos);
  EXPECT_NE(both.markdown.find("1 of 90 points were run"), std::string::npos) << "others than as published";
}

TEST(PaperSummary, DifferencesAreNamed) {
  EXPECT_EQ(differences("tp=8 sp pp=4, recompute none, ZeRO 1", "tp=4 sp pp=4, recompute full, ZeRO 1"),
            "recompute, tp");
  EXPECT_EQ(differences("tp=8, ZeRO 1", "tp=8, ZeRO 1"), "cuts");
}

}  // namespace
}  // namespace nest::paper
