#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "plan/plan.h"
#include "plan/plan_json.h"

namespace nest {
namespace {

Plan example() {
  Plan plan;
  plan.model = {"tiny", "llama", 1000, parse_json("config.json", R"({"model_type": "llama", "hidden_size": 64})")};
  plan.cluster = {"pod", "h100", 64, parse_yaml("pod.yaml", "device: h100\nlevels: [{group: 8}]\n")};
  plan.run.global_batch = 256;
  plan.run.sequence = 4096;
  plan.strategy.split = {.tp = 2, .sp = true, .cp = 1, .ep = 2};
  plan.strategy.pp = 2;
  plan.strategy.dp = 6;
  plan.strategy.dp_inner = 3;
  plan.strategy.pitch = 32;
  plan.strategy.micro_batch = 4;
  for (int s = 0; s < 2; ++s) {
    StagePlan stage;
    stage.first = 5 * s;
    stage.last = 5 * s + 4;
    stage.zero = 1;
    stage.zero_degree = 12;
    stage.recompute = s == 0 ? Recompute::selective : Recompute::none;
    stage.time.forward = 0.125;
    stage.time.total = 0.5;
    stage.memory.weights = 123;
    stage.memory.total = 456;
    plan.stages.push_back(stage);
  }
  plan.prediction.iteration_s = 12.5;
  plan.prediction.breakdown_s.bubble = 1.5;
  plan.search = SearchRecord{0.25, true, 12.5, 1e6, 42, "nest"};
  return plan;
}

TEST(Plan, EveryRankHasItsOwnDevice) {
  const Strategy s = example().strategy;
  std::set<std::int64_t> devices;
  for (std::int64_t r = 0; r < s.dp; ++r) {
    for (std::int64_t stage = 0; stage < s.pp; ++stage) {
      for (std::int64_t q = 0; q < s.devices_per_stage(); ++q) devices.insert(device_of(s, r, stage, q));
    }
  }
  EXPECT_EQ(static_cast<std::int64_t>(devices.size()), s.devices_used());
  EXPECT_EQ(*devices.rbegin(), s.devices_spanned() - 1);
  // replica 4 = second of the second pipeline group: pitch 32, stage 1 after three blocks of 4, its own block, rank 3
  EXPECT_EQ(device_of(s, 4, 1, 3), 32 + (3 + 1) * 4 + 3);
}

TEST(Plan, MicroBatchesRoundUp) {
  // 256 sequences over 6 * 2 ranks of 4: 5.33
  EXPECT_EQ(micro_batches(example().strategy, 256), 6);
}

TEST(PlanJson, RoundTrips) {
  const auto json = plan_to_json(example());
  const Plan back = read_plan(parse_json("plan.json", json.dump()));
  EXPECT_EQ(plan_to_json(back), json);
  EXPECT_EQ(back.strategy, example().strategy);
  EXPECT_EQ(back.stages[0].recompute, Recompute::selective);
  EXPECT_EQ(back.model.config.root().as_object()->members().size(), 2U);
  EXPECT_EQ(json["stages"][1]["devices"], (std::vector<int>{12, 13, 14, 15}));
}

TEST(PlanJson, RefusesWhatIsNotAPlan) {
  const auto message = [](const nlohmann::ordered_json& json) {
    try {
      read_plan(parse_json("plan.json", json.dump()));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  auto json = plan_to_json(example());
  json["schema"] = "nest.plan/9";
  EXPECT_THAT(message(json), ::testing::HasSubstr("schema: this is not a plan"));
  json = plan_to_json(example());
  json["stages"][0].erase("zero");
  json["stages"][0]["zerro"] = 1;
  EXPECT_THAT(message(json), ::testing::HasSubstr("stages[0].zerro: unknown key; did you mean"));
  json = plan_to_json(example());
  json["strategy"]["tp"] = 0;
  EXPECT_THAT(message(json), ::testing::HasSubstr("strategy.tp: 0 is out of range"));
  json = plan_to_json(example());
  json["stages"][1]["layers"] = {3};
  EXPECT_THAT(message(json), ::testing::HasSubstr("stages[1].layers: expected [first, last]"));
}

}  // namespace
}  // namespace nest
