#include "rivals/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/index.h"
#include "model/count.h"
#include "rivals/configuration.h"
#include "rivals/settle.h"

namespace nest::rivals {
namespace {

// Degrees as published. The first ten: Table 1 of the SC 2021 paper; the others: NeMo's recipes.
struct PublishedRun {
  double parameters;
  std::int64_t tp, pp, ep;
};
constexpr std::array<PublishedRun, 14> kDense = {{{1.7e9, 1, 1, 1},
                                                  {3.6e9, 2, 1, 1},
                                                  {7.5e9, 4, 1, 1},
                                                  {18.4e9, 8, 1, 1},
                                                  {39.1e9, 8, 2, 1},
                                                  {76.1e9, 8, 4, 1},
                                                  {145.6e9, 8, 8, 1},
                                                  {310.1e9, 8, 16, 1},
                                                  {529.6e9, 8, 35, 1},
                                                  {1008e9, 8, 64, 1},
                                                  {8e9, 1, 1, 1},
                                                  {70e9, 4, 4, 1},
                                                  {175e9, 4, 8, 1},
                                                  {340e9, 8, 8, 1}}};
constexpr std::array<PublishedRun, 2> kExperts = {{{46.7e9, 1, 4, 8}, {140.6e9, 2, 4, 8}}};
constexpr double kAboutTheSize = 2;  // factor within which a published run is taken for a model

class Expert {
 public:
  explicit Expert(const RivalRequest& request)
      : request_(request),
        deadline_(request),
        prices_(*request.job),
        space_(*request.job, published_limits(request), device_limit(request)),
        pricer_(space_, prices_),
        best_(space_) {
    for (const model::Layer& layer : request.job->model.kinds) experts_ = std::max(experts_, layer.experts);
    node_ = usual_node(request.job->cluster);
    // Limits that leave nothing inside a node are followed all the same.
    std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
    for (const Split& split : space_.splits()) smallest = std::min(smallest, inside_of(split));
    if (!space_.splits().empty()) node_ = std::max(node_, smallest);
    for (const int kind : request.job->model.layers) {
      if (request.job->model.kinds[at(kind)].counted_block()) ++blocks_;
    }
  }

  RivalAnswer plan() {
    const bool stopped = !try_all_ways();
    if (chosen_) best_.offer(space_.strategy(chosen_->key), stages_of(space_, *chosen_));
    std::string note;
    if (!chosen_ && best_fullness_ > 0) {
      note = fmt::format("what comes closest needs {:.2f} times the memory of a device", best_fullness_);
    }
    return best_.answer(request_, pricer_.priced(), deadline_.elapsed_s(), stopped, std::move(note));
  }

 private:
  // False when the time was over before the end.
  bool try_all_ways() {
    for (const std::int64_t size : space_.micro_batches()) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        if (deadline_.is_over()) return false;
        for (const std::int64_t context : {1, 2, 4, 8, 16}) {
          // Sequences are divided where nothing fits otherwise.
          if (follow_rules(size, recompute, context)) break;
        }
        follow_tables(size, recompute);
        shard(size, recompute);
      }
    }
    return true;
  }

  struct Degrees {
    Split split;
    std::int64_t pp = 1;
    std::int64_t product() const { return split.team_devices() * pp; }
  };

  // Devices that tensors and experts are divided over.
  static std::int64_t inside_of(const Split& split) { return split.tp * split.team(); }

  // Experts divided like everything else or not at all, and over the tensor-parallel ranks before others.
  static bool is_usual(const Split& split) {
    return (split.etp == 0 || split.etp == 1) && split.expert_devices() >= split.tp;
  }

  // Everything that the rules admit, the smallest product first; at equal products the one with more inside the node.
  std::vector<Degrees> by_the_rules(std::int64_t context) const {
    std::vector<Degrees> list;
    for (const Split& split : space_.splits()) {
      if (split.cp != context || split != preferred(split) || !is_usual(split)) continue;
      if (inside_of(split) > node_ && split.tp > 1) continue;
      for (std::int64_t pp = 1; pp <= blocks_; ++pp) {
        // More than one stage only once the node is full, as far as the model's sizes admit.
        if (pp > 1 && grows_inside(split)) break;
        list.push_back({split, pp});
      }
    }
    std::stable_sort(list.begin(), list.end(), [](const Degrees& a, const Degrees& b) {
      if (a.product() != b.product()) return a.product() < b.product();
      return a.pp < b.pp;
    });
    return list;
  }

  // With sequence parallelism where tensors are divided, if the limits and the model admit that.
  Split preferred(Split split) const {
    split.sp = split.tp > 1;
    if (std::find(space_.splits().begin(), space_.splits().end(), split) == space_.splits().end()) split.sp = false;
    return split;
  }

  // Whether a larger legal split with as many or more tensor and expert ranks stays inside the node.
  bool grows_inside(const Split& split) const {
    return std::any_of(space_.splits().begin(), space_.splits().end(), [&](const Split& other) {
      return other.cp == split.cp && other == preferred(other) && is_usual(other) && other.tp >= split.tp &&
             other.team() >= split.team() && inside_of(other) > inside_of(split) && inside_of(other) <= node_;
    });
  }

  // Products that use all devices come first.
  bool follow_rules(std::int64_t size, Recompute recompute, std::int64_t context) {
    const std::vector<Degrees> list = by_the_rules(context);
    std::int64_t smallest = 0;
    for (const bool all_devices : {true, false}) {
      for (const Degrees& degrees : list) {
        if (smallest > 0 && degrees.product() > smallest) break;
        if ((space_.devices() % degrees.product() == 0) != all_devices) continue;
        if (try_all(degrees, size, recompute)) smallest = degrees.product();
      }
      if (smallest > 0) return true;
    }
    return false;
  }

  void follow_tables(std::int64_t size, Recompute recompute) {
    const auto parameters = real(model::count_parameters(request_.job->model).total);
    const auto look = [&](const PublishedRun& run) {
      if (std::abs(std::log(run.parameters / parameters)) > std::log(kAboutTheSize)) return;
      try_all({preferred({run.tp, true, 1, run.ep, 0}), run.pp}, size, recompute);
    };
    if (experts_ > 1) {
      std::for_each(kExperts.begin(), kExperts.end(), look);
    } else {
      std::for_each(kDense.begin(), kDense.end(), look);
    }
  }

  // Data parallelism alone, sharded no further than it must be.
  void shard(std::int64_t size, Recompute recompute) {
    for (const int zero : {1, 2, 3}) {
      if (try_all({Split{}, 1}, size, recompute, {zero})) return;
    }
  }

  // Sharded optimizer state where the limits admit it.
  std::vector<int> shardings() const {
    if (request_.limits.zero[1]) return {1};
    std::vector<int> admitted;
    for (int zero = 0; zero < 4; ++zero) {
      if (request_.limits.zero[at(zero)]) admitted.push_back(zero);
    }
    return admitted;
  }

  // As many replicas as there are devices for, and as many as divide the batch evenly.
  std::vector<std::int64_t> replicas_of(const Strategy& strategy) const {
    const std::int64_t team = strategy.split.team();
    const std::int64_t batch = request_.job->run.global_batch, round = strategy.micro_batch * team;
    const std::int64_t most = std::min(space_.devices() / (strategy.split.team_devices() * strategy.pp), batch / round);
    std::vector<std::int64_t> list;
    if (most < 1) return list;
    list.push_back(most * team);
    for (std::int64_t teams = most; teams >= 1; --teams) {
      if (batch % (round * teams) != 0) continue;
      if (teams != most) list.push_back(teams * team);
      break;
    }
    return list;
  }

  bool try_all(const Degrees& degrees, std::int64_t size, Recompute recompute) {
    return try_all(degrees, size, recompute, shardings());
  }

  bool try_all(const Degrees& degrees, std::int64_t size, Recompute recompute, const std::vector<int>& zeros) {
    bool any = false;
    Strategy strategy;
    strategy.split = degrees.split;
    strategy.pp = degrees.pp;
    strategy.micro_batch = size;
    for (const std::int64_t dp : replicas_of(strategy)) {
      strategy.dp = dp;
      for (const search::ScheduleChoice& schedule : space_.schedules()) {
        strategy.schedule = schedule.kind;
        strategy.virtual_stages = schedule.chunks;
        if (schedule.chunks > 1 && (degrees.pp == 1 || blocks_ % (degrees.pp * schedule.chunks) != 0)) continue;
        const std::int64_t team = strategy.split.team();
        for (const std::int64_t inner : {dp, team}) {
          strategy.dp_inner = inner;
          for (const int zero : zeros) any |= try_one(strategy, recompute, zero);
          if (dp == team) break;
        }
      }
    }
    return any;
  }

  bool try_one(const Strategy& strategy, Recompute recompute, int zero) {
    const std::optional<search::Key> key = key_of(space_, strategy);
    if (!key) return false;
    const std::vector<StagePlan> stages = cost::even_stages(*request_.job, strategy, recompute, zero);
    if (!cost::refuse_strategy(*request_.job, strategy, stages).empty() || !admits_stages(space_, strategy, stages)) {
      return false;
    }
    Configuration configuration{*key, {0}, {}};
    for (const StagePlan& stage : stages) {
      configuration.cuts.push_back(stage.last + 1);
      configuration.options.push_back(search::find_choice(space_.choices(), {recompute, zero, false}).value());
    }
    const ConfigurationPrice& price = pricer_.price(configuration);
    if (best_fullness_ == 0 || price.fullness < best_fullness_) best_fullness_ = price.fullness;
    if (!price.fits()) return false;
    if (!chosen_ || price.time_s < chosen_s_) {
      chosen_ = std::move(configuration);
      chosen_s_ = price.time_s;
    }
    return true;
  }

  const RivalRequest& request_;
  Deadline deadline_;
  search::PriceCache prices_;
  search::PlanSpace space_;
  ConfigurationPricer pricer_;
  BestPlan best_;
  std::int64_t experts_ = 1, node_ = 0, blocks_ = 0;
  std::optional<Configuration> chosen_;
  double chosen_s_ = 0, best_fullness_ = 0;
};

}  // namespace

RivalAnswer plan_manual(const RivalRequest& request) { return Expert(request).plan(); }

}  // namespace nest::rivals
