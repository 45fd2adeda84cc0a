#include "check/levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace nest::check {
namespace {

// Distances between devices, by arithmetic on what the cluster's file says.
class Distances {
 public:
  explicit Distances(const cluster::Cluster& cluster) : cluster_(cluster) {
    // First devices of the units of level l, where switches differ; else the size of a unit.
    std::vector<std::int64_t> starts;
    std::int64_t size = 1;
    bool even = true;
    for (const cluster::Level& level : cluster.levels) {
      even = even && level.counts.empty();
      size *= level.group;
      Units units{size, {}};
      if (!even) {
        std::size_t child = 0;
        const auto children = starts.empty() ? static_cast<std::size_t>(cluster.devices) : starts.size();
        for (std::size_t unit = 0; child < children; ++unit) {
          units.starts.push_back(starts.empty() ? static_cast<std::int64_t>(child) : starts[child]);
          const bool listed = unit < level.counts.size();
          child += static_cast<std::size_t>(listed ? level.counts[unit] : level.group);
        }
        starts = units.starts;
      } else {
        starts.clear();
        for (std::int64_t first = 0; first < cluster.devices; first += size) starts.push_back(first);
      }
      units_.push_back(std::move(units));
    }
  }

  std::int64_t between(std::int64_t a, std::int64_t b) const {
    if (cluster_.torus) return hops(a, b);
    std::size_t level = 0;
    while (level + 1 < units_.size() && unit_of(level, a) != unit_of(level, b)) ++level;
    return static_cast<std::int64_t>(level);
  }

 private:
  struct Units {
    std::int64_t size;
    std::vector<std::int64_t> starts;
  };

  std::int64_t unit_of(std::size_t level, std::int64_t device) const {
    const Units& units = units_[level];
    if (units.starts.empty()) return device / units.size;
    return std::upper_bound(units.starts.begin(), units.starts.end(), device) - units.starts.begin();
  }

  std::int64_t hops(std::int64_t a, std::int64_t b) const {
    const cluster::Torus& torus = *cluster_.torus;
    std::int64_t total = 0;
    for (std::size_t k = 0; k < torus.dims.size(); ++k) {
      const std::int64_t ahead = std::abs(a % torus.dims[k] - b % torus.dims[k]);
      total += torus.wrap[k] ? std::min(ahead, torus.dims[k] - ahead) : ahead;
      a /= torus.dims[k];
      b /= torus.dims[k];
    }
    return total;
  }

  const cluster::Cluster& cluster_;
  std::vector<Units> units_;
};

class Range {
 public:
  void take(std::int64_t value) {
    range_.least = seen_ ? std::min(range_.least, value) : value;
    range_.most = seen_ ? std::max(range_.most, value) : value;
    seen_ = true;
  }
  const Crossing& get() const { return range_; }

 private:
  Crossing range_;
  bool seen_ = false;
};

class Survey {
 public:
  Survey(const Strategy& strategy, const cluster::Cluster& cluster)
      : s_(strategy), cluster_(cluster), distances_(cluster) {}

  std::vector<BoundaryCrossing> boundaries() const {
    std::vector<BoundaryCrossing> crossed;
    for (std::int64_t stage = 0; stage + 1 < s_.pp; ++stage) crossed.push_back(boundary(stage, stage + 1));
    if (s_.schedule == Schedule::interleaved && s_.pp > 1) crossed.push_back(boundary(s_.pp - 1, 0));
    return crossed;
  }

  LevelsCrossed run() const {
    LevelsCrossed crossed;
    crossed.boundaries = boundaries();
    const std::int64_t tp = s_.split.tp, cp = s_.split.cp, ep = s_.split.ep;
    const std::int64_t etp = s_.split.etp > 0 ? s_.split.etp : tp;
    // The ranks of a stage are read twice: t + tp (c + cp d) and, for experts, x + etp (e + ep f).
    add(crossed, "tensor", tp, [&](std::int64_t rank, std::int64_t other) { return rank + other * tp; });
    add(crossed, "context", cp,
        [&](std::int64_t rank, std::int64_t other) { return other % tp + tp * (rank + cp * (other / tp)); });
    add(crossed, "expert", ep,
        [&](std::int64_t rank, std::int64_t other) { return other % etp + etp * (rank + ep * (other / etp)); });
    if (etp != tp) {
      add(crossed, "expert tensor", etp, [&](std::int64_t rank, std::int64_t other) { return rank + other * etp; });
    }
    add(crossed, "data", cp * s_.dp, [&](std::int64_t rank, std::int64_t other) { return other + tp * rank; });
    if (ep > 1 || etp != tp) {
      add(crossed, "expert data", ranks() / (etp * ep),
          [&](std::int64_t rank, std::int64_t other) { return other + etp * ep * rank; });
    }
    return crossed;
  }

 private:
  BoundaryCrossing boundary(std::int64_t from, std::int64_t to) const {
    Range range;
    for (std::int64_t rank = 0; rank < ranks(); ++rank) {
      range.take(distances_.between(device(from, rank), device(to, rank)));
    }
    return {from, to, range.get()};
  }

  // The way through a group from its first to its last device, or on a torus from each to the next.
  template <class DeviceOf>
  void take_group(std::int64_t size, const DeviceOf& device_of, Range& range) const {
    if (!cluster_.torus) {
      std::int64_t first = device_of(0), last = first;
      for (std::int64_t rank = 1; rank < size; ++rank) {
        const std::int64_t device = device_of(rank);
        first = std::min(first, device);
        last = std::max(last, device);
      }
      range.take(distances_.between(first, last));
      return;
    }
    std::vector<std::int64_t> devices;
    for (std::int64_t rank = 0; rank < size; ++rank) devices.push_back(device_of(rank));
    std::sort(devices.begin(), devices.end());
    for (std::size_t i = 0; i + 1 < devices.size(); ++i) range.take(distances_.between(devices[i], devices[i + 1]));
  }

  std::int64_t ranks() const { return s_.split.tp * s_.split.cp * s_.dp; }

  // Of a rank of a stage.
  std::int64_t device(std::int64_t stage, std::int64_t rank) const {
    const std::int64_t replica = s_.split.tp * s_.split.cp;
    return device_of(s_, rank / replica, stage, rank % replica);
  }

  // number(rank, other): of member `rank` of group number `other` among the ranks of a stage.
  template <class Number>
  void add(LevelsCrossed& crossed, const char* name, std::int64_t size, const Number& number) const {
    if (size < 2) return;
    Range range;
    for (std::int64_t stage = 0; stage < s_.pp; ++stage) {
      for (std::int64_t other = 0; other < ranks() / size; ++other) {
        take_group(
            size, [&](std::int64_t rank) { return device(stage, number(rank, other)); }, range);
      }
    }
    crossed.groups.push_back({name, size, range.get()});
  }

  const Strategy& s_;
  const cluster::Cluster& cluster_;
  Distances distances_;
};

}  // namespace

LevelsCrossed levels_crossed(const Strategy& strategy, const cluster::Cluster& cluster) {
  return Survey(strategy, cluster).run();
}

std::vector<BoundaryCrossing> boundaries_crossed(const Strategy& strategy, const cluster::Cluster& cluster) {
  if (strategy.pp < 2) return {};
  return Survey(strategy, cluster).boundaries();
}

std::string crossing_name(const cluster::Cluster& cluster, const Crossing& crossing) {
  const auto name = [&](std::int64_t value) {
    return cluster.torus ? std::to_string(value) : cluster.levels[static_cast<std::size_t>(value)].name;
  };
  std::string range = crossing.least == crossing.most
                          ? name(crossing.most)
                          : fmt::format("{} … {}", name(crossing.least), name(crossing.most));
  if (!cluster.torus) return range;
  return range + (crossing.most == 1 ? " hop" : " hops");
}

double least_message_s(const cluster::Cluster& cluster, std::int64_t crossing, double bytes) {
  if (cluster.torus) {
    return static_cast<double>(crossing) * cluster.torus->latency_s + bytes / cluster.torus->link_bytes_per_s;
  }
  const auto top = static_cast<std::size_t>(crossing);
  // A port of the device's own replaces the links below it; the links of a full mesh do not leave it.
  std::size_t first = top > 0 && cluster.levels[0].full_mesh ? 1 : 0;
  for (std::size_t l = 0; l <= top; ++l) {
    if (cluster.levels[l].rails) first = l;
  }
  double slowest = 0;
  for (std::size_t l = first; l <= top; ++l) {
    const cluster::Level& level = cluster.levels[l];
    slowest = std::max(slowest, bytes * level.oversubscription / (level.bandwidth_bytes_per_s * level.efficiency));
  }
  return cluster.levels[top].latency_s + slowest;
}

}  // namespace nest::check
