#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "golden.h"
#include "program.h"
#include "test_support/temporary_folder.h"

namespace nest::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

class CheckCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const Result result = nest({"eval", "--model", "llama3-8b", "--cluster", "h100-spine-leaf", "--devices", "32",
                                "--global-batch", "64", "--strategy", "tp=4,sp=1,pp=4,mbs=1", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    plan_ = Json::parse(result.out);
  }

  std::string file(const Json& plan) const {
    std::ofstream(folder_.file("plan.json")) << plan.dump(1);
    return folder_.file("plan.json");
  }
  Result check(const Json& plan, bool json = false) const {
    std::vector<std::string> arguments = {"check", file(plan)};
    if (json) arguments.emplace_back("--json");
    return nest(arguments);
  }

  TemporaryFolder folder_;
  Json plan_;
};

TEST_F(CheckCommand, SoundPlanWithLevelsAndMemory) {
  const Result result = check(plan_);
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("sound: all 32 rules hold"));
  EXPECT_THAT(result.out, HasSubstr("stages 0 … 3, each to the next"));
  EXPECT_THAT(result.out, HasSubstr("needs at least"));
  EXPECT_THAT(result.err, IsEmpty());
  expect_fits_screen(result.out);
}

TEST_F(CheckCommand, JsonHasLevelsByHand) {
  const Result result = check(plan_, true);
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["schema"], "nest.check/1");
  EXPECT_TRUE(json["sound"]);
  EXPECT_TRUE(json["violations"].empty());
  // Two replicas of 4 devices side by side fill a node of 8: every boundary crosses to the next node, one rack.
  ASSERT_EQ(json["levels_crossed"]["boundaries"].size(), 3U);
  for (const Json& boundary : json["levels_crossed"]["boundaries"]) {
    EXPECT_EQ(boundary["level"], Json::array({1, 1}));
    EXPECT_EQ(boundary["name"], "leaf");
  }
  EXPECT_EQ(json["levels_crossed"]["groups"][0],
            (Json{{"group", "tensor"}, {"ranks", 4}, {"level", {0, 0}}, {"name", "node"}}));
  EXPECT_EQ(json["stages"].size(), 4U);
  EXPECT_GT(json["stages"][0]["memory_floor_bytes"], 1'000'000'000);
}

// What was claimed before and judged by nobody. Each of these passed all rules.
TEST_F(CheckCommand, TamperedClaims) {
  const auto codes = [&](const std::function<void(Json&)>& tamper) {
    Json plan = plan_;
    tamper(plan);
    const Result result = check(plan, true);
    EXPECT_EQ(result.code, 2) << result.out << result.err;
    std::vector<std::string> found;
    const Json verdict = Json::parse(result.out);
    for (const Json& violation : verdict["violations"]) found.push_back(violation["code"]);
    return found;
  };
  using Found = std::vector<std::string>;
  constexpr std::int64_t kMuch = 500LL << 30;
  EXPECT_THAT(codes([&](Json& plan) {
                Json& memory = plan["stages"][0]["memory_bytes"];
                memory["weights"] = memory["weights"].get<std::int64_t>() + kMuch;
                memory["total"] = memory["total"].get<std::int64_t>() + kMuch;
              }),
              ::testing::Contains("memory_device"));
  EXPECT_EQ(codes([](Json& plan) { plan["prediction"]["mfu"] = 0.99; }), Found{"work"});
  EXPECT_EQ(codes([](Json& plan) { plan["prediction"]["peak_memory_bytes"] = 1; }), Found{"memory_claims"});
  EXPECT_EQ(codes([](Json& plan) { plan["search"] = {{"lower_bound_s", 1e6}}; }), Found{"lower_bound"});
  EXPECT_EQ(codes([](Json& plan) { plan["stages"][0]["time_s"]["forward"] = 5; }), (Found{"stage_time"}));
  EXPECT_EQ(codes([](Json& plan) { plan["prediction"]["iteration_s"] = 0; }),
            (Found{"time_peak", "repeated", "repeated"}));
  EXPECT_EQ(codes([](Json& plan) { plan["prediction"]["interval_s"] = {1, 2}; }), (Found{"repeated", "repeated"}));
  EXPECT_EQ(codes([](Json& plan) { plan["strategy"]["edp"] = 7; }), Found{"repeated"});
  EXPECT_EQ(codes([](Json& plan) { plan["evaluation"]["stages"][1]["reserved_bytes"] = 7; }), Found{"repeated"});
  EXPECT_EQ(codes([](Json& plan) { plan["model"]["parameters"] = 7; }), Found{"parameters"});
  EXPECT_EQ(codes([](Json& plan) { plan["strategy"]["cp_inner"] = 3; }), Found{"split_sequence"});
  EXPECT_EQ(codes([](Json& plan) { plan["stages"][1]["time_s"]["cp"] = 1e-6; }), Found{"stage_time"});
  EXPECT_EQ(codes([](Json& plan) { plan["evaluation"]["stages"][0]["allocated_bytes"] = 1LL << 50; }),
            Found{"memory_claims"});
}

TEST_F(CheckCommand, SaysWhatItCannotJudge) {
  const Result result = check(plan_, true);
  EXPECT_THAT(Json::parse(result.out)["not_judged"].get<std::vector<std::string>>(),
              ::testing::IsSupersetOf({"prediction.spread", "evaluation.stages[].out_of_memory"}));
  EXPECT_THAT(check(plan_).out, HasSubstr("Not judged: "));
}

TEST_F(CheckCommand, ListsEveryViolation) {
  Json broken = plan_;
  broken["strategy"]["tp"] = 3;
  broken["stages"][1]["layers"][0] = 8;
  broken["stages"][2]["devices"][0] = 5;
  const Result result = check(broken);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, HasSubstr("not sound: "));
  EXPECT_THAT(result.out, AllOf(HasSubstr("split_heads"), HasSubstr("tp 3 does not divide 32 heads")));
  EXPECT_THAT(result.out, HasSubstr("device_list"));
  EXPECT_THAT(result.out, AllOf(HasSubstr("layer_twice"), HasSubstr("layer_order")));
  expect_fits_screen(result.out);
  const Json json = Json::parse(check(broken, true).out);
  EXPECT_FALSE(json["sound"]);
  EXPECT_GE(json["violations"].size(), 5U);
  EXPECT_EQ(json["violations"][0]["code"], "layer_twice");
}

TEST_F(CheckCommand, ClaimsMustFollow) {
  Json broken = plan_;
  broken["prediction"]["iteration_s"] = broken["prediction"]["iteration_s"].get<double>() / 100;
  for (Json& stage : broken["stages"]) stage["time_s"]["p2p"] = 0;
  const Json json = Json::parse(check(broken, true).out);
  std::vector<std::string> codes;
  for (const Json& violation : json["violations"]) codes.push_back(violation["code"]);
  EXPECT_THAT(codes, ::testing::IsSupersetOf({"time_sum", "time_law", "time_peak", "time_level", "throughput"}));
}

TEST_F(CheckCommand, HandWrittenPlanNeedsNoClaims) {
  Json bare = plan_;
  bare.erase("prediction");
  bare.erase("evaluation");
  for (Json& stage : bare["stages"]) {
    stage.erase("time_s");
    stage.erase("memory_bytes");
    stage.erase("devices");
  }
  const Result result = check(bare);
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST_F(CheckCommand, ReadsWhatPlanPrints) {
  const Result planned =
      nest({"plan", "--model", "llama3-8b", "--devices", "8", "--global-batch", "16", "--top", "2", "--json"});
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_EQ(run({.arguments = {"check", "-"}, .input = planned.out}).code, 0);
}

TEST_F(CheckCommand, ExplainsMistakes) {
  const Result none = nest({"check"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("PLAN"));
  const Result other = check(Json{{"schema", "nest.plan/99"}});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("schema"));
  EXPECT_THAT(other.out, IsEmpty());
  EXPECT_THAT(nest({"check", "no-such.json"}).err, StartsWith("nest: no-such.json: cannot be read"));
}

// A device that claims three times its own peak: the search believes it, the judge does not.
TEST_F(CheckCommand, UnsoundAnswerIsABugWithAReproducer) {
  std::ofstream(folder_.file("cluster.yaml"))
      << "name: impossible\n"
         "device: {name: fast, peak: {bf16: 100TFLOPS}, memory: 80GiB, memory_bandwidth: 200TB/s,\n"
         "         efficiency: {gemm_bf16: 3, native_forward: 3, native_backward: 3, tile: 1}}\n"
         "levels: [{name: node, group: 8, bandwidth: 900GB/s, latency: 1us}]\n";
  const std::string script = "cd '" + folder_.path().string() + "' && '" + program_path() +
                             "' plan --model llama3-8b --cluster cluster.yaml --global-batch 64 --no-why";
  const Result result = run({.arguments = {"-c", script}, .program = "sh"});
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("this is a bug in nest"), HasSubstr("time_peak"), HasSubstr("nest-unsound-plan.json")));
  const Result again = nest({"check", folder_.file("nest-unsound-plan.json")});
  EXPECT_EQ(again.code, 2) << again.err;
  EXPECT_THAT(again.out, HasSubstr("time_peak"));
}

}  // namespace
}  // namespace nest::test
