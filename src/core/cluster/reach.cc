#include "cluster/reach.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace nest::cluster {

void Reach::add(const Cluster& cluster, std::int64_t from, std::int64_t to) {
  if (from == to) return;
  any_ = true;
  if (!cluster.torus) {
    level_ = std::max(level_, cluster.fabric.level_between(from, to));
    return;
  }
  const Torus& torus = *cluster.torus;
  for (std::size_t k = 0; k < torus.dims.size(); ++k) {
    along_[k] = along_[k] || from % torus.dims[k] != to % torus.dims[k];
    from /= torus.dims[k];
    to /= torus.dims[k];
  }
}

void Reach::add(const Reach& other) {
  any_ = any_ || other.any_;
  level_ = std::max(level_, other.level_);
  for (std::size_t k = 0; k < along_.size(); ++k) along_[k] = along_[k] || other.along_[k];
}

std::string Reach::text(const Cluster& cluster, std::size_t longest) const {
  if (!any_) return "on one device";
  if (!cluster.torus) return fmt::format("inside a {}", clip(cluster.levels[level_].name, longest));
  std::string text = "along ";
  bool first = true;
  for (std::size_t k = 0; k < along_.size(); ++k) {
    if (!along_[k]) continue;
    text += (first ? "" : ", ") + std::string(kDimensionNames[k]);
    first = false;
  }
  return text;
}

Reach reach_of(const Cluster& cluster, const GroupSpec& groups) {
  Reach reach;
  if (cluster.torus) {
    for (const auto& members : list_groups(groups)) {
      for (const std::int64_t member : members) reach.add(cluster, members.front(), member);
    }
    return reach;
  }
  // Units are ranges of devices, so that the first and the last member are farthest apart.
  const std::int64_t last = last_of(groups.members);
  const auto starts = list_groups({groups.first, groups.siblings, {}});
  for (const std::int64_t start : starts.front()) reach.add(cluster, start, start + last);
  return reach;
}

}  // namespace nest::cluster
