// How far traffic goes: the highest level of a tree that it climbs to, or the dimensions of a torus along which it
// moves.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/stride.h"
#include "cluster/cluster.h"

namespace nest::cluster {

class Reach {
 public:
  // Traffic between two devices; none where they are the same.
  void add(const Cluster& cluster, std::int64_t from, std::int64_t to);
  void add(const Reach& other);

  bool any() const { return any_; }
  // On a tree: the level whose switch no traffic leaves upwards.
  std::size_t level() const { return level_; }

  // "inside a node", "along x, z", "on one device". Names of levels are clipped to `longest`.
  std::string text(const Cluster& cluster, std::size_t longest = std::string::npos) const;

  bool operator==(const Reach&) const = default;

 private:
  bool any_ = false;
  std::size_t level_ = 0;
  std::array<bool, kMaxDimensions> along_{};
};

// Of all groups of a spec, every member with every other one.
Reach reach_of(const Cluster& cluster, const GroupSpec& groups);

// Names of a torus' dimensions.
inline constexpr std::array<const char*, kMaxDimensions> kDimensionNames = {"x", "y", "z", "w"};

}  // namespace nest::cluster
