#include "exporter/rank_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace nest::exporter {
namespace {

std::int64_t host_of(const std::vector<Host>& hosts, std::int64_t device) {
  const auto after = std::upper_bound(hosts.begin(), hosts.end(), device,
                                      [](std::int64_t at, const Host& host) { return at < host.first_device; });
  return after - hosts.begin() - 1;
}

// Devices of every host; nothing where hosts differ.
std::optional<std::int64_t> host_size(const std::vector<Host>& hosts) {
  for (const Host& host : hosts) {
    if (host.devices != hosts.front().devices) return std::nullopt;
  }
  return hosts.front().devices;
}

}  // namespace

bool can_put_replicas_last(const Strategy& strategy) {
  return strategy.pp > 1 && groups::refuse(groups::sizes_of(strategy), groups::RankOrder::replicas_last).empty();
}

namespace {

// Names are written into files that Slurm, MPI and shells read line by line and word by word.
void require_host_name(const cluster::Cluster& cluster, const std::string& name) {
  constexpr std::size_t kLongest = 253;  // of a name in the DNS
  const bool plain = !name.empty() && name.size() <= kLongest && name.front() != '-' &&
                     std::all_of(name.begin(), name.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                              std::string_view("-_.:").find(c) != std::string_view::npos;
                     });
  if (plain) return;
  throw InputError(
      fmt::format("cluster {}: \"{}\" is no name of a host: letters, digits, - _ . and : are allowed, up to {}",
                  clip(cluster.name, 60), clip(name, 60), kLongest));
}

}  // namespace

std::vector<Host> hosts_of(const cluster::Cluster& cluster, std::int64_t per_host) {
  if (cluster.torus) {
    throw InputError(fmt::format("cluster {}: a torus has no hosts; there is no host file for it", cluster.name));
  }
  std::vector<Host> hosts;
  std::int64_t units = 0;
  for (std::int64_t device = 0; device < cluster.devices; ++units) {
    const std::size_t node = cluster.node_level + 1;
    const std::int64_t end = cluster.fabric.levels <= node
                                 ? cluster.devices
                                 : std::min(cluster.devices, cluster.fabric.unit_at(node, device).end);
    const std::int64_t tray = std::min(cluster::devices_per_tray(cluster), end - device);
    const std::int64_t size = per_host > 0 ? per_host : tray > 0 ? tray : end - device;
    if ((end - device) % size != 0) {
      throw InputError(fmt::format("--per-host: {} devices of one {} are not a multiple of {}", end - device,
                                   cluster.levels[cluster.node_level].name, size));
    }
    for (; device < end; device += size) hosts.push_back({"", device, size});
  }
  const bool named = cluster.node_names.size() == hosts.size();
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    hosts[i].name = named ? cluster.node_names[i] : fmt::format("node{:04}", i);
    require_host_name(cluster, hosts[i].name);
  }
  return hosts;
}

bool HostOrder::natural_devices() const {
  for (std::size_t i = 0; i < local_devices.size(); ++i) {
    if (local_devices[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

bool HostOrder::natural_hosts() const {
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

std::vector<PlacedRank> place_ranks(const std::vector<Host>& hosts, const Strategy& strategy, groups::RankOrder order) {
  const groups::RankGroups placed(strategy);
  std::vector<PlacedRank> ranks;
  ranks.reserve(static_cast<std::size_t>(strategy.devices_used()));
  for (std::int64_t rank = 0; rank < strategy.devices_used(); ++rank) {
    const std::int64_t device = placed.device_of(order, rank);
    const std::int64_t host = host_of(hosts, device);
    ranks.push_back({rank, host, device - hosts[static_cast<std::size_t>(host)].first_device});
  }
  return ranks;
}

std::optional<HostOrder> host_order(const std::vector<Host>& hosts, const Strategy& strategy, groups::RankOrder order) {
  const std::vector<PlacedRank> ranks = place_ranks(hosts, strategy, order);
  HostOrder found;
  for (const PlacedRank& rank : ranks) {
    if (rank.host != ranks.front().host) break;
    found.local_devices.push_back(rank.local_device);
  }
  const std::size_t block = found.local_devices.size();
  found.ranks_per_host = static_cast<std::int64_t>(block);
  if (ranks.size() % block != 0) return std::nullopt;
  std::vector<bool> taken(hosts.size(), false);
  for (std::size_t begin = 0; begin < ranks.size(); begin += block) {
    const auto host = static_cast<std::size_t>(ranks[begin].host);
    if (taken[host]) return std::nullopt;
    taken[host] = true;
    found.hosts.push_back(ranks[begin].host);
    for (std::size_t j = 0; j < block; ++j) {
      const PlacedRank& rank = ranks[begin + j];
      if (rank.host != ranks[begin].host || rank.local_device != found.local_devices[j]) return std::nullopt;
    }
  }
  return found;
}

std::optional<LaunchOrder> launch_order(const std::vector<Host>& hosts, const Strategy& strategy) {
  if (auto found = host_order(hosts, strategy, groups::RankOrder::stages_last)) {
    return LaunchOrder{groups::RankOrder::stages_last, std::move(*found)};
  }
  if (!can_put_replicas_last(strategy)) return std::nullopt;
  if (auto found = host_order(hosts, strategy, groups::RankOrder::replicas_last)) {
    return LaunchOrder{groups::RankOrder::replicas_last, std::move(*found)};
  }
  return std::nullopt;
}

bool starts_host_by_host(const std::vector<Host>& hosts, const Strategy& strategy, bool replicas_last) {
  const bool either = replicas_last && can_put_replicas_last(strategy);
  const auto listed = [&] {
    return host_order(hosts, strategy, groups::RankOrder::stages_last).has_value() ||
           (either && host_order(hosts, strategy, groups::RankOrder::replicas_last).has_value());
  };
  const std::optional<std::int64_t> size = host_size(hosts);
  if (!size) return listed();
  const std::int64_t used = strategy.devices_used(), pitch = strategy.effective_pitch();
  if (strategy.devices_spanned() <= *size) return true;
  const bool fills = used % *size == 0;
  if (strategy.dp_inner == strategy.dp) return fills;
  if (strategy.block() % *size == 0 && pitch % *size == 0) return true;
  const std::int64_t bare = strategy.pipeline_block();
  if (strategy.pp > 1) {
    if (!either || (strategy.dp_inner > 1 && bare > *size)) return false;
    if (pitch == bare && (strategy.dp_inner == 1 || *size % bare == 0)) return fills;
  }
  return listed();
}

}  // namespace nest::exporter
