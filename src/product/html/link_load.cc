#include "html/link_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/text.h"

namespace nest::html {
namespace {

std::size_t kinds_of(const cluster::Cluster& cluster) {
  return cluster.torus ? cluster.torus->dims.size() : cluster.fabric.levels;
}

// Hops along one dimension, the shorter way round.
std::int64_t hops_along(const cluster::Torus& torus, std::size_t k, std::int64_t from, std::int64_t to) {
  const std::int64_t straight = std::abs(to - from);
  return torus.wrap[k] ? std::min(straight, torus.dims[k] - straight) : straight;
}

// Units of a level that hold a device of the plan.
double used_units(const cluster::Fabric& fabric, const Strategy& strategy, std::size_t level) {
  std::int64_t units = 0, next = 0;
  for (std::int64_t r = 0; r < strategy.dp / strategy.dp_inner; ++r) {
    const std::int64_t first = r * strategy.effective_pitch();
    const std::int64_t low = std::max(next, fabric.unit_of(level, first));
    const std::int64_t high = fabric.unit_of(level, first + strategy.pipeline_block() - 1);
    units += std::max<std::int64_t>(0, high + 1 - low);
    next = std::max(next, high + 1);
  }
  return static_cast<double>(units);
}

}  // namespace

std::vector<LinkKind> link_kinds(const cluster::Cluster& cluster, const Strategy& strategy) {
  std::vector<LinkKind> kinds;
  const auto used = static_cast<double>(strategy.devices_used());
  if (cluster.torus) {
    for (std::size_t k = 0; k < cluster.torus->dims.size(); ++k) {
      const double sides = cluster.torus->dims[k] > 2 ? 2 : cluster.torus->dims[k] == 2 ? 1 : 0;
      kinds.push_back(
          {fmt::format("along {}", cluster::kDimensionNames[k]), sides * used, cluster.torus->link_bytes_per_s});
    }
    return kinds;
  }
  const cluster::Fabric& fabric = cluster.fabric;
  for (std::size_t l = 0; l < fabric.levels; ++l) {
    LinkKind kind;
    kind.bytes_per_s = fabric.capacity[l];
    kind.links = used_units(fabric, strategy, l);
    if (l == 0) {
      kind.name = fmt::format("inside a {}", clip(cluster.levels[0].name, kLongestLevelName));
      if (fabric.full_mesh) kind.links *= static_cast<double>(std::max<std::int64_t>(1, fabric.unit[1] - 1));
    } else {
      kind.name = fmt::format("out of a {}", clip(cluster.levels[l - 1].name, kLongestLevelName));
      if (fabric.has_rails() && l == fabric.rail_level) kind.links = used;
      if (fabric.has_rails() && l > fabric.rail_level && fabric.lanes(l)) {
        kind.links *= static_cast<double>(fabric.unit[fabric.rail_level]);
      }
    }
    kinds.push_back(kind);
  }
  return kinds;
}

LinkLoad::LinkLoad(const cluster::Cluster& cluster) : cluster_(&cluster), bytes_(kinds_of(cluster), 0.0) {}

void LinkLoad::send(std::int64_t from, std::int64_t to, double bytes) {
  if (from == to || bytes <= 0) return;
  reach_.add(*cluster_, from, to);
  if (cluster_->torus) {
    const cluster::Torus& torus = *cluster_->torus;
    for (std::size_t k = 0; k < torus.dims.size(); ++k) {
      const std::int64_t hops = hops_along(torus, k, from % torus.dims[k], to % torus.dims[k]);
      bytes_[k] += bytes * static_cast<double>(hops);
      from /= torus.dims[k];
      to /= torus.dims[k];
    }
    return;
  }
  const cluster::Fabric& fabric = cluster_->fabric;
  const std::size_t top = fabric.level_between(from, to);
  for (std::size_t l = fabric.first_link(top); l <= top; ++l) bytes_[l] += bytes;
}

void LinkLoad::ring(const std::vector<std::int64_t>& members, double bytes) {
  for (std::size_t i = 0; i < members.size(); ++i) send(members[i], members[(i + 1) % members.size()], bytes);
}

void LinkLoad::exchange(const std::vector<std::int64_t>& members, double bytes, std::int64_t top_k) {
  if (members.size() < 2) return;
  if (!cluster_->torus) {
    exchange_on_tree(members, bytes, top_k);
    return;
  }
  const double each = bytes / static_cast<double>(members.size());
  for (const std::int64_t from : members) {
    for (const std::int64_t to : members) send(from, to, each);
  }
}

void LinkLoad::exchange_on_tree(const std::vector<std::int64_t>& members, double bytes, std::int64_t top_k) {
  reach_.add(*cluster_, members.front(), members.back());
  const cluster::Fabric& fabric = cluster_->fabric;
  const auto ranks = static_cast<double>(members.size());
  // Members come in rising order, so those of a unit stand together.
  const auto units = [&](std::size_t level, std::size_t begin, std::size_t end) {
    std::int64_t count = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (i == begin || fabric.unit_of(level, members[i]) != fabric.unit_of(level, members[i - 1])) ++count;
    }
    return static_cast<double>(count);
  };
  const double nodes = fabric.levels < 2 ? 1 : units(1, 0, members.size());
  // Each of them sends (ranks - 1) / ranks of its bytes, of which only what stays in its unit is on the links of a mesh.
  bytes_[0] += bytes * (ranks - (fabric.full_mesh ? nodes : 1));
  if (fabric.levels < 2) return;
  const double reached = 1 - std::pow(1 - 1 / nodes, static_cast<double>(top_k));
  const double token_bytes = bytes / static_cast<double>(top_k);
  for (std::size_t l = 1; l < fabric.levels; ++l) {
    for (std::size_t begin = 0; begin < members.size();) {
      std::size_t end = begin;
      while (end < members.size() && fabric.unit_of(l, members[end]) == fabric.unit_of(l, members[begin])) ++end;
      const double beyond = nodes - units(1, begin, end);
      bytes_[l] += static_cast<double>(end - begin) * token_bytes * beyond * reached;
      begin = end;
    }
  }
}

void LinkLoad::add(const LinkLoad& other, double factor) {
  for (std::size_t k = 0; k < bytes_.size(); ++k) bytes_[k] += factor * other.bytes_[k];
  reach_.add(other.reach_);
}

}  // namespace nest::html
