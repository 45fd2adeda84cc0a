// nest plan, as people and scripts call it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden.h"
#include "program.h"

namespace nest::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kSmall = {"plan", "--model",        "llama3-8b", "--cluster", "dgx-h100", "--devices",
                                         "8",    "--global-batch", "32",        "--seq",     "4096"};

std::vector<std::string> with(std::vector<std::string> base, const std::vector<std::string>& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / (std::to_string(::getpid()) + name)) {}
  ~TemporaryFile() { std::remove(path_.c_str()); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(Plan, ShowsThePlanAndWhatWasProved) {
  const Result result = nest(kSmall);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("per step"));
  EXPECT_THAT(result.out, AnyOf(HasSubstr("Proven optimal"), HasSubstr("of the proven optimum")));
  EXPECT_THAT(result.out, HasSubstr("Checked independently: ok"));
  EXPECT_THAT(result.out, HasSubstr("Why not"));
  EXPECT_EQ(result.err, "");
  expect_fits_screen(result.out);
}

void expect_eval_agrees(const std::vector<std::string>& settings) {
  const TemporaryFile file("plan.json");
  const Result planned = nest(with(with(kSmall, settings), {"--no-why", "--json", "-o", file.path()}));
  ASSERT_EQ(planned.code, 0) << planned.err;
  const auto json = nlohmann::json::parse(planned.out);
  EXPECT_EQ(json.at("schema"), "nest.plan/3");
  EXPECT_TRUE(json.at("search").at("optimal").get<bool>());
  const double time = json.at("prediction").at("iteration_s");
  const double low = json.at("search").at("lower_bound_s");
  EXPECT_NEAR(json.at("search").at("fastest_s").get<double>(), low, 1e-6 * low);
  EXPECT_GE(time, low * (1 - 1e-6));
  EXPECT_LE(time, low * 1.005 * (1 + 1e-6));
  const Result priced = nest({"eval", file.path(), "--json"});
  ASSERT_EQ(priced.code, 0) << priced.err;
  EXPECT_NEAR(nlohmann::json::parse(priced.out).at("prediction").at("iteration_s").get<double>(), time, 1e-6 * time);
}

TEST(Plan, WritesAPlanThatEvalPricesAlike) {
  expect_eval_agrees({});
  expect_eval_agrees({"--set", "zero=0", "--set", "pp=2"});
  expect_eval_agrees({"--set", "zero=3"});
  expect_eval_agrees({"--set", "schedule=interleaved", "--set", "recompute=full"});
}

TEST(Plan, TakesTheFastestWithoutATie) {
  const Result result = nest(with(kSmall, {"--no-why", "--json", "--tie", "0"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  const double time = json.at("prediction").at("iteration_s");
  EXPECT_NEAR(json.at("search").at("lower_bound_s").get<double>(), time, 1e-6 * time);
  EXPECT_FALSE(json.at("search").contains("tie"));
  const Result refused = nest(with(kSmall, {"--tie", "-1"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--tie: -1 is no number of percent in 0 … 100"));
}

TEST(Plan, ExecutesWhatItFinds) {
  const Result result = nest(with(kSmall, {"--no-why"}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Simulated: "));
  expect_fits_screen(result.out);
  EXPECT_THAT(nest(with(kSmall, {"--no-why", "--judge", "formula"})).out, Not(HasSubstr("Simulated: ")));
  const Result wrong = nest(with(kSmall, {"--judge", "simulatoin"}));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean `simulation`?"));
}

TEST(Plan, ListsTheNextBestWhenExecuted) {
  const auto json = nlohmann::json::parse(nest(with(kSmall, {"--no-why", "--json", "--top", "4", "--tie", "0"})).out);
  ASSERT_EQ(json.at("alternatives").size(), 3U);
  double last = json.at("search").at("execution").at("simulated_s");
  for (const auto& other : json.at("alternatives")) {
    EXPECT_GE(other.at("search").at("execution").at("simulated_s").get<double>(), last);
    last = other.at("search").at("execution").at("simulated_s");
  }
}

TEST(Plan, KeepsToTheSettings) {
  const Result result = nest(with(kSmall, {"--no-why", "--json", "--set", "tp=2", "--set", "zero=0", "--set", "pp=2"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("strategy").at("tp"), 2);
  EXPECT_EQ(json.at("strategy").at("pp"), 2);
  for (const auto& stage : json.at("stages")) EXPECT_EQ(stage.at("zero"), 0);
}

TEST(Plan, SaysWhatIsTrained) {
  // 32 layers of two adapters of rank 16: beside q of 4096 x 4096, and v of 4096 x 1024.
  const Result adapters = nest(with(kSmall, {"--no-why", "--lora", "rank=16"}));
  EXPECT_EQ(adapters.code, 0) << adapters.err;
  EXPECT_THAT(adapters.out, HasSubstr("Trained: 6.82 M of 8.04 B parameters: adapters (rank=16), all else frozen"));
  const Result frozen = nest(with(kSmall, {"--no-why", "--freeze", "embedding"}));
  EXPECT_THAT(frozen.out, HasSubstr("Trained: 7.50 B of 8.03 B parameters; frozen: embedding"));
  EXPECT_THAT(nest(with(kSmall, {"--no-why"})).out, Not(HasSubstr("Trained:")));
}

TEST(Plan, SaysWhatItLeavesOut) {
  const TemporaryFile file("config.json");
  std::ofstream(file.path()) << R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}})";
  const Result result = nest({"plan", "--model", file.path(), "--cluster", "dgx-h100", "--devices", "8",
                              "--global-batch", "32", "--seq", "4096", "--no-why"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Note: text only: the file describes no vision tower"));
}

TEST(Plan, ListsTheNextBest) {
  const Result result = nest(with(kSmall, {"--no-why", "--json", "--top", "4", "--judge", "formula"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json.at("alternatives").size(), 3U);
  double last = json.at("search").at("fastest_s");
  for (const auto& other : json.at("alternatives")) {
    EXPECT_GE(other.at("prediction").at("iteration_s").get<double>(), last * (1 - 1e-12));
    last = other.at("prediction").at("iteration_s");
  }
}

TEST(Plan, SaysWhatIsMissing) {
  const Result result = nest({"plan", "--model", "gpt3-175b", "--cluster", "dgx-a100", "--devices", "8",
                              "--global-batch", "64", "--set", "tp=8"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("no plan fits"));
  EXPECT_THAT(result.out, HasSubstr("What would make it fit"));
  EXPECT_THAT(result.out, HasSubstr("memory"));
}

TEST(Plan, StopsWithoutAPlan) {
  const Result result = nest({"plan", "--model", "llama3-70b", "--devices", "512", "--time-limit", "1e-9"});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.out, "");
}

TEST(Plan, NamesMistakes) {
  const Result unknown = nest(with(kSmall, {"--set", "tq=8"}));
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("tq"));
  const Result impossible = nest(with(kSmall, {"--set", "tp=7"}));
  EXPECT_EQ(impossible.code, 2);
  EXPECT_THAT(impossible.err, HasSubstr("admit no plan"));
}

TEST(Plan, SolvesInstances) {
  const TemporaryFile file("instance.json");
  std::ofstream(file.path()) << "{}";
  EXPECT_EQ(nest({"plan", "--instance", file.path()}).code, 2);
}

}  // namespace
}  // namespace nest::test
