#include "rivals/mcmc.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "rivals/neighbours.h"
#include "rivals/settle.h"

namespace nest::rivals {
namespace {

constexpr int kWalks = 10;
constexpr double kProposals = 300;             // of every walk, per layer and doubling of the devices
constexpr std::int64_t kLonger = 4;            // times as many at most
constexpr double kWarm = 0.2, kCold = 0.0005;  // T at the first and at the last of them

class Walk {
 public:
  Walk(const search::PlanSpace& space, ConfigurationPricer& pricer, std::uint64_t seed)
      : space_(&space), pricer_(&pricer), lots_(seed) {
    neighbours_.resize(space.splits().size());
    const double doublings = 1 + std::log2(real(space.devices()));
    proposals_ = static_cast<std::int64_t>(kProposals * real(space.layers()) * doublings);
  }

  // The best plan that fits and its time; nothing when none was met.
  std::optional<std::pair<double, Configuration>> wander(bool from_data_parallelism, const Deadline& deadline) {
    std::optional<Configuration> start = from_data_parallelism ? data_parallelism() : std::nullopt;
    for (int tries = 0; tries < 1000 && !start; ++tries) start = anywhere();
    if (!start) return std::nullopt;
    Configuration here = *start;
    double here_value = value(here);
    std::int64_t improved = 0;
    for (std::int64_t k = 1; k <= kLonger * proposals_; ++k) {
      if (k > proposals_ && k > 2 * improved) break;
      if (k % 64 == 0 && deadline.is_over()) break;
      std::optional<Configuration> next = propose(here);
      if (!next) continue;
      const double next_value = value(*next);
      if (improved_) improved = k;
      const double progress = real(k) / real(proposals_);
      const double heat = kWarm * std::pow(kCold / kWarm, std::min(1.0, progress));
      if (next_value > here_value && !lots_.chance(std::exp((here_value - next_value) / heat))) continue;
      here = std::move(*next);
      here_value = next_value;
    }
    return best_;
  }

 private:
  // Logarithm of the time, and of what is missing in memory.
  double value(const Configuration& configuration) {
    constexpr double kMisfit = 0.2, kMissing = 3;
    const ConfigurationPrice& price = pricer_->price(configuration);
    const double time = std::log(price.time_s);
    improved_ = price.fits() && (!best_ || price.time_s < best_->first);
    if (improved_) best_ = {price.time_s, configuration};
    if (!price.fits()) return time + kMisfit + kMissing * std::log(price.fullness);
    return time;
  }

  std::optional<Configuration> data_parallelism() {
    const auto single = std::find(space_->splits().begin(), space_->splits().end(), Split{});
    Configuration start;
    if (single != space_->splits().end()) start.key.split = static_cast<int>(single - space_->splits().begin());
    start.key.stages = 1;
    return mend(start, {}, true);
  }

  std::optional<Configuration> anywhere() {
    Configuration start;
    search::Key& key = start.key;
    key.split = static_cast<int>(lots_.below(static_cast<std::int64_t>(space_->splits().size())));
    key.micro_batch = static_cast<int>(lots_.below(static_cast<std::int64_t>(space_->micro_batches().size())));
    if (space_->most_stages(key) < 1) return std::nullopt;
    key.stages = 1 + lots_.below(space_->most_stages(key));
    key.schedule = static_cast<int>(lots_.below(static_cast<std::int64_t>(space_->schedules().size())));
    return mend(start, {}, true);
  }

  std::optional<Configuration> propose(const Configuration& here) {
    const double which = lots_.fraction();
    if (which < 0.3 && here.key.stages > 1) return other_cut(here);
    if (which < 0.6) return other_options(here);
    return other_structure(here);
  }

  std::optional<Configuration> other_cut(const Configuration& here) {
    Configuration next = here;
    const std::int64_t boundary = 1 + lots_.below(here.key.stages - 1);
    const int direction = lots_.chance(0.5) ? 1 : -1;
    if (!move_cut(*space_, next, boundary, direction)) return std::nullopt;
    // The neighbours' cuts may follow, so that a layer wanders further than one stage.
    for (std::int64_t b = boundary + direction; b > 0 && b < here.key.stages && lots_.chance(0.5); b += direction) {
      if (!move_cut(*space_, next, b, direction)) break;
    }
    return next;
  }

  std::optional<Configuration> other_options(const Configuration& here) {
    const std::vector<int> admitted = admitted_options(*space_, space_->strategy(here.key));
    if (admitted.empty()) return std::nullopt;
    Configuration next = here;
    const int option = lots_.any(admitted);
    const std::int64_t stages = here.key.stages;
    // One stage, the first ones (which keep most in flight), or all.
    std::int64_t from = lots_.below(stages), to = from;
    if (space_->limits().uniform || lots_.chance(0.3)) {
      from = 0;
      to = stages - 1;
    } else if (lots_.chance(0.4)) {
      from = 0;
    }
    for (std::int64_t s = from; s <= to; ++s) next.options[at(s)] = option;
    return next;
  }

  std::optional<Configuration> other_structure(const Configuration& here) {
    Configuration next = here;
    search::Key& key = next.key;
    bool fill = lots_.chance(0.8);
    // One decision; now and then two or three, for those that only pay together.
    do {
      fill = change(key) && fill;
    } while (lots_.chance(0.3));
    return mend(next, here, fill);
  }

  // Changes one decision; false when replicas are not to fill the devices.
  bool change(search::Key& key) {
    switch (lots_.below(7)) {
      case 0:
      case 1: {
        auto& near = neighbours_[at(key.split)];
        if (near.empty()) near = neighbouring_splits(*space_, key.split);
        key.split = near.empty() || lots_.chance(0.2)
                        ? static_cast<int>(lots_.below(static_cast<std::int64_t>(space_->splits().size())))
                        : lots_.any(near);
        return true;
      }
      case 2: key.micro_batch += lots_.chance(0.5) ? 1 : -1; return true;
      case 3: {
        const std::int64_t most = space_->most_stages(key);
        const std::int64_t far = most > 0 ? 1 + lots_.below(most) : 1;
        const std::int64_t near[] = {key.stages + 1, key.stages - 1, key.stages * 2, key.stages / 2, far};
        key.stages = near[lots_.below(5)];
        return true;
      }
      case 4:
        key.schedule = static_cast<int>(lots_.below(static_cast<std::int64_t>(space_->schedules().size())));
        return true;
      case 5: return lots_.chance(0.3);
      default: return true;  // where the replicas sit
    }
  }

  // Replicas, where they sit, cuts and options, after everything before them in the key was chosen.
  std::optional<Configuration> mend(Configuration next, const Configuration& here, bool fill) {
    search::Key& key = next.key;
    if (key.micro_batch < 0 || key.micro_batch >= static_cast<int>(space_->micro_batches().size())) return std::nullopt;
    if (!space_->admits_pair(key) || key.stages < 1 || key.stages > space_->most_stages(key)) return std::nullopt;
    if (!space_->limits().pp.admits(key.stages) || !space_->admits_schedule(key)) return std::nullopt;
    if (fill) {
      const std::optional<std::int64_t> most = most_admitted_replicas(*space_, key);
      if (!most) return std::nullopt;
      key.replicas = *most;
    } else {
      const std::int64_t most = space_->most_replicas(key);
      if (most < 1) return std::nullopt;
      key.replicas = 1 + lots_.below(most);
      if (!space_->next_replicas(key, {key.replicas, key.replicas})) return std::nullopt;
    }
    const std::vector<std::int64_t> inner = space_->inner_replicas(key);
    if (inner.empty()) return std::nullopt;
    const bool keeps = std::find(inner.begin(), inner.end(), key.inner_replicas) != inner.end() && lots_.chance(0.5);
    if (!keeps) {
      const double which = lots_.fraction();
      key.inner_replicas = which < 0.35 ? inner.back() : which < 0.7 ? inner.front() : lots_.any(inner);
    }
    const std::vector<std::int64_t> pitches = space_->pitches(key);
    if (pitches.empty()) return std::nullopt;
    key.pitch = lots_.chance(0.7) ? pitches.front() : lots_.any(pitches);
    const std::vector<int> admitted = admitted_options(*space_, space_->strategy(key));
    if (admitted.empty()) return std::nullopt;
    if (next.options.empty() || lots_.chance(0.3)) {
      next.options.assign(at(key.stages), lots_.any(admitted));
    } else {
      next.options = carried_options(*space_, next.options, key.stages, admitted);
      if (space_->limits().uniform) next.options.assign(next.options.size(), next.options.front());
    }
    const bool same_chain = !here.cuts.empty() && here.key.split == key.split && here.key.stages == key.stages &&
                            here.key.schedule == key.schedule;
    if (same_chain) return next;
    auto cuts = balanced_cuts(*space_, pricer_->pair(key), key);
    if (!cuts) return std::nullopt;
    next.cuts = std::move(*cuts);
    return next;
  }

  const search::PlanSpace* space_;
  ConfigurationPricer* pricer_;
  Lots lots_;
  std::int64_t proposals_ = 0;
  std::vector<std::vector<int>> neighbours_;
  std::optional<std::pair<double, Configuration>> best_;
  bool improved_ = false;  // by the last plan that was priced
};

}  // namespace

RivalAnswer plan_mcmc(const RivalRequest& request) {
  const Deadline deadline(request);
  const search::PlanSpace space(*request.job, published_limits(request), device_limit(request));
  search::PriceCache prices(*request.job);
  ConfigurationPricer pricer(space, prices);
  BestPlan best(space);
  int walks = 0;
  if (!space.splits().empty() && !space.schedules().empty() && !space.micro_batches().empty()) {
    for (; walks < kWalks && !deadline.is_over(); ++walks) {
      Walk walk(space, pricer, request.seed * kWalks + static_cast<std::uint64_t>(walks));
      const auto found = walk.wander(walks == 0, deadline);
      if (found) best.offer(space.strategy(found->second.key), stages_of(space, found->second));
    }
  }
  return best.answer(request, pricer.priced(), deadline.elapsed_s(), deadline.is_over(),
                     best.is_empty() ? "no plan that fits was met" : "");
}

}  // namespace nest::rivals
