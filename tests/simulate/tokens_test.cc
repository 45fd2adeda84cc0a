// Routed tokens, played on the ranks of the expert grid: who sends what to whom, and that it takes as long as priced.
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "cost/dispatch.h"
#include "model/presets.h"
#include "reference_engine.h"
#include "simulate/exchanges.h"
#include "simulate/summary.h"
#include "test_cluster.h"

namespace nest::simulate {
namespace {

constexpr std::array kDispatchers = {cost::Dispatcher::alltoall, cost::Dispatcher::allgather, cost::Dispatcher::deepep,
                                     cost::Dispatcher::hybridep, cost::Dispatcher::ncclep};

struct TokenCase {
  std::string cluster = "dgx-h100";
  std::int64_t devices = 16;
  std::string model = "qwen3-30b-a3b";
  std::int64_t batch = 64;
};

cost::Job token_job(const TokenCase& one, cost::Dispatcher dispatcher) {
  Run run;
  run.sequence = 2048;
  run.global_batch = one.batch;
  cost::SoftwareStack stack = cost::find_stack("megatron-core-plain").value();
  stack.dispatch.dispatcher = dispatcher;
  return cost::make_job(model::find_model_preset(one.model).value(), run, stack,
                        cluster::find_cluster(one.cluster, one.devices).value());
}

Strategy token_strategy(std::int64_t tp, std::int64_t etp, std::int64_t ep, std::int64_t pp, std::int64_t dp) {
  Strategy s;
  s.split.tp = tp;
  s.split.sp = tp > 1;
  s.split.etp = etp == tp ? 0 : etp;
  s.split.ep = ep;
  s.pp = pp;
  s.dp = s.dp_inner = dp;
  return s;
}

SimulationSummary play(const cost::Job& job, const Strategy& s, const std::vector<StagePlan>& stages) {
  EXPECT_EQ(cost::refuse_strategy(job, s, stages), "");
  const Plan evaluation = cost::evaluate(job, s, stages);
  const LoweredPlan lowered = lower_plan(job, s, stages);
  EXPECT_EQ(refuse_program(lowered.program), "");
  const Timeline timeline = test::reference_execute(lowered.program);
  const SimulationSummary summary = summarise(lowered, timeline, evaluation.prediction);
  double total = 0;
  for (const BreakdownPart& phase : kBreakdownParts) total += summary.breakdown_s.*phase.seconds;
  EXPECT_NEAR(total, summary.iteration_s, 1e-9 * total);
  return summary;
}

// Without a pipeline nothing else is on the links: inside a node, across nodes, with tensor-parallel experts.
TEST(Tokens, OneStageIsAsPredicted) {
  for (const cost::Dispatcher dispatcher : kDispatchers) {
    for (const auto& [tp, etp, ep] : {std::tuple{1, 1, 8}, {1, 1, 16}, {2, 1, 16}, {2, 2, 8}, {1, 2, 8}}) {
      for (const char* cluster : {"dgx-h100", "gb200-nvl72", "dgx-a100"}) {
        if (dispatcher == cost::Dispatcher::deepep && std::string(cluster) == "gb200-nvl72") continue;  // refused
        const cost::Job job = token_job({cluster, 16}, dispatcher);
        const Strategy s = token_strategy(tp, etp, ep, 1, 16 / tp);
        for (const Recompute recompute : {Recompute::none, Recompute::full}) {
          const SimulationSummary summary = play(job, s, cost::even_stages(job, s, recompute, 0));
          // Rings are chosen for large buffers, and prices for the bytes that are sent.
          // HybridEP's dispatch may be bound by ports and its combine by adding up: one transfer of both takes less.
          const double near = dispatcher == cost::Dispatcher::allgather  ? 0.02
                              : dispatcher == cost::Dispatcher::hybridep ? 0.005
                                                                         : 1e-6;
          EXPECT_LT(std::abs(summary.difference()), near)
              << cost::to_string(dispatcher) << " on " << cluster << " tp " << tp << " etp " << etp << " ep " << ep;
          if (dispatcher == cost::Dispatcher::hybridep) {
            EXPECT_LT(summary.difference(), 1e-6);
          }
          EXPECT_GT(summary.stages.front().token_s, 0) << cost::to_string(dispatcher);
          EXPECT_NEAR(summary.breakdown_s.ep, summary.predicted_breakdown_s.ep, near * summary.iteration_s);
        }
      }
    }
  }
}

// In pipelines and where passes are paired, tokens meet other tokens and messages on the links.
TEST(Tokens, PipelinesAreClose) {
  for (const cost::Dispatcher dispatcher : kDispatchers) {
    for (const bool pairs : {false, true}) {
      if (pairs && dispatcher == cost::Dispatcher::allgather) continue;
      cost::Job job = token_job({"dgx-h100", 64, "qwen3-30b-a3b", 128}, dispatcher);
      job.stack.expert_overlap = pairs;
      Strategy s = token_strategy(1, 1, 16, 4, 16);
      s.virtual_stages = 2;
      s.schedule = Schedule::interleaved;
      const SimulationSummary summary = play(job, s, cost::even_stages(job, s, Recompute::none, 1));
      EXPECT_LT(std::abs(summary.difference()), 0.08) << cost::to_string(dispatcher) << (pairs ? " paired" : "");
    }
  }
}

// Two nodes of eight: what leaves a device for the other node and for its own, by the sums of cost/dispatch.h.
TEST(Tokens, AreSentOncePerNodeAndRankOrPerExpert) {
  const Strategy s = token_strategy(1, 1, 16, 1, 16);
  const double rows = 2048.0 * 2048 * 2;  // bytes of the tokens of one rank
  const cost::Choice choice{128, 8, 1, 1};
  const double layers = 48, exchanges = 2;
  for (const cost::Dispatcher dispatcher : {cost::Dispatcher::alltoall, cost::Dispatcher::deepep}) {
    const cost::Job job = token_job({"dgx-h100", 16}, dispatcher);
    const PlanWork work = plan_work(job, s, cost::even_stages(job, s, Recompute::none, 0));
    const TokenTraffic& sent = work.stages.front().to_experts;
    EXPECT_EQ(sent.exposed, 1);
    const bool forwards = dispatcher == cost::Dispatcher::deepep;
    const double beyond = forwards ? cost::distinct_parts(choice, 2) / 2 : 8.0 / 2;
    const double inside = forwards ? cost::distinct_parts(choice, 16) * 7 / 8 : 8.0 * 7 / 16;
    const double network = forwards ? 0.9 / std::max(job.cluster.levels[1].efficiency, 0.647) : 1;
    const double link = forwards ? 0.71 / std::max(job.cluster.levels[0].efficiency, 0.788) : 0.47;
    EXPECT_NEAR(sent.unit_bytes * network, layers * exchanges * rows * beyond, 1e-6 * sent.unit_bytes);
    EXPECT_NEAR(sent.inside_bytes * link, layers * exchanges * rows * inside, 1e-3 * sent.inside_bytes)
        << cost::to_string(dispatcher);
    // Every device sends to its neighbour and to its counterpart in the other node.
    const LoweredPlan lowered = lower_plan(job, s, cost::even_stages(job, s, Recompute::none, 0), 1, Merge::nothing);
    double total = 0;
    std::size_t flows = 0;
    for (std::size_t i = 0; i < lowered.labels.size(); ++i) {
      if (lowered.labels[i].part != Part::tokens || lowered.labels[i].backward || lowered.labels[i].micro_batch != 0)
        continue;
      for (const SimulatedFlow& flow : lowered.program.activities[i].flows) total += flow.bytes;
      flows += lowered.program.activities[i].flows.size();
    }
    EXPECT_EQ(flows, 32U);
    EXPECT_NEAR(total, 16 * (sent.unit_bytes + sent.inside_bytes), 1e-6 * total);
  }
}

// On a torus only times are known: passes hold them, as before.
TEST(Tokens, AreNotPlayedOnATorus) {
  const cost::Job job = token_job({"tpuv4-torus", 64}, cost::Dispatcher::alltoall);
  const Strategy s = token_strategy(1, 1, 8, 1, 64);
  const PlanWork work = plan_work(job, s, cost::even_stages(job, s, Recompute::none, 0));
  EXPECT_TRUE(work.stages.front().to_experts.empty());
  EXPECT_NEAR(work.stages.front().forward_s, work.stages.front().time.forward, 1e-12);
}

}  // namespace
}  // namespace nest::simulate
