#include "rivals/phaze.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "rivals/settle.h"
#include "rivals/simple_network.h"

namespace nest::rivals {
namespace {

constexpr int kRanked = 6;      // plans of each flat network that are looked at
constexpr double kTied = 1e-9;  // relative

// On a flat network all groupings of replicas are alike: one stands for all.
plan::PlanLimits flat_limits(const plan::PlanLimits& limits) {
  plan::PlanLimits flat = limits;
  if (limits.dp_inner.is_free()) flat.replicas_together = true;
  return flat;
}

// The dimensions that were published, as far as the request admits them.
plan::PlanLimits piper_limits(const plan::PlanLimits& limits) {
  plan::PlanLimits piper = flat_limits(limits);
  if (piper.cp.admits(1)) piper.cp = {1, 1, {}};
  if (piper.admits(Schedule::one_f_one_b) && piper.vpp.admits(1)) piper.schedule = {true, false, false};
  return piper;
}

std::vector<StagePlan> bare_stages(const Plan& planned) {
  std::vector<StagePlan> stages;
  for (const StagePlan& priced : planned.stages) {
    StagePlan stage;
    stage.first = priced.first;
    stage.last = priced.last;
    stage.zero = priced.zero;
    stage.zero_degree = 0;
    stage.recompute = priced.recompute;
    stages.push_back(stage);
  }
  return stages;
}

void place(BestPlan& best, const Plan& planned) {
  const std::int64_t team = planned.strategy.split.team();
  for (const std::int64_t inner : {planned.strategy.dp_inner, team, planned.strategy.dp}) {
    Strategy strategy = planned.strategy;
    strategy.dp_inner = inner;
    strategy.pitch = 0;
    best.offer(strategy, bare_stages(planned));
  }
}

// The best plan of a ranking and those that tie with it; the next ones only where none of them can be realised.
void realise(const search::PlanSpace& space, const std::vector<Plan>& ranked, BestPlan& best) {
  BestPlan here(space);
  for (const Plan& planned : ranked) {
    const double least_s = ranked.front().prediction.iteration_s;
    if (!here.is_empty() && planned.prediction.iteration_s > least_s * (1 + kTied)) break;
    place(here, planned);
  }
  best.take(here);
}

// Where the published dimensions admit nothing, there is nothing to search.
std::optional<search::PlanAnswer> search(const search::PlanRequest& request) {
  try {
    return search::make_plan(request);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

RivalAnswer plan_phaze(const RivalRequest& request) {
  const Deadline deadline(request);
  const search::PlanSpace space(*request.job, published_limits(request), device_limit(request));
  BestPlan best(space);
  std::int64_t considered = 0;
  bool complete = true, searched = false, fits = false;
  cost::Job job = *request.job;
  const std::vector<cluster::Cluster> networks = flat_networks(request.job->cluster);
  const std::vector<plan::PlanLimits> spaces = {flat_limits(published_limits(request)),
                                                piper_limits(published_limits(request))};
  auto searches_left = real(networks.size() * spaces.size());
  for (const cluster::Cluster& network : networks) {
    job.cluster = network;
    search::PriceCache prices(job);
    for (const plan::PlanLimits& limits : spaces) {
      if (deadline.is_over()) {
        complete = false;
        break;
      }
      search::PlanRequest flat;
      flat.job = &job;
      flat.limits = limits;
      flat.most_devices = request.most_devices;
      flat.prices = &prices;
      flat.search.top = kRanked;
      flat.search.stop = request.stop;
      if (request.time_limit_s > 0) {
        flat.search.time_limit_s = std::max(0.0, request.time_limit_s - deadline.elapsed_s()) / searches_left;
      }
      --searches_left;
      const std::optional<search::PlanAnswer> answer = search(flat);
      if (!answer) continue;
      searched = true;
      fits = fits || !answer->plans.empty();
      considered += answer->leaves;
      complete = complete && answer->outcome != PlanOutcome::limit;
      realise(space, answer->plans, best);
    }
  }
  return best.answer(request, considered, deadline.elapsed_s(), !complete,
                     searched && !fits ? "none of its plans fits into memory" : "");
}

}  // namespace nest::rivals
