// Every link of a cluster, one by one, and the way that a message takes over them.
//
// Levels (cluster/fabric.h): a link up and a link down for every device and every unit; in a full mesh a link from every
// device to every other one of its innermost unit, which what leaves the unit does not use; where a level has rails, a port
// up and down for every device instead, used by all that leaves the node; where it has rail switches, one uplink per
// switch. Torus (cluster/torus.h): one link per device, dimension and direction, dimensions in order, the short way
// round, half way towards rising coordinates.
// Links are numbered as they are first used: of a large cluster only what a plan touches is there.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/cluster.h"

namespace nest::simulate {

struct NetworkLink {
  std::string name;
  double bytes_per_s = 0;
};

struct NetworkPath {
  std::vector<std::int32_t> links;
  double latency_s = 0;
};

class Network {
 public:
  // The cluster must outlive the network.
  explicit Network(const cluster::Cluster& cluster) : cluster_(cluster) {}

  // Empty for a message to oneself. `falling`: of two equally short ways round a torus, take the one towards falling
  // coordinates, as the second ring of a pair does.
  NetworkPath path(std::int64_t from, std::int64_t to, bool falling = false);
  const std::vector<NetworkLink>& links() const { return links_; }

 private:
  enum class Kind : std::uint8_t { up, down, port_up, port_down, hop_up, hop_down, pair };

  std::int32_t link(Kind kind, std::size_t level, std::int64_t unit, double bytes_per_s);
  std::string name_of(Kind kind, std::size_t level, std::int64_t unit) const;
  NetworkPath fabric_path(std::int64_t from, std::int64_t to);
  NetworkPath torus_path(std::int64_t from, std::int64_t to, bool falling);
  // The links of one end, innermost first.
  std::vector<std::int32_t> climb(std::int64_t device, std::size_t top, bool upwards);

  const cluster::Cluster& cluster_;
  std::vector<NetworkLink> links_;
  std::unordered_map<std::uint64_t, std::int32_t> known_;
};

}  // namespace nest::simulate
