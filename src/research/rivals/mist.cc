#include "rivals/mist.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "base/index.h"
#include "rivals/partition.h"
#include "rivals/settle.h"
#include "rivals/simple_network.h"

namespace nest::rivals {
namespace {

// Replicas that fill the devices: as many as there is room for, as many of them as have work for every round, and as
// many as the batch divides by.
std::set<std::int64_t> filling_replicas(const search::PlanSpace& space, const std::vector<std::int64_t>& batch_divisors,
                                        const search::Key& key) {
  std::set<std::int64_t> replicas;
  const std::int64_t most = space.most_replicas(key);
  const std::optional<search::Plateau> plateau = space.plateau(key, most);
  if (!plateau) return replicas;
  replicas.insert(*space.next_replicas(key, *plateau));
  for (std::int64_t count = plateau->high; count >= plateau->low; --count) {
    if (!space.next_replicas(key, {count, count})) continue;
    replicas.insert(count);
    break;
  }
  const std::int64_t round = space.micro_batches()[at(key.micro_batch)] * space.team(key);
  for (auto count = batch_divisors.rbegin(); count != batch_divisors.rend(); ++count) {
    if (*count > most || space.job().run.global_batch % (round * *count) != 0) continue;
    if (!space.next_replicas(key, {*count, *count})) continue;
    replicas.insert(*count);
    break;
  }
  return replicas;
}

// Plans of one network, by its own prediction.
class Tuner {
 public:
  Tuner(const cost::Job& job, const RivalRequest& request, const Deadline& deadline)
      : space_(job, mist_limits(published_limits(request)), device_limit(request)),
        prices_(job),
        partition_(space_, prices_),
        deadline_(&deadline) {}

  // The best plan; nothing when none fits.
  std::optional<std::pair<Strategy, Partition>> tune() {
    const std::vector<Strategy> strategies = mist_strategies(space_);
    std::vector<double> bounds;
    bounds.reserve(strategies.size());
    for (const Strategy& strategy : strategies) bounds.push_back(partition_.bound_s(strategy));
    std::vector<std::size_t> order(strategies.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return bounds[a] < bounds[b]; });
    std::optional<std::pair<Strategy, Partition>> best;
    double least_s = std::numeric_limits<double>::infinity();
    for (const std::size_t k : order) {
      if (bounds[k] >= least_s) break;
      if (deadline_->is_over()) {
        complete_ = false;
        break;
      }
      ++considered_;
      std::optional<Partition> partition = partition_.solve(strategies[k], least_s);
      if (!partition) continue;
      least_s = partition->time_s;
      best.emplace(strategies[k], std::move(*partition));
    }
    return best;
  }

  std::int64_t considered() const { return considered_; }
  bool is_complete() const { return complete_; }

 private:
  search::PlanSpace space_;
  search::PriceCache prices_;
  ChainPartition partition_;
  const Deadline* deadline_;
  std::int64_t considered_ = 0;
  bool complete_ = true;
};

}  // namespace

plan::PlanLimits mist_limits(const plan::PlanLimits& limits) {
  plan::PlanLimits mist = limits;
  if (mist.cp.admits(1)) mist.cp = {1, 1, {}};
  mist.refuse(Schedule::interleaved);
  mist.refuse(Schedule::gpipe);
  mist.pitch = mist.shard_in_node = false;
  if (limits.dp_inner.is_free()) mist.replicas_together = true;
  return mist;
}

std::vector<Strategy> mist_strategies(const search::PlanSpace& space) {
  std::vector<Strategy> strategies;
  const std::vector<std::int64_t> batch_divisors = search::divisors_of(space.job().run.global_batch);
  search::Key key;
  if (space.schedules().empty()) return strategies;
  for (key.split = 0; key.split < static_cast<int>(space.splits().size()); ++key.split) {
    for (key.micro_batch = 0; key.micro_batch < static_cast<int>(space.micro_batches().size()); ++key.micro_batch) {
      if (!space.admits_pair(key)) continue;
      for (key.stages = 1; key.stages <= space.most_stages(key); ++key.stages) {
        if (!space.limits().pp.admits(key.stages)) continue;
        for (const std::int64_t replicas : filling_replicas(space, batch_divisors, key)) {
          key.replicas = replicas;
          const std::vector<std::int64_t> inner = space.inner_replicas(key);
          if (inner.empty()) continue;
          key.inner_replicas = inner.back();
          key.pitch = key.stages * key.inner_replicas * space.stage_devices(key);
          strategies.push_back(space.strategy(key));
        }
      }
    }
  }
  return strategies;
}

RivalAnswer plan_mist(const RivalRequest& request) {
  const Deadline deadline(request);
  const search::PlanSpace space(*request.job, published_limits(request), device_limit(request));
  BestPlan best(space);
  std::int64_t considered = 0;
  bool complete = true, any = false;
  cost::Job job = *request.job;
  for (const cluster::Cluster& network : two_level_networks(request.job->cluster)) {
    job.cluster = network;
    Tuner tuner(job, request, deadline);
    const auto found = tuner.tune();
    considered += tuner.considered();
    any = any || tuner.considered() > 0;
    complete = complete && tuner.is_complete();
    if (found) best.offer(found->first, found->second.stages);
    if (!complete) break;
  }
  std::string note;
  if (!any) {
    note = "the limits admit none of its plans: 1F1B, and replicas of a stage together";
  } else if (best.is_empty()) {
    note = "none of its plans fits into memory";
  }
  return best.answer(request, considered, deadline.elapsed_s(), !complete, note);
}

}  // namespace nest::rivals
