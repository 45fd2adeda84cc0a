#include "simulation_check/regret_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/index.h"
#include "cost/evaluate.h"
#include "model/presets.h"
#include "simulation_check/dice.h"
#include "simulation_check/networks.h"

namespace nest {
namespace {

constexpr std::int64_t kDevicesPerSequence = 8;

bool comes_in(const std::string& network, std::int64_t devices) {
  try {
    network_cluster(network, devices);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// One decision taken otherwise; some draws change nothing or make no plan.
class Changes {
 public:
  Changes(const cost::Job& job, const Plan& plan, Dice& dice)
      : job_(job), strategy_(plan.strategy), stages_(plan.stages), dice_(dice) {}

  void change() {
    constexpr std::int64_t kKinds = 8;
    switch (dice_.below(kKinds)) {
      case 0: change_degrees(); break;
      case 1: strategy_.micro_batch = scaled(strategy_.micro_batch); break;
      case 2: change_chunks(); break;
      case 3: change_placement(); break;
      case 4: change_sharding(); break;
      case 5: change_recomputation(); break;
      case 6: strategy_.split.ep = scaled(strategy_.split.ep); break;
      default: move_layers(); break;
    }
    if (dice_.chance(10)) strategy_.defer_head = !strategy_.defer_head;
  }

  const Strategy& strategy() const { return strategy_; }
  const std::vector<StagePlan>& stages() const { return stages_; }

 private:
  std::int64_t scaled(std::int64_t number) {
    return dice_.chance(50) ? 2 * number : std::max<std::int64_t>(1, number / 2);
  }

  void cut_evenly() {
    if (strategy_.pp > std::ssize(job_.model.layers)) return;  // refused later
    const StagePlan& like = stages_.front();
    stages_ = cost::even_stages(job_, strategy_, like.recompute, like.zero);
  }

  // A factor of two from one degree to another.
  void change_degrees() {
    const std::array<std::int64_t*, 4> degrees = {&strategy_.split.tp, &strategy_.split.cp, &strategy_.pp,
                                                  &strategy_.dp};
    std::int64_t &from = *dice_.pick(degrees), &to = *dice_.pick(degrees);
    if (from % 2 != 0 || &from == &to) return;
    from /= 2;
    to *= 2;
    strategy_.split.sp = strategy_.split.tp > 1;
    strategy_.pitch = strategy_.group = 0;
    if (strategy_.pp == 1) {
      strategy_.schedule = Schedule::one_f_one_b;
      strategy_.virtual_stages = 1;
    }
    change_placement();
    cut_evenly();
  }

  void change_chunks() {
    constexpr std::array<std::int64_t, 7> kChunks = {1, 1, 2, 3, 4, 5, 8};
    if (strategy_.pp == 1) return;
    strategy_.virtual_stages = dice_.pick(kChunks);
    strategy_.schedule = strategy_.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
    strategy_.group = 0;
    cut_evenly();
  }

  void change_placement() {
    const std::int64_t team = strategy_.split.team();
    strategy_.dp_inner = strategy_.dp % team == 0 ? team * dice_.divisor(strategy_.dp / team) : strategy_.dp;
    strategy_.pitch = 0;
  }

  void change_sharding() {
    const int zero = static_cast<int>(dice_.below(4));
    for (StagePlan& stage : stages_) {
      stage.zero = zero;
      stage.zero_degree = zero == 0 ? 1 : 0;
      stage.zero_outer = false;
    }
  }

  void change_recomputation() {
    constexpr std::array kSimple = {Recompute::none, Recompute::selective, Recompute::full};
    const Recompute kind = dice_.pick(kSimple);
    const bool one = dice_.chance(50);
    const std::size_t which = at(dice_.below(std::ssize(stages_)));
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (!one || s == which) stages_[s].recompute = kind;
    }
  }

  // One layer of every chunk, from any stage to any other.
  void move_layers() {
    if (stages_.size() < 2 || !stages_.front().chunks.empty()) return;
    const std::int64_t from = dice_.below(std::ssize(stages_)), to = dice_.below(std::ssize(stages_));
    const int by = static_cast<int>(strategy_.virtual_stages) * (from < to ? -1 : 1);
    for (std::int64_t cut = std::min(from, to); cut < std::max(from, to); ++cut) {
      stages_[at(cut)].last += by;
      stages_[at(cut + 1)].first += by;
    }
  }

  const cost::Job& job_;
  Strategy strategy_;
  std::vector<StagePlan> stages_;
  Dice& dice_;
};

}  // namespace

std::string RegretCase::id() const { return fmt::format("{} x {}, {}, batch {}", devices, network, model, batch); }

std::vector<RegretCase> regret_grid(const std::vector<std::string>& models, const std::vector<std::int64_t>& devices,
                                    const std::vector<std::int64_t>& tokens) {
  std::vector<RegretCase> grid;
  for (const Network& network : networks()) {
    for (const std::int64_t size : devices) {
      if (!comes_in(network.name, size)) continue;
      for (const std::string& model : models) {
        const auto architecture = model::find_model_preset(model);
        if (!architecture) throw InputError("there is no model preset " + model);
        for (const std::int64_t millions : tokens) {
          RegretCase each{network.name, model, size, 0};
          each.batch = std::max(size / kDevicesPerSequence, (millions << 20) / architecture->default_sequence);
          if (grid.empty() || grid.back() != each) grid.push_back(each);
        }
      }
    }
  }
  return grid;
}

std::vector<RegretCase> drawn(const std::vector<RegretCase>& grid, std::uint32_t seed) {
  Dice dice(seed);
  std::vector<std::vector<RegretCase>> left;  // of every network
  for (const RegretCase& each : grid) {
    if (left.empty() || left.back().front().network != each.network) left.emplace_back();
    left.back().push_back(each);
  }
  for (std::vector<RegretCase>& cases : left) dice.shuffle(cases);
  std::vector<RegretCase> order;
  while (!left.empty()) {
    dice.shuffle(left);
    for (std::vector<RegretCase>& cases : left) {
      order.push_back(cases.back());
      cases.pop_back();
    }
    std::erase_if(left, [](const std::vector<RegretCase>& cases) { return cases.empty(); });
  }
  return order;
}

std::vector<Plan> neighbours(const cost::Job& job, const Plan& plan, std::int64_t count, std::uint32_t seed) {
  constexpr std::int64_t kDraws = 10;
  constexpr std::int64_t kMostChanges = 3;
  Dice dice(seed);
  std::vector<Plan> found;
  for (std::int64_t draw = 0; draw < kDraws * count && std::ssize(found) < count; ++draw) {
    Changes changes(job, plan, dice);
    for (std::int64_t k = dice.below(kMostChanges); k >= 0; --k) changes.change();
    const Strategy& strategy = changes.strategy();
    if (strategy.devices_used() > job.cluster.devices || strategy.pp > std::ssize(job.model.layers)) continue;
    const split::RunShape shape{strategy.micro_batch, job.run.sequence, job.run.encoder_sequence, 1.0};
    if (!split::refuse_split(job.model, shape, strategy.split).empty()) continue;
    if (!cost::refuse_strategy(job, strategy, changes.stages()).empty()) continue;
    Plan other = cost::evaluate(job, strategy, changes.stages());
    if (other.fits) found.push_back(std::move(other));
  }
  return found;
}

}  // namespace nest
