#include "simulation_check/comparison.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "door/executed.h"
#include "model/presets.h"
#include "plan/strategy_text.h"
#include "search/planner.h"
#include "simulate_client/client.h"
#include "simulation_check/networks.h"

namespace nest {
namespace {

constexpr double kSearchSeconds = 60;
constexpr std::int64_t kTokensPerStep = std::int64_t{4} << 20;
constexpr std::int64_t kFewTokensPerStep = std::int64_t{1} << 20;  // where messages of the fill and the drain count

simulate::SimulationSummary simulated(const cost::Job& job, const Strategy& strategy, const Plan& evaluation,
                                      SimulationEngine engine, std::int64_t* classes = nullptr) {
  const simulate::LoweredPlan lowered = simulate::lower_plan(job, strategy, evaluation.stages);
  if (classes) *classes = static_cast<std::int64_t>(lowered.symmetry().replica_classes());
  return simulate::summarise(lowered, execute_program(engine, lowered.program), evaluation.prediction);
}

double told_s(const cost::Job& job, Plan plan) {
  expect_execution(job, 0, nullptr, plan);
  return plan.expected().iteration_s;
}

bool has_experts(const cost::Job& job) {
  return std::any_of(job.model.kinds.begin(), job.model.kinds.end(),
                     [](const model::Layer& layer) { return layer.experts > 0; });
}

}  // namespace

ComparedPlan compare(const RandomPlan& plan, SimulationEngine engine) {
  ComparedPlan row;
  row.seed = plan.seed;
  row.from = plan.from;
  row.cluster = plan.job.cluster.name;
  row.devices = plan.job.cluster.devices;
  row.model = plan.model;
  row.stack = plan.job.stack.name;
  row.strategy = plan::strategy_text(plan.strategy);
  row.zero = plan.stages.front().zero;
  row.dp_inner = plan.strategy.dp_inner;
  row.micro_batches = micro_batches(plan.strategy, plan.job.run.global_batch);
  row.mixture = has_experts(plan.job);
  row.summary = simulated(plan.job, plan.strategy, plan.evaluation, engine, &row.replicas_simulated);
  row.told_s = told_s(plan.job, plan.evaluation);
  return row;
}

namespace {

struct CaseSize {
  std::int64_t devices;
  const char* model;
};

void add_slow_cases(std::vector<TopCase>& cases) {
  constexpr std::array<CaseSize, 6> kSizes = {{{16, "llama3-8b"},
                                               {64, "llama3-8b"},
                                               {64, "mixtral-8x7b"},
                                               {256, "llama3-70b"},
                                               {256, "gpt3-35b"},
                                               {256, "mixtral-8x7b"}}};
  for (const Network& network : slow_networks()) {
    for (const CaseSize& size : kSizes) {
      TopCase& added = cases.emplace_back();
      added.from = DrawnFrom::slow;
      added.cluster = network.name;
      added.devices = size.devices;
      added.model = size.model;
    }
  }
}

}  // namespace

std::vector<TopCase> top_cases() {
  constexpr std::array<CaseSize, 9> kSizes = {{{8, "bert-large"},
                                               {16, "mixtral-790m"},
                                               {16, "llama3-8b"},
                                               {64, "llama3-70b"},
                                               {64, "mixtral-8x7b"},
                                               {128, "gpt3-35b"},
                                               {256, "gpt3-175b"},
                                               {256, "mixtral-8x22b"},
                                               {512, "llama3-405b"}}};
  std::vector<TopCase> cases;
  for (const cluster::Cluster& preset : cluster::cluster_presets()) {
    for (const CaseSize& size : kSizes) {
      if (size.devices < preset.sizes.at_least || size.devices > preset.sizes.at_most) continue;
      try {
        static_cast<void>(cluster::resized(preset, size.devices));
      } catch (const InputError&) {
        continue;  // no whole nodes
      }
      TopCase& added = cases.emplace_back();
      added.cluster = preset.name;
      added.devices = size.devices;
      added.model = size.model;
    }
  }
  add_slow_cases(cases);
  return cases;
}

void settle(TopCase& question, int plans, SimulationEngine engine) {
  const cluster::Cluster cluster = network_cluster(question.cluster, question.devices);
  const model::Architecture architecture = model::find_model_preset(question.model).value();
  Run run;
  run.sequence = architecture.default_sequence;
  run.global_batch = question.from == DrawnFrom::slow ? std::max(question.devices / 8, kFewTokensPerStep / run.sequence)
                                                      : std::max(question.devices, kTokensPerStep / run.sequence);
  const bool old = cluster.device.peak(Precision::bf16) <= 0;
  run.precision = old ? Precision::fp16 : Precision::bf16;
  const cost::Job job = cost::make_job(architecture, run, cost::find_stack(run.stack).value(), cluster);
  question.global_batch = run.global_batch;
  search::PriceCache prices(job);
  search::PlanRequest request;
  request.job = &job;
  request.prices = &prices;
  request.search.top = plans;
  request.search.threads = 0;
  request.search.time_limit_s = kSearchSeconds;
  const search::PlanAnswer answer = search::make_plan(request);
  for (std::size_t k = 0; k < answer.plans.size(); ++k) {
    const Plan& planned = answer.plans[k];
    const double seconds = simulated(job, planned.strategy, planned, engine).iteration_s;
    if (k == 0) {
      question.predicted_s = planned.prediction.iteration_s;
      question.simulated_s = seconds;
      question.told_s = told_s(job, planned);
      question.strategy = plan::strategy_text(planned.strategy);
    }
    if (k == 0 || seconds < question.best_s * (1 - 1e-9)) {
      question.best_s = seconds;
      question.best = static_cast<std::int64_t>(k);
      question.best_strategy = plan::strategy_text(planned.strategy);
      question.runner_up_s = planned.prediction.iteration_s;
    }
    ++question.plans;
  }
}

}  // namespace nest
