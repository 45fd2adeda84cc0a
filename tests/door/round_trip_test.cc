// Plans that leave the program and come back: nothing but the plan is needed, and no number moves.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nest/nest.h"
#include "test_support/data.h"
#include "test_support/own_files.h"
#include "test_support/temporary_folder.h"

namespace nest {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::ordered_json;

Plan write_and_read(const Plan& plan) { return read_plan(Input::memory("plan.json", plan_file(plan))); }

std::vector<Plan> best_plans(const Question& question, std::int64_t top) {
  SearchOptions options;
  options.top = top;
  options.threads = 1;
  options.why = false;
  return find_plan(read_job(question), options).plans;
}

// The plan from its file says all that it said before, and is priced, judged and written out as before.
void expect_same_after_a_file(const Plan& plan) {
  const Plan back = write_and_read(plan);
  EXPECT_EQ(plan_file(back), plan_file(plan));
  EXPECT_EQ(plan_file(evaluate_plan(back)), plan_file(plan));
  EXPECT_TRUE(check_plan(back).sound());
  const bool hosts = !Json::parse(plan.cluster.description.json()).contains("torus");
  if (hosts) {
    EXPECT_EQ(export_plan(back, "rankfile").text, export_plan(plan, "rankfile").text);
  }
  EXPECT_EQ(job_of(back).title(), plan.model.title);
}

struct Own {
  const char* what;
  Question question;
};

std::vector<Own> own_questions(const test::OwnFiles& files) {
  Question small;
  small.model = files.model;
  small.cluster = files.cluster;
  small.global_batch = 32;
  std::vector<Own> all = {{"model and cluster", small}};
  all.push_back({"device", small});
  all.back().question.cluster = files.cluster_device;
  all.push_back({"stack", small});
  all.back().question.stack = files.stack;
  all.push_back({"stack called like a preset", small});
  all.back().question.stack = files.preset_stack;
  all.push_back({"profile", small});
  all.back().question.stack = files.stack;
  all.back().question.profile = files.profile;
  all.push_back({"graph, other precision and optimizer", small});
  all.back().question.model = files.graph;
  all.back().question.stack = "pytorch";
  all.back().question.precision = Precision::fp32;
  all.back().question.optimizer = Optimizer::sgd;
  all.push_back({"a part of the cluster", small});
  all.back().question.devices = 4;
  return all;
}

TEST(RoundTrip, PlansCarryTheFilesOfTheirOwner) {
  const test::OwnFiles files;
  std::vector<std::pair<std::string, std::vector<Plan>>> answers;
  for (const Own& own : own_questions(files)) answers.emplace_back(own.what, best_plans(own.question, 4));
  files.forget();
  for (const auto& [what, plans] : answers) {
    SCOPED_TRACE(what);
    ASSERT_EQ(plans.size(), 4U);
    for (const Plan& plan : plans) expect_same_after_a_file(plan);
  }
}

TEST(RoundTrip, FilesAreNotReplacedByPresetsOfTheirName) {
  const test::OwnFiles files;
  Question question = own_questions(files).front().question;
  question.stack = files.preset_stack;
  question.cluster = files.cluster_device;
  const Plan priced = evaluate_plan(write_and_read(best_plans(question, 1).front()));
  EXPECT_EQ(priced.run.stack, "megatron-core");
  const Json stack = Json::parse(priced.stack.json());
  EXPECT_EQ(stack["host_kernel"], 11e-6);
  EXPECT_EQ(stack["optimizer_bytes"], 7.0);
  EXPECT_EQ(priced.cluster.device, "h100");
  EXPECT_EQ(priced.device_memory_bytes, std::int64_t{12} << 30);
  EXPECT_EQ(priced.model.name, "llama3-8b");
  EXPECT_LT(priced.model.parameters, 1'000'000'000);
}

TEST(RoundTrip, AProfileBesideAPlanTakesThePlaceOfItsOwn) {
  const test::OwnFiles files;
  Question question = own_questions(files).front().question;
  question.stack = files.stack;
  const double plain_s = evaluate_plan(read_job(question), "mbs=1").prediction.iteration_s;
  question.profile = files.profile;
  const Plan plan = evaluate_plan(read_job(question), "mbs=1");
  ASSERT_THAT(plan.measured, Not(IsEmpty()));
  EXPECT_NE(plan.prediction.iteration_s, plain_s);
  EXPECT_EQ(evaluate_plan(write_and_read(plan)).prediction.iteration_s, plan.prediction.iteration_s);
  const Input slow =
      Input::memory("slow.json", R"({"schema": "nest.profile/1", "device": "h100", "stack": "mine", "operators": [
          {"operator": "matmul", "m": 1024, "n": 1024, "k": 4096, "forward_s": 1, "backward_s": 2}]})");
  const Plan other = evaluate_plan(read_plan(Input::memory("plan.json", plan_file(plan)), slow));
  EXPECT_GT(other.prediction.iteration_s, 2 * plan.prediction.iteration_s);
  EXPECT_THAT(other.profile.json(), Not(HasSubstr("by hand")));
}

// What nccl-tests prints for 2 ranks of one host: so many microseconds for 1 kB and for 1 GB.
std::string table_of(const std::string& operation, double micros) {
  std::string text = "# Collective test starting: " + operation + "_perf\n";
  for (const char* rank : {"0", "1"})
    text +=
        std::string("#  Rank  ") + rank + " Group  0 Pid  42 on  node1 device  " + rank + " [0000:18:00] NVIDIA H100\n";
  text += "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n";
  for (const char* size : {"1024", "1073741824"}) {
    const std::string time = std::to_string(micros);
    text.append(size).append(" 256 float sum -1 " + time + " 1 1 0 " + time + " 1 1 0\n");
  }
  return text;
}

TEST(RoundTrip, MeasuredCollectivesArePricedSaidAndCarried) {
  const test::TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.file(name)) << text;
    return Input(folder.file(name));
  };
  write("slow.txt", table_of("all_reduce", 1e5));
  const std::string plain = "device: h100\nlevels:\n  - {name: node, group: 8, bandwidth: 450GB/s, latency: 3us}\n";
  Question question;
  question.model = "llama3.2-1b";
  question.global_batch = 32;
  question.cluster = write("plain.yaml", plain);
  const char* pairs = "tp=2,dp=4,sp=off,mbs=1";
  const Plan formula = evaluate_plan(read_job(question), pairs);
  EXPECT_THAT(formula.measured, IsEmpty());
  question.cluster = write("measured.yaml", plain + "collectives: [slow.txt]\n");
  const Plan plan = evaluate_plan(read_job(question), pairs);
  EXPECT_THAT(plan.measured, ::testing::ElementsAre("all-reduce of 2 ranks on 1 host (slow.txt)"));
  EXPECT_FALSE(plan.executed);
  EXPECT_GT(plan.prediction.breakdown_s.tp, 10 * formula.prediction.breakdown_s.tp);
  std::filesystem::remove(folder.file("slow.txt"));
  expect_same_after_a_file(plan);
  // Other groups are priced as before.
  const Plan four = evaluate_plan(job_of(write_and_read(plan)), "tp=4,dp=2,sp=off,mbs=1");
  EXPECT_THAT(four.measured, ::testing::ElementsAre("all-reduce of 2 ranks on 1 host (slow.txt)"));  // its gradients
}

TEST(RoundTrip, PlansOfTheFirstEditionOpenWithTheirMeaning) {
  const auto folder = test::source_dir() / "tests" / "door" / "first_edition";
  for (const char* name : {"llama3-8b-torus.json", "llama3-8b-pytorch.json"}) {
    SCOPED_TRACE(name);
    const Plan old = read_plan((folder / name).string());
    EXPECT_TRUE(old.stack.empty());
    EXPECT_EQ(old.model.title, "llama3-8b");
    const Plan priced = evaluate_plan(old);
    // Nothing was priced by another law: times and bytes are those of the file.
    EXPECT_NEAR(priced.prediction.iteration_s, old.prediction.iteration_s, 1e-9);
    EXPECT_EQ(priced.prediction.peak_memory_bytes, old.prediction.peak_memory_bytes);
    EXPECT_EQ(priced.strategy, old.strategy);
    EXPECT_EQ(Json::parse(priced.stack.json())["name"], old.run.stack);
    EXPECT_EQ(Json::parse(plan_file(priced))["schema"], "nest.plan/3");
    expect_same_after_a_file(priced);
  }
}

// nest.plan/2 counted experts' ranks beside `dp` and beside the tensor ranks: the same devices in other words, so that no
// number moves. Where the law of a time itself changes, the files do too.
TEST(RoundTrip, PlansOfTheSecondEditionMeanWhatTheyMeant) {
  struct Old {
    const char* name;
    std::int64_t dp, dp_inner, ep, etp, edp;
  };
  const auto folder = test::source_dir() / "tests" / "door" / "second_edition";
  for (const Old& old : {Old{"whole-experts.json", 8, 4, 8, 1, 2}, Old{"divided-experts.json", 16, 8, 4, 2, 4},
                         Old{"context.json", 4, 2, 2, 1, 8}}) {
    SCOPED_TRACE(old.name);
    const Plan plan = read_plan((folder / old.name).string());
    EXPECT_EQ(plan.strategy.dp, old.dp);
    EXPECT_EQ(plan.strategy.dp_inner, old.dp_inner);
    EXPECT_EQ(plan.strategy.split.ep, old.ep);
    EXPECT_EQ(plan.strategy.split.expert_tp(), old.etp);
    EXPECT_EQ(plan.strategy.edp(), old.edp);
    const Plan priced = evaluate_plan(plan);
    const Json before = Json::parse(test::read_file(folder / old.name));
    Json after = Json::parse(plan_file(priced));
    EXPECT_EQ(before["schema"], "nest.plan/2");
    // Is said since.
    for (const char* key : {"flops_per_s_per_device", "spread", "interval_s"}) {
      EXPECT_EQ(after["prediction"].erase(key), 1U) << key;
    }
    for (Json& stage : after["evaluation"]["stages"]) EXPECT_EQ(stage.erase("out_of_memory"), 1U);
    EXPECT_EQ(priced.unsure, "") << "its stack ships, and was calibrated";
    EXPECT_EQ(after["stages"], before["stages"]);
    EXPECT_EQ(after["prediction"], before["prediction"]);
    EXPECT_EQ(after["evaluation"]["stages"], before["evaluation"]["stages"]);
    expect_same_after_a_file(priced);
  }
  try {
    read_plan((folder / "across-context.json").string());
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("strategy.ep: files before nest.plan/3 replicate experts over the "
                                        "context-parallel ranks (cp=2, ep=4)"));
  }
}

std::string refusal_of(const Json& file) {
  try {
    evaluate_plan(read_plan(Input::memory("plan.json", file.dump())));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(RoundTrip, UnknownWordsAreRefusedByName) {
  Question question;
  question.model = "llama3-8b";
  question.devices = 8;
  question.global_batch = 16;
  const Json good = Json::parse(plan_file(evaluate_plan(read_job(question), "zero=3,recompute=full,mbs=1")));
  EXPECT_EQ(refusal_of(good), "accepted");
  Json file = good;
  file["run"]["optimizer"] = "lion";
  EXPECT_THAT(refusal_of(file),
              HasSubstr("run.optimizer: `lion` is not known; allowed are adam, sgd, muon and adam8bit"));
  file = good;
  file["strategy"]["schedule"] = "zb-h7";
  EXPECT_THAT(refusal_of(file), HasSubstr("strategy.schedule: `zb-h7` is not known; allowed are 1f1b, "));
  file = good;
  file["run"]["stack"] = "fsdp2";
  EXPECT_THAT(refusal_of(file),
              HasSubstr("run.stack: is `fsdp2`, but the stack that the plan describes is `megatron-bridge-2026`"));
  file.erase("stack");
  EXPECT_EQ(refusal_of(file), "accepted");
  file["run"]["stack"] = "megatron-corr";
  EXPECT_THAT(refusal_of(file), HasSubstr("stack: `megatron-corr` is neither a file nor one of "));
  file = good;
  file["stack"]["attention"] = "flash9";
  EXPECT_THAT(refusal_of(file), HasSubstr("attention: `flash9` is not known; allowed are unfused, triton, "));
  file = good;
  file["stack"]["attentoin"] = "native";
  EXPECT_THAT(refusal_of(file), HasSubstr("attentoin: unknown key"));
}

}  // namespace
}  // namespace nest
