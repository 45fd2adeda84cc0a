// The best plan that a framework can run.
#include <array>
#include <chrono>
#include <limits>

#include "base/error.h"
#include "cost/group_time.h"
#include "exporter/framework.h"
#include "exporter/gpt.h"

namespace nest {
namespace {

constexpr std::array kListLengths = {1, 16, 128};  // plans asked for, until one of them is without obstacles

// What all frameworks have in common: one treatment of all stages, whole batches.
PlanLimits common_limits() {
  PlanLimits limits;
  limits.uniform = true;
  limits.uneven_batch = false;
  limits.any_rounds = false;
  return limits;
}

// Where experts are spread there is no context parallelism, and the other way round.
std::vector<PlanLimits> part_experts_from_context(const Job& job, const PlanLimits& limits) {
  if (!has_experts(job.model)) return {limits};
  PlanLimits without_context = limits, without_experts = limits;
  set_limit(without_context, "cp=1");
  set_limit(without_experts, "ep=1");
  without_experts.cp.low = 2;
  return {without_context, without_experts};
}

std::vector<PlanLimits> megatron_limits(const Job& job) {
  PlanLimits classic = common_limits();
  set_limit(classic, "zero=0,1");
  classic.shard_in_node = !has_experts(job.model);
  if (has_experts(job.model)) classic.sp[0] = false;
  PlanLimits sharded = classic;  // Megatron-FSDP
  set_limit(sharded, "zero=2,3");
  set_limit(sharded, "pp=1");
  if (job.stack.selective != SelectiveKind::modules) classic.recompute[1] = sharded.recompute[1] = false;
  std::vector<PlanLimits> all = part_experts_from_context(job, classic);
  for (const PlanLimits& limits : part_experts_from_context(job, sharded)) all.push_back(limits);
  return all;
}

// Sharding over part of the ranks is admitted only where no other choice makes it an obstacle: a search gives one plan
// per strategy, so that limits must not mix what can be run with what cannot.
std::vector<PlanLimits> deepspeed_limits(const Job& job) {
  PlanLimits flat = common_limits();
  set_limit(flat, "pp=1");
  set_limit(flat, "cp=1");
  flat.sp[1] = false;
  flat.recompute[1] = false;
  flat.shard_in_node = false;
  PlanLimits spread = flat, grouped = flat, pipeline = flat;
  set_limit(flat, "ep=1");
  set_limit(grouped, "ep=1");
  set_limit(grouped, "tp=1");
  set_limit(grouped, "zero=3");
  grouped.shard_in_node = true;
  pipeline.pp = {};
  pipeline.pp.low = 2;
  set_limit(pipeline, "ep=1");
  set_limit(pipeline, "zero=0,1");
  set_limit(pipeline, "schedule=1f1b");
  std::vector<PlanLimits> all = {flat, grouped, pipeline};
  if (!has_experts(job.model)) return all;
  set_limit(spread, "tp=1");
  spread.ep.low = 2;
  all.push_back(spread);
  return all;
}

std::vector<PlanLimits> torchtitan_limits(const Job& job) {
  PlanLimits sharded = common_limits();
  set_limit(sharded, "zero=2,3");
  sharded.sp[0] = false;
  sharded.shard_in_node = false;
  if (job.stack.selective != SelectiveKind::every_second_matmul) sharded.recompute[1] = false;
  PlanLimits grouped = sharded, replicated = sharded;
  set_limit(grouped, "ep=1");
  grouped.shard_in_node = true;
  set_limit(replicated, "zero=0");
  for (const char* one : {"tp=1", "pp=1", "cp=1", "ep=1"}) set_limit(replicated, one);
  std::vector<PlanLimits> all = part_experts_from_context(job, sharded);
  all.push_back(grouped);
  all.push_back(replicated);
  return all;
}

std::vector<PlanLimits> limits_of(Framework framework, const Job& job) {
  switch (framework) {
    case Framework::megatron:
    case Framework::nemo: return megatron_limits(job);
    case Framework::deepspeed: return deepspeed_limits(job);
    case Framework::torchtitan: return torchtitan_limits(job);
  }
  return {};
}

class NearestSearch {
 public:
  NearestSearch(Framework framework, const Job& job, const SearchOrder& order, PriceCache* prices)
      : framework_(framework), job_(job), order_(order), prices_(prices) {}

  std::optional<NearestPlan> run() {
    const auto begin = std::chrono::steady_clock::now();
    // First in the order that every framework has, where no placement is an obstacle: a good plan to beat.
    for (PlanLimits limits : limits_of(framework_, job_)) {
      limits.replicas_together = true;
      limits.pitch = false;
      search(limits);
    }
    for (const PlanLimits& limits : limits_of(framework_, job_)) search(limits);
    if (!best_) return std::nullopt;
    best_->proven = proven_;
    best_->wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return best_;
  }

 private:
  double best_s() const {
    return best_ ? best_->plan.evaluation.prediction.iteration_s : std::numeric_limits<double>::infinity();
  }

  void take(const Strategy& strategy, const Evaluation& evaluation) {
    if (!evaluation.fits || evaluation.prediction.iteration_s >= best_s()) return;
    best_ = NearestPlan{{strategy, evaluation}, false, 0};
  }

  // Whether the plan settles its search: nothing after it in the list can be better.
  bool settles(const PlannedStrategy& plan) {
    if (plan.evaluation.prediction.iteration_s >= best_s()) return true;
    if (framework_ == Framework::deepspeed && plan.strategy.pp > 1) {
      take_balanced(plan.strategy);
      return false;
    }
    if (!obstacles(framework_, job_, plan.strategy, plan.evaluation.stages).empty()) return false;
    take(plan.strategy, plan.evaluation);
    return true;
  }

  // The same strategy with as many blocks on every stage.
  void take_balanced(const Strategy& strategy) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      for (const int zero : {0, 1}) {
        const std::vector<StagePlan> stages = even_stages(job_, strategy, recompute, zero);
        if (!refuse_strategy(job_, strategy, stages).empty()) continue;
        if (!obstacles(framework_, job_, strategy, stages).empty()) continue;
        take(strategy, evaluate(job_, strategy, stages));
      }
    }
  }

  void search(const PlanLimits& limits) {
    for (const int length : kListLengths) {
      PlanRequest request;
      request.job = &job_;
      request.limits = limits;
      request.prices = prices_;
      request.order = order_;
      request.order.top = length;
      request.order.known_score = best_s();
      PlanAnswer answer;
      try {
        answer = make_plan(request);
      } catch (const InputError&) {
        return;  // these limits admit no plan at all
      }
      if (answer.outcome == PlanOutcome::limit) proven_ = false;
      for (const PlannedStrategy& plan : answer.plans) {
        if (settles(plan)) return;
      }
      if (answer.outcome == PlanOutcome::limit) return;
      if (static_cast<int>(answer.plans.size()) < length) return;  // these were all that could be better
    }
    proven_ = false;
  }

  Framework framework_;
  const Job& job_;
  SearchOrder order_;
  PriceCache* prices_;
  std::optional<NearestPlan> best_;
  bool proven_ = true;
};

}  // namespace

std::optional<NearestPlan> nearest_plan(Framework framework, const Job& job, const SearchOrder& order,
                                        PriceCache* prices) {
  PriceCache own;
  return NearestSearch(framework, job, order, prices != nullptr ? prices : &own).run();
}

}  // namespace nest
