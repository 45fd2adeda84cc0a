// A plan's file is all that eval, check, simulate and export need: the best plan's and every alternative's.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "program.h"
#include "test_support/own_files.h"
#include "test_support/temporary_folder.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;
using Arguments = std::vector<std::string>;

Json answer_of(const Arguments& arguments) {
  const Result result = nest(arguments);
  EXPECT_EQ(result.code, 0) << result.err << result.out;
  return result.code == 0 ? Json::parse(result.out) : Json();
}

class RoundTripCommand : public ::testing::Test {
 protected:
  std::string file(const Json& plan) const {
    std::ofstream(folder_.file("plan.json")) << plan.dump(1);
    return folder_.file("plan.json");
  }

  void expect_same_numbers(const Json& plan) const {
    const std::string path = file(plan);
    const Json priced = answer_of({"eval", path, "--json"});
    for (const char* key :
         {"model", "cluster", "stack", "profile", "run", "strategy", "stages", "prediction", "search", "evaluation"}) {
      EXPECT_EQ(priced[key], plan[key]) << key;
    }
    EXPECT_EQ(answer_of({"check", path, "--json"})["violations"], Json::array());
    const Json exported = answer_of({"export", path, "--to", "deepspeed", "--json", "--time-limit", "1"});
    EXPECT_EQ(exported["asked_iteration_s"], plan["prediction"]["iteration_s"]);
    const Json simulated = answer_of({"simulate", path, "--json"});
    EXPECT_EQ(simulated["predicted"]["iteration_s"], plan["prediction"]["iteration_s"]);
  }

  TemporaryFolder folder_;
};

TEST_F(RoundTripCommand, OwnFilesTravelWithThePlan) {
  const OwnFiles files;
  const Arguments plan = {"plan", "--global-batch", "32", "--no-why", "--top", "2", "--json"};
  const std::vector<Arguments> owns = {
      {"--model", files.model, "--cluster", files.cluster, "--stack", files.stack, "--profile", files.profile},
      {"--model", files.model, "--cluster", files.cluster_device, "--stack", files.preset_stack},
      {"--model", files.graph, "--cluster", files.cluster, "--stack", "pytorch", "--optimizer", "sgd"}};
  std::vector<Json> answers;
  for (const Arguments& own : owns) {
    Arguments arguments = plan;
    arguments.insert(arguments.end(), own.begin(), own.end());
    answers.push_back(answer_of(arguments));
  }
  files.forget();
  EXPECT_EQ(answers[0]["profile"]["measured"], "by hand");
  EXPECT_EQ(answers[1]["stack"]["optimizer_bytes"], 7.0);
  for (const Json& answer : answers) {
    SCOPED_TRACE(answer["model"]["name"]);
    ASSERT_EQ(answer["alternatives"].size(), 1U);
    Json best = answer;
    for (const char* beside : {"why_not", "alternatives"}) best.erase(beside);
    expect_same_numbers(best);
    for (const Json& other : answer["alternatives"]) expect_same_numbers(other);
  }
}

TEST_F(RoundTripCommand, PlansOfOthersOpenToo) {
  const Json compared = answer_of({"compare", "--model", "llama3-8b", "--devices", "8", "--global-batch", "16",
                                   "--planners", "nest,manual,mist", "--json"});
  for (const Json& row : compared["planners"]) {
    ASSERT_FALSE(row["plan"].is_null()) << row["planner"];
    EXPECT_EQ(row["plan"]["search"]["planner"], row["planner"]);
    EXPECT_EQ(row["plan"]["prediction"], row["prediction"]);
    expect_same_numbers(row["plan"]);
  }
}

TEST_F(RoundTripCommand, WhatNobodyKnowsIsRefusedByEverybody) {
  Json plan = answer_of({"eval", "--model", "llama3-8b", "--devices", "8", "--global-batch", "16", "--strategy",
                         "zero=3,recompute=full,mbs=1", "--json"});
  plan["run"]["optimizer"] = "lion";
  const std::string path = file(plan);
  for (const Arguments& arguments : std::vector<Arguments>{
           {"eval", path}, {"check", path}, {"simulate", path}, {"export", path, "--to", "megatron"}}) {
    const Result result = nest(arguments);
    EXPECT_EQ(result.code, 2) << arguments.front();
    EXPECT_THAT(result.err, HasSubstr("run.optimizer: `lion` is not known; allowed are adam, sgd, muon and adam8bit"));
  }
}

}  // namespace
}  // namespace nest::test
