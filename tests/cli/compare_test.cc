// nest compare, as people and scripts call it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "golden.h"
#include "program.h"
#include "test_support/temporary_folder.h"

namespace nest::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kSmall = {
    "compare",        "--model", "llama3.2-1b", "--cluster", "h100-spine-leaf", "--devices", "4",
    "--global-batch", "8",       "--seq",       "2048",      "--micro-batch",   "1,2"};

std::vector<std::string> with(const std::vector<std::string>& more) {
  std::vector<std::string> all = kSmall;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Compare, ShowsAllPlannersAndNoneIsFaster) {
  const TemporaryFolder folder;
  const Result result =
      nest(with({"-o", folder.file("c.json"), "--svg", folder.file("c.svg"), "--html", folder.file("c.html")}));
  ASSERT_EQ(result.code, 0) << result.err;
  expect_fits_screen(result.out);
  EXPECT_THAT(result.out, HasSubstr("per step with nest"));
  const auto json = nlohmann::json::parse(text_of(folder.file("c.json")));
  EXPECT_EQ(json.at("schema"), "nest.compare/1");
  EXPECT_EQ(json.at("run").at("global_batch"), 8);
  const auto& planners = json.at("planners");
  ASSERT_GE(planners.size(), 6U);
  EXPECT_EQ(planners.front().at("planner"), "nest");
  EXPECT_TRUE(planners.front().at("search").at("optimal").get<bool>());
  const double own = planners.front().at("prediction").at("iteration_s");
  for (const auto& row : planners) {
    EXPECT_THAT(result.out, HasSubstr(row.at("planner").get<std::string>()));
    const auto& search = row.at("search");
    EXPECT_GE(search.at("wall_s").get<double>(), 0);
    EXPECT_EQ(search.at("planner"), row.at("planner"));
    EXPECT_EQ(search.at("optimal").get<bool>(), row.at("planner") == "nest");
    EXPECT_GT(search.at("considered").get<double>(), 0);
    if (row.at("prediction").is_null()) {
      EXPECT_FALSE(row.at("note").get<std::string>().empty());
      continue;
    }
    const double time = row.at("prediction").at("iteration_s");
    EXPECT_GE(time, own * (1 - 1e-9)) << row.at("planner");
    EXPECT_NEAR(row.at("times_baseline").get<double>(), time / own, 1e-9);
    EXPECT_EQ(row.at("stages").size(), row.at("strategy").at("pp").get<std::size_t>());
  }
  const std::string svg = text_of(folder.file("c.svg")), html = text_of(folder.file("c.html"));
  EXPECT_THAT(svg, HasSubstr("<svg xmlns"));
  EXPECT_THAT(svg, HasSubstr("manual"));
  EXPECT_THAT(html, HasSubstr("Planners side by side"));
  EXPECT_THAT(html, HasSubstr("Where the time goes"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
}

TEST(Compare, PrintsOneObjectForTheChosenPlanners) {
  const Result result = nest(with({"--planners", "manual,nest", "--json", "--set", "tp=2"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json.at("planners").size(), 2U);
  EXPECT_EQ(json.at("planners")[0].at("planner"), "manual");
  for (const auto& row : json.at("planners")) EXPECT_EQ(row.at("strategy").at("tp"), 2);
}

TEST(Compare, PlannersWithoutAPlanSayWhy) {
  const TemporaryFolder folder;
  const Result result = nest({"compare", "--model", "llama3-70b", "--cluster", "dgx-h100", "--devices", "8",
                              "--planners", "nest,manual,phaze", "--micro-batch", "1", "--global-batch", "64", "-o",
                              folder.file("c.json"), "--svg", folder.file("c.svg"), "--html", folder.file("c.html")});
  EXPECT_EQ(result.code, 3) << result.out << result.err;
  expect_fits_screen(result.out);
  EXPECT_THAT(result.out, HasSubstr("No planner finds a plan that fits."));
  EXPECT_THAT(result.out, HasSubstr("nest: proven: no plan fits in memory"));
  EXPECT_THAT(result.out, HasSubstr("manual: "));
  EXPECT_THAT(result.out, HasSubstr("phaze: none of its plans fits into memory"));
  const auto json = nlohmann::json::parse(text_of(folder.file("c.json")));
  EXPECT_FALSE(json.at("planners")[0].at("search").at("optimal").get<bool>());
  EXPECT_THAT(text_of(folder.file("c.svg")), HasSubstr("<svg xmlns"));
  const std::string html = text_of(folder.file("c.html"));
  EXPECT_THAT(html, HasSubstr("proven: no plan fits in memory"));
  EXPECT_THAT(html, Not(HasSubstr("Where the time goes")));
}

TEST(Compare, ALimitIsNoProof) {
  const Result result = nest({"compare", "--model", "llama3-70b", "--cluster", "dgx-h100", "--devices", "64",
                              "--planners", "mist,phaze", "--global-batch", "64", "--time-limit", "0.000000001"});
  EXPECT_EQ(result.code, 4) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("before its time is over"));
  EXPECT_THAT(result.out, HasSubstr("mist: stopped by the time limit"));
}

TEST(Compare, MistakesAreExplained) {
  Result result = nest(with({"--planners", "nest,manuel"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean `manual`?"));
  result = nest(with({"--set", "pp=4000"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("the limits admit no plan at all"));
  result = nest(with({"--planners", "manual,mist", "--set", "pp=4000"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("the limits admit no plan at all"));
  result = nest(with({"--planners", "manual", "--svg", "/nowhere/c.svg"}));
  EXPECT_EQ(result.code, 2);
}

TEST(Compare, SimulatesEveryPlan) {
  const Result result = nest(with({"--planners", "nest,manual", "--simulate", "--json"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("judge"), "simulation");
  const double own = json.at("planners").at(0).at("simulated").at("iteration_s");
  EXPECT_TRUE(json.at("planners").at(0).at("search").contains("execution")) << "the plan that execution chose";
  for (const auto& row : json.at("planners")) {
    const double predicted = row.at("prediction").at("iteration_s");
    const double simulated = row.at("simulated").at("iteration_s");
    EXPECT_NEAR(simulated, predicted, 0.2 * predicted);
    EXPECT_NEAR(row.at("times_baseline").get<double>(), simulated / own, 1e-9);
  }
  EXPECT_THAT(nest(with({"--planners", "nest,manual", "--simulate"})).out, HasSubstr("per step, executed, with nest"));
}

const std::vector<std::string> kCandidates = {"compare", "--model", "llama3.2-1b", "--global-batch",
                                              "16",      "--seq",   "2048"};

std::vector<std::string> candidates(const std::vector<std::string>& more) {
  std::vector<std::string> all = kCandidates;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(CompareCandidates, OneTableAndOnePage) {
  const TemporaryFolder folder;
  const Result result =
      nest(candidates({"--devices", "8,12,16", "--strategy", "best", "--strategy", "tp=8,sp=1", "--html",
                       folder.file("c.html"), "-o", folder.file("c.json"), "--svg", folder.file("c.svg")}));
  ASSERT_EQ(result.code, 0) << result.err;
  expect_fits_screen(result.out);
  EXPECT_THAT(result.out, HasSubstr(" is fastest: "));
  EXPECT_THAT(result.out, HasSubstr("refused"));
  EXPECT_THAT(result.out, HasSubstr("seconds per step"));
  const auto json = nlohmann::json::parse(text_of(folder.file("c.json")));
  EXPECT_EQ(json.at("schema"), "nest.candidates/1");
  EXPECT_EQ(json.at("judge"), "simulation");
  ASSERT_EQ(json.at("candidates").size(), 6U);
  EXPECT_EQ(json.at("candidates")[0].at("name"), "8, best");
  const std::string html = text_of(folder.file("c.html"));
  EXPECT_THAT(html, HasSubstr("Candidates side by side"));
  EXPECT_THAT(html, HasSubstr("Where they differ"));
  EXPECT_THAT(html, HasSubstr("Where the time goes")) << "the plan of the fastest";
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(text_of(folder.file("c.svg")), HasSubstr("<svg xmlns"));
}

TEST(CompareCandidates, PlanFilesStandForThemselves) {
  const TemporaryFolder folder;
  for (const char* tp : {"1", "4"}) {
    const Result planned =
        nest({"plan", "--model", "llama3.2-1b", "--devices", "8", "--global-batch", "16", "--seq", "2048", "--set",
              std::string("tp=") + tp, "--no-why", "-o", folder.file("tp" + std::string(tp) + ".json")});
    ASSERT_EQ(planned.code, 0) << planned.err;
  }
  const Result two = nest({"compare", folder.file("tp1.json"), folder.file("tp4.json"), "--json"});
  ASSERT_EQ(two.code, 0) << two.err;
  const auto json = nlohmann::json::parse(two.out);
  ASSERT_EQ(json.at("candidates").size(), 2U);
  EXPECT_EQ(json.at("candidates")[1].at("name"), "tp4");
  const Result three = nest(candidates({"--devices", "8", "--json", folder.file("tp1.json"), folder.file("tp4.json")}));
  ASSERT_EQ(three.code, 0) << three.err;
  EXPECT_EQ(nlohmann::json::parse(three.out).at("candidates").size(), 3U) << "and what nest plans for the options";
}

TEST(CompareCandidates, MistakesAreExplained) {
  const auto said = [](const std::vector<std::string>& more) {
    const Result result = nest(candidates(more));
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(said({"--devices", "8,16", "--planners", "nest"}), HasSubstr("--planners: is for planners on one job"));
  EXPECT_THAT(said({"--devices", "8,x"}), HasSubstr("--devices"));
  EXPECT_THAT(said({"--cluster", "dgx-h100,"}), HasSubstr("has an empty name"));
  EXPECT_THAT(said({"--cluster", "dgx-h100,dgx-h101"}), HasSubstr("dgx-h101"));
  EXPECT_THAT(said({"--devices", "8", "--judge", "formula"}), HasSubstr("--judge: is for candidates"));
  EXPECT_THAT(said({"--devices", "8", "--strategy", "tp=9,,"}), HasSubstr("--strategy"));
  EXPECT_THAT(said({"--devices", "12,13"}), HasSubstr("12")) << "none of them can be";
  EXPECT_THAT(said({"nowhere.json"}), HasSubstr("nowhere.json"));
  const Result none = nest({"compare", "--model", "llama3-405b", "--devices", "8,16"});
  EXPECT_EQ(none.code, 3) << none.err;
  EXPECT_THAT(none.out, HasSubstr("No candidate fits."));
}

}  // namespace
}  // namespace nest::test
