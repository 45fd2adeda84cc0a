// Whole plans, played by the reference engine: against the cost model where both must agree, against formulas, and
// against themselves without any merging.
#include "simulate/lower.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "check/check.h"
#include "model/presets.h"
#include "plan/chunk_blocks.h"
#include "plan/pipeline_shape.h"
#include "reference_engine.h"
#include "simulate/summary.h"
#include "simulate/trace.h"
#include "simulation_check/random_plan.h"

namespace nest::simulate {
namespace {

struct Case {
  std::string cluster = "dgx-h100";
  std::int64_t devices = 16;
  std::string model = "llama3-8b";
  std::string stack = "megatron-core-plain";
  std::int64_t batch = 32;
  std::string precision = "bf16";
};

cost::Job make(const Case& one) {
  Run run;
  run.sequence = std::min<std::int64_t>(2048, model::find_model_preset(one.model).value().default_sequence);
  run.global_batch = one.batch;
  run.precision = cost::parse_precision(one.precision);
  return cost::make_job(model::find_model_preset(one.model).value(), run, cost::find_stack(one.stack).value(),
                        cluster::find_cluster(one.cluster, one.devices).value());
}

Strategy strategy(std::int64_t tp, std::int64_t pp, std::int64_t dp, std::int64_t chunks = 1) {
  Strategy s;
  s.split.tp = tp;
  s.split.sp = tp > 1;
  s.pp = pp;
  s.dp = s.dp_inner = dp;
  s.virtual_stages = chunks;
  if (chunks > 1) s.schedule = Schedule::interleaved;
  return s;
}

SimulationSummary run(const cost::Job& job, const Strategy& s, const std::vector<StagePlan>& stages,
                      std::int64_t steps = 1, Merge merge = Merge::alike) {
  const Plan evaluation = cost::evaluate(job, s, stages);
  const LoweredPlan lowered = lower_plan(job, s, stages, steps, merge);
  EXPECT_EQ(refuse_program(lowered.program), "");
  const Timeline timeline = test::reference_execute(lowered.program);
  EXPECT_EQ(refuse_timeline(lowered.program, timeline), "");
  return summarise(lowered, timeline, evaluation.prediction);
}

// Without a pipeline nothing waits for anything else: every preset network, stacks that overlap and stacks that do not.
// (Where state is exchanged both per micro-batch and per step behind compute, the two meet on the links.)
TEST(Lower, OneStageIsAsPredicted) {
  for (const cluster::Cluster& cluster : cluster::cluster_presets()) {
    const bool old = cluster.device.peak(Precision::bf16) <= 0;
    for (const std::string stack : {"megatron-core", "megatron-core-plain", "megatron-deepspeed", "nanotron"}) {
      for (const int zero : {0, 1, 2}) {
        if (zero == 2 && stack == "megatron-core") continue;
        const std::int64_t devices = cluster.name == "gb200-nvl72" ? 72 : 16;
        const cost::Job job = make({cluster.name, devices, "bert-large", stack, 2 * devices, old ? "fp16" : "bf16"});
        const Strategy s = strategy(2, 1, devices / 2);
        const SimulationSummary summary = run(job, s, cost::even_stages(job, s, Recompute::none, zero));
        EXPECT_LT(std::abs(summary.difference()), 1e-6) << cluster.name << " " << stack << " zero " << zero;
      }
    }
  }
}

// One pipeline whose last stage is the slowest: the law T = sum t + (m-1) max t is exact.
TEST(Lower, PipelineWithTheSlowestStageLastIsAsPredicted) {
  for (const cluster::Cluster& cluster : cluster::cluster_presets()) {
    if (cluster.device.peak(Precision::bf16) <= 0) continue;
    for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::gpipe}) {
      for (const std::int64_t pp : {2, 4, 8}) {
        const cost::Job job = make({cluster.name, 8, "llama3-8b", "megatron-core-plain", 16});
        Strategy s = strategy(1, pp, 1);
        s.schedule = schedule;
        std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 0, 1);
        const SimulationSummary summary = run(job, s, stages);
        EXPECT_LT(std::abs(summary.difference()), 1e-6) << cluster.name << " " << pp << " stages";
        double total = 0;
        for (const BreakdownPart& phase : kBreakdownParts) total += summary.breakdown_s.*phase.seconds;
        EXPECT_NEAR(total, summary.iteration_s, 1e-9 * total);
      }
    }
  }
}

// Chunks of any size, empty ones too: the order's longest path is what is predicted and what is played.
TEST(Lower, ListedChunksAreAsPredicted) {
  const cost::Job job = make({"dgx-h100", 8, "llama3-8b", "megatron-core-plain", 16});
  Strategy s = strategy(2, 4, 1);
  s.schedule = Schedule::interleaved;
  s.virtual_stages = 2;
  const schedule::Chain chain(schedule::rule_of(s.schedule), plan::pipeline_shape(s, job.run.global_batch));
  for (const std::vector<std::int64_t>& blocks :
       {std::vector<std::int64_t>{1, 8, 3, 4, 4, 0, 7, 5}, {4, 4, 4, 4, 4, 4, 4, 4}, {0, 5, 5, 5, 5, 6, 6, 0}}) {
    std::vector<plan::StageBlocks> chunks(blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) chunks[i].blocks = blocks[i];
    chunks.front().embedding = chunks.back().head = true;
    std::vector<StagePlan> stages = plan::stages_of_chunks(job.model, chain, chunks);
    const SimulationSummary summary = run(job, s, stages);
    EXPECT_LT(std::abs(summary.difference()), 1e-6);
    s.group = 8;
    EXPECT_LT(std::abs(run(job, s, stages).difference()), 1e-6);
    s.group = 0;
  }
}

// Several replicas that never meet on a link, gradients exchanged after everything else.
TEST(Lower, ReplicasWithoutContentionAreAsPredicted) {
  const cost::Job job = make({"dgx-h100", 64, "llama3-8b", "megatron-core-plain", 64});
  Strategy s = strategy(8, 2, 4);
  const LoweredPlan lowered = lower_plan(job, s, cost::even_stages(job, s, Recompute::full, 1));
  EXPECT_EQ(lowered.symmetry().replica_classes(), 1U);
  const SimulationSummary summary = run(job, s, cost::even_stages(job, s, Recompute::full, 1));
  EXPECT_LT(std::abs(summary.difference()), 1e-6);
  EXPECT_EQ(summary.cause, "");
}

// p equal stages: (m+p-1)(f+b), and messages that the stages wait for: 2(p-1) while the first micro-batch passes, 2 for
// every further one, less the one that is sent while the pipeline fills: 2m + 2(p-2) - 1.
TEST(Lower, PipelineLawByHand) {
  const cost::Job job = make({"v100-cluster", 8, "bert-large", "megatron-core-plain", 12, "fp16"});
  const Strategy s = strategy(1, 4, 1);
  LoweredPlan lowered = lower_plan(job, s, cost::even_stages(job, s, Recompute::none, 0, 1));
  double message_s = 0;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i) {
    SimulatedActivity& activity = lowered.program.activities[i];
    switch (lowered.labels[i].part) {
      case Part::forward: activity.seconds = 1; break;
      case Part::backward: activity.seconds = 2; break;
      case Part::message:  // stages 1 and 2 sit on different nodes, 0-1 and 2-3 on one: make all alike
        activity.flows.clear();
        activity.seconds = message_s = 0.25;
        break;
      default: activity.seconds = 0; activity.flows.clear();
    }
  }
  const Timeline timeline = test::reference_execute(lowered.program);
  EXPECT_NEAR(timeline.total_s, (12 + 3) * 3.0 + (2 * 12 + 2 * 2 - 1) * message_s, 1e-9);
}

// The head's weight gradients that are put off fill the drain.
TEST(Lower, HeadGradientsWaitForTheDrain) {
  const cost::Job job = make({"dgx-h100", 8, "llama3-8b", "megatron-core", 8});
  const Strategy s = strategy(1, 8, 1);
  const LoweredPlan lowered = lower_plan(job, s, cost::even_stages(job, s, Recompute::none, 0, 1));
  EXPECT_GT(lowered.work.stages.back().head_gradient_s, 0);
  int blocks = 0;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i) {
    if (lowered.labels[i].part != Part::head_gradient) continue;
    ++blocks;
    EXPECT_DOUBLE_EQ(lowered.program.activities[i].seconds, 8 * lowered.work.stages.back().head_gradient_s);
  }
  EXPECT_EQ(blocks, 1);
}

TEST(Lower, StepsFollowEachOther) {
  const cost::Job job = make({"h100-spine-leaf", 16, "llama3-8b", "megatron-core", 16});
  const Strategy s = strategy(2, 4, 2);
  const auto stages = cost::even_stages(job, s, Recompute::none, 1);
  const double one = run(job, s, stages, 1).iteration_s;
  const SimulationSummary three = run(job, s, stages, 3);
  EXPECT_NEAR(three.iteration_s, one, 1e-9);
  double total = 0;
  for (const BreakdownPart& phase : kBreakdownParts) total += three.breakdown_s.*phase.seconds;
  EXPECT_NEAR(total, three.iteration_s, 1e-9);
}

// What is merged because it is alike must not change anything: every replica, flow and link for itself gives the same.
TEST(Lower, MergingIsExact) {
  int merged = 0;
  for (std::uint32_t seed = 0; merged < 12; ++seed) {
    const RandomPlan plan = random_plan(seed);
    if (plan.job.cluster.devices > 64 || plan.strategy.dp < 2) continue;
    if (micro_batches(plan.strategy, plan.job.run.global_batch) * plan.strategy.pp * plan.strategy.dp > 256) continue;
    const LoweredPlan alike = lower_plan(plan.job, plan.strategy, plan.stages);
    if (static_cast<std::int64_t>(alike.symmetry().replica_classes()) == plan.strategy.teams()) continue;
    ++merged;
    const double once = run(plan.job, plan.strategy, plan.stages).iteration_s;
    const double all = run(plan.job, plan.strategy, plan.stages, 1, Merge::nothing).iteration_s;
    EXPECT_NEAR(once, all, 1e-7 * all) << "seed " << seed;
  }
}

// The other second opinion: no plan that the cost model prices breaks a rule.
TEST(Lower, RandomPlansPassTheJudge) {
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    const RandomPlan random = random_plan(seed);
    const auto violations = check::check_plan(random.evaluation, random.job.model, random.job.cluster);
    EXPECT_TRUE(violations.empty()) << "seed " << seed << ": " << to_string(violations.front().code) << " "
                                    << violations.front().text;
  }
}

// Two replicas that share a slow uplink: messages take longer than for one alone, and the summary says which link.
TEST(Lower, ContentionIsFoundAndNamed) {
  const cost::Job job = make({"h100-spine-leaf", 64, "mixtral-8x7b", "megatron-core", 256});
  Strategy s;
  s.split.ep = s.dp = s.dp_inner = 8;
  s.pp = 8;
  s.virtual_stages = 2;
  s.schedule = Schedule::interleaved;
  const SimulationSummary summary = run(job, s, cost::even_stages(job, s, Recompute::full, 1));
  EXPECT_GT(summary.difference(), kWorthSaying);
  EXPECT_THAT(summary.cause, ::testing::HasSubstr("messages from stage"));
  EXPECT_THAT(summary.cause, ::testing::HasSubstr("link of"));
  ASSERT_FALSE(summary.links.empty());
  EXPECT_GT(summary.links.front().busy, 0.3);
}

TEST(Lower, TraceHasATrackPerStageAndLink) {
  const cost::Job job = make({"h100-spine-leaf", 16, "llama3-8b", "megatron-core", 16});
  const Strategy s = strategy(2, 4, 2);
  const LoweredPlan lowered = lower_plan(job, s, cost::even_stages(job, s, Recompute::none, 2));
  const Timeline timeline = test::reference_execute(lowered.program);
  const auto trace = nlohmann::json::parse(chrome_trace(lowered, timeline, "test"));
  std::set<std::string> tracks;
  int passes = 0;
  double last = 0;
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> spans;  // by track
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "thread_name") tracks.insert(event["args"]["name"]);
    if (event["ph"] != "X") continue;
    if (event["cat"] == "forward" || event["cat"] == "backward") ++passes;
    const double begin = event["ts"], end = begin + event["dur"].get<double>();
    spans[{event["pid"], event["tid"]}].emplace_back(begin, end);
    last = std::max(last, end);
  }
  EXPECT_TRUE(tracks.contains("stage 3"));
  EXPECT_TRUE(tracks.contains("stage 0 weights"));
  EXPECT_TRUE(tracks.contains("uplink of node 0 (1 of 2)"));  // as busy as the downlink of node 1
  EXPECT_GE(passes, 2 * 4 * 8);
  EXPECT_NEAR(last, timeline.total_s * 1e6, 1e-3);
  for (auto& [track, slices] : spans) {  // slices of one track must not overlap
    std::sort(slices.begin(), slices.end());
    for (std::size_t i = 1; i < slices.size(); ++i) EXPECT_GE(slices[i].first, slices[i - 1].second - 1e-3);
  }
}

}  // namespace
}  // namespace nest::simulate
