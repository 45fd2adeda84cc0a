// Ranks as frameworks number them, and the devices on which a plan puts them.
//
// Frameworks number ranks in the orders of groups/grid.h, which also has the experts' own grid. Megatron allows
// "replicas_last" only where dense and expert layers have the same data-parallel size, etp·ep = tp·cp.
//
// Every other placement is reached by the order in which hosts are started, as long as each host runs one block of
// consecutive ranks: HostOrder. Failing that, rank by rank (hostfiles and rankfiles).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "groups/rank_groups.h"
#include "plan/plan.h"

namespace nest::exporter {

// Whether Megatron accepts --use-tp-pp-dp-mapping with these sizes.
bool can_put_replicas_last(const Strategy& strategy);

// A machine that runs ranks: devices first … first + devices - 1.
struct Host {
  std::string name;
  std::int64_t first_device = 0;
  std::int64_t devices = 0;
};

// The units that the first level of the network forms, their trays where they have some, or parts of `per_host`
// devices. Names are the cluster's where it names exactly these, else node0000 … Throws InputError for a torus and where
// per_host does not divide.
std::vector<Host> hosts_of(const cluster::Cluster& cluster, std::int64_t per_host = 0);

// Devices of every host; nothing where hosts differ.
std::optional<std::int64_t> host_size(const std::vector<Host>& hosts);

// Host number k of the launch (node rank k) is hosts[k] and runs ranks k * ranks_per_host …; its local rank j sits on
// local_devices[j] of the host.
struct HostOrder {
  std::vector<std::int64_t> hosts;
  std::int64_t ranks_per_host = 0;
  std::vector<std::int64_t> local_devices;

  bool natural_devices() const;  // 0, 1, 2 …
  bool natural_hosts() const;
};

// Nothing where a host's ranks are not consecutive, or hosts differ in what they run.
std::optional<HostOrder> host_order(const std::vector<Host>& hosts, const Strategy& strategy, groups::RankOrder order);

// The rank order, the default one if possible, whose ranks can be started host by host.
struct LaunchOrder {
  groups::RankOrder order = groups::RankOrder::stages_last;
  HostOrder hosts;
};
std::optional<LaunchOrder> launch_order(const std::vector<Host>& hosts, const Strategy& strategy);

// Whether there is such an order, where host_size() of the hosts is known (the default one, or with `replicas_last` either), in most cases without listing ranks.
// A stage of d_in replicas holds A = tp · cp · d_in neighbouring devices, consecutive in the default order. Where all
// hosts have H devices, ranks can be started host by host
//   of replicas all together (d_out = 1)   if they fill whole hosts, or sit on one
//   of pp > 1 stages, d_out > 1            if H divides A and the pitch; no other host runs consecutive ranks
//   replicas last, pp > 1, d_out > 1       if pipelines follow each other (d_in = 1), or whole ones (pp · A) fill a host
bool starts_host_by_host(const std::vector<Host>& hosts, std::optional<std::int64_t> host_size,
                         const Strategy& strategy, bool replicas_last);

// Where every rank sits: rank, host index, device on that host.
struct PlacedRank {
  std::int64_t rank = 0;
  std::int64_t host = 0;
  std::int64_t local_device = 0;
};
std::vector<PlacedRank> place_ranks(const std::vector<Host>& hosts, const Strategy& strategy, groups::RankOrder order);

}  // namespace nest::exporter
