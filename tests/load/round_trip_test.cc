// Plans that leave the program and come back: nothing but the plan is needed, and no number moves.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "cost/evaluate.h"
#include "load/job.h"
#include "plan/plan_json.h"
#include "search/judge.h"
#include "search/planner.h"
#include "test_support/data.h"
#include "test_support/own_files.h"

namespace nest {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

Plan write_and_read(const Plan& plan) { return read_plan(parse_json("plan.json", plan_to_json(plan).dump(2))); }

PlanAnswer best_plans(const Job& job, int top) {
  PlanRequest request;
  request.job = &job;
  request.search.top = top;
  request.search.threads = 1;
  return make_plan(request);
}

// The plan from its file says all that it said before, and its job prices it as before.
void expect_same_after_a_file(const Plan& plan) {
  const Plan back = write_and_read(plan);
  EXPECT_EQ(plan_to_json(back), plan_to_json(plan));
  const Job job = load_job(back);
  ASSERT_EQ(refuse_strategy(job, back.strategy, back.stages), "");
  Plan again = evaluate(job, back.strategy, back.stages);
  again.search = plan.search;
  EXPECT_EQ(plan_to_json(again), plan_to_json(plan));
  EXPECT_EQ(job.title, plan.model.title);
  EXPECT_NO_THROW(require_sound(back, job));
}

struct Own {
  const char* what;
  JobQuestion question;
};

std::vector<Own> own_questions(const test::OwnFiles& files) {
  JobQuestion small;
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
  std::vector<std::pair<std::string, PlanAnswer>> answers;
  for (const Own& own : own_questions(files)) {
    const Job job = load_job(own.question);
    answers.emplace_back(own.what, best_plans(job, 4));
  }
  files.forget();
  for (const auto& [what, answer] : answers) {
    SCOPED_TRACE(what);
    ASSERT_EQ(answer.plans.size(), 4U);
    for (const Plan& plan : answer.plans) expect_same_after_a_file(plan);
  }
}

TEST(RoundTrip, FilesAreNotReplacedByPresetsOfTheirName) {
  const test::OwnFiles files;
  JobQuestion question = own_questions(files).front().question;
  question.stack = files.preset_stack;
  question.cluster = files.cluster_device;
  const Plan back = write_and_read(best_plans(load_job(question), 1).plans.front());
  const Job job = load_job(back);
  EXPECT_EQ(job.stack.name, "megatron-core");
  EXPECT_DOUBLE_EQ(job.stack.host_kernel_s, 11e-6);
  EXPECT_EQ(job.stack.optimizer_bytes, 7);
  EXPECT_EQ(job.cluster.device.name, "h100");
  EXPECT_EQ(job.cluster.device.memory_bytes, std::int64_t{12} << 30);
  EXPECT_EQ(job.model.architecture.name, "llama3-8b");
  EXPECT_EQ(job.model.architecture.hidden, 1024);
}

TEST(RoundTrip, AProfileBesideAPlanTakesThePlaceOfItsOwn) {
  const test::OwnFiles files;
  JobQuestion question = own_questions(files).front().question;
  question.stack = files.stack;
  const Job plain = load_job(question);
  question.profile = files.profile;
  const Job measured = load_job(question);
  Strategy strategy;
  strategy.dp = strategy.dp_inner = 8;
  const Plan plan = evaluate(measured, strategy, even_stages(measured, strategy, Recompute::none, 1));
  ASSERT_THAT(plan.measured, Not(::testing::IsEmpty()));
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("plan.json")) << plan_to_json(plan).dump();
  const double own_s = price_plan(folder.file("plan.json")).plan.prediction.iteration_s;
  EXPECT_EQ(own_s, plan.prediction.iteration_s);
  EXPECT_NE(own_s, evaluate(plain, plan.strategy, plan.stages).prediction.iteration_s);
  std::ofstream(folder.file("slow.json"))
      << R"({"schema": "nest.profile/1", "device": "h100", "stack": "mine", "operators": [
             {"operator": "matmul", "m": 1024, "n": 1024, "k": 4096, "forward_s": 1, "backward_s": 2}]})";
  const OpenedPlan slow = price_plan(folder.file("plan.json"), folder.file("slow.json"));
  EXPECT_GT(slow.plan.prediction.iteration_s, 2 * own_s);
  EXPECT_THAT(slow.plan.profile.json(), Not(HasSubstr("by hand")));
}

TEST(RoundTrip, PlansOfTheFirstEditionOpenWithTheirMeaning) {
  const auto folder = test::source_dir() / "tests" / "load" / "first_edition";
  const OpenedPlan torus = price_plan((folder / "llama3-8b-torus.json").string());
  EXPECT_EQ(torus.job.cluster.devices, 64);
  EXPECT_TRUE(torus.job.cluster.torus);
  EXPECT_EQ(torus.plan.run.stack, "megatron-core");
  EXPECT_EQ(torus.plan.strategy.dp, 64);
  EXPECT_EQ(torus.plan.model.title, "llama3-8b");
  const OpenedPlan pytorch = price_plan((folder / "llama3-8b-pytorch.json").string());
  EXPECT_EQ(pytorch.job.stack, find_stack("pytorch").value());
  EXPECT_EQ(pytorch.plan.stages.size(), 2U);
  for (const OpenedPlan* opened : {&torus, &pytorch}) {
    // Nothing was priced by another law: times and bytes are those of the file.
    const Plan old = read_plan(opened->document);
    EXPECT_NEAR(opened->plan.prediction.iteration_s, old.prediction.iteration_s, 1e-9);
    EXPECT_EQ(opened->plan.prediction.peak_memory_bytes, old.prediction.peak_memory_bytes);
    EXPECT_EQ(plan_to_json(opened->plan)["schema"], "nest.plan/2");
    expect_same_after_a_file(opened->plan);
  }
}

std::string refusal(const Json& json) {
  try {
    load_job(read_plan(parse_json("plan.json", json.dump())));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(RoundTrip, UnknownWordsAreRefusedByName) {
  JobQuestion question;
  question.model = "llama3-8b";
  question.devices = 8;
  question.global_batch = 16;
  Strategy strategy;
  strategy.dp = strategy.dp_inner = 8;
  const Job job = load_job(question);
  const Json good = plan_to_json(evaluate(job, strategy, even_stages(job, strategy, Recompute::full, 3)));
  EXPECT_EQ(refusal(good), "accepted");
  Json json = good;
  json["run"]["optimizer"] = "lion";
  EXPECT_THAT(refusal(json), HasSubstr("run.optimizer: `lion` is not known; allowed are adam and sgd"));
  json = good;
  json["run"]["stack"] = "fsdp2";
  EXPECT_THAT(refusal(json),
              HasSubstr("run.stack: is `fsdp2`, but the stack that the plan describes is `megatron-core`"));
  json.erase("stack");
  EXPECT_EQ(refusal(json), "accepted");
  json["run"]["stack"] = "megatron-corr";
  EXPECT_THAT(refusal(json), HasSubstr("run.stack: `megatron-corr` is neither a file nor one of "));
  json = good;
  json["stack"]["attention"] = "flash9";
  EXPECT_THAT(refusal(json),
              HasSubstr("attention: `flash9` is not known; allowed are unfused, triton, flash2 and native"));
  json = good;
  json["stack"]["attentoin"] = "native";
  EXPECT_THAT(refusal(json), HasSubstr("attentoin: unknown key"));
}

}  // namespace
}  // namespace nest
