#include "rivals/settle.h"

#include <algorithm>
#include <limits>

#include "base/index.h"
#include "cost/group_time.h"
#include "search/judge.h"

namespace nest::rivals {

std::int64_t usual_node(const cluster::Cluster& cluster) {
  constexpr std::int64_t kUsual = 8;
  return cluster.fabric.levels < 2 ? kUsual : cluster::devices_per_node(cluster).value_or(kUsual);
}

std::optional<search::Key> key_of(const search::PlanSpace& space, const Strategy& strategy) {
  search::Key key;
  Split wanted = strategy.split;
  if (wanted.etp == wanted.tp) wanted.etp = 0;
  const auto split = std::find(space.splits().begin(), space.splits().end(), wanted);
  const auto& sizes = space.micro_batches();
  const auto size = std::find(sizes.begin(), sizes.end(), strategy.micro_batch);
  const auto& schedules = space.schedules();
  const auto schedule = std::find_if(schedules.begin(), schedules.end(), [&](const search::ScheduleChoice& choice) {
    return choice.kind == strategy.schedule && choice.chunks == strategy.virtual_stages;
  });
  if (split == space.splits().end() || size == sizes.end() || schedule == schedules.end()) return std::nullopt;
  key.split = static_cast<int>(split - space.splits().begin());
  key.micro_batch = static_cast<int>(size - sizes.begin());
  key.schedule = static_cast<int>(schedule - schedules.begin());
  key.stages = strategy.pp;
  if (!space.admits_pair(key) || !space.limits().pp.admits(key.stages) || key.stages > space.most_stages(key) ||
      !space.admits_schedule(key)) {
    return std::nullopt;
  }
  if (strategy.dp % space.team(key) != 0 || strategy.dp_inner % space.team(key) != 0) return std::nullopt;
  key.replicas = strategy.dp / space.team(key);
  if (key.replicas > space.most_replicas(key) || !space.next_replicas(key, {key.replicas, key.replicas})) {
    return std::nullopt;
  }
  const bool tight = strategy.pitch == 0 || strategy.pitch == strategy.pipeline_block();
  const std::vector<std::int64_t> inner = space.inner_replicas(key);
  key.inner_replicas = strategy.pp == 1 && tight && !inner.empty() ? inner.back() : strategy.dp_inner / space.team(key);
  if (std::find(inner.begin(), inner.end(), key.inner_replicas) == inner.end()) return std::nullopt;
  key.pitch = tight ? key.stages * key.inner_replicas * space.stage_devices(key) : strategy.pitch;
  const std::vector<std::int64_t> pitches = space.pitches(key);
  if (std::find(pitches.begin(), pitches.end(), key.pitch) == pitches.end()) return std::nullopt;
  return key;
}

bool admits_stages(const search::PlanSpace& space, const Strategy& strategy, const std::vector<StagePlan>& stages) {
  const plan::PlanLimits& limits = space.limits();
  const std::optional<std::int64_t> inner = space.node_degree(strategy);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StagePlan& stage = stages[s];
    if (!limits.admits(stage.recompute)) return false;
    if (stage.zero < 0 || stage.zero > 3 || !limits.zero[at(stage.zero)]) return false;
    const bool all = stage.zero_degree == 0 || stage.zero_degree == groups::dense_replicas(strategy);
    if (stage.zero > 0 && !all && stage.zero_degree != inner) return false;
    if (!limits.zero_outer[stage.zero_outer ? 1 : 0]) return false;
    if (s > 0 && !space.may_cut(stage.first, strategy.virtual_stages)) return false;
    if (stage.last - stage.first + 1 <
        space.fewest_layers(static_cast<std::int64_t>(s), strategy.pp, strategy.virtual_stages)) {
      return false;
    }
    const StagePlan& front = stages.front();
    const bool alike = cost::sharding_row(stage) == cost::sharding_row(front) &&
                       stage.zero_degree == front.zero_degree && stage.recompute == front.recompute;
    if (limits.uniform && !alike) return false;
  }
  return true;
}

bool BestPlan::offer(Strategy strategy, const std::vector<StagePlan>& stages) {
  const std::optional<search::Key> key = key_of(*space_, strategy);
  if (!key) return false;
  strategy = space_->strategy(*key);
  if (!cost::refuse_strategy(space_->job(), strategy, stages).empty() || !admits_stages(*space_, strategy, stages)) {
    return false;
  }
  Plan plan = cost::evaluate_deferring(space_->job(), strategy, stages, space_->limits().defer_head);
  if (!plan.fits) {
    std::int64_t needed = 0;
    for (const StagePlan& stage : plan.stages) needed = std::max(needed, stage.memory.needed);
    if (misfit_.empty() || needed < needed_bytes_) {
      needed_bytes_ = needed;
      misfit_ = plan.misfit;
    }
    return false;
  }
  if (plan_ && plan.prediction.iteration_s >= time_s()) return false;
  plan_ = std::move(plan);
  return true;
}

void BestPlan::take(const BestPlan& other) {
  if (other.plan_ && (!plan_ || other.time_s() < time_s())) plan_ = other.plan_;
  if (!other.misfit_.empty() && (misfit_.empty() || other.needed_bytes_ < needed_bytes_)) {
    needed_bytes_ = other.needed_bytes_;
    misfit_ = other.misfit_;
  }
}

RivalAnswer BestPlan::answer(const RivalRequest& request, std::int64_t considered, double wall_s, bool stopped,
                             std::string note) const {
  RivalAnswer answer;
  answer.plan = plan_;
  answer.stopped = stopped;
  answer.note = stopped ? kStopped : std::move(note);
  answer.considered = considered;
  answer.wall_s = wall_s;
  if (plan_) {
    search::require_sound(*plan_, *request.job);
  } else if (answer.note.empty()) {
    answer.note = misfit_.empty() ? "none of its configurations is admitted" : "nothing fits: " + misfit_;
  }
  return answer;
}

}  // namespace nest::rivals
