#include "exporter/rank_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace nest::exporter {
namespace {

// Ranks one by one, as they sit.
class RankPlaces {
 public:
  RankPlaces(const std::vector<Host>& hosts, const Strategy& strategy, groups::RankOrder order)
      : hosts_(hosts), placed_(strategy), order_(order), host_size_(host_size(hosts)) {}

  PlacedRank operator[](std::int64_t rank) const {
    const std::int64_t device = placed_.device_of(order_, rank), host = host_of(device);
    return {rank, host, device - hosts_[static_cast<std::size_t>(host)].first_device};
  }

 private:
  std::int64_t host_of(std::int64_t device) const {
    if (host_size_) return device / *host_size_;
    const auto after = std::upper_bound(hosts_.begin(), hosts_.end(), device,
                                        [](std::int64_t at, const Host& host) { return at < host.first_device; });
    return after - hosts_.begin() - 1;
  }

  const std::vector<Host>& hosts_;
  groups::RankGroups placed_;
  groups::RankOrder order_;
  std::optional<std::int64_t> host_size_;
};

}  // namespace

std::optional<std::int64_t> host_size(const std::vector<Host>& hosts) {
  for (const Host& host : hosts) {
    if (host.devices != hosts.front().devices) return std::nullopt;
  }
  return hosts.front().devices;
}

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
  const RankPlaces places(hosts, strategy, order);
  std::vector<PlacedRank> ranks;
  ranks.reserve(static_cast<std::size_t>(strategy.devices_used()));
  for (std::int64_t rank = 0; rank < strategy.devices_used(); ++rank) ranks.push_back(places[rank]);
  return ranks;
}

// Looks no further than the first rank that sits elsewhere, and keeps none: there may be millions.
std::optional<HostOrder> host_order(const std::vector<Host>& hosts, const Strategy& strategy, groups::RankOrder order) {
  const RankPlaces places(hosts, strategy, order);
  const std::int64_t ranks = strategy.devices_used(), first_host = places[0].host;
  HostOrder found;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const PlacedRank placed = places[rank];
    if (placed.host != first_host) break;
    found.local_devices.push_back(placed.local_device);
  }
  const auto block = std::ssize(found.local_devices);
  found.ranks_per_host = block;
  if (ranks % block != 0) return std::nullopt;
  std::vector<bool> taken(hosts.size(), false);
  for (std::int64_t begin = 0; begin < ranks; begin += block) {
    const std::int64_t host = places[begin].host;
    if (taken[static_cast<std::size_t>(host)]) return std::nullopt;
    taken[static_cast<std::size_t>(host)] = true;
    found.hosts.push_back(host);
    for (std::int64_t j = 0; j < block; ++j) {
      const PlacedRank rank = places[begin + j];
      if (rank.host != host || rank.local_device != found.local_devices[static_cast<std::size_t>(j)]) {
        return std::nullopt;
      }
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

bool starts_host_by_host(const std::vector<Host>& hosts, std::optional<std::int64_t> size, const Strategy& strategy,
                         bool replicas_last) {
  const bool either = replicas_last && can_put_replicas_last(strategy);
  const auto listed = [&] {
    return host_order(hosts, strategy, groups::RankOrder::stages_last).has_value() ||
           (either && host_order(hosts, strategy, groups::RankOrder::replicas_last).has_value());
  };
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
