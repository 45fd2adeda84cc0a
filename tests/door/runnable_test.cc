// The plan that is printed by default is one that its framework runs.
#include <gmock/gmock.h>

#include <random>

#include "nest/error.h"
#include "nest/export.h"
#include "nest/search.h"
#include "test_support/scale.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RandomJobs {
 public:
  explicit RandomJobs(unsigned seed) : random_(seed) {}

  template <class T>
  T any(std::initializer_list<T> values) {
    return *(values.begin() + std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random_));
  }

  // Hosts of 4 and 8, numbers of hosts that are no powers of two, batches that few numbers divide.
  Question question() {
    Question question;
    question.model = any({"llama3.2-1b", "llama3-8b", "llama2-13b", "qwen3-8b", "mixtral-8x7b", "mixtral-790m",
                          "deepseek-v2-lite", "gpt3-35b", "llama3-70b"});
    question.cluster = any({"dgx-h100", "dgx-a100", "gb200-nvl72"});
    question.devices = 8 * any<std::int64_t>({1, 2, 3, 4, 5, 7, 8, 9, 12, 16});
    if (question.cluster.name == "gb200-nvl72" && question.devices > 72) question.devices = 128;  // whole racks
    question.global_batch = any<std::int64_t>({32, 48, 60, 64, 96, 128, 210, 256});
    question.seq = any<std::int64_t>({2048, 4096, 8192});
    return question;
  }

  SearchOptions options(const std::string& target) {
    SearchOptions options;
    options.target = target;
    options.judge = any({PlanJudge::formula, PlanJudge::formula, PlanJudge::formula, PlanJudge::simulation});
    options.set =
        any<std::vector<std::string>>({{}, {}, {}, {"zero=0,3"}, {"pp=2.."}, {"tp=1..4"}, {"recompute=full"}});
    options.threads = 1;
    options.why = options.explain = false;
    options.time_limit_s = 5;
    return options;
  }

 private:
  std::mt19937 random_;
};

class Targets : public ::testing::TestWithParam<const char*> {};

TEST_P(Targets, RunTheDefaultPlanAsItIs) {
  RandomJobs random(17);
  std::uint32_t exported = 0;
  const std::uint32_t jobs = scaled(200, 10);
  for (std::uint32_t k = 0; k < jobs; ++k) {
    const std::string target = GetParam();
    const Question question = for_target(random.question(), target);
    // Megatron's are the default.
    const SearchOptions options = random.options(target == "megatron" ? "" : target);
    SCOPED_TRACE(question.model.name + " on " + std::to_string(question.devices) + " of " + question.cluster.name +
                 ", batch " + std::to_string(question.global_batch));
    std::vector<Plan> plans;
    try {
      plans = find_plan(read_job(question), options).plans;
    } catch (const InputError& error) {  // torchtitan's qwen3 has no pipelines, accelerate has none at all
      EXPECT_THAT(error.what(), HasSubstr("runs no plan with pp=2.."));
    }
    if (plans.empty()) continue;
    for (const Plan& plan : plans) {
      EXPECT_EQ(plan.search->target, target);
      ExportOptions as_it_is;
      as_it_is.model = false;
      as_it_is.threads = 1;
      EXPECT_THAT(export_plan(plan, target, as_it_is).cannot, IsEmpty());
    }
    ++exported;
  }
  EXPECT_GT(exported, jobs / 3);
}

INSTANTIATE_TEST_SUITE_P(All, Targets,
                         ::testing::Values("megatron", "nemo", "deepspeed", "torchtitan", "torchtitan-main", "fsdp"));

std::string target_complaint(const Question& question, const SearchOptions& options) {
  try {
    find_plan(read_job(question), options);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

// A setting chooses among what the target runs; it never widens that.
TEST(Target, SettingsDoNotWidenIt) {
  Question question;
  question.model = "llama3.2-1b";
  question.devices = 16;
  question.stack = "megatron-core";
  SearchOptions options{.set = {"zero=3"}, .threads = 1, .why = false};
  options.target = "megatron";
  const Plan sharded = find_plan(read_job(question), options).plans.front();
  EXPECT_EQ(sharded.stages.front().zero, 3);
  EXPECT_THAT(export_plan(sharded, "megatron").cannot, IsEmpty());
  options.set = {"schedule=zbv"};
  EXPECT_THAT(target_complaint(question, options), HasSubstr("Megatron-Core 0.19 runs no plan with schedule=zbv"));
  options.target = "deepspeed";
  options.set = {"cp=2"};
  EXPECT_THAT(target_complaint(question, options), HasSubstr("DeepSpeed 0.19 runs no plan with cp=2"));
  options.set = {"offload=core_attn"};
  EXPECT_THAT(target_complaint(question, options), HasSubstr("DeepSpeed 0.19 runs no plan with offload=core_attn"));
  question.cluster = "dgx-b200";
  question.precision = Precision::fp4;
  options.target = "torchtitan";
  options.set = {};
  EXPECT_THAT(target_complaint(question, options), HasSubstr("torchtitan cannot compute in fp4"));
}

TEST(Target, IsTheStacksOwnFramework) {
  Question question;
  question.model = "llama3.2-1b";
  question.devices = 16;
  SearchOptions options{.threads = 1, .why = false};
  const auto planned_for = [&](const char* stack) {
    question.stack = stack;
    const Plan plan = find_plan(read_job(question), options).plans.front();
    return plan.search->target + "/" + plan.search->target_version;
  };
  EXPECT_EQ(planned_for("megatron-core"), "megatron/Megatron-Core 0.19");
  EXPECT_EQ(planned_for("fsdp2"), "torchtitan/torchtitan 0.2.2");
  EXPECT_EQ(planned_for("maxtext"), "/");
  options.target = "any";
  EXPECT_EQ(planned_for("megatron-core"), "/");
  EXPECT_EQ(for_target({}, "torchtitan").stack.name, "fsdp2");
  EXPECT_TRUE(for_target({}, "megatron").stack.empty());
  EXPECT_TRUE(for_target({}, "any").stack.empty());
}

// Everyday work: 70 B parameters on 64 devices of 80 GB, weights gathered layer by layer.
TEST(Target, HuggingFaceTrainsLargeModels) {
  Question question;
  question.model = "llama3-70b";
  question.cluster = "dgx-h100";
  question.devices = 64;
  question.global_batch = 64;
  question.seq = 4096;
  for (const char* target : {"fsdp", "deepspeed"}) {
    SearchOptions options{.target = target, .judge = PlanJudge::formula, .threads = 1, .why = false};
    const Question asked = for_target(question, target);
    EXPECT_THAT(asked.stack.name, testing::StartsWith("hf-"));
    const Answer answer = find_plan(read_job(asked), options);
    ASSERT_FALSE(answer.plans.empty()) << target;
    options.set = {"zero=3", "tp=1", "pp=1"};
    const Answer sharded = find_plan(read_job(asked), options);
    ASSERT_FALSE(sharded.plans.empty()) << target;
    // 70.6 B x (4 + 4 + 8) or (2 + 2 + 12) bytes over 64 devices: 16.4 GiB each.
    const StageMemory& memory = sharded.plans.front().stages.front().memory;
    EXPECT_NEAR(static_cast<double>(memory.weights + memory.gradients + memory.optimizer) / 0x1p30, 16.4, 0.1);
    EXPECT_THAT(export_plan(sharded.plans.front(), target).cannot, IsEmpty());
  }
}

// What is wider costs no more.
TEST(Target, AnyIsNoSlower) {
  Question question;
  question.model = "llama3-8b";
  question.devices = 24;
  question.global_batch = 60;
  question.stack = "megatron-core";
  SearchOptions options{.judge = PlanJudge::formula, .tie_percent = 0, .threads = 1, .why = false};
  const Answer runs = find_plan(read_job(question), options);
  options.target = "any";
  const Answer all = find_plan(read_job(question), options);
  EXPECT_EQ(runs.outcome, PlanOutcome::optimal);
  EXPECT_LE(all.plans.front().prediction.iteration_s, runs.plans.front().prediction.iteration_s);
  EXPECT_THAT(to_text(runs), HasSubstr("Proven optimal among what Megatron-Core 0.19 can run"));
  EXPECT_THAT(to_text(all), HasSubstr("Proven optimal within the search space"));
}

// What trains some weights is written for no framework: the certificate names none, unless somebody did.
TEST(Target, FrozenWeightsHaveNone) {
  Question question;
  question.model = "llama3-8b";
  question.devices = 8;
  question.global_batch = 8;
  question.lora = "rank=16";
  SearchOptions options{.judge = PlanJudge::formula, .threads = 1, .why = false};
  EXPECT_EQ(find_plan(read_job(question), options).plans.front().search->target, "");
  options.target = "megatron";
  EXPECT_EQ(find_plan(read_job(question), options).plans.front().search->target, "megatron");
}

}  // namespace
}  // namespace nest::test
