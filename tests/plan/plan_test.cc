#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "plan/plan.h"
#include "plan/plan_json.h"

namespace nest::plan {
namespace {

Plan example() {
  Plan plan;
  plan.model = {"tiny", "Tiny 1K", "llama", 1000,
                doc::parse_json("config.json", R"({"model_type": "llama", "hidden_size": 64})")};
  plan.cluster = {"pod", "h100", 64, doc::parse_yaml("pod.yaml", "device: h100\nlevels: [{group: 8}]\n")};
  plan.stack = doc::parse_yaml("mine.yaml", "name: mine\nattention: flash2\n");
  plan.profile = doc::parse_json("profile.json", R"({"schema": "nest.profile/1", "layers": []})");
  plan.run.stack = "mine";
  plan.run.precision = Precision::fp8;
  plan.run.optimizer = Optimizer::sgd;
  plan.run.global_batch = 256;
  plan.run.sequence = 4096;
  plan.strategy.split = {.tp = 2, .sp = true, .cp = 1, .ep = 2};
  plan.strategy.pp = 2;
  plan.strategy.dp = 12;
  plan.strategy.dp_inner = 6;
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
    stage.memory.allocated = 400;
    stage.memory.needed = 500 + s;
    stage.memory.moment = "head";
    plan.stages.push_back(stage);
  }
  plan.prediction.iteration_s = 12.5;
  plan.prediction.breakdown_s.bubble = 1.5;
  plan.device_memory_bytes = 450;
  plan.fits = false;
  plan.misfit = "stage 1 needs more";
  plan.assumptions = {"one", "another"};
  plan.measured = {"decoder"};
  plan.search = SearchRecord{0.25,
                             true,
                             12.5,
                             1e6,
                             42,
                             "nest",
                             0.005,
                             12.46,
                             "tp=4 pp=3",
                             "uneven cuts",
                             {},
                             {"tp=4", "zero=0,1"},
                             48,
                             "megatron",
                             "Megatron-Core 0.19"};
  plan.search->execution = ExecutionRecord{12.7, 30, 10, false, 11.5, true, 3, "tp=8 pp=2", 12.4, 13.5};
  return plan;
}

TEST(Plan, ChunksGoThroughFiles) {
  Plan plan = example();
  plan.stages[0].chunks = {{0, 1, 0.25, 0.5, 0.125}, {5, 4, 0, 0, 0}};
  const Plan back = read_plan(doc::parse_json("plan.json", plan_to_json(plan).dump()));
  ASSERT_EQ(back.stages[0].chunks.size(), 2U);
  const ChunkPlan &first = back.stages[0].chunks[0], &second = back.stages[0].chunks[1];
  EXPECT_EQ(std::pair(first.first, first.last), std::pair(0, 1));
  EXPECT_EQ(first.forward_s, 0.25);
  EXPECT_EQ(first.backward_s, 0.5);
  EXPECT_EQ(first.weight_s, 0.125);
  EXPECT_EQ(std::pair(second.first, second.last), std::pair(5, 4));
  EXPECT_TRUE(back.stages[1].chunks.empty());
  EXPECT_FALSE(plan_to_json(plan)["stages"][1].contains("chunks"));
}

TEST(Plan, EveryRankHasItsOwnDevice) {
  const Strategy s = example().strategy;
  std::set<std::int64_t> devices;
  for (std::int64_t r = 0; r < s.dp; ++r) {
    for (std::int64_t stage = 0; stage < s.pp; ++stage) {
      for (std::int64_t q = 0; q < s.split.replica_devices(); ++q) devices.insert(device_of(s, r, stage, q));
    }
  }
  EXPECT_EQ(static_cast<std::int64_t>(devices.size()), s.devices_used());
  EXPECT_EQ(*devices.rbegin(), s.devices_spanned() - 1);
  // replica 9 = fourth of the second pipeline group: pitch 32, stage 1 after six replicas of 2, three of its own, rank 1
  EXPECT_EQ(device_of(s, 9, 1, 1), 32 + (6 + 3) * 2 + 1);
}

TEST(Plan, MicroBatchesRoundUp) {
  // 256 sequences over 12 ranks of 4: 5.33
  EXPECT_EQ(micro_batches(example().strategy, 256), 6);
}

TEST(PlanJson, RoundTrips) {
  const auto json = plan_to_json(example());
  const Plan back = read_plan(doc::parse_json("plan.json", json.dump()));
  EXPECT_EQ(plan_to_json(back), json);
  EXPECT_EQ(back.strategy, example().strategy);
  EXPECT_EQ(back.stages[0].recompute, Recompute::selective);
  EXPECT_EQ(back.model.config.root().as_object()->members().size(), 2U);
  EXPECT_EQ(json["stages"][1]["devices"], (std::vector<int>{12, 13, 14, 15}));
  EXPECT_EQ(json["schema"], "nest.plan/3");
  EXPECT_EQ(json["strategy"]["edp"], 6);  // 24 ranks of a stage, 4 hold a set of experts
  EXPECT_EQ(json["stack"]["attention"], "flash2");
  EXPECT_EQ(json["run"]["precision"], "fp8");
  EXPECT_EQ(back.run.precision, Precision::fp8);
  EXPECT_EQ(back.run.optimizer, Optimizer::sgd);
  EXPECT_EQ(back.model.title, "Tiny 1K");
  EXPECT_EQ(back.profile.json(), example().profile.json());
  EXPECT_FALSE(back.fits);
  EXPECT_EQ(back.misfit, example().misfit);
  EXPECT_EQ(back.assumptions, example().assumptions);
  EXPECT_EQ(back.measured, example().measured);
  EXPECT_EQ(back.fullest_stage(), 1U);
  EXPECT_EQ(back.stages[1].memory.needed, 501);
  EXPECT_EQ(back.stages[1].memory.allocated, 400);
  EXPECT_EQ(back.stages[1].memory.moment, "head");
  EXPECT_EQ(back.search->tie, 0.005);
  EXPECT_EQ(back.search->fastest_s, 12.46);
  EXPECT_EQ(back.search->fastest, "tp=4 pp=3");
  EXPECT_EQ(back.search->simpler, "uneven cuts");
  EXPECT_EQ(back.search->execution->simulated_s, 12.7);
  EXPECT_EQ(back.search->execution->executed, 30);
  EXPECT_EQ(back.search->execution->bounded, 10);
  EXPECT_FALSE(back.search->execution->complete);
  EXPECT_EQ(back.search->execution->least_s, 11.5);
  EXPECT_TRUE(back.search->execution->certain);
  EXPECT_EQ(back.search->execution->runs, 3);
  EXPECT_EQ(back.search->execution->formula, "tp=8 pp=2");
  EXPECT_EQ(back.search->execution->formula_s, 12.4);
  EXPECT_EQ(back.search->execution->formula_simulated_s, 13.5);
  EXPECT_EQ(back.search->set, (std::vector<std::string>{"tp=4", "zero=0,1"}));
  EXPECT_EQ(back.search->max_devices, 48);
}

TEST(PlanJson, RefusesSettingsThatAreNone) {
  auto json = plan_to_json(example());
  json["search"]["set"] = {"tp=4", "tpp=2"};
  try {
    read_plan(doc::parse_json("plan.json", json.dump()));
    FAIL() << "tpp=2 was taken";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("search.set"));
    EXPECT_THAT(error.what(), testing::HasSubstr("`tpp` is no dimension"));
  }
}

// A document inside a plan file is shown by itself, a file as it was written.
TEST(PlanJson, DocumentsHaveTheirOwnText) {
  const Plan made = example();
  EXPECT_EQ(made.stack.text(), "name: mine\nattention: flash2\n");
  const Plan back = read_plan(doc::parse_json("plan.json", plan_to_json(made).dump()));
  EXPECT_EQ(back.stack.text(), made.stack.json());
  EXPECT_EQ(back.stack.name(), "plan.json");
  EXPECT_TRUE(Document().empty());
  EXPECT_EQ(Document().text(), "null");
}

// The example in the words that `ep`, `dp` and `dp_inner` had until then.
nlohmann::ordered_json before(const char* schema) {
  auto json = plan_to_json(example());
  json["schema"] = schema;
  json["strategy"].erase("edp");
  json["strategy"]["dp"] = 6;
  json["strategy"]["dp_inner"] = 3;
  return json;
}

Strategy reread(const nlohmann::ordered_json& json) {
  return read_plan(doc::parse_json("plan.json", json.dump())).strategy;
}

TEST(PlanJson, OlderFilesKeepTheirMeaning) {
  EXPECT_EQ(reread(before("nest.plan/2")), example().strategy);
  auto json = before("nest.plan/1");
  json.erase("stack");
  json.erase("profile");
  EXPECT_EQ(reread(json), example().strategy);
  // Whole experts on the tensor ranks as well: ep counted those beside.
  json = before("nest.plan/2");
  json["strategy"]["etp"] = 1;
  EXPECT_EQ(reread(json).split.ep, 4);
  EXPECT_EQ(reread(json).split.expert_devices(), 4);
  EXPECT_EQ(reread(json).dp, 12);
  EXPECT_EQ(reread(json).edp(), 6);
  // Context parallelism alone is what it was: experts replicated over it.
  json = before("nest.plan/2");
  json["strategy"]["ep"] = 1;
  json["strategy"]["cp"] = 2;
  EXPECT_EQ(reread(json).dp, 6);
  EXPECT_EQ(reread(json).edp(), 12);
  json["strategy"]["etp"] = 1;
  EXPECT_EQ(reread(json).split.ep, 2);
  EXPECT_EQ(reread(json).edp(), 12);
  json["strategy"]["etp"] = 3;
  EXPECT_THROW(reread(json), InputError);
}

TEST(PlanJson, RefusesExpertsAcrossContextRanksOfOlderFiles) {
  auto json = before("nest.plan/2");
  json["strategy"]["cp"] = 2;
  try {
    reread(json);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("strategy.ep: files before nest.plan/3 replicate experts over the "
                                                   "context-parallel ranks (cp=2, ep=2)"));
  }
}

TEST(PlanJson, TheFirstSchemaHasNeitherStackNorProfile) {
  auto json = before("nest.plan/1");
  json["run"]["stack"] = "fsdp2";
  json.erase("stack");
  json.erase("profile");
  json["evaluation"] = {{"fits", true}, {"whatever", "was passed over"}};
  const Plan old = read_plan(doc::parse_json("plan.json", json.dump()));
  EXPECT_TRUE(old.stack.empty());
  EXPECT_TRUE(old.profile.empty());
  EXPECT_EQ(old.run.stack, "fsdp2");
  EXPECT_EQ(old.strategy, example().strategy);
  json["stack"] = nlohmann::ordered_json::object();
  EXPECT_THROW(read_plan(doc::parse_json("plan.json", json.dump())), InputError);
}

TEST(PlanJson, RefusesWhatIsNotAPlan) {
  const auto message = [](const nlohmann::ordered_json& json) {
    try {
      read_plan(doc::parse_json("plan.json", json.dump()));
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
  const auto with_run = [&](const char* key, const char* word) {
    auto changed = plan_to_json(example());
    changed["run"][key] = word;
    return message(changed);
  };
  EXPECT_THAT(with_run("optimizer", "lion"),
              ::testing::HasSubstr("run.optimizer: `lion` is not known; allowed are adam, sgd, muon and adam8bit"));
  EXPECT_THAT(with_run("precision", "fp18"),
              ::testing::HasSubstr("run.precision: `fp18` is not known; allowed are bf16, fp16, fp8, fp4 and fp32"));
  EXPECT_THAT(with_run("precision", "tf32"), ::testing::HasSubstr("run.precision: `tf32` is not known"));
  EXPECT_EQ(with_run("precision", "BF16"), "accepted");
  json = plan_to_json(example());
  json["strategy"]["schedule"] = "zb-h9";
  EXPECT_THAT(message(json), ::testing::HasSubstr("strategy.schedule: `zb-h9` is not known; allowed are 1f1b, "));
  json = plan_to_json(example());
  json["evaluation"]["stages"].erase(0);
  EXPECT_THAT(message(json), ::testing::HasSubstr("evaluation.stages: expected one for every stage"));
}

}  // namespace
}  // namespace nest::plan
