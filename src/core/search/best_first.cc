#include "search/best_first.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <queue>
#include <tuple>

#include "base/index.h"
#include "check/check.h"
#include "cost/constants.h"
#include "search/first_plan.h"
#include "search/judge.h"
#include "search/kind.h"
#include "search/workers.h"

namespace nest::search {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kRound = 64;  // nodes opened with one cutoff
constexpr double kProbes[] = {1.05, 1.2, 1.6, 3};
constexpr double kFirstSeconds = 0.05;  // after which a plan by rules is looked for, for as long again
constexpr double kFirstMost = 0.5;      // of a time limit, where rules do not find a plan at once
constexpr double kFirstLeast = 0.1;     // seconds that they have for that, if there are as many
constexpr double kShort_s = 0.15;       // limits below are short
constexpr double kCountShare = 0.05;    // of a time limit, to count keys of which none fits
constexpr double kFirstShare = 0.25;    // of a time limit

enum class NodeKind : std::uint8_t { pair, stages, chain, family, key };

struct Node {
  double low = 0;
  Key key;
  NodeKind kind = NodeKind::pair;
  std::size_t tries = 0;
  std::int64_t most = 0;  // replicas of a chain, or of the plateau that a family is of
  double slowest_s =
      0;  // of the slowest stage's layers, at least: below a chain, what memory forces to recompute is counted
};

struct Later {
  bool operator()(const Node& a, const Node& b) const {
    return std::tie(a.low, a.key, a.kind) > std::tie(b.low, b.key, b.kind);
  }
};

struct Opened {
  std::vector<Node> children;
  std::vector<RankedPlan> plans;
  std::int64_t leaves = 0, passes = 0;
  bool interrupted = false;
};

// The best keys so far, or the best of every kind; ties broken by key.
class Incumbents {
 public:
  Incumbents(const PlanSpace& space, const SearchSettings& options)
      : space_(space), listing_(options.listing), top_(at(std::max(1, options.top))), known_(options.known_score) {}

  void offer(RankedPlan plan) {
    const auto before = [](const RankedPlan& a, const RankedPlan& b) {
      return std::tie(a.score, a.key) < std::tie(b.score, b.key);
    };
    const auto same =
        std::find_if(plans_.begin(), plans_.end(), [&](const RankedPlan& p) { return are_one(p.key, plan.key); });
    if (same != plans_.end()) {
      if (same->key == plan.key || before(*same, plan)) return;
      plans_.erase(same);
    }
    plans_.insert(std::upper_bound(plans_.begin(), plans_.end(), plan, before), std::move(plan));
    if (plans_.size() > top_) plans_.pop_back();
  }

  double cutoff() const { return plans_.size() < top_ ? known_ : std::min(known_, plans_.back().score); }
  bool excludes(const Node& node) const {
    if (node.low != cutoff()) return node.low > cutoff();
    return plans_.size() >= top_ && node.low == plans_.back().score && node.key > plans_.back().key;
  }
  std::vector<RankedPlan>& plans() { return plans_; }

 private:
  bool are_one(const Key& a, const Key& b) const {
    return listing_ == Listing::keys ? a == b : same_kind(space_.strategy(a), space_.strategy(b));
  }

  const PlanSpace& space_;
  Listing listing_;
  std::size_t top_;
  double known_;
  std::vector<RankedPlan> plans_;
};

class Opener {
 public:
  Opener(const PlanSpace& space, PriceCache& prices, const SearchSettings& settings, const Deadline& deadline)
      : space_(space),
        prices_(prices),
        objective_(settings.objective),
        ceiling_(settings.ceiling),
        rules_{cost::sync_rule(space.job(), 1), cost::sync_rule(space.job(), 2)},
        solver_(space, &deadline),
        deadline_(deadline) {}

  // Throws Interrupted.
  Opened open(const Node& node, double cutoff) {
    out_ = {};
    cutoff_ = cutoff;
    const std::int64_t passes = solver_.passes();
    switch (node.kind) {
      case NodeKind::pair: open_pair(node); break;
      case NodeKind::stages: open_stages(node); break;
      case NodeKind::chain: open_chain(node); break;
      case NodeKind::family: open_family(node); break;
      case NodeKind::key: open_key(node); break;
    }
    out_.passes = solver_.passes() - passes;
    return std::move(out_);
  }

 private:
  std::shared_ptr<const PairPrices> pair(const Key& key) {
    return prices_.get(space_.splits()[at(key.split)], space_.micro_batches()[at(key.micro_batch)]);
  }

  double score(double time_s, std::int64_t devices) const {
    return objective_ == PlanObjective::time ? time_s : time_s * real(devices);
  }

  // Of a plan, or a bound of plans on at least so many devices; infinite above the ceiling.
  double score_under(double time_s, std::int64_t devices) const {
    return ceiling_.holds(time_s, devices) ? score(time_s, devices) : kInfinity;
  }

  void push(const Node& child) {
    if (child.low <= cutoff_ && child.low < kInfinity) out_.children.push_back(child);
  }

  // Times of stages at least: the slowest, where that of its layers is known, and all together.
  struct StageTimes {
    double slowest_s, sum_s;
  };
  StageTimes least_times(const Key& key, const PairPrices& prices, double slowest_layers_s) const {
    const LeastWaiting waiting = solver_.least_waiting(key, prices);
    const double sum_s = prices.total_s(key.stages > 1) + waiting.sum_s;
    const double slowest_s = std::max(slowest_layers_s + waiting.each_s, sum_s / real(key.stages));
    return {slowest_s, std::max(slowest_s, sum_s)};
  }

  std::int64_t family_devices(const Key& key) const { return key.stages * space_.stage_devices(key) * key.replicas; }

  // Of a family: its micro-batches on the slowest stage of any cut.
  double family_low_s(const Key& key, const PairPrices& prices, double slowest_layers_s) const {
    const StageTimes least = least_times(key, prices, slowest_layers_s);
    const double time = solver_.form(key, prices).low(least.slowest_s, least.sum_s) + cost::constants::kStep_s;
    return time * (1 - 1e-12);
  }

  // The same with the gradients' way through the network, which the least of times leaves to the leaves.
  // `most`: replicas up to which it must hold, with equally many micro-batches; `node_degree`: as least_sync() says.
  double traffic_low(const Node& node, const PairPrices& prices, const Strategy& strategy, Placed placed,
                     std::int64_t most, std::optional<std::int64_t> node_degree) const {
    const Key& key = node.key;
    const schedule::StepForm form = solver_.form(key, prices);
    if (form.law == schedule::Law::least) return 0;
    Strategy largest = strategy;
    largest.dp = largest.dp_inner = most * space_.team(key);
    const cost::SyncRule& rule = rules_[strategy.pp > 1 ? 1 : 0];
    SyncPrices sync = least_sync(space_.job().cluster, strategy, node_degree, placed);
    for (auto& group : sync.lines) {
      for (int whole = 0; whole < 2; ++whole) {
        group[whole] = cost::fold_calls(space_.job(), rule, prices.table(), whole == 1 ? 3 : 1, group[whole]);
      }
    }
    const TrafficFloor traffic(space_.shardings(), rule, prices, sync, strategy, groups::zero_degrees(largest, 0),
                               solver_.memory_floor());
    const double m = form.micro_batches, v = form.chunks, p = real(strategy.pp);
    const StageTimes least = least_times(key, prices, node.slowest_s);
    const double even = least.sum_s / p;
    const double time = std::max(form.low(least.slowest_s, least.sum_s) + traffic.seconds(p / v),
                                 form.low(even, least.sum_s) + traffic.seconds(m - 1 / v + p / v));
    return score_under(time * (1 - 1e-12), family_devices(key));
  }

  // Of all families with at most so many replicas: fewer replicas have no fewer micro-batches each …
  double chain_low_s(Key key, const PairPrices& prices, std::int64_t most, double slowest_layers_s) const {
    key.replicas = most;
    return family_low_s(key, prices, slowest_layers_s);
  }
  // … and together they have the whole batch, whose device-seconds are those of its layers at least.
  double chain_low_device_s(Key key, const PairPrices& prices, double slowest_layers_s) const {
    key.replicas = 1;
    const auto all = real(space_.micro_batch_count(key) * key.stages * space_.stage_devices(key));
    return all * least_times(key, prices, slowest_layers_s).slowest_s * (1 - 1e-12);
  }
  double chain_low(const Key& key, const PairPrices& prices, std::int64_t most, double slowest_layers_s) const {
    return objective_ == PlanObjective::device_hours ? chain_low_device_s(key, prices, slowest_layers_s)
                                                     : chain_low_s(key, prices, most, slowest_layers_s);
  }
  bool chain_is_under(const Key& key, const PairPrices& prices, std::int64_t most, double slowest_layers_s) const {
    return (std::isinf(ceiling_.step_s) ||
            chain_low_s(key, prices, most, slowest_layers_s) <= ceiling_.step_s * PlanCeiling::kEdge) &&
           (std::isinf(ceiling_.device_s) ||
            chain_low_device_s(key, prices, slowest_layers_s) <= ceiling_.device_s * PlanCeiling::kEdge);
  }

  void open_pair(const Node& node) {
    const auto prices = pair(node.key);
    if (const auto ring = space_.ring_of(node.key)) {
      Key other = node.key;
      other.split = *ring;
      if (prices->is_never_faster(*pair(other))) return;
    }
    double low = kInfinity;
    Node child = node;
    child.kind = NodeKind::stages;
    for (child.key.stages = 1; child.key.stages <= space_.most_stages(node.key); ++child.key.stages) {
      if (!space_.limits().pp.admits(child.key.stages)) continue;
      deadline_.check();
      child.low = kInfinity;
      for_chains(child.key, [&](const Key& key, std::int64_t most) {
        const double slowest_s = prices->slowest_s(key.stages), chain = chain_low(key, *prices, most, slowest_s);
        low = std::min(low, chain);
        if (chain_is_under(key, *prices, most, slowest_s)) child.low = std::min(child.low, chain);
      });
      if (child.low < kInfinity) push(child);
    }
    // Other exchanges of contexts save no more than what is waited for of this one; whether they are under the ceiling is
    // theirs to say.
    if (std::isinf(low)) return;  // the same stages and replicas are admitted
    Node other = node;
    other.low = (1 - prices->context_share()) * low;
    for (const int split : space_.other_exchanges(node.key)) {
      other.key.split = split;
      if (space_.admits_pair(other.key)) push(other);
    }
  }

  template <class Visit>
  void for_chains(Key key, const Visit& visit) const {
    for (key.schedule = 0; key.schedule < static_cast<int>(space_.schedules().size()); ++key.schedule) {
      if (!space_.admits_schedule(key)) continue;
      if (const auto first = space_.plateau(key, space_.most_replicas(key))) visit(key, first->high);
    }
  }

  void open_stages(const Node& node) {
    const auto prices = pair(node.key);
    Node child = node;
    child.kind = NodeKind::chain;
    for_chains(node.key, [&](const Key& key, std::int64_t most) {
      child.key = key;
      child.most = most;
      child.slowest_s = prices->slowest_s(key.stages);
      if (!chain_is_under(key, *prices, most, child.slowest_s)) return;
      child.low = std::max(node.low, chain_low(key, *prices, most, child.slowest_s));
      push(child);
    });
  }

  // The chain again, with what memory says of its families: those with the fewest micro-batches have the least in flight
  // and shard the most, and what holds for them holds for all.
  void look_at_memory(Node node, const PairPrices& prices) {
    Key largest = node.key;
    largest.replicas = largest.inner_replicas = node.most;
    const double unit =
        score(1, objective_ == PlanObjective::time ? 1 : largest.stages * space_.stage_devices(largest));
    const double enough =
        solver_.form(largest, prices).slowest_within(prices.total_s(largest.stages > 1), cutoff_ / unit, 1e-9);
    node.slowest_s =
        solver_.memory_floor().slowest_s(space_.strategy(largest), prices, std::max(node.slowest_s, enough));
    if (std::isinf(node.slowest_s) || !chain_is_under(node.key, prices, node.most, node.slowest_s)) return;
    node.low = std::max(node.low, chain_low(node.key, prices, node.most, node.slowest_s));
    ++node.tries;
    push(node);
  }

  // Families with the fewest micro-batches, and the rest of the chain.
  void open_chain(const Node& node) {
    const auto prices = pair(node.key);
    if (node.tries == 0) return look_at_memory(node, *prices);
    const auto plateau = space_.plateau(node.key, node.most);
    if (!plateau) return;
    Node child = node;
    child.tries = 0;
    child.most = plateau->high;
    push_family(child, *prices, plateau->low);
    if (const auto next = space_.plateau(node.key, plateau->low - 1)) {
      Node rest = node;
      rest.most = next->high;
      if (!chain_is_under(node.key, *prices, rest.most, node.slowest_s)) return;
      rest.low = std::max(node.low, chain_low(node.key, *prices, rest.most, node.slowest_s));
      push(rest);
    }
  }

  // The first admitted family of a plateau with at least so many replicas. Families of a plateau have equally many
  // micro-batches, and the more replicas the more members exchange gradients: with the optimizer's state divided over
  // the most of them, the bound of the first holds for those after it, which are looked at when it is opened.
  void push_family(Node child, const PairPrices& prices, std::int64_t fewest) {
    const auto replicas = space_.next_replicas(child.key, {fewest, child.most});
    if (!replicas) return;
    child.kind = NodeKind::family;
    child.key.replicas = *replicas;
    child.low =
        std::max(child.low, score_under(family_low_s(child.key, prices, child.slowest_s), family_devices(child.key)));
    if (child.low > cutoff_ || std::isinf(child.low)) return;
    child.key.inner_replicas = *replicas;
    std::optional<std::int64_t> any_degree;
    if (space_.limits().shard_in_node) any_degree = kAnyDegree;
    child.low = std::max(
        child.low, traffic_low(child, prices, space_.strategy(child.key), Placed::anywhere, child.most, any_degree));
    push(child);
  }

  void open_family(const Node& node) {
    const auto prices = pair(node.key);
    push_family(node, *prices, node.key.replicas + 1);
    // The family alone, of which the replicas are known.
    Node child = node;
    const Strategy together = space_.strategy(node.key);
    double family = traffic_low(node, *prices, together, Placed::anywhere, node.key.replicas, std::nullopt);
    for (const std::int64_t degree : space_.node_degrees(together)) {
      family = std::min(family, traffic_low(node, *prices, together, Placed::anywhere, node.key.replicas, degree));
    }
    family = std::max(family, node.low);
    if (family > cutoff_ || std::isinf(family)) return;
    child.kind = NodeKind::key;
    for (const std::int64_t inner : space_.inner_replicas(node.key)) {
      child.key.inner_replicas = inner;
      for (const std::int64_t pitch : space_.pitches(child.key)) {
        child.key.pitch = pitch;
        deadline_.check();
        const Strategy strategy = space_.strategy(child.key);
        child.low = std::max(family, traffic_low(child, *prices, strategy, Placed::as_given, child.key.replicas,
                                                 space_.node_degree(strategy)));
        if (child.low > cutoff_ || std::isinf(child.low) || !space_.places(strategy)) continue;
        const double time = solver_.message_bound_s(child.key, *prices);
        child.low = std::max(child.low, score_under(time, strategy.devices_spanned()));
        push(child);
      }
    }
  }

  void open_key(const Node& node) {
    const auto prices = pair(node.key);
    const auto devices = space_.strategy(node.key).devices_spanned();
    const double unit = score(1, devices);
    const bool probing = node.tries < std::size(kProbes);
    const double most = std::min(cutoff_, ceiling_.seconds_on(devices) * unit);
    const double limit = probing ? std::min(most, node.low * kProbes[node.tries]) : most;
    ++out_.leaves;
    if (std::optional<PartitionPlan> plan = solver_.solve(node.key, *prices, limit / unit)) {
      // By the least law a key's bound may be above what its cuts say.
      const bool least = space_.job().law == schedule::Law::least;
      const double low_s = least ? std::max(plan->time_s, solver_.low_s()) : plan->time_s;
      if (ceiling_.holds(plan->time_s, devices)) out_.plans.push_back({low_s * unit, node.key, std::move(*plan)});
    } else if (limit < most) {
      Node again = node;
      // A bound that was not known before does not count as a try.
      const double low = solver_.low_s() * unit;
      again.low = std::max(limit, low);
      if (low <= limit) ++again.tries;
      push(again);
    }
  }

  const PlanSpace& space_;
  PriceCache& prices_;
  PlanObjective objective_;
  PlanCeiling ceiling_;
  std::array<cost::SyncRule, 2> rules_;  // without a pipeline, and with one
  LeafSolver solver_;
  const Deadline& deadline_;
  double cutoff_ = kInfinity;
  Opened out_;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::int64_t fewest_devices(const cost::Job& job) {
  if (!job.run.freeze.empty() || !job.run.lora.empty() || job.profile != nullptr) return 1;
  const check::StateFloor state = state_floor(job);
  const double bytes = (state.weights + state.gradients + state.optimizer) * real(job.parameters);
  const double devices = std::ceil(bytes / real(job.cluster.device.memory_bytes) * (1 - 1e-12));
  return static_cast<std::int64_t>(std::clamp(devices, 1.0, 0x1p62));
}

double least_score(const cost::Job& job, std::int64_t devices, PlanObjective objective) {
  if (job.law != schedule::Law::formula) return 0;
  const double all = check::least_device_seconds(job.run, job.model, job.cluster.device) * (1 - 1e-9);
  return objective == PlanObjective::time ? all / real(devices) : all;
}

SearchFindings find_best(const PlanSpace& space, PriceCache& prices, const SearchSettings& options) {
  const auto start = std::chrono::steady_clock::now();
  Deadline deadline(options.time_limit_s, options.stop);
  SearchFindings findings;
  findings.complete = true;
  if (fewest_devices(space.job()) > space.devices()) {  // hopeless
    findings.lower_bound = options.known_score;
    // Somebody may look for a plan otherwise in the time that is left.
    findings.keys = space.count_keys(Deadline(kCountShare * options.time_limit_s, options.stop));
    findings.wall_s = seconds_since(start);
    return findings;
  }
  bool looked_for_first = !options.first;
  const auto look_for_first = [&](double seconds) {
    looked_for_first = true;
    // Of a short limit others that are asked after this search have their share; where there are none, all is for it.
    const double limit = options.time_limit_s;
    const bool others = options.share_without_first < 1;
    const double most = !others            ? std::max(kFirstMost, kFirstLeast / limit)
                        : limit < kShort_s ? kFirstShare
                                           : kFirstMost;
    const Deadline end(std::isfinite(limit) ? std::min(1.0, most) * limit : 10 * seconds, options.stop);
    findings.first = first_plan(space, options.objective, end, Deadline(seconds, options.stop));
    if (findings.first && score_of(*findings.first, options.objective) >= options.known_score) findings.first.reset();
    if (findings.first &&
        !options.ceiling.holds(findings.first->prediction.iteration_s, findings.first->strategy.devices_spanned())) {
      findings.first.reset();
    }
  };
  if (!looked_for_first && std::isfinite(options.time_limit_s)) {
    look_for_first(std::clamp(kFirstShare * options.time_limit_s, kFirstSeconds, 1.0));
    if (!findings.first) deadline = Deadline(options.share_without_first * deadline.left_s(), options.stop);
  }
  Workers workers(thread_count(options.threads));
  std::vector<std::unique_ptr<Opener>> openers;
  openers.reserve(at(workers.size()));
  for (int k = 0; k < workers.size(); ++k) {
    openers.push_back(std::make_unique<Opener>(space, prices, options, deadline));
  }
  Incumbents incumbents(space, options);
  const double least = least_score(space.job(), space.devices(), options.objective);
  std::priority_queue<Node, std::vector<Node>, Later> queue;
  for (int split = 0; split < static_cast<int>(space.splits().size()); ++split) {
    for (int size = 0; size < static_cast<int>(space.micro_batches().size()); ++size) {
      Node node;
      node.key.split = split;
      node.key.micro_batch = size;
      // Where context ranks may form rings, those come first and bring the others.
      if (!space.ring_of(node.key) && space.admits_pair(node.key)) queue.push(node);
    }
  }
  double reported = 0, told = 0;
  std::vector<Node> round;
  std::vector<Opened> results;
  while (!queue.empty() && !incumbents.excludes(queue.top())) {
    const double elapsed = seconds_since(start);
    if (deadline.has_passed() || (options.most_opened > 0 && findings.opened >= options.most_opened)) {
      findings.complete = false;
      break;
    }
    if (!looked_for_first && incumbents.plans().empty() && elapsed > kFirstSeconds) look_for_first(kFirstSeconds);
    const bool reports = options.progress && elapsed - reported > 0.1;
    const bool tells = options.so_far && elapsed - told > kTellEvery_s;
    if (reports || tells) {
      const double found = incumbents.plans().empty() ? kInfinity : incumbents.plans().front().score;
      const double first = findings.first ? score_of(*findings.first, options.objective) : kInfinity;
      const double best = std::min(found, first), low = std::max(queue.top().low, least);
      if (reports) {
        reported = elapsed;
        options.progress({findings.opened, best, low, elapsed});
      }
      if (tells) {
        told = elapsed;
        options.so_far({found <= first && found < kInfinity ? incumbents.plans().data() : nullptr,
                        findings.first ? &*findings.first : nullptr, best, low, findings.opened, elapsed});
      }
    }
    round.clear();
    while (round.size() < kRound && !queue.empty() && !incumbents.excludes(queue.top())) {
      round.push_back(queue.top());
      queue.pop();
    }
    results.assign(round.size(), {});
    const double cutoff = incumbents.cutoff();
    workers.for_each(round.size(), [&](std::size_t item, int worker) {
      try {
        results[item] = openers[at(worker)]->open(round[item], cutoff);
      } catch (const Interrupted&) {
        results[item].interrupted = true;
      }
    });
    for (std::size_t k = 0; k < results.size(); ++k) {
      Opened& result = results[k];
      if (result.interrupted) {  // its bound still counts
        findings.complete = false;
        queue.push(round[k]);
        continue;
      }
      ++findings.opened;
      findings.leaves += result.leaves;
      findings.passes += result.passes;
      for (RankedPlan& plan : result.plans) incumbents.offer(std::move(plan));
      for (const Node& child : result.children) {
        if (!incumbents.excludes(child)) queue.push(child);
      }
    }
    if (!findings.complete) break;
  }
  findings.plans = std::move(incumbents.plans());
  // Cuts and options that do not depend on the limits under which they were found.
  LeafSolver solver(space, &deadline);
  for (RankedPlan& plan : findings.plans) {
    if (deadline.has_passed()) break;
    const auto pair = prices.get(space.splits()[at(plan.key.split)], space.micro_batches()[at(plan.key.micro_batch)]);
    try {
      if (auto again = solver.solve(plan.key, *pair, plan.leaf.time_s)) plan.leaf = std::move(*again);
    } catch (const Interrupted&) {
      break;  // they are as good as they were found
    }
  }
  findings.lower_bound = findings.plans.empty() ? options.known_score : findings.plans.front().score;
  if (!queue.empty()) findings.lower_bound = std::min(findings.lower_bound, queue.top().low);
  if (findings.complete && !findings.plans.empty()) findings.lower_bound = findings.plans.front().score;
  if (!findings.complete) findings.lower_bound = std::max(findings.lower_bound, least);
  const double found = findings.plans.empty() ? kInfinity : findings.plans.front().score;
  if (findings.complete || (findings.first && score_of(*findings.first, options.objective) >= found)) {
    findings.first.reset();
  }
  findings.keys = space.count_keys(deadline);
  findings.wall_s = seconds_since(start);
  return findings;
}

}  // namespace nest::search
