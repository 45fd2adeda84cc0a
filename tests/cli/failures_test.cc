// nest plan --mtbf, as people and scripts call it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden.h"
#include "program.h"

namespace nest::test {
namespace {

using testing::HasSubstr;

std::vector<std::string> failing(const std::vector<std::string>& more) {
  std::vector<std::string> call = {"plan", "--model", "llama3-8b", "--devices", "32",      "--global-batch",
                                   "64",   "--seq",   "4096",      "--no-why",  "--judge", "formula"};
  call.insert(call.end(), more.begin(), more.end());
  return call;
}

TEST(Failures, GoodputAndSmallerPlans) {
  const Result result = nest(failing({"--mtbf", "400h/node", "--checkpoint-bandwidth", "10GB/s", "--restart", "5min",
                                      "--repair", "24h", "--lost-nodes", "2", "--tokens", "1T", "--json"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out).at("failures");
  // 4 nodes of 400 h: one fails every 100 h. 8.03 B parameters of 2 + 12 bytes at 10 GB/s: 11.2 s.
  EXPECT_NEAR(json.at("system_mtbf_s").get<double>(), 360000, 1);
  EXPECT_NEAR(json.at("checkpoint_bytes").get<double>(), 8.03e9 * 14, 1e9);
  EXPECT_NEAR(json.at("save_s").get<double>(), 11.24, 0.01);
  EXPECT_NEAR(json.at("restart_s").get<double>(), 311.24, 0.01);
  // Young: sqrt(2 x 11.24 x 360,000) = 2845 s.
  EXPECT_NEAR(json.at("interval_s").get<double>(), 2845, 30);
  const double shares = json.at("goodput").get<double>() + json.at("saving").get<double>() +
                        json.at("lost").get<double>() + json.at("restarting").get<double>();
  EXPECT_NEAR(shares, 1, 1e-9);
  // 0.24 nodes away in the mean: P(more than 1) = 2.5 %, P(more than 2) = 0.2 %.
  EXPECT_EQ(json.at("spare_nodes").get<int>(), 2);
  const auto& smaller = json.at("smaller");
  ASSERT_EQ(smaller.size(), 2U);
  EXPECT_EQ(smaller[0].at("devices").get<int>(), 24);
  EXPECT_EQ(smaller[1].at("devices").get<int>(), 16);
  for (const auto& one : smaller) {
    EXPECT_LE(one.at("used").get<int>(), one.at("devices").get<int>());
    EXPECT_GT(one.at("moved_bytes").get<double>(), 0);
    EXPECT_GT(one.at("from_storage_bytes").get<double>(), 0);  // optimizer state that nobody else had
    EXPECT_LE(one.at("from_storage_bytes").get<double>(), one.at("moved_bytes").get<double>());
  }
  EXPECT_LE(smaller[0].at("iteration_s").get<double>(), smaller[1].at("iteration_s").get<double>());
}

TEST(Failures, AreSaidInWords) {
  const Result result = nest(failing({"--mtbf", "50000h", "--checkpoint-bandwidth", "10GB/s", "--lost-nodes", "1"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Of 32 devices one fails every"));
  EXPECT_THAT(result.out, HasSubstr("On fewer nodes, with the same global batch:"));
  expect_fits_screen(result.out);
}

// Devices that fail every few hours: fewer of them train more.
TEST(Failures, GoodputIsAnObjective) {
  const std::vector<std::string> often = {"--mtbf", "6h", "--checkpoint-bandwidth", "1GB/s", "--json"};
  const Result fastest = nest(failing(often));
  std::vector<std::string> words = often;
  words.insert(words.end(), {"--objective", "goodput"});
  const Result best = nest(failing(words));
  ASSERT_EQ(fastest.code, 0) << fastest.err;
  ASSERT_EQ(best.code, 0) << best.err;
  const auto of = [](const Result& result) { return nlohmann::json::parse(result.out).at("failures"); };
  EXPECT_LT(of(best).at("iteration_s").get<double>(), of(fastest).at("iteration_s").get<double>());
}

TEST(Failures, MistakesAreOneMessage) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"--mtbf", "50000h"}, "--mtbf: how fast state is saved is missing; give --checkpoint-bandwidth"},
      {{"--mtbf", "often", "--checkpoint-bandwidth", "2TB/s"}, "--mtbf: "},
      {{"--mtbf", "6h/rack", "--checkpoint-bandwidth", "2TB/s"}, "--mtbf: \"6h/rack\" is no time between failures"},
      {{"--restart", "5min"}, "--restart: needs how often devices fail; give --mtbf"},
      {{"--objective", "goodput"}, "--objective goodput: needs how often devices fail"},
      {{"--mtbf", "6h", "--checkpoint-bandwidth", "1GB/s", "--deadline", "3d", "--tokens", "1T"},
       "--mtbf: not together with --deadline or --budget"},
      {{"--mtbf", "6h", "--checkpoint-bandwidth", "1GB/s", "--lost-nodes", "99"}, "--lost-nodes: \"99\""},
  };
  for (const auto& [words, message] : mistakes) {
    const Result result = nest(failing(words));
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

}  // namespace
}  // namespace nest::test
