#include "instance/solve.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "base/checked.h"
#include "base/index.h"
#include "instance/stage_table.h"

namespace nest::instance {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The groups of devices, by how many devices they hold; what is beyond all devices is not counted out.
class Groups {
 public:
  explicit Groups(const ProfileInstance& instance) {
    std::int64_t size = 1;
    for (const ProfileLevel& level : instance.levels) {
      if (size < instance.devices) size *= level.group;
      sizes_.push_back(size);
    }
  }
  // Smallest level at which two devices share a group.
  int level_of(std::int64_t one, std::int64_t other) const {
    int level = 0;
    while (one / sizes_[at(level)] != other / sizes_[at(level)]) ++level;
    return level;
  }

 private:
  std::vector<std::int64_t> sizes_;
};

// A way to start a pipeline of S stages: its first stage is [0, end), and the slowest stage of all takes max_load_s.
struct Start {
  int end;
  double max_load_s;
  std::int64_t parameter_bytes;
};

struct Best {
  double objective_s = kNever;
  std::int64_t replicas = 0;
  int stages = 0;
  int first_end = 0;
};

// One width.
class WidthSearch {
 public:
  WidthSearch(const ProfileInstance& instance, const ProfileGraph& graph, const Groups& groups,
              ProfileCounters& counters)
      : instance_(instance),
        groups_(groups),
        counters_(counters),
        table_(instance, graph),
        stage_devices_(instance.stage_devices(graph)),
        most_stages_(static_cast<int>(std::min<std::int64_t>(table_.nodes(), instance.devices / stage_devices_))) {
    counters_.widths += 1;
    counters_.intervals += table_.intervals();
  }

  // Lowers `best` where this width has something better, and says whether it had.
  bool improve(Best& best) {
    bool improved = false;
    suffix_.assign(at(table_.nodes() + 1), kNever);
    suffix_.back() = 0;
    for (int stages = 1; stages <= most_stages_; ++stages) {
      improved |= price_replicas(stages, starts(stages), best);
      if (stages < most_stages_) add_stage(stages);
    }
    return improved;
  }

  // The cuts of the plan with that many stages and that first stage, as found by improve().
  std::vector<int> cuts(int stages, int first_end) const {
    std::vector<int> cuts{0};
    int begin = first_end;
    for (int s = stages - 1; s >= 1; --s) {
      cuts.push_back(begin);
      begin = next_[at(s - 1)][at(begin)];
    }
    return cuts;
  }

 private:
  // Loads of the stages [begin, …) at place s, computed from the table's rows.
  struct Loads {
    std::span<const double> forward;
    std::span<const double> backward;
    std::span<const double> recomputed;  // empty where nothing is recomputed
    std::span<const int> deepest;

    double operator[](std::size_t i) const {
      return forward[i] + (recomputed.empty() ? backward[i] : std::max(recomputed[i], backward[i]));
    }
  };

  Loads loads(int begin, int s, bool is_first) const {
    const std::int64_t first_device = (s - 1) * stage_devices_;
    const std::int64_t next_device = s * stage_devices_;
    const int in_level = is_first ? 0 : groups_.level_of(next_device, next_device - 1);
    const int out_level = s == 1 ? 0 : groups_.level_of(first_device, first_device - 1);
    Loads loads{table_.forward(in_level, begin), table_.backward(out_level, begin), {}, table_.deepest(begin)};
    if (instance_.recompute && s > 1) loads.recomputed = table_.recomputed(begin);
    return loads;
  }

  // suffix_ from f[s-1] to f[s].
  void add_stage(int s) {
    const int nodes = table_.nodes();
    std::vector<double> longer(suffix_.size(), kNever);
    std::vector<int> next(suffix_.size(), 0);
    for (int begin = nodes - s; begin >= 1; --begin) {
      const Loads load = loads(begin, s, false);
      const int last_end = std::min(table_.reach(begin), nodes - s + 1);
      double best = kNever;
      int best_end = 0;
      int end = begin + 1;
      for (; end <= last_end; ++end) {
        const std::size_t i = at(end - begin - 1);
        // Longer stages are no faster forward, and need no less memory: what they hold and what enters them only grows.
        if (load.forward[i] >= best || load.deepest[i] < s) break;
        const double slowest = std::max(load[i], suffix_[at(end)]);
        if (slowest < best) {
          best = slowest;
          best_end = end;
        }
      }
      counters_.transitions += end - begin - 1;
      longer[at(begin)] = best;
      next[at(begin)] = best_end;
    }
    counters_.states += std::max(0, nodes - s);
    suffix_ = std::move(longer);
    next_.push_back(std::move(next));
  }

  // The first stages that no shorter one beats or equals, shortest first: parameters grow, max load falls.
  std::vector<Start> starts(int stages) const {
    const Loads load = loads(0, stages, true);
    const int last_end = std::min(table_.reach(0), table_.nodes() - stages + 1);
    std::vector<Start> starts;
    double best = kNever;
    for (int end = 1; end <= last_end; ++end) {
      const std::size_t i = at(end - 1);
      if (load.deepest[i] < stages) break;
      const double slowest = std::max(load[i], suffix_[at(end)]);
      if (slowest >= best) continue;
      best = slowest;
      starts.push_back({end, slowest, table_.leading_parameter_bytes(end)});
    }
    return starts;
  }

  bool price_replicas(int stages, const std::vector<Start>& starts, Best& best) {
    if (starts.empty()) return false;
    const std::int64_t pipeline = stages * stage_devices_;
    const std::int64_t m = instance_.micro_batches;
    bool improved = false;
    for (std::int64_t replicas = 1; replicas * pipeline <= instance_.devices;) {
      const std::int64_t rounds = ceil_div(m, replicas);
      const auto slots = real(rounds + stages - 1);
      for (std::size_t i = starts.size(); i-- > 0;) {
        if (starts[i].max_load_s * slots >= best.objective_s) break;  // and slower ones are no better
        counters_.candidates += 1;
        const double objective_s = starts[i].max_load_s * slots + sync_s(starts[i].parameter_bytes, replicas, pipeline);
        if (objective_s < best.objective_s) {
          best = {objective_s, replicas, stages, starts[i].end};
          improved = true;
        }
      }
      if (rounds == 1) break;              // as many replicas as micro-batches
      replicas = ceil_div(m, rounds - 1);  // the smallest number with fewer rounds
    }
    return improved;
  }

  double sync_s(std::int64_t parameter_bytes, std::int64_t replicas, std::int64_t pipeline) const {
    const auto bytes = real(parameter_bytes);
    double time_s = 0;
    const ProfileLevel& inner = instance_.levels.front();
    double part = bytes;
    for (std::int64_t halving = replicas; halving > 1; halving /= 2) {
      time_s += inner.latency_s + part / inner.bandwidth_bytes_per_s;
      part /= 2;
    }
    const int top = groups_.level_of(0, (replicas - 1) * pipeline);
    double low_s = 0;
    for (int l = 1; l <= top; ++l) {
      const ProfileLevel& level = instance_.levels[at(l)];
      time_s += 2 * (level.latency_s + bytes / level.bandwidth_bytes_per_s) + low_s;
      low_s += time_s;
    }
    return time_s;
  }

  const ProfileInstance& instance_;
  const Groups& groups_;
  ProfileCounters& counters_;
  StageTable table_;
  std::int64_t stage_devices_;
  int most_stages_;
  std::vector<double> suffix_;          // f[s], by the first node
  std::vector<std::vector<int>> next_;  // where the stage s = index + 1 that begins at a node ends
};

}  // namespace

ProfileSolution solve_profile_instance(const ProfileInstance& instance) {
  ProfileSolution solution;
  const Groups groups(instance);
  Best best;
  for (const ProfileGraph& graph : instance.graphs) {
    if (instance.stage_devices(graph) > instance.devices) continue;
    WidthSearch search(instance, graph, groups, solution.counters);
    if (!search.improve(best)) continue;
    solution.plan = ProfilePlan{graph.width, best.replicas, search.cuts(best.stages, best.first_end)};
  }
  if (solution.plan) solution.objective_s = solution.lower_bound_s = best.objective_s;
  return solution;
}

}  // namespace nest::instance
