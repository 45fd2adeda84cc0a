// Planners side by side, drawn.
#include "html/compare_section.h"

#include <gtest/gtest.h>

#include "xml.h"

namespace nest::html {
namespace {

report::CompareReport two_planners() {
  report::CompareReport report;
  report.about.model.title = "A <model> & more";
  report.about.cluster.devices = 8;
  report.about.cluster.device = "h100";
  report.about.run.sequence = 1024;
  for (const auto& [name, seconds] : {std::pair{"slow", 3.0}, std::pair{"nest", 2.0}}) {
    ComparedPlanner& planner = report.planners.emplace_back();
    planner.name = name;
    planner.plan.emplace();
    planner.plan->prediction.iteration_s = seconds;
    planner.plan->stages.resize(1);
  }
  ComparedPlanner& lost = report.planners.emplace_back();
  lost.name = "lost";
  lost.note = "nothing <fits>";
  return report;
}

TEST(CompareSection, TellsRatiosToNestAndWhyThereIsNoPlan) {
  const HtmlSection section = compare_section(two_planners());
  const test::Element body = test::parse_page("<!DOCTYPE html>\n<div>" + section.body.str() + "</div>\n");
  const auto cells = test::table_cells(body, "compare-table");
  ASSERT_EQ(cells.size(), 4U);
  EXPECT_EQ(cells[0][2], "/ nest");
  EXPECT_EQ(cells[1][2], "1.500");
  EXPECT_EQ(cells[2][2], "1.000");
  EXPECT_NE(cells[3][0].find("nothing <fits>"), std::string::npos);
}

TEST(CompareSection, BarsAreAsHighAsTheTimes) {
  const std::string svg = bar_chart_svg(compare_chart(two_planners()));
  const test::Element chart = test::parse_page("<!DOCTYPE html>\n" + svg);
  std::vector<double> heights;
  for (const test::Element* rect : test::find_all(chart, "rect")) {
    if (rect->attribute("class") != "bc-back") heights.push_back(std::stod(rect->attribute("height")));
  }
  ASSERT_EQ(heights.size(), 2U) << "no bar where there is no plan";
  EXPECT_NEAR(heights[0] / heights[1], 1.5, 0.01);
}

TEST(CompareReport, HeadlineNamesTiesTheNextAndTheLast) {
  report::CompareReport report = two_planners();
  EXPECT_EQ(report::compare_headline(report),
            "2.00 s per step with nest; slow takes 1.500 times as long (> 99 % sure).");
  report.planners[2].plan = report.planners[1].plan;
  report.planners[2].plan->prediction.iteration_s = 2.0002;  // three digits do not tell
  EXPECT_EQ(report::compare_headline(report),
            "2.00 s per step with nest; lost is as fast; slow takes 1.500 times as long (> 99 % sure).");
  report.planners[2].plan->prediction.iteration_s = 2.5;
  EXPECT_EQ(report::compare_headline(report),
            "2.00 s per step with nest; lost takes 1.250 times as long (> 99 % sure), slow 1.500 times.");
  report.planners.erase(report.planners.begin());
  report.planners[1].plan.reset();
  EXPECT_EQ(report::compare_headline(report), "2.00 s per step with nest; nobody else has a plan.");
}

TEST(CompareReport, WithoutAPlanItTellsAProofFromALimit) {
  report::CompareReport report = two_planners();
  for (ComparedPlanner& planner : report.planners) planner.plan.reset();
  EXPECT_EQ(report.fastest(), nullptr);
  EXPECT_FALSE(report.is_open());
  EXPECT_EQ(report::compare_headline(report), "No planner finds a plan that fits.");
  report.planners[0].stopped = true;
  EXPECT_TRUE(report.is_open());
  EXPECT_EQ(report::compare_headline(report), "No planner finds a plan that fits before its time is over.");
  report.planners[1].none_fits = true;
  EXPECT_FALSE(report.is_open());
  const test::Element page = test::parse_page(compare_page(report).str());
  EXPECT_EQ(test::table_cells(page, "compare-table").size(), 4U);
}

TEST(CompareReport, TheFastestMayBeAnother) {
  report::CompareReport report = two_planners();
  EXPECT_EQ(report.fastest()->name, "nest");
  report.planners[0].plan->prediction.iteration_s = 1.5;
  EXPECT_EQ(report.fastest()->name, "slow");
  EXPECT_EQ(report.baseline()->name, "nest");
}

// Executed times count where every plan has one.
TEST(CompareReport, ExecutionIsTheJudgeWhereAllWereExecuted) {
  report::CompareReport report = two_planners();
  report.simulated = true;
  report.planners[1].simulated_s = 2.5;
  EXPECT_FALSE(report.is_executed()) << "one was not";
  EXPECT_EQ(report.fastest()->name, "nest");
  EXPECT_DOUBLE_EQ(*report::ratio(report, report.planners[0]), 1.5);
  report.planners[0].simulated_s = 2.0;
  EXPECT_TRUE(report.is_executed());
  EXPECT_EQ(report.fastest()->name, "slow");
  EXPECT_DOUBLE_EQ(*report::ratio(report, report.planners[0]), 0.8);
  EXPECT_EQ(report::compare_headline(report),
            "2.50 s per step, executed, with nest; slow takes 0.800 times as long (> 99 % sure).");
  EXPECT_EQ(compare_chart(report).groups[0].values.front(), 2.0);
}

TEST(BarChart, EverySeriesHasAColourAndALegend) {
  BarChart chart;
  chart.title = "t";
  chart.series = {"a", "b", "c"};
  chart.groups = {{"x", {1.0, std::nullopt, 0.5}, {}}, {"y", {0.25, 1.0, 1.0}, {}}};
  const test::Element drawn = test::parse_page("<!DOCTYPE html>\n" + bar_chart_svg(chart));
  std::map<std::string, int> colours;
  for (const test::Element* rect : test::find_all(drawn, "rect")) ++colours[rect->attribute("class")];
  EXPECT_EQ(colours["bc-0"], 3);  // two bars and the legend
  EXPECT_EQ(colours["bc-1"], 2);
  EXPECT_EQ(colours["bc-2"], 3);
  EXPECT_EQ(test::find_all(drawn, "path").size(), 1U);
}

}  // namespace
}  // namespace nest::html
