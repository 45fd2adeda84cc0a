// nest plan --deadline and --budget, as people and scripts call them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden.h"
#include "program.h"

namespace nest::test {
namespace {

using testing::HasSubstr;

std::vector<std::string> demand(const std::vector<std::string>& more) {
  std::vector<std::string> call = {"plan",  "--model", "llama3-8b", "--global-batch", "64",
                                   "--seq", "4096",    "--no-why",  "--target",       "any"};
  call.insert(call.end(), more.begin(), more.end());
  return call;
}

// The answer is that of a loop over all numbers of devices.
TEST(Demand, FewestDevicesAreThoseOfALoop) {
  const Result result =
      nest(demand({"--devices", "8", "--deadline", "25d", "--tokens", "100B", "--judge", "formula", "--json"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  const auto& answer = json.at("demand");
  EXPECT_TRUE(answer.at("proven").get<bool>());
  const double step_s = 25 * 86400 / answer.at("steps").get<double>();
  std::int64_t fewest = 0;
  for (std::int64_t n = 8; n >= 1; --n) {
    const Result one = nest(
        demand({"--devices", "8", "--max-devices", std::to_string(n), "--judge", "formula", "--tie", "0", "--json"}));
    if (one.code != 0) break;
    if (nlohmann::json::parse(one.out).at("prediction").at("iteration_s").get<double>() <= step_s) fewest = n;
  }
  EXPECT_GT(fewest, 1);
  EXPECT_EQ(answer.at("met_by").at("devices").get<std::int64_t>(), fewest);
  EXPECT_LE(answer.at("met_by").at("time_s").get<double>(), 25 * 86400);
  EXPECT_LT(answer.at("searches").get<int>(), 8);
}

TEST(Demand, IsSaidInWords) {
  const Result result = nest(demand({"--devices", "16", "--deadline", "40d", "--tokens", "100B", "--price", "2.5"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("devices meet 40.0 days for 100 B tokens, and no fewer do:"));
  EXPECT_THAT(result.out, HasSubstr("2.50 per device-hour"));
  expect_fits_screen(result.out);
}

// More devices than the fewest, where those cost less; fewer, where the budget is small.
TEST(Demand, MoneyIsKeptTo) {
  const Result cheapest = nest(demand(
      {"--devices", "16", "--deadline", "60d", "--tokens", "100B", "--price", "2", "--objective", "cost", "--json"}));
  ASSERT_EQ(cheapest.code, 0) << cheapest.err;
  const auto least = nlohmann::json::parse(cheapest.out).at("demand").at("met_by");
  EXPECT_LE(least.at("time_s").get<double>(), 60 * 86400);
  const std::string budget = std::to_string(1.001 * least.at("cost").get<double>());
  const Result fastest =
      nest(demand({"--devices", "16", "--budget", "$" + budget, "--tokens", "100B", "--price", "2", "--json"}));
  ASSERT_EQ(fastest.code, 0) << fastest.err;
  const auto within = nlohmann::json::parse(fastest.out).at("demand").at("met_by");
  EXPECT_LE(within.at("cost").get<double>(), std::stod(budget));
  EXPECT_LE(within.at("time_s").get<double>(), least.at("time_s").get<double>() * 1.005);
}

TEST(Demand, WhatCannotBeHadSaysWhatCan) {
  const Result result = nest(demand({"--devices", "8", "--deadline", "1d", "--tokens", "100B"}));
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.out, HasSubstr("24.0 h for 100 B tokens cannot be had from 8 x h100 (dgx-h100)."));
  EXPECT_THAT(result.out, HasSubstr("The fastest plan is on 8 devices"));
  EXPECT_THAT(result.out, HasSubstr("  deadline  "));
  EXPECT_THAT(result.out, HasSubstr("  devices   "));
  EXPECT_THAT(result.err, HasSubstr("no plan meets the deadline"));
  expect_fits_screen(result.out);
  const Result json = nest(demand({"--devices", "8", "--budget", "10", "--tokens", "100B", "--price", "2", "--json"}));
  EXPECT_EQ(json.code, 3);
  const auto answer = nlohmann::json::parse(json.out);
  EXPECT_EQ(answer.at("schema"), "nest.no-plan/1");
  EXPECT_GT(answer.at("demand").at("nearest").at("cost").get<double>(), 10);
}

TEST(Demand, MistakesAreOneMessage) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"--deadline", "30d"}, "--deadline: how many tokens are to be trained on by then is missing; give --tokens"},
      {{"--deadline", "-3d", "--tokens", "1T"}, "--deadline: "},
      {{"--deadline", "0d", "--tokens", "1T"}, "--deadline: \"0d\" is not more than 0; write for example 30d"},
      {{"--deadline", "soon", "--tokens", "1T"}, "--deadline: "},
      {{"--deadline", "30d", "--tokens", "-5"}, "--tokens: `-5` is not a count; write for example 15T"},
      {{"--budget", "1M", "--tokens", "1T"}, "--budget: what a device-hour costs is missing; give --price"},
      {{"--budget", "plenty", "--tokens", "1T", "--price", "2"}, "--budget: "},
      {{"--objective", "cost"}, "--objective cost: what a device-hour costs is missing; give --price"},
      {{"--objective", "devices"}, "--objective devices: needs what so many devices are to reach"},
  };
  for (const auto& [words, message] : mistakes) {
    const Result result = nest(demand(words));
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace nest::test
