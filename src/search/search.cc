#include "search/search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <queue>
#include <thread>

#include "base/error.h"
#include "search/diagnose.h"
#include "search/evaluate.h"
#include "search/incumbents.h"
#include "search/quick.h"
#include "search/tree.h"
#include "search/workers.h"

namespace nest::search {
namespace {

constexpr std::size_t kLargestRound = 64;
constexpr Score kNoLimit = static_cast<Score>(1) << 100;

class Driver {
 public:
  Driver(const Problem& problem, const Settings& settings)
      : problem_(problem),
        settings_(settings),
        begin_(Clock::now()),
        shared_(problem),
        workers_(settings.threads > 0 ? settings.threads
                                      : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))),
        incumbents_(static_cast<std::size_t>(std::max(1, settings.top)), settings.known.value_or(kNoLimit)) {
    for (int i = 0; i < workers_.size(); ++i) openers_.emplace_back(shared_, settings.dive);
  }

  Result run() {
    start();
    bool finished = true;
    while (!queue_.empty()) {
      if (expired()) {
        finished = false;
        break;
      }
      if (!round()) break;
    }
    return report(finished);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    Node node;
    std::uint64_t order;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      if (a.node.low != b.node.low) return a.node.low > b.node.low;
      if (a.node.key != b.node.key) return a.node.key > b.node.key;
      return a.order > b.order;
    }
  };

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  bool expired() const {
    return (settings_.stop != nullptr && settings_.stop->load(std::memory_order_relaxed)) ||
           elapsed() > settings_.time_limit_s;
  }
  void close(const Node& node) { ++counters_.closed[static_cast<std::size_t>(node.rule)]; }
  void push(const Node& node) {
    if (incumbents_.cutoff().excludes(node.low, node.key)) {
      close(node);
    } else {
      queue_.push({node, order_++});
    }
  }

  void start() {
    std::vector<Node> pairs;
    for (int split = 0; split < static_cast<int>(problem_.splits.size()); ++split) {
      for (int size = 0; size < static_cast<int>(problem_.micro_batches.size()); ++size) {
        const Space space(problem_, split, size);
        if (!space.admissible() || space.most_stages() < 1) continue;
        Node pair;
        pair.key.split = split;
        pair.key.micro_batch = size;
        pairs.push_back(pair);
        counters_.keys += space.count_keys();
      }
    }
    const bool bounds = problem_.pricer->has_bounds();
    if (!bounds) {
      workers_.run(pairs.size(),
                   [&](std::size_t i, int) { shared_.price(pairs[i].key.split, pairs[i].key.micro_batch); });
      counters_.priced += static_cast<std::int64_t>(pairs.size());
    }
    for (Node& pair : pairs) {
      const WorkBound work =
          bounds ? problem_.pricer->bound(pair.key.split, pair.key.micro_batch)
                 : WorkBound{shared_.priced(pair.key).total.time_ps, shared_.priced(pair.key).largest_time_ps};
      pair.low = work_bound(problem_, pair.key.split, pair.key.micro_batch, work);
    }
    std::stable_sort(pairs.begin(), pairs.end(), [](const Node& a, const Node& b) { return a.low < b.low; });
    if (settings_.quick) {
      quick_plans(shared_, pairs, incumbents_, openers_.front(), counters_, [this] { return expired(); });
    }
    for (const Node& pair : pairs) push(pair);
  }

  // Takes the best nodes, opens them with the cutoff of now, merges in the order taken. False when nothing is left to
  // open.
  bool round() {
    const Cutoff cutoff = incumbents_.cutoff();
    // Small rounds first, so that a short search opens no more than it must.
    const std::size_t size = std::min(kLargestRound, 1 + static_cast<std::size_t>(counters_.opened) / 16);
    std::vector<Node> nodes;
    while (nodes.size() < size && !queue_.empty()) {
      const Node& top = queue_.top().node;
      if (cutoff.excludes(top.low, top.key)) {
        close(top);
      } else {
        nodes.push_back(top);
      }
      queue_.pop();
    }
    if (nodes.empty()) return false;
    bound_ = nodes.front().low;
    std::vector<Expansion> opened(nodes.size());
    workers_.run(nodes.size(), [&](std::size_t i, int worker) {
      opened[i] = openers_[static_cast<std::size_t>(worker)].open(nodes[i], cutoff);
    });
    for (Expansion& expansion : opened) {
      counters_.add(expansion.counters);
      for (Offer& offer : expansion.offers) incumbents_.offer(std::move(offer));
    }
    for (Expansion& expansion : opened) {
      for (const Node& child : expansion.children) push(child);
    }
    tell();
    return true;
  }

  void tell() {
    if (!settings_.progress || elapsed() < next_progress_s_) return;
    next_progress_s_ = elapsed() + 0.1;
    Progress progress{counters_.opened, std::nullopt, bound_, elapsed()};
    if (!incumbents_.best().empty()) progress.best = incumbents_.best().front().score;
    settings_.progress(progress);
  }

  // Solves a winner once more with its own time as the limit: cuts and options then depend on the key alone.
  Plan canonical(const Offer& offer) {
    Plan plan;
    plan.key = offer.key;
    const PartitionPlan* chosen = &offer.plan;
    std::optional<Offer> again;
    if (offer.exact) {
      Counters ignored;
      again = openers_.front().solve(offer.key, offer.score, ignored);
      NEST_CHECK(again && again->score == offer.score, "a plan changed its score when solved again");
      chosen = &again->plan;
    }
    plan.cuts = chosen->cuts;
    for (int code : chosen->options) plan.options.push_back(StageOption::from_code(code));
    const Evaluation evaluation = evaluate(problem_, plan);
    NEST_CHECK(evaluation.fits && evaluation.time_ps == chosen->time_ps, "a plan does not cost what the search claims");
    plan.time_ps = evaluation.time_ps;
    plan.devices = evaluation.devices;
    plan.micro_batches = evaluation.micro_batches;
    return plan;
  }

  Result report(bool finished) {
    Result result;
    for (const Offer& offer : incumbents_.best()) {
      NEST_CHECK(offer.exact || !finished, "the search ended with an unsolved key among the best");
      result.plans.push_back(canonical(offer));
    }
    const bool found = !result.plans.empty();
    const Score best = found ? incumbents_.best().front().score : 0;
    result.outcome = !finished ? Outcome::limit : found ? Outcome::optimal : Outcome::infeasible;
    result.lower_bound = finished ? best : queue_.empty() ? best : queue_.top().node.low;
    if (found) result.lower_bound = std::min(result.lower_bound, best);
    result.gap = !found                    ? HUGE_VAL
                 : result.lower_bound == 0 ? (best == 0 ? 0 : HUGE_VAL)
                                           : static_cast<double>(best) / static_cast<double>(result.lower_bound) - 1;
    if (result.outcome == Outcome::infeasible) result.shortfall = nearest_fit(shared_);
    result.counters = counters_;
    result.wall_s = elapsed();
    return result;
  }

  const Problem& problem_;
  const Settings& settings_;
  Clock::time_point begin_;
  Shared shared_;
  Workers workers_;
  Incumbents incumbents_;
  std::vector<Opener> openers_;
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_;
  std::uint64_t order_ = 0;
  Score bound_ = 0;
  double next_progress_s_ = 0;
  Counters counters_;
};

}  // namespace

void Counters::add(const Counters& other) {
  keys += other.keys;
  opened += other.opened;
  relaxed += other.relaxed;
  leaves += other.leaves;
  passes += other.passes;
  priced += other.priced;
  for (std::size_t i = 0; i < closed.size(); ++i) closed[i] += other.closed[i];
}

const char* to_string(Rule rule) {
  switch (rule) {
    case Rule::work: return "work";
    case Rule::arithmetic: return "arithmetic";
    case Rule::stages: return "stages";
    case Rule::range: return "range";
    case Rule::plateau: return "plateau";
    case Rule::tail: return "tail";
    case Rule::hops: return "hops";
    case Rule::placement: return "placement";
    case Rule::leaf: return "leaf";
    case Rule::count: break;
  }
  return "unknown";
}

Result find_plans(const Problem& problem, const Settings& settings) {
  validate(problem);
  return Driver(problem, settings).run();
}

}  // namespace nest::search
