// Questions, plans and everything that is done with a plan, through the front door alone.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "nest/nest.h"

namespace nest {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr const char* kSmallModel =
    R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8,
        "num_attention_heads": 8, "vocab_size": 32000})";
constexpr const char* kSmallCluster =
    "name: mine\ndevice: h100\nlevels:\n  - {name: node, group: 8, bandwidth: 450GB/s, latency: 3us}\n";

template <class Call>
std::string complaint(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was refused";
}

Question small_question() {
  Question question;
  question.model = Input::memory("config.json", kSmallModel);
  question.cluster = Input::memory("cluster.yaml", kSmallCluster);
  question.global_batch = 64;
  question.seq = 1024;
  return question;
}

Question preset_question(std::int64_t devices = 16) {
  Question question;
  question.model = "llama3-8b";
  question.devices = devices;
  question.global_batch = 64;
  return question;
}

Answer small_answer(SearchOptions options = {}) {
  options.threads = 1;
  options.why = false;
  return find_plan(read_job(small_question()), options);
}

TEST(Job, FromTextInMemory) {
  const TrainingJob job = read_job(small_question());
  EXPECT_EQ(job.devices(), 8);
  EXPECT_EQ(job.title(), "config");
}

TEST(Job, MistakesNameTheMember) {
  Question question = small_question();
  question.stack = "megatorn-core";
  EXPECT_THAT(complaint([&] { read_job(question); }),
              StartsWith("stack: `megatorn-core` is neither a file nor one of"));
  question = small_question();
  question.devices = -1;
  EXPECT_THAT(complaint([&] { read_job(question); }), StartsWith("devices: \"-1\" is not a whole number"));
  EXPECT_THAT(complaint([] { precision_of("fp7"); }), StartsWith("precision: \"fp7\" is not one of"));
  const TrainingJob job = read_job(small_question());
  EXPECT_THAT(complaint([&] { evaluate_plan(job, "tp=x"); }), StartsWith("strategy: "));
  EXPECT_THAT(complaint([&] { find_plan(job, {.set = {"tp=zero"}}); }), StartsWith("set: "));
  EXPECT_THAT(complaint([&] { find_plan(job, {.micro_batch = "many"}); }), StartsWith("micro_batch: "));
  EXPECT_THAT(complaint([&] { find_plan(job, {.target = "megatorn"}); }), StartsWith("target: "));
}

TEST(Search, PlansAreWhole) {
  const Answer answer = small_answer({.top = 3});
  ASSERT_EQ(answer.outcome, PlanOutcome::optimal);
  ASSERT_EQ(answer.plans.size(), 3U);
  for (const Plan& plan : answer.plans) {
    ASSERT_TRUE(plan.search.has_value());
    EXPECT_TRUE(plan.fits);
    const Plan again = read_plan(Input::memory("plan.json", plan_file(plan)));
    EXPECT_EQ(evaluate_plan(again).prediction.iteration_s, plan.prediction.iteration_s);
    EXPECT_TRUE(check_plan(again).sound());
    EXPECT_TRUE(check_file(Input::memory("plan.json", plan_file(plan))).sound());
    EXPECT_EQ(plan_file(again), plan_file(plan));
  }
  EXPECT_LE(answer.plans[0].search->fastest_s, answer.plans[1].prediction.iteration_s);
  EXPECT_LE(answer.plans[1].prediction.iteration_s, answer.plans[2].prediction.iteration_s);
}

// 70.6 G parameters of 4 + 12 bytes are more than eight devices hold; with three quarters of the 12 on the host they are not.
TEST(Search, StateWaitsOnTheHostWhereNothingFitsWithout) {
  Question question;
  question.model = "llama3-70b";
  question.devices = 8;
  question.global_batch = 16;
  const TrainingJob job = read_job(question);
  SearchOptions options{.set = {"tp=8", "sp=1"}, .micro_batch = "1", .threads = 1, .why = false, .explain = false};
  options.offload = OffloadSearch::never;
  EXPECT_EQ(find_plan(job, options).outcome, PlanOutcome::no_plan);
  options.offload = OffloadSearch::needed;
  const Answer answer = find_plan(job, options);
  ASSERT_EQ(answer.outcome, PlanOutcome::optimal);
  const Plan& plan = answer.plans.front();
  EXPECT_GE(plan.run.optimizer_offload, 75);
  EXPECT_GT(plan.stages.front().memory.host, 0);
  EXPECT_EQ(plan.stages.front().zero, 1);
  const Plan again = read_plan(Input::memory("plan.json", plan_file(plan)));
  EXPECT_EQ(plan_file(again), plan_file(plan));
  EXPECT_EQ(evaluate_plan(again).prediction.iteration_s, plan.prediction.iteration_s);
  EXPECT_TRUE(check_plan(again).sound());
  // Asked for, no other share is tried.
  question.optimizer_offload = 100;
  const Answer all = find_plan(read_job(question), options);
  ASSERT_EQ(all.outcome, PlanOutcome::optimal);
  EXPECT_EQ(all.plans.front().run.optimizer_offload, 100);
  EXPECT_LE(plan.prediction.iteration_s, all.plans.front().prediction.iteration_s);
  question.optimizer_offload = 101;
  EXPECT_THAT(complaint([&] { read_job(question); }), HasSubstr("101"));
}

// Without recomputation and tensor parallelism 8 B parameters and 8,192 tokens fit with some modules on the host only.
TEST(Search, PutsActivationsOnTheHost) {
  Question question;
  question.model = "llama3-8b";
  question.cluster = "dgx-h100";
  question.devices = 8;
  question.global_batch = 64;
  question.seq = 8192;
  const TrainingJob job = read_job(question);
  SearchOptions options{.set = {"recompute=none", "pp=1", "tp=1", "cp=1", "zero=1"}, .micro_batch = "1"};
  options.threads = 1;
  options.why = options.explain = false;
  options.offload = OffloadSearch::never;
  EXPECT_EQ(find_plan(job, options).outcome, PlanOutcome::no_plan);
  options.offload = OffloadSearch::needed;
  const Answer answer = find_plan(job, options);
  ASSERT_EQ(answer.outcome, PlanOutcome::optimal);
  const Plan& plan = answer.plans.front();
  EXPECT_NE(plan.strategy.split.offload, 0);
  EXPECT_EQ(plan.run.optimizer_offload, 0);
  EXPECT_GT(plan.stages.front().memory.host, 0);
  EXPECT_GT(plan.stages.front().time.recompute, 0);
  const Plan again = read_plan(Input::memory("plan.json", plan_file(plan)));
  EXPECT_EQ(again.strategy, plan.strategy);
  EXPECT_EQ(plan_file(again), plan_file(plan));
  EXPECT_EQ(evaluate_plan(again).prediction.iteration_s, plan.prediction.iteration_s);
  EXPECT_TRUE(check_plan(again).sound());
  // With tensor parallelism it fits without, and is faster with.
  options.set[2] = "tp=1,2";
  EXPECT_EQ(find_plan(job, options).plans.front().strategy.split.offload, 0);
  options.offload = OffloadSearch::any;
  const Plan fastest = find_plan(job, options).plans.front();
  EXPECT_EQ(fastest.strategy.split.offload, plan.strategy.split.offload);
  // Named, no other set is tried.
  options.offload = OffloadSearch::never;
  options.set = {"recompute=none", "pp=1", "tp=1", "cp=1", "zero=1", "offload=qkv_linear+core_attn+attn_proj"};
  EXPECT_EQ(offload_text(find_plan(job, options).plans.front().strategy.split.offload),
            "qkv_linear+core_attn+attn_proj");
  options.set.back() = "offload=attn_proj";
  EXPECT_THAT(complaint([&] { find_plan(job, options); }), HasSubstr("attn_proj needs core_attn"));
}

// The loss makes the last of equal stages the slowest, so the fastest plan cuts unevenly.
TEST(Search, TakesTheSimplestWithinTheTie) {
  const TrainingJob job = read_job(preset_question());
  SearchOptions options;
  options.threads = 1;
  options.why = false;
  options.set = {"tp=2", "pp=4", "cp=1", "vpp=1"};
  options.tie_percent = 0;
  const Plan fastest = find_plan(job, options).plans.front();
  EXPECT_EQ(fastest.search->fastest, "");
  options.tie_percent = 50;
  const Answer answer = find_plan(job, options);
  const Plan& simple = answer.plans.front();
  EXPECT_EQ(simple.search->tie, 0.5);
  EXPECT_EQ(simple.search->fastest_s, fastest.prediction.iteration_s);
  EXPECT_LE(simple.prediction.iteration_s, 1.5 * fastest.prediction.iteration_s);
  for (std::size_t s = 0; s < simple.stages.size(); ++s) {  // embedding and 32 blocks and head on 4 stages
    EXPECT_EQ(simple.stages[s].last, s == 3 ? 33 : static_cast<int>(8 * (s + 1)));
    EXPECT_EQ(simple.stages[s].zero, simple.stages[0].zero);
    EXPECT_EQ(simple.stages[s].recompute, simple.stages[0].recompute);
  }
  EXPECT_EQ(simple.strategy.dp_inner, simple.strategy.dp);
  EXPECT_EQ(simple.strategy.devices_used(), 16);
  ASSERT_NE(simple.search->fastest, "");
  EXPECT_THAT(to_text(answer), HasSubstr("Within 50 % of the proven optimum"));
  EXPECT_THAT(to_html(answer), HasSubstr("of the proven optimum"));
  EXPECT_THAT(complaint([&] { find_plan(job, {.tie_percent = 101}); }), StartsWith("tie: 101 is no number of percent"));
}

TEST(Search, ReportsAgree) {
  const TrainingJob job = read_job(preset_question());
  SearchOptions options;
  options.threads = 1;
  options.set = {"tp=1..2"};
  const Answer answer = find_plan(job, options);
  const json told = json::parse(to_json(answer));
  EXPECT_EQ(told.at("prediction").at("iteration_s"), answer.plans[0].prediction.iteration_s);
  EXPECT_EQ(told.at("why_not").size(), answer.why_not.size());
  ASSERT_THAT(answer.why_not, Not(IsEmpty()));
  EXPECT_THAT(to_text(answer), AnyOf(HasSubstr("Proven optimal"), HasSubstr("of the proven optimum")));
  EXPECT_THAT(to_text(answer), HasSubstr("Why not …"));
  EXPECT_THAT(to_html(answer), HasSubstr("Other plans"));
  EXPECT_THAT(to_text(answer.plans[0]), HasSubstr("where the time goes"));
  ReportOptions totals;
  totals.tokens = 1e12;
  EXPECT_THAT(to_text(answer.plans[0], totals), Not(testing::StrEq(to_text(answer.plans[0]))));
}

TEST(Search, NoPlanFitsIsAnAnswer) {
  Question question = preset_question(8);
  question.model = "llama3-405b";
  const Answer answer = find_plan(read_job(question));
  EXPECT_EQ(answer.outcome, PlanOutcome::no_plan);
  EXPECT_TRUE(answer.plans.empty());
  ASSERT_TRUE(answer.no_fit.has_value());
  ASSERT_TRUE(answer.no_fit->closest.has_value());
  EXPECT_GT(answer.no_fit->closest->needed_bytes, answer.job.device_memory_bytes());
  EXPECT_THAT(to_text(answer), HasSubstr("What would make it fit"));
  EXPECT_EQ(json::parse(to_json(answer)).at("schema"), "nest.no-plan/1");
  SearchOptions quick;
  quick.explain = false;
  EXPECT_FALSE(find_plan(read_job(question), quick).no_fit.has_value());
}

// On every smaller number of hosts nothing fits, on that number something does.
TEST(Search, FewestDevicesThatFitAreFewest) {
  Question question;
  question.model = "llama3-70b";
  question.cluster = Input::memory("pairs.yaml",
                                   "device: a100-40\nlevels:\n  - {name: node, group: 2, bandwidth: 300GB/s}\n"
                                   "  - {name: pod, group: 64, bandwidth: 25GB/s, rails: true}\n");
  question.devices = 24;
  question.global_batch = 480;
  SearchOptions options;
  options.offload = OffloadSearch::never;
  options.judge = PlanJudge::formula;
  options.why = false;
  const Answer answer = find_plan(read_job(question), options);
  ASSERT_TRUE(answer.no_fit && answer.no_fit->larger);
  EXPECT_TRUE(answer.no_fit->fewest);
  const std::int64_t fewest = answer.no_fit->larger->cluster.devices;
  EXPECT_GT(fewest, 24);
  EXPECT_LT(fewest, 48);                         // not merely twice as many
  EXPECT_FALSE(answer.no_fit->changes.empty());  // the optimizer's state in 8 bits, or on the host
  options.explain = false;
  for (question.devices = 24; question.devices <= fewest; question.devices += 2) {
    bool fits = false;
    try {
      fits = !find_plan(read_job(question), options).plans.empty();
    } catch (const InputError&) {
      continue;  // the batch does not divide
    }
    EXPECT_EQ(fits, question.devices == fewest) << question.devices;
  }
  EXPECT_THAT(to_html(answer), HasSubstr("No plan fits"));
}

TEST(Search, AnotherThreadEndsIt) {
  Question question = preset_question(65536);
  question.model = "deepseek-v3";
  question.global_batch = 65536;
  const TrainingJob job = read_job(question);
  std::atomic<bool> stop{false};
  std::atomic<int> told{0};
  SearchOptions options;
  options.threads = 1;
  options.top = 1000;
  options.stop = &stop;
  options.progress = [&](const PlanProgress&) { ++told; };
  std::thread other([&] {
    for (int i = 0; i < 3000 && told.load() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    stop.store(true);
  });
  const auto start = std::chrono::steady_clock::now();
  const Answer answer = find_plan(job, options);
  other.join();
  EXPECT_EQ(answer.outcome, PlanOutcome::limit);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  EXPECT_GT(told.load(), 0);
}

TEST(Search, TwoJobsOnTwoThreads) {
  Question another = small_question();
  another.global_batch = 32;
  const std::string first = plan_file(small_answer().plans.at(0));
  const SearchOptions options{.threads = 1, .why = false};
  const double second = find_plan(read_job(another), options).plans.at(0).prediction.iteration_s;
  std::vector<std::string> firsts(3);
  std::vector<double> seconds(3);
  std::thread a([&] {
    for (std::string& file : firsts) file = plan_file(small_answer().plans.at(0));
  });
  std::thread b([&] {
    for (double& time : seconds) time = find_plan(read_job(another), options).plans.at(0).prediction.iteration_s;
  });
  a.join();
  b.join();
  for (const std::string& file : firsts) {
    json one = json::parse(file), other = json::parse(first);
    one.erase("search");
    other.erase("search");  // wall time
    EXPECT_EQ(one, other);
  }
  for (const double time : seconds) EXPECT_EQ(time, second);
}

TEST(Evaluate, AStrategyAndItsPlan) {
  const Plan plan = evaluate_plan(read_job(small_question()), "tp=2,mbs=2");
  EXPECT_EQ(plan.strategy.dp, 4);
  EXPECT_EQ(json::parse(to_json(plan)).at("strategy").at("tp"), 2);
  Plan broken = plan;
  broken.strategy.dp *= 2;
  broken.source = "mine.json";
  EXPECT_THAT(complaint([&] { evaluate_plan(broken); }), StartsWith("mine.json: "));
  const Verdict verdict = check_plan(broken);
  EXPECT_FALSE(verdict.sound());
  EXPECT_EQ(json::parse(to_json(verdict)).at("violations").size(), verdict.violations.size());
  EXPECT_THAT(to_text(verdict), HasSubstr(verdict.violations.at(0).code));
}

TEST(Evaluate, AProfileTakesThePlaceOfFormulas) {
  const Plan plan = evaluate_plan(read_job(preset_question()), "tp=2,mbs=1");
  const json shown = json::parse(to_json(show("llama3-8b")));
  std::int64_t parameters = 0;
  for (const json& layer : shown.at("layers")) {
    if (layer.at("name") == "block") parameters = layer.at("parameters");
  }
  const json slow = {{"schema", "nest.profile/1"},
                     {"device", "h100"},
                     {"stack", "megatron-bridge-2026"},
                     {"layers",
                      {{{"model", "llama3-8b"},
                        {"layer", "block"},
                        {"tp", 2},
                        {"sp", false},
                        {"micro_batch", 1},
                        {"sequence", 8192},
                        {"parameters", parameters},
                        {"forward_s", 0.1},
                        {"backward_s", 0.2}}}}};
  const Plan measured =
      evaluate_plan(read_plan(Input::memory("plan.json", plan_file(plan)), Input::memory("slow.json", slow.dump())));
  EXPECT_GT(measured.prediction.iteration_s, 10 * plan.prediction.iteration_s);
  // It is in the plan from then on.
  EXPECT_EQ(evaluate_plan(read_plan(Input::memory("plan.json", plan_file(measured)))).prediction.iteration_s,
            measured.prediction.iteration_s);
}

TEST(Simulate, InThisProcessOrBySimGrid) {
  const Plan plan = evaluate_plan(read_job(small_question()), "tp=2,mbs=2");
  const Simulation simulation = simulate_plan(plan);
  EXPECT_NEAR(simulation.iteration_s / simulation.predicted_s, 1, 0.3);
  EXPECT_EQ(json::parse(to_json(simulation)).at("simulated").at("iteration_s"), simulation.iteration_s);
  EXPECT_EQ(json::parse(to_json(simulation)).at("engine"), "nest");
  EXPECT_NO_THROW(json::parse(to_trace(simulation)));
  EXPECT_THAT(to_html(simulation), HasSubstr("<html"));
  const std::atomic<bool> stop = true;
  EXPECT_THROW(simulate_plan(plan, {.stop = &stop}), SimulatorError);
  try {
    const Simulation judged = simulate_plan(plan, {.engine = SimulationEngine::simgrid});
    EXPECT_NEAR(judged.iteration_s, simulation.iteration_s, 1e-9 * simulation.iteration_s);
  } catch (const SimulatorError& error) {
    EXPECT_THAT(error.what(), HasSubstr("libsimgrid-dev"));
  }
  EXPECT_THAT(complaint([&] { simulate_plan(plan, {.steps = 0}); }), StartsWith("steps: "));
}

TEST(Compare, OursIsNoWorse) {
  const TrainingJob job = read_job(small_question());
  std::vector<std::string> done;
  CompareOptions options;
  options.planners = {"nest", "manual"};
  options.threads = 1;
  options.done = [&](const std::string& planner, double) { done.push_back(planner); };
  const Comparison comparison = compare_planners(job, options);
  ASSERT_EQ(comparison.planners.size(), 2U);
  ASSERT_TRUE(comparison.found());
  EXPECT_EQ(done.size(), 2U);
  const double ours = comparison.planners[0].plan->prediction.iteration_s;
  EXPECT_LE(ours, comparison.planners[1].plan->prediction.iteration_s * (1 + 1e-9));
  for (const ComparedPlanner& planner : comparison.planners) {
    EXPECT_EQ(evaluate_plan(*planner.plan).prediction.iteration_s, planner.plan->prediction.iteration_s);
  }
  EXPECT_EQ(json::parse(to_json(comparison)).at("planners").size(), 2U);
  EXPECT_THAT(to_text(comparison), HasSubstr("manual"));
  EXPECT_THAT(to_html(comparison), HasSubstr("<html"));
  EXPECT_THAT(to_svg(comparison), HasSubstr("<svg"));
  EXPECT_THAT(complaint([&] { compare_planners(job, {.planners = {"apla"}}); }), StartsWith("planners: `apla`"));
}

TEST(Compare, AFlagEndsThePlanners) {
  const std::atomic<bool> stop{true};
  CompareOptions options;
  options.planners = {"nest", "mcmc"};
  options.stop = &stop;
  const Comparison comparison = compare_planners(read_job(preset_question()), options);
  EXPECT_TRUE(comparison.planners[0].stopped);
  EXPECT_TRUE(comparison.planners[1].stopped);
}

TEST(Export, EveryTarget) {
  const Plan plan = evaluate_plan(read_job(preset_question()), "tp=2,mbs=1,zero=1");
  for (const std::string& target : export_targets()) {
    ASSERT_THAT(export_formats(target), Not(IsEmpty())) << target;
    ExportOptions options;
    options.ranks = "0,3";
    options.threads = 1;
    const Export exported = export_plan(plan, target, options);
    ASSERT_TRUE(exported.found) << target;
    if (exports_folder(target)) {
      EXPECT_EQ(exported.files.size(), target == "job" ? 5U : 4U) << target;
    } else {
      EXPECT_THAT(exported.text, Not(IsEmpty())) << target;
    }
    EXPECT_NO_THROW(json::parse(to_json(exported))) << target;
  }
  EXPECT_THAT(export_plan(plan, "megatron").text, HasSubstr("--tensor-model-parallel-size 2"));
  EXPECT_THAT(complaint([&] { export_plan(plan, "megatorn"); }), StartsWith("to: \"megatorn\" is not one of"));
  EXPECT_THAT(complaint([&] { export_plan(plan, "nemo", {.format = "nemo3"}); }), StartsWith("format: `nemo3`"));
}

// A plan whose ranks Megatron cannot be told: line and rank file are of the same nearest plan.
TEST(Export, RankFilesAreOfThePlanThatIsWritten) {
  const TrainingJob job = read_job(preset_question(32));
  Plan plan = evaluate_plan(job, "tp=2,sp=1,pp=4,dp=4,dp_inner=2,mbs=1,zero=1");
  const Export line = export_plan(plan, "megatron");
  ASSERT_TRUE(line.found);
  ASSERT_THAT(line.cannot, Not(IsEmpty()));
  ASSERT_NE(line.plan.strategy, plan.strategy);
  const Export ranks = export_plan(plan, "rankfile", {.format = "json"});
  EXPECT_EQ(ranks.plan.strategy, line.plan.strategy);
  EXPECT_EQ(ranks.framework, "megatron");
  EXPECT_THAT(ranks.about, HasSubstr("the fastest plan that megatron can run"));
  const json written = json::parse(line.exported ? to_json(line) : "{}"), placed = json::parse(ranks.text);
  EXPECT_EQ(placed.at("hosts"), written.at("hosts"));
  EXPECT_EQ(placed.at("rank_order"), written.at("rank_order"));
  for (const char* target : {"deepspeed", "torchtitan"}) {
    const Export told = export_plan(plan, target);
    const Export placed_there = export_plan(plan, "rankfile", {.target = target});
    EXPECT_EQ(told.found, placed_there.found) << target;
    EXPECT_EQ(told.plan.strategy, placed_there.plan.strategy) << target;
  }
  const Export asked = export_plan(plan, "rankfile", {.format = "json", .target = "any"});
  EXPECT_EQ(asked.plan.strategy, plan.strategy);
  EXPECT_THAT(complaint([&] { export_plan(plan, "rankfile", {.target = "megatorn"}); }),
              StartsWith("target: \"megatorn\" is not one of"));
}

// --set holds for the plan that a framework runs instead, through the file too.
TEST(Export, TheNearestPlanKeepsToTheSettings) {
  SearchOptions options;
  options.set = {"tp=2", "dp_inner=2", "pp=4", "uniform=0"};
  options.micro_batch = "2";
  options.max_devices = 16;
  options.threads = 1;
  options.why = false;
  options.judge = PlanJudge::formula;
  const Answer answer = find_plan(read_job(preset_question(32)), options);
  ASSERT_FALSE(answer.plans.empty());
  const Plan back = read_plan(Input::memory("plan.json", to_json(answer.plans.front())));
  EXPECT_THAT(back.search->set, testing::ElementsAre("tp=2", "dp_inner=2", "pp=4", "uniform=0", "mbs=2"));
  EXPECT_EQ(back.search->max_devices, 16);
  const Export exported = export_plan(back, "torchtitan");
  EXPECT_THAT(exported.cannot, Not(IsEmpty()));
  if (exported.found) {
    EXPECT_EQ(exported.plan.strategy.split.tp, 2);
    EXPECT_EQ(exported.plan.strategy.dp_inner, 2);
    EXPECT_EQ(exported.plan.strategy.pp, 4);
    EXPECT_EQ(exported.plan.strategy.micro_batch, 2);
    EXPECT_LE(exported.plan.strategy.devices_used(), 16);
  }
}

TEST(Evaluate, ReplicasStandWhereTheStrategySays) {
  const TrainingJob job = read_job(preset_question(32));
  EXPECT_EQ(evaluate_plan(job, "tp=2,pp=4,mbs=1").strategy.dp_inner, 4);
  EXPECT_EQ(evaluate_plan(job, "tp=2,pp=4,mbs=1,dp_inner=1").strategy.dp_inner, 1);
  EXPECT_EQ(evaluate_plan(job, "tp=2,pp=4,mbs=1,dp_inner=2").strategy.dp_inner, 2);
}

TEST(Launch, ALineBesideTheBestPlan) {
  LaunchQuestion question;
  question.from = Input::memory("line",
                                "torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py --tensor-model-parallel-size 4 "
                                "--micro-batch-size 1 --global-batch-size 64 --seq-length 8192 --bf16");
  question.job.model = "llama3-8b";
  question.threads = 1;
  const LaunchAnswer answer = evaluate_launch(question);
  EXPECT_EQ(answer.yours.strategy.split.tp, 4);
  EXPECT_EQ(answer.yours.cluster.devices, 16);
  EXPECT_NO_THROW(json::parse(to_json(answer)));
  EXPECT_THAT(to_text(answer), Not(IsEmpty()));
  question.job.devices = 8;
  EXPECT_THAT(complaint([&] { evaluate_launch(question); }), StartsWith("devices: 8 were asked for"));
}

}  // namespace
}  // namespace nest
