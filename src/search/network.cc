#include "search/network.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"

namespace nest::search {
namespace {

std::int64_t log2_ceil(std::int64_t value) {
  std::int64_t steps = 0;
  while ((std::int64_t{1} << steps) < value) ++steps;
  return steps;
}

// A real lower bound made an integer one; the margin covers the rounding of the doubles that led to it.
std::int64_t round_below(double value) {
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(value * (1 - 1e-9))) - 1);
}

}  // namespace

LevelNetwork::LevelNetwork(std::vector<NetworkLevel> levels) : levels_(std::move(levels)) {
  if (levels_.size() > kMostLevels) throw InputError("a network has at most 8 levels");
  if (levels_.empty() || levels_.front().unit != 1) throw InputError("a network needs a first level with unit 1");
  for (std::size_t l = 0; l < levels_.size(); ++l) {
    const NetworkLevel& level = levels_[l];
    if (l > 0 && level.unit <= levels_[l - 1].unit) throw InputError("network units must grow from level to level");
    if (!(level.bytes_per_s > 0) || level.latency_ps < 0) throw InputError("a network level needs a positive rate");
    ps_per_mib_.push_back(1e12 * (1 << 20) / level.bytes_per_s);
    if (l > 0) alignments_.push_back(level.unit);
  }
}

std::int64_t LevelNetwork::flows(std::int64_t source, std::int64_t target, std::int64_t count, std::int64_t unit) {
  const std::int64_t shift = std::abs(target - source);
  const std::int64_t first = source / unit, last = (source + count - 1) / unit;
  // Units between the first and the last are alike; when there are any, all their devices send outside.
  std::int64_t most = last - first >= 2 && shift >= unit ? unit : 0;
  for (std::int64_t u : {first, first + 1, last}) {
    if (u > last) continue;
    const std::int64_t begin = std::max(source, u * unit), end = std::min(source + count, (u + 1) * unit);
    const std::int64_t moved = target - source;
    const std::int64_t stay = std::min(end + moved, (u + 1) * unit) - std::max(begin + moved, u * unit);
    most = std::max(most, end - begin - std::max<std::int64_t>(0, stay));
  }
  return most;
}

Line LevelNetwork::worst_hop(const Placement& placement, std::int64_t from_stage, std::int64_t to_stage) const {
  const std::int64_t block = placement.inner_replicas * placement.split.devices();
  const std::int64_t outer = placement.replicas / placement.inner_replicas;
  double rate = ps_per_mib_[0];
  std::int64_t latency = levels_[0].latency_ps;
  for (std::size_t l = 1; l < levels_.size(); ++l) {
    const std::int64_t unit = levels_[l].unit;
    // Offsets of the pipelines inside a unit repeat.
    const std::int64_t distinct = std::min(outer, unit / std::gcd(placement.pitch, unit));
    std::int64_t most = 0;
    for (std::int64_t r = 0; r < distinct && most < std::min(block, unit); ++r) {
      const std::int64_t base = r * placement.pitch % unit + unit * (placement.stages * block / unit + 1);
      most = std::max(most, flows(base + from_stage * block, base + to_stage * block, block, unit));
    }
    if (most == 0) continue;
    rate = std::max(rate, static_cast<double>(most) * ps_per_mib_[l]);
    latency = std::max(latency, levels_[l].latency_ps);
  }
  return {latency, std::llround(rate)};
}

std::int64_t LevelNetwork::in_block(Kind kind, const SplitChoice& split, std::int64_t devices) const {
  if (kind == Kind::dense) return std::max<std::int64_t>(1, devices / split.tensor);
  if (devices >= split.devices()) return devices / split.devices() * split.context;
  return std::max<std::int64_t>(1, std::min(split.context, devices / split.tensor));
}

std::int64_t LevelNetwork::in_unit(Kind kind, const Placement& placement, std::size_t level) const {
  const std::int64_t outer = placement.replicas / placement.inner_replicas;
  const std::int64_t members = placement.replicas * placement.split.context;
  if (level == 0) return 1;
  if (level == levels_.size()) return kind == Kind::dense ? members * placement.split.expert : members;
  const std::int64_t unit = levels_[level].unit;
  const std::int64_t block = placement.inner_replicas * placement.split.devices();
  if (block >= unit) return in_block(kind, placement.split, unit);
  const std::int64_t pipelines = std::min(outer, std::max<std::int64_t>(1, unit / placement.pitch));
  return in_block(kind, placement.split, block) * pipelines;
}

Line LevelNetwork::collective(Kind kind, const Placement& placement, std::size_t from, std::size_t to) const {
  double rate = 0;
  std::int64_t latency = 0;
  for (std::size_t l = from; l < to; ++l) {
    const std::int64_t inside = in_unit(kind, placement, l), outside = in_unit(kind, placement, l + 1);
    const double share = 1.0 / static_cast<double>(inside) - 1.0 / static_cast<double>(outside);
    rate += share * static_cast<double>(levels_[l].unit) * ps_per_mib_[l];
    latency += levels_[l].latency_ps * log2_ceil(ceil_div(outside, inside));
  }
  return {latency, std::llround(rate)};
}

PlacementClass LevelNetwork::place(const Placement& placement) const {
  PlacementClass result;
  for (std::int64_t s = 0; s + 1 < placement.stages; ++s) result.hop.push_back(worst_hop(placement, s, s + 1));
  if (placement.stages > 1) result.wrap = worst_hop(placement, placement.stages - 1, 0);
  const std::size_t levels = levels_.size();
  ShardGroup& all = result.sync.group[0];
  all.dense_shard = collective(Kind::dense, placement, 0, levels);
  all.expert_shard = collective(Kind::expert, placement, 0, levels);
  all.dense_degree = in_unit(Kind::dense, placement, levels);
  all.expert_degree = in_unit(Kind::expert, placement, levels);
  ShardGroup& inner = result.sync.group[1];
  inner.dense_shard = collective(Kind::dense, placement, 0, 1);
  inner.expert_shard = collective(Kind::expert, placement, 0, 1);
  inner.dense_replicate = collective(Kind::dense, placement, 1, levels);
  inner.expert_replicate = collective(Kind::expert, placement, 1, levels);
  inner.dense_degree = in_unit(Kind::dense, placement, 1);
  inner.expert_degree = in_unit(Kind::expert, placement, 1);
  return result;
}

BoxClass LevelNetwork::best_hops(const PlacementBox& box) const {
  BoxClass result;
  if (box.stages < 2) return result;
  const std::int64_t low = box.inner_low * box.split.devices(), high = box.inner_high * box.split.devices();
  double hop_rate = ps_per_mib_[0], wrap_rate = hop_rate;
  std::int64_t hop_latency = levels_[0].latency_ps, wrap_latency = hop_latency;
  for (std::size_t l = 1; l < levels_.size(); ++l) {
    const std::int64_t unit = levels_[l].unit;
    // A block that sends everything outside has at least half of itself, or a whole unit, in one unit.
    const double least = static_cast<double>(std::min(unit, ceil_div(low, 2))) * ps_per_mib_[l];
    if (low >= unit) {
      hop_rate = std::max(hop_rate, least);
      hop_latency = std::max(hop_latency, levels_[l].latency_ps);
    }
    if ((box.stages - 1) * low >= unit) {
      wrap_rate = std::max(wrap_rate, least);
      wrap_latency = std::max(wrap_latency, levels_[l].latency_ps);
    }
  }
  result.hop = {hop_latency, round_below(hop_rate)};
  result.wrap = {wrap_latency, round_below(wrap_rate)};
  for (std::size_t l = 1; l < levels_.size(); ++l) {
    const std::int64_t unit = levels_[l].unit;
    if (high >= unit) continue;
    // (stages - 2) * D devices contain this many borders between units, each crossed by all of the D pairs around it.
    // The pairs belong to at most two stage boundaries, one of which has half of them; blocks longer than half a unit
    // may serve two borders at once.
    std::int64_t borders = (box.stages - 2) * low / unit;
    if (2 * high > unit) borders /= 2;
    if (borders == 0) continue;
    const double rate = static_cast<double>(ceil_div(low, 2)) * ps_per_mib_[l];
    result.floors.push_back(
        {borders, {std::max(hop_latency, levels_[l].latency_ps), round_below(std::max(hop_rate, rate))}});
  }
  return result;
}

LevelNetwork::Members LevelNetwork::bound_members(Kind kind, const PlacementBox& box) const {
  const std::int64_t a = box.split.devices();
  const std::int64_t per_replica = box.split.context * (kind == Kind::dense ? box.split.expert : 1);
  Members members;
  members.least = box.replicas_low * per_replica;
  members.most = box.replicas_high * per_replica;
  for (std::size_t l = 1; l < levels_.size(); ++l) {
    const std::int64_t unit = levels_[l].unit;
    std::int64_t low = in_block(kind, box.split, std::min(unit, box.inner_low * a));
    std::int64_t high = in_block(kind, box.split, std::min(unit, box.inner_high * a));
    if (box.inner_low * a < unit) {
      if (box.pitch > 0 && box.inner_low == box.inner_high) {
        const std::int64_t fit = std::max<std::int64_t>(1, unit / box.pitch);
        low *= std::min(fit, box.replicas_low / box.inner_low);
        high *= std::min(fit, box.replicas_high / box.inner_low);
      } else {
        // D / a * per_replica members in a block and at most unit / (stages * D) pipelines in a unit.
        high = std::max(high, unit * per_replica / (box.stages * a));
      }
    }
    members.low[l - 1] = static_cast<double>(std::max<std::int64_t>(1, low));
    members.high[l - 1] = static_cast<double>(std::max<std::int64_t>(1, std::min(high, members.most)));
  }
  return members;
}

// The rate is linear in x_l = 1 / P_l with x_1 >= x_2 >= ... and bounds on each, so its minimum is at a vertex, where
// every x_l equals a bound of some level, or 1 / (smallest n), where n >= P_l begins to bind.
Line LevelNetwork::best_collective(const Members& members, std::size_t from, std::size_t to) const {
  const std::size_t levels = levels_.size();
  if (from >= to) return {};
  std::array<double, 2 * kMostLevels> values{};
  std::size_t count = 0;
  for (std::size_t l = 0; l + 1 < levels; ++l) {
    values[count++] = 1 / members.low[l];
    if (members.high[l] != members.low[l]) values[count++] = 1 / members.high[l];
  }
  std::array<double, kMostLevels + 1> x{1.0};
  const double fewest = 1.0 / static_cast<double>(members.least);
  values[count++] = fewest;
  double best = std::numeric_limits<double>::infinity();
  const auto rate_now = [&] {
    double rate = 0;
    for (std::size_t l = from; l < to; ++l) {
      rate += (x[l] - x[l + 1]) * static_cast<double>(levels_[l].unit) * ps_per_mib_[l];
    }
    return rate;
  };
  const auto choose = [&](const auto& self, std::size_t level) -> void {
    if (level == levels) {
      x[levels] = std::min(fewest, x[levels - 1]);  // the whole group is no smaller than its largest part
      best = std::min(best, rate_now());
      return;
    }
    for (std::size_t k = 0; k < count; ++k) {
      const double value = values[k];
      if (value > x[level - 1] || value < 1 / members.high[level - 1] || value > 1 / members.low[level - 1]) continue;
      x[level] = value;
      self(self, level + 1);
    }
  };
  choose(choose, 1);
  std::int64_t latency = kForever;
  for (std::size_t l = from; l < to; ++l) latency = std::min(latency, levels_[l].latency_ps);
  // The logarithms of the levels sum to at least the logarithm of the whole.
  std::int64_t ratio = members.least;
  if (levels > 1 && to == 1) ratio = static_cast<std::int64_t>(members.low[0]);
  if (levels > 1 && from == 1) ratio = ceil_div(members.least, static_cast<std::int64_t>(members.high[0]));
  return {latency * log2_ceil(ratio), round_below(best)};
}

BoxClass LevelNetwork::optimistic(const PlacementBox& box) const {
  BoxClass result = best_hops(box);
  const std::size_t levels = levels_.size();
  const Members dense = bound_members(Kind::dense, box), expert = bound_members(Kind::expert, box);
  ShardGroup& all = result.sync.group[0];
  all.dense_shard = best_collective(dense, 0, levels);
  all.expert_shard = best_collective(expert, 0, levels);
  all.dense_degree = dense.most;
  all.expert_degree = expert.most;
  ShardGroup& inner = result.sync.group[1];
  inner.dense_shard = best_collective(dense, 0, 1);
  inner.expert_shard = best_collective(expert, 0, 1);
  inner.dense_replicate = best_collective(dense, 1, levels);
  inner.expert_replicate = best_collective(expert, 1, levels);
  inner.dense_degree = levels > 1 ? static_cast<std::int64_t>(dense.high[0]) : dense.most;
  inner.expert_degree = levels > 1 ? static_cast<std::int64_t>(expert.high[0]) : expert.most;
  return result;
}

}  // namespace nest::search
