#include "rivals/aceso_primitives.h"

#include <algorithm>

#include "base/index.h"
#include "rivals/neighbours.h"

namespace nest::rivals {
namespace {

class Primitives {
 public:
  Primitives(const search::PlanSpace& space, ConfigurationPricer& pricer, const Configuration& here,
             const ConfigurationPrice& price, std::int64_t stage)
      : space_(space), pricer_(pricer), here_(here), price_(price), stage_(stage) {}

  std::vector<Configuration> spare(Resource resource) {
    switch (resource) {
      case Resource::arithmetic:
        fewer_layers();
        options([](const search::StageChoice& a, const search::StageChoice& b) {
          return b.recompute.kind < a.recompute.kind && b.zero == a.zero;
        });
        micro_batch(1);
        splits([](const Split& a, const Split& b) { return b.team_devices() >= a.team_devices(); });
        schedules();
        break;
      case Resource::communication:
        splits([](const Split& a, const Split& b) { return b.team_devices() <= a.team_devices(); });
        options([](const search::StageChoice& a, const search::StageChoice& b) {
          return b.recompute == a.recompute && (b.zero < a.zero || (b.zero == a.zero && b.in_node != a.in_node));
        });
        micro_batch(1);
        fewer_layers();
        schedules();
        break;
      case Resource::memory:
        options([](const search::StageChoice& a, const search::StageChoice& b) {
          return b.recompute.kind >= a.recompute.kind && b.zero >= a.zero &&
                 (b.recompute.kind > a.recompute.kind || b.zero > a.zero);
        });
        fewer_layers();
        micro_batch(-1);
        splits([](const Split& a, const Split& b) { return b.team_devices() >= a.team_devices(); });
        schedules();
        break;
    }
    return std::move(found_);
  }

 private:
  // One layer to the neighbours, or stage by stage to the idlest one.
  void fewer_layers() {
    const std::int64_t stages = here_.key.stages;
    std::int64_t idle = 0;
    for (std::int64_t s = 1; s < stages; ++s) {
      if (price_.stages[at(s)].time_s < price_.stages[at(idle)].time_s) idle = s;
    }
    for (const std::int64_t to : {stage_ - 1, stage_ + 1, idle}) {
      if (to < 0 || to >= stages || to == stage_) continue;
      Configuration next = here_;
      // From the stage outwards, so that every stage between grows before it shrinks.
      bool moved = true;
      for (std::int64_t b = stage_; moved && b > to; --b) moved = move_cut(space_, next, b, 1);
      for (std::int64_t b = stage_ + 1; moved && b <= to; ++b) moved = move_cut(space_, next, b, -1);
      if (moved) found_.push_back(std::move(next));
    }
  }

  template <class Wanted>
  void options(Wanted wanted) {
    const search::StageChoice& now = space_.choices()[at(here_.options[at(stage_)])];
    for (const int option : admitted_options(space_, space_.strategy(here_.key))) {
      if (!wanted(now, space_.choices()[at(option)])) continue;
      if (!space_.limits().uniform) {
        found_.push_back(here_);
        found_.back().options[at(stage_)] = option;
      }
      if (here_.key.stages == 1 && !space_.limits().uniform) continue;
      found_.push_back(here_);
      found_.back().options.assign(here_.options.size(), option);
    }
  }

  void micro_batch(int direction) {
    Configuration next = here_;
    next.key.micro_batch += direction;
    add_refilled(std::move(next));
  }

  template <class Wanted>
  void splits(Wanted wanted) {
    for (const int split : neighbouring_splits(space_, here_.key.split)) {
      if (!wanted(space_.splits()[at(here_.key.split)], space_.splits()[at(split)])) continue;
      Configuration next = here_;
      next.key.split = split;
      add_refilled(std::move(next));
    }
  }

  void schedules() {
    for (const int schedule : {here_.key.schedule - 1, here_.key.schedule + 1}) {
      if (schedule < 0 || schedule >= static_cast<int>(space_.schedules().size())) continue;
      Configuration next = here_;
      next.key.schedule = schedule;
      add_refilled(std::move(next));
    }
  }

  void add_refilled(Configuration next) {
    const bool together = here_.key.inner_replicas == here_.key.replicas;
    auto filled = refilled(space_, pricer_, std::move(next), together);
    if (filled) found_.push_back(std::move(*filled));
  }

  const search::PlanSpace& space_;
  ConfigurationPricer& pricer_;
  const Configuration& here_;
  const ConfigurationPrice& price_;
  std::int64_t stage_;
  std::vector<Configuration> found_;
};

bool cuts_hold(const search::PlanSpace& space, const Configuration& configuration) {
  const search::Key& key = configuration.key;
  const std::int64_t chunks = space.schedule(key).chunks;
  if (static_cast<std::int64_t>(configuration.cuts.size()) != key.stages + 1) return false;
  for (std::int64_t s = 0; s < key.stages; ++s) {
    if (s > 0 && !space.may_cut(configuration.cuts[at(s)], chunks)) return false;
    const std::int64_t layers = configuration.cuts[at(s + 1)] - configuration.cuts[at(s)];
    if (layers < space.fewest_layers(s, key.stages, chunks)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::int64_t> bottleneck_order(const ConfigurationPrice& price) {
  std::vector<std::int64_t> order;
  for (std::size_t s = 0; s < price.stages.size(); ++s) order.push_back(static_cast<std::int64_t>(s));
  const bool fits = price.fits();
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const StagePrice &first = price.stages[at(a)], &second = price.stages[at(b)];
    return fits ? first.time_s > second.time_s : first.fullness > second.fullness;
  });
  return order;
}

std::vector<Resource> scarce_resources(const ConfigurationPrice& price, std::int64_t stage) {
  const StagePrice& here = price.stages[at(stage)];
  if (here.fullness > 1) return {Resource::memory};
  if (here.traffic_s > here.time_s - here.traffic_s)
    return {Resource::communication, Resource::arithmetic, Resource::memory};
  return {Resource::arithmetic, Resource::communication, Resource::memory};
}

std::vector<Configuration> relieved(const search::PlanSpace& space, ConfigurationPricer& pricer,
                                    const Configuration& configuration, const ConfigurationPrice& price,
                                    std::int64_t stage, Resource resource) {
  return Primitives(space, pricer, configuration, price, stage).spare(resource);
}

std::optional<Configuration> refilled(const search::PlanSpace& space, ConfigurationPricer& pricer,
                                      Configuration configuration, bool together) {
  search::Key& key = configuration.key;
  if (key.micro_batch < 0 || key.micro_batch >= static_cast<int>(space.micro_batches().size())) return std::nullopt;
  if (!space.admits_pair(key) || key.stages > space.most_stages(key) || !space.limits().pp.admits(key.stages) ||
      !space.admits_schedule(key)) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> replicas = most_admitted_replicas(space, key);
  if (!replicas) return std::nullopt;
  key.replicas = *replicas;
  const std::vector<std::int64_t> inner = space.inner_replicas(key);
  if (inner.empty()) return std::nullopt;
  key.inner_replicas = together || key.stages == 1 ? inner.back() : inner.front();
  const std::vector<std::int64_t> pitches = space.pitches(key);
  if (pitches.empty()) return std::nullopt;
  key.pitch = pitches.front();
  const std::vector<int> admitted = admitted_options(space, space.strategy(key));
  if (admitted.empty()) return std::nullopt;
  configuration.options =
      carried_options(space, configuration.options.empty() ? admitted : configuration.options, key.stages, admitted);
  if (space.limits().uniform) configuration.options.assign(configuration.options.size(), configuration.options.front());
  if (cuts_hold(space, configuration)) return configuration;
  auto cuts = balanced_cuts(space, pricer.pair(key), key);
  if (!cuts) return std::nullopt;
  configuration.cuts = std::move(*cuts);
  return configuration;
}

}  // namespace nest::rivals
