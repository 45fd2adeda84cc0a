// Cluster files that name pools: nest plan, nest show, and what names one of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden.h"
#include "program.h"

namespace nest::test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kFleet = R"(name: ours
pools:
  main: {cluster: dgx-h100, devices: 16, price: 2.50}
  new: {cluster: dgx-b200, devices: 8, price: 6.50}
  small:
    device: a100-40
    levels: [{name: node, group: 2, bandwidth: 200GB/s}]
    price: 1
)";

class Pools : public ::testing::Test {
 protected:
  std::string file(const std::string& text, const std::string& name = "fleet.yaml") {
    const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / name;
    std::ofstream(path) << text;
    return path.string();
  }
  static std::vector<std::string> plan(const std::vector<std::string>& more) {
    std::vector<std::string> call = {"plan", "--model",  "llama3-8b", "--global-batch",
                                     "32",   "--no-why", "--judge",   "formula"};
    call.insert(call.end(), more.begin(), more.end());
    return call;
  }
};

// What is told of a pool is what a plan on that pool alone says.
TEST_F(Pools, AreThePlansOfEachAlone) {
  const std::string fleet = file(kFleet);
  const Result result = nest(plan({"--cluster", fleet, "--json"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const Json answer = Json::parse(result.out);
  const Json& pools = answer.at("pools");
  ASSERT_EQ(pools.at("pools").size(), 3U);
  double fastest = 0, cheapest = 1e300;
  std::string fast, cheap;
  for (const Json& pool : pools.at("pools")) {
    const std::string name = pool.at("name");
    const Result alone = nest(plan({"--cluster", fleet + "#" + name, "--json"}));
    if (!pool.contains("iteration_s")) {
      EXPECT_NE(alone.code, 0) << name;
      continue;
    }
    ASSERT_EQ(alone.code, 0) << alone.err;
    const double step_s = Json::parse(alone.out).at("prediction").at("iteration_s");
    EXPECT_DOUBLE_EQ(pool.at("iteration_s").get<double>(), step_s) << name;
    const double tokens = 32 * 8192 / step_s;
    const double cost = pool.at("devices").get<double>() / 3600 * 1e9 / tokens * pool.at("price").get<double>();
    if (pool.at("devices_used") == pool.at("devices")) {
      EXPECT_NEAR(pool.at("cost_per_gtoken").get<double>() / cost, 1, 1e-9);
    }
    if (tokens > fastest) fast = name;
    fastest = std::max(fastest, tokens);
    if (pool.at("cost_per_gtoken").get<double>() < cheapest) cheap = name;
    cheapest = std::min(cheapest, pool.at("cost_per_gtoken").get<double>());
  }
  EXPECT_EQ(pools.at("fastest"), fast);
  EXPECT_EQ(pools.at("cheapest"), cheap);
  EXPECT_EQ(pools.at("chosen"), fast);
  EXPECT_EQ(answer.at("cluster").at("name"), "ours#" + fast);
  for (const Json& stage : answer.at("stages")) EXPECT_EQ(stage.at("device"), answer.at("cluster").at("device"));
}

TEST_F(Pools, AreSaidInWords) {
  const std::string fleet = file(kFleet);
  const Result result = nest(plan({"--cluster", fleet, "--objective", "device-hours", "--offload", "never"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Of the 3 pools of ours, "));
  EXPECT_THAT(result.out, HasSubstr("16 x h100"));
  EXPECT_THAT(result.out, HasSubstr("no plan fits"));
  EXPECT_THAT(result.out, HasSubstr("best for"));
  expect_fits_screen(result.out);
  const Result shown = nest({"show", fleet});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("ours: 3 pools of devices"));
  EXPECT_EQ(Json::parse(nest({"show", fleet, "--json"}).out).at("pools").at(1).at("devices"), 8);
  const Result one = nest({"show", fleet + "#new"});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("b200"));
}

// A plan of a pool is a plan: it can be opened, judged and priced again. Stages on another kind are refused by name.
TEST_F(Pools, APlanKeepsTheKindOfEveryStage) {
  const std::string path = file("", "pool-plan.json");
  ASSERT_EQ(nest(plan({"--cluster", file(kFleet), "-o", path})).code, 0);
  const Result again = nest({"eval", path, "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(nest({"check", path}).code, 0);
  std::ifstream in(path);
  Json mixed = Json::parse(in);
  ASSERT_TRUE(mixed.at("stages").at(0).contains("device"));
  mixed["stages"][0]["device"] = "a100-40";
  const Result refused = nest({"eval", file(mixed.dump(), "mixed.json")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("stages[0].device: is `a100-40`, and the cluster's devices are `"));
}

TEST_F(Pools, MistakesAreOneMessage) {
  const std::string fleet = file(kFleet);
  const auto says = [&](const std::vector<std::string>& call, const std::string& message) {
    const Result result = nest(call);
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(result.out, "");
  };
  says({"eval", "--model", "llama3-8b", "--cluster", fleet, "--strategy", "dp=8"},
       "names pools (main, new and small), and one cluster is wanted here; name a pool, for example");
  says(plan({"--cluster", fleet + "#mian"}), "has no pool `mian`; there are main, new and small; did you mean `main`?");
  says(plan({"--cluster", fleet, "--devices", "8"}), "--devices: a pool has the devices that it has");
  says(plan({"--cluster", fleet + "#main", "--devices", "64"}), "--devices: ours#main has 16; 64 are asked for");
  says(plan({"--cluster", fleet, "--deadline", "3d", "--tokens", "1T"}), "--deadline: ");
  says(plan({"--cluster", fleet, "--price", "3"}), "their prices are in the file");
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"pools: {}", "pools: names no pool"},
      {"pools: {a: {cluster: dgx-h10, devices: 8}}",
       "pools.a.cluster: `dgx-h10` is neither a preset nor a file beside"},
      {"pools: {a: {devices: 8}}", "pools.a: expected `cluster` (a preset or a file), or the keys of a cluster file"},
      {"pools: {a: {cluster: dgx-h100, devices: 0}}", "pools.a.devices: "},
      {"pools: {a: {cluster: dgx-h100, devices: 13}}", "pools.a.devices: "},
      {"pools: {a: {cluster: dgx-h100, prize: 8}}", "pools.a"},
      {"pools: {a: {cluster: dgx-h100}}\ndevice: h100", "device"},
      {"pools: [dgx-h100]", "pools: "},
  };
  for (const auto& [text, message] : wrong) says(plan({"--cluster", file(text, "wrong.yaml")}), message);
}

}  // namespace
}  // namespace nest::test
