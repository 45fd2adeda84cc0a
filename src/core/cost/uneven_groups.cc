#include "cost/uneven_groups.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/checked.h"
#include "base/index.h"

namespace nest::cost {
namespace {

constexpr std::int64_t kMostRanks = 16'384;

// Edges' worth of bytes that leave the units of one level.
class Crossings {
 public:
  Crossings(const cluster::Fabric& fabric, std::size_t level)
      : fabric_(fabric), level_(level), out_(at(ceil_div(fabric.devices, fabric.unit[level]))) {}

  void clear() { std::fill(out_.begin(), out_.end(), 0); }
  void add(const std::vector<std::int64_t>& group, std::size_t apart) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      const std::int64_t from = unit_of(group[i]), to = unit_of(group[(i + apart) % group.size()]);
      if (from != to) out_[at(from)] += 1 / real(apart);
    }
  }
  double most_s() const { return *std::max_element(out_.begin(), out_.end()) / fabric_.capacity[level_]; }
  double all_s() const { return std::accumulate(out_.begin(), out_.end(), 0.0) / fabric_.capacity[level_]; }

 private:
  std::int64_t unit_of(std::int64_t device) const { return device / fabric_.unit[level_]; }

  const cluster::Fabric& fabric_;
  std::size_t level_;
  std::vector<double> out_;
};

LeastSlope slope_of(const cluster::Fabric& fabric, std::vector<Crossings>& levels, const GroupSpec& spec) {
  LeastSlope least;
  if (spec.size() < 2) return least;
  const double share = real(spec.size() - 1) / real(spec.size());
  const std::vector<std::vector<std::int64_t>> groups = list_groups(spec);
  for (const bool many : {false, true}) {
    double most_s = 0;
    for (std::size_t l = 1; l < fabric.levels; ++l) {
      Crossings& level = levels[l - 1];
      level.clear();
      for (const std::vector<std::int64_t>& group : groups) {
        std::size_t apart = 1;
        const std::int64_t node = group.front() / fabric.unit[1];
        while (many && apart < group.size() && group[apart] / fabric.unit[1] == node) ++apart;
        level.add(group, apart);
      }
      most_s = std::max(most_s, share * level.most_s());
      const double all_s = share * level.all_s();
      least.uplinks[l] = many ? std::min(least.uplinks[l], all_s) : all_s;
    }
    least.alone = many ? std::min(least.alone, most_s) : most_s;
  }
  return least;
}

void lower_to(const LeastSlope& other, LeastSlope& slope) {
  slope.alone = std::min(slope.alone, other.alone);
  for (std::size_t l = 0; l < slope.uplinks.size(); ++l)
    slope.uplinks[l] = std::min(slope.uplinks[l], other.uplinks[l]);
}

}  // namespace

LeastSlopes least_slopes(const cluster::Cluster& cluster, const groups::RankGroups& ranks, groups::Weights weights,
                         std::int64_t degree) {
  const cluster::Fabric& fabric = cluster.fabric;
  const bool known = !cluster.torus && cluster.measured.empty() && cluster.algorithms.as_nccl() && fabric.regular &&
                     !fabric.has_rails() && !fabric.full_mesh && fabric.levels > 1 &&
                     ranks.pipelines() * ranks.block() * ranks.stages() <= kMostRanks;
  if (!known) return {};
  std::vector<Crossings> levels;
  for (std::size_t l = 1; l < fabric.levels; ++l) levels.emplace_back(fabric, l);
  LeastSlopes least;
  least.known = true;
  for (std::int64_t s = 0; s < ranks.stages(); ++s) {
    const groups::StateGroups state = ranks.state(weights, s, degree);
    const LeastSlope shard = slope_of(fabric, levels, state.shard),
                     replicate = slope_of(fabric, levels, state.replicate);
    if (s == 0) least.shard = shard, least.replicate = replicate;
    lower_to(shard, least.shard);
    lower_to(replicate, least.replicate);
  }
  return least;
}

}  // namespace nest::cost
