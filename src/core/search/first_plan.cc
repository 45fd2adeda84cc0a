#include "search/first_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "base/index.h"
#include "cost/evaluate.h"
#include "cost/memory.h"
#include "search/best_first.h"
#include "search/choices.h"
#include "search/even_cuts.h"

namespace nest::search {
namespace {

// A key, and what all of its stages do: indices into recomputations() and shardings().
struct Start {
  Key key;
  int recompute = 0, sharding = 0;

  bool operator<(const Start& other) const {
    return std::tie(key, recompute, sharding) < std::tie(other.key, other.recompute, other.sharding);
  }
  bool operator==(const Start&) const = default;
};

class FirstPlanFinder {
 public:
  FirstPlanFinder(const PlanSpace& space, PlanObjective objective, const Deadline& end, const Deadline& enough)
      : space_(space), job_(space.job()), objective_(objective), end_(end), enough_(enough) {
    list_stage_counts();
  }

  std::optional<Plan> run() {
    if (space_.micro_batches().empty() || space_.schedules().empty()) return std::nullopt;
    if (!find_fitting(Care::usual) && !find_fitting(Care::thorough)) return std::nullopt;
    while (!enough_.has_passed() && (improve() || trade())) {}
    return std::move(best_);
  }

  std::optional<Plan> best() const { return best_; }

 private:
  double score(const Plan& plan) const { return score_of(plan, objective_); }

  // All where there are few; else powers of two, and what divides the blocks evenly.
  void list_stage_counts() {
    const std::int64_t layers = space_.layers();
    const auto blocks = std::count_if(job_.model.layers.begin(), job_.model.layers.end(),
                                      [&](int kind) { return job_.model.kinds[at(kind)].counted_block(); });
    for (std::int64_t stages = 1; stages <= layers; ++stages) {
      constexpr std::int64_t kFew = 16;
      const bool power = (stages & (stages - 1)) == 0 || stages <= kFew;
      if (power || (blocks > 0 && blocks % stages == 0) || layers % stages == 0) stage_counts_.push_back(stages);
    }
  }

  // Replicas, as many as are admitted, and where they stand. False where the key has none.
  bool complete(Key& key) const {
    if (!space_.admits_pair(key) || key.stages > space_.most_stages(key) || !space_.limits().pp.admits(key.stages) ||
        !space_.admits_schedule(key)) {
      return false;
    }
    const auto plateau = space_.plateau(key, space_.most_replicas(key));
    if (!plateau) return false;
    const auto replicas = space_.next_replicas(key, *plateau);
    return replicas && place(key, *replicas);
  }

  bool place(Key& key, std::int64_t replicas) const {
    key.replicas = replicas;
    const std::vector<std::int64_t> inner = space_.inner_replicas(key);
    for (auto each = inner.rbegin(); each != inner.rend(); ++each) {
      key.inner_replicas = *each;
      for (const std::int64_t pitch : space_.pitches(key)) {
        key.pitch = pitch;
        if (space_.places(space_.strategy(key))) return true;
      }
    }
    return false;
  }

  // What all starts of one key have in common.
  struct KeyFacts {
    Key key;
    Strategy strategy;
    std::vector<std::int64_t> cuts;         // empty: none in the space
    std::optional<std::int64_t> in_a_node;  // degree of sharding, once it was asked for; 0: there is none
  };

  KeyFacts& facts_of(const Key& key) {
    if (facts_ && facts_->key == key) return *facts_;
    facts_ = {key, space_.strategy(key), {}, {}};
    facts_->cuts = cuts_of(facts_->strategy);
    return *facts_;
  }

  std::vector<std::int64_t> cuts_of(const Strategy& strategy) const {
    std::vector<std::int64_t> cuts{0};
    if (space_.limits().even_cuts || strategy.virtual_stages > 1) {
      cuts = even_cuts(job_, strategy.pp, strategy.virtual_stages);
      if (cuts.empty()) return {};
    } else {
      for (std::int64_t s = 1; s <= strategy.pp; ++s) cuts.push_back(space_.layers() * s / strategy.pp);
    }
    for (std::int64_t s = 0; s < strategy.pp; ++s) {
      const bool cut = s == 0 || space_.may_cut(cuts[at(s)], strategy.virtual_stages);
      if (!cut || cuts[at(s + 1)] - cuts[at(s)] < space_.fewest_layers(s, strategy.pp, strategy.virtual_stages))
        return {};
    }
    return cuts;
  }

  // The stages of a start; empty where they are not in the space.
  std::vector<StagePlan> stages_of(const Start& start, KeyFacts& facts) const {
    StageChoice choice = space_.shardings()[at(start.sharding)];
    choice.recompute = space_.recomputations()[at(start.recompute)];
    if (facts.cuts.empty() || !find_choice(space_.choices(), choice)) return {};
    // Of millions of ranks that takes long.
    if (choice.in_node && !facts.in_a_node) facts.in_a_node = space_.node_degree(facts.strategy).value_or(0);
    const std::int64_t degree = choice.in_node ? *facts.in_a_node : 0;
    if (choice.in_node && degree == 0) return {};
    if (!space_.treats(facts.strategy, choice, degree)) return {};
    std::vector<StagePlan> stages;
    stages.reserve(facts.cuts.size());
    for (std::size_t s = 0; s + 1 < facts.cuts.size(); ++s) {
      stages.push_back(stage_of(facts.cuts[s], facts.cuts[s + 1], choice, degree));
    }
    return stages;
  }

  // Whether it fits and is better than what is known; then it is the best.
  bool take(const Start& start) {
    if (!seen_.insert(start).second) return false;
    end_.check();
    KeyFacts& facts = facts_of(start.key);
    const Strategy& strategy = facts.strategy;
    const std::vector<StagePlan> stages = stages_of(start, facts);
    if (stages.empty() || !cost::refuse_strategy(job_, strategy, stages).empty()) return false;
    if (!best_ && !has_room(start.key, strategy, stages)) return false;
    Plan plan = cost::evaluate_deferring(job_, strategy, stages, space_.limits().defer_head);
    if (!plan.fits || (best_ && score(plan) >= score(*best_))) return false;
    best_ = std::move(plan);
    at_ = start;
    return true;
  }

  // Looked at before the price, which takes longer: most of what is tried first does not fit.
  bool has_room(const Key& key, const Strategy& strategy, const std::vector<StagePlan>& stages) {
    const auto [known, fresh] = memory_.try_emplace({key.split, key.micro_batch});
    if (fresh) {
      std::vector<StagePlan> ways(space_.recomputations().size());
      for (std::size_t k = 0; k < ways.size(); ++k) ways[k].recompute = space_.recomputations()[k];
      known->second = std::make_unique<const cost::StageMemoryModel>(job_, strategy.split, strategy.micro_batch,
                                                                     cost::treatments_of(ways));
    }
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const std::int64_t needed = known->second->estimate(strategy, stages[s], static_cast<std::int64_t>(s)).needed;
      if (needed > job_.cluster.device.memory_bytes) return false;
    }
    return true;
  }

  // What most would try, or everything of the space but uneven cuts.
  enum class Care : std::uint8_t { usual, thorough };

  bool find_fitting(Care care) {
    const bool thorough = care == Care::thorough;
    struct Candidate {
      std::int64_t devices, context, stages;
      int split;
      bool operator<(const Candidate& other) const {
        return std::tie(devices, context, stages, split) <
               std::tie(other.devices, other.context, other.stages, other.split);
      }
    };
    Key key;
    std::vector<Candidate> candidates;
    const double least = least_pipeline();
    for (key.split = 0; key.split < static_cast<int>(space_.splits().size()); ++key.split) {
      const Split& split = space_.splits()[at(key.split)];
      const bool odd =
          split.offload != 0 || space_.ring_of(key) || (split.tp > 1 && !split.sp && space_.limits().sp[1]);
      if (odd && !thorough) continue;
      for (const std::int64_t stages : stage_counts_) {
        const std::int64_t devices = stages * space_.stage_devices(key);
        if (devices > space_.devices()) break;
        if (real(devices) >= least) candidates.push_back({devices, split.cp, stages, key.split});
      }
    }
    std::sort(candidates.begin(), candidates.end());
    // Where state alone fills a good part of the memory, short pipelines are tried in vain.
    constexpr std::int64_t kTight = 3;
    if (kTight * fewest_devices(job_) > space_.devices()) std::reverse(candidates.begin(), candidates.end());
    // What spares most first; then what most frameworks can be told.
    std::vector<std::pair<int, int>> frugal;
    const auto recomputations = std::ssize(space_.recomputations()), shardings = std::ssize(space_.shardings());
    for (auto r = recomputations; r-- > 0;) {
      const Recomputation& one = space_.recomputations()[at(r)];
      if (!thorough && one.kind == Recompute::uniform) continue;
      for (auto z = shardings; z-- > 0;) frugal.emplace_back(static_cast<int>(r), static_cast<int>(z));
      if (!thorough) break;
    }
    std::int64_t tried = 0, last = 0;
    for (const Candidate& candidate : candidates) {
      // A few of every size: sizes matter more than what they are made of.
      constexpr std::int64_t kTries = 12;
      if (candidate.devices != last) tried = 0;
      last = candidate.devices;
      if (tried >= kTries && !thorough) continue;
      Start start;
      start.key.split = candidate.split;
      start.key.stages = candidate.stages;
      for (int schedule = 0; schedule < static_cast<int>(space_.schedules().size()); ++schedule) {
        start.key.schedule = schedule;
        if (!complete(start.key)) continue;
        ++tried;
        for (const auto& [recompute, sharding] : frugal) {
          start.recompute = recompute;
          start.sharding = sharding;
          if (take(start)) return true;
        }
        if (!thorough) break;
      }
    }
    return false;
  }

  // Devices of one pipeline that hold weights and gradients where neither is sharded over replicas.
  double least_pipeline() const {
    if (space_.limits().zero[3]) return 1;
    const cost::StateBytes bytes = cost::state_bytes(job_);
    const double each = bytes.weight + (space_.limits().zero[2] ? 0 : bytes.gradient);
    return each * real(job_.parameters) / real(std::max<std::int64_t>(1, job_.cluster.device.memory_bytes));
  }

  // The first change that helps is taken.
  bool improve() {
    const Start from = at_;
    bool better = false;
    const auto try_one = [&](Start start) {
      if (!enough_.has_passed() && complete(start.key)) better = take(start) || better;
    };
    for (int k = 0; k < static_cast<int>(space_.recomputations().size()); ++k) try_one(with(at_, &Start::recompute, k));
    for (int k = 0; k < static_cast<int>(space_.shardings().size()); ++k) try_one(with(at_, &Start::sharding, k));
    for (const int step : {1, -1}) {
      Start start = at_;
      start.key.micro_batch += step;
      if (start.key.micro_batch >= 0 && start.key.micro_batch < static_cast<int>(space_.micro_batches().size()))
        try_one(start);
    }
    for (int k = 0; k < static_cast<int>(space_.schedules().size()); ++k) {
      Start start = at_;
      start.key.schedule = k;
      try_one(start);
    }
    try_stages(at_, try_one);
    const Split split = space_.splits()[at(at_.key.split)];
    for (int k = 0; k < static_cast<int>(space_.splits().size()) && !enough_.has_passed(); ++k) {
      if (!are_neighbours(split, space_.splits()[at(k)])) continue;
      Start start = at_;
      start.key.split = k;
      try_one(start);
      try_stages(start, try_one);
    }
    if (objective_ == PlanObjective::device_hours) better = use_fewer() || better;
    return better && at_ != from;
  }

  // Another split and another number of stages at once, the rest as it is; pipelines of about as many devices first. What
  // small steps do not reach: tensor ranks traded for stages, where only the whole way fits.
  bool trade() {
    struct Other {
      double far;
      std::int64_t stages;
      int split;
      bool operator<(const Other& other) const {
        return std::tie(far, stages, split) < std::tie(other.far, other.stages, other.split);
      }
    };
    const Start from = at_;
    const auto devices_of = [&](const Key& key) { return real(key.stages * space_.stage_devices(key)); };
    std::vector<Other> others;
    Key key = from.key;
    for (key.split = 0; key.split < static_cast<int>(space_.splits().size()); ++key.split) {
      for (const std::int64_t stages : stage_counts_) {
        key.stages = stages;
        if (devices_of(key) > real(space_.devices())) break;
        others.push_back({std::abs(std::log2(devices_of(key) / devices_of(from.key))), stages, key.split});
      }
    }
    std::sort(others.begin(), others.end());
    for (const Other& other : others) {
      if (enough_.has_passed()) break;
      Start start = at_;
      start.key.split = other.split;
      start.key.stages = other.stages;
      if (complete(start.key)) take(start);
    }
    return at_ != from;
  }

  static Start with(Start start, int Start::*field, int value) {
    start.*field = value;
    return start;
  }

  // The next smaller and larger number of stages.
  template <class TryOne>
  void try_stages(const Start& from, const TryOne& try_one) const {
    const auto here = std::lower_bound(stage_counts_.begin(), stage_counts_.end(), from.key.stages);
    const auto twice = std::lower_bound(stage_counts_.begin(), stage_counts_.end(), 2 * from.key.stages);
    const auto half = std::lower_bound(stage_counts_.begin(), stage_counts_.end(), from.key.stages / 2);
    std::set<std::int64_t> counts;
    if (here != stage_counts_.begin()) counts.insert(*(here - 1));
    if (here != stage_counts_.end() && here + 1 != stage_counts_.end()) counts.insert(*(here + 1));
    if (twice != stage_counts_.end()) counts.insert(*twice);
    if (half != stage_counts_.end()) counts.insert(*half);
    for (const std::int64_t stages : counts) {
      Start start = from;
      start.key.stages = stages;
      try_one(start);
    }
  }

  // They differ in one degree, by a factor of at most 4, or in sequence parallelism; where tensors and experts are divided
  // otherwise, experts follow.
  static bool are_neighbours(const Split& a, const Split& b) {
    if (a == b || a.offload != b.offload) return false;
    const auto near = [](std::int64_t x, std::int64_t y) { return x <= 4 * y && y <= 4 * x; };
    const int degrees =
        static_cast<int>(a.tp != b.tp) + static_cast<int>(a.cp != b.cp) + static_cast<int>(a.ep != b.ep);
    return degrees <= 1 && near(a.tp, b.tp) && near(a.cp, b.cp) && near(a.ep, b.ep);
  }

  bool use_fewer() {
    bool better = false;
    for (Start start = at_; start.key.replicas > 1 && !enough_.has_passed();) {
      const auto plateau = space_.plateau(start.key, start.key.replicas - 1);
      if (!plateau) break;
      const auto replicas = space_.next_replicas(start.key, *plateau);
      if (!replicas || !place(start.key, *replicas) || !take(start)) break;
      better = true;
    }
    return better;
  }

  const PlanSpace& space_;
  const cost::Job& job_;
  PlanObjective objective_;
  const Deadline &end_, &enough_;
  std::vector<std::int64_t> stage_counts_;  // ascending
  std::set<Start> seen_;
  std::optional<KeyFacts> facts_;  // of the key that was looked at last
  std::map<std::pair<int, int>, std::unique_ptr<const cost::StageMemoryModel>> memory_;  // by split and micro-batch
  std::optional<Plan> best_;
  Start at_;
};

}  // namespace

double score_of(const Plan& plan, PlanObjective objective) {
  const double seconds = plan.prediction.iteration_s;
  return objective == PlanObjective::time ? seconds : seconds * real(plan.strategy.devices_spanned());
}

std::optional<Plan> first_plan(const PlanSpace& space, PlanObjective objective, const Deadline& end,
                               const Deadline& enough) {
  FirstPlanFinder finder(space, objective, end, enough);
  try {
    return finder.run();
  } catch (const Interrupted&) {
    return finder.best();
  }
}

}  // namespace nest::search
