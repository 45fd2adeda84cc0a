// Bytes on the links of a cluster, per kind of link.
//
// A tree has one kind of link per level: the uplinks of its units (cluster/fabric.h), rail ports counted one per
// device. A torus has one per dimension. A flow loads every link it leaves a unit by, so the load of a kind over its
// capacity is how long its links are busy sending, on average.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "cluster/reach.h"
#include "plan/plan.h"

namespace nest::html {

inline constexpr std::size_t kLongestLevelName = 24;  // longer names of levels are clipped

struct LinkKind {
  std::string name;        // "inside a node", "out of a node, one port per device"
  double links = 0;        // that the plan's devices have, per direction
  double bytes_per_s = 0;  // of one
};

// Of the devices that the strategy uses.
std::vector<LinkKind> link_kinds(const cluster::Cluster& cluster, const Strategy& strategy);

class LinkLoad {
 public:
  explicit LinkLoad(const cluster::Cluster& cluster);

  // A message.
  void send(std::int64_t from, std::int64_t to, double bytes);
  // Every member sends to the next one, the last to the first.
  void ring(const std::vector<std::int64_t>& members, double bytes);
  // Tokens that go from every member to top_k of the members' experts, `bytes` in all from each member: into another
  // node a token travels once (cost/group_time.h).
  void exchange(const std::vector<std::int64_t>& members, double bytes, std::int64_t top_k);

  // Adds `other`, times `factor`.
  void add(const LinkLoad& other, double factor);

  const std::vector<double>& bytes() const { return bytes_; }  // by kind of link
  const cluster::Reach& reach() const { return reach_; }

 private:
  void exchange_on_tree(const std::vector<std::int64_t>& members, double bytes, std::int64_t top_k);

  const cluster::Cluster* cluster_;
  std::vector<double> bytes_;
  cluster::Reach reach_;
};

}  // namespace nest::html
