#include "html/device_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "base/text.h"
#include "base/units.h"

namespace nest::html {
namespace {

constexpr std::int64_t kLargestTile = 512;  // devices; larger units are cut into blocks
constexpr std::int64_t kBlock = 64;
constexpr std::size_t kLongestTierName = 24;

Tier equal_units(std::string name, std::int64_t size, std::int64_t devices, bool made_up) {
  Tier tier{std::move(name), {}, devices, made_up};
  for (std::int64_t begin = 0; begin < devices; begin += size) tier.starts.push_back(begin);
  return tier;
}

Tier level_units(const cluster::Cluster& cluster, std::size_t level) {
  const cluster::Fabric& fabric = cluster.fabric;
  const std::string name = clip(cluster.levels[level - 1].name, kLongestTierName);
  if (level == fabric.levels) return {name, {0}, fabric.devices, false};
  if (fabric.starts[level].empty()) return equal_units(name, fabric.unit[level], fabric.devices, false);
  return {name, fabric.starts[level], fabric.devices, false};
}

// As square as possible, wider than high.
std::int64_t tile_columns(std::int64_t size) {
  const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(size))));
  for (std::int64_t columns = root; columns <= 3 * root && columns <= size; ++columns) {
    if (size % columns == 0) return columns;
  }
  return root;
}

Tier merged(const Tier& tiles, std::size_t together) {
  Tier tier{
      fmt::format("{} {}s", format_integer(static_cast<std::int64_t>(together)), tiles.name), {}, tiles.devices, true};
  for (std::size_t i = 0; i < tiles.count(); i += together) tier.starts.push_back(tiles.starts[i]);
  return tier;
}

// The tier with most units that is not too fine, and whose units can be drawn in full.
std::size_t overview_tier(std::vector<Tier>& tiers) {
  for (std::size_t t = 1; t < tiers.size(); ++t) {
    if (tiers[t].count() <= kMostUnits && tiers[t].count() * kMostTilesOfUnit >= tiers[0].count()) return t;
  }
  const std::size_t wanted = (tiers[0].count() + kMostUnits / 2 - 1) / (kMostUnits / 2);
  tiers.insert(tiers.begin() + 1, merged(tiers[0], std::max<std::size_t>(16, std::bit_ceil(wanted))));
  return 1;
}

}  // namespace

std::vector<DeviceRun> stage_runs(const groups::RankGroups& ranks, std::int64_t begin, std::int64_t end) {
  std::vector<DeviceRun> runs;
  const std::int64_t length = ranks.replica_devices();
  for (std::int64_t at = begin; at < end;) {
    const std::optional<groups::Place> place = ranks.place_of(at);
    const std::int64_t pipeline = at / ranks.pitch();
    std::int64_t until = place ? at - place->inner + length : (pipeline + 1) * ranks.pitch();
    if (!place && pipeline + 1 >= ranks.pipelines()) until = end;
    until = std::min(until, end);
    if (!place && !runs.empty() && runs.back().stage < 0) {
      runs.back().end = until;
    } else {
      runs.push_back({at, until, place ? place->stage : -1});
    }
    at = until;
  }
  return runs;
}

std::int64_t Tier::largest() const {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < count(); ++i) most = std::max(most, end(i) - begin(i));
  return most;
}

std::pair<std::size_t, std::size_t> Tier::within(std::int64_t first, std::int64_t last) const {
  const auto low = std::lower_bound(starts.begin(), starts.end(), first);
  const auto high = std::lower_bound(low, starts.end(), last);
  return {static_cast<std::size_t>(low - starts.begin()), static_cast<std::size_t>(high - low)};
}

UnitKinds find_kinds(const groups::RankGroups& ranks, const Tier& tier) {
  UnitKinds kinds;
  std::map<std::vector<std::int64_t>, std::size_t> known;
  std::vector<std::int64_t> look;
  for (std::size_t unit = 0; unit < tier.count(); ++unit) {
    look.clear();
    for (const DeviceRun& run : stage_runs(ranks, tier.begin(unit), tier.end(unit))) {
      look.push_back(run.end - tier.begin(unit));
      look.push_back(run.stage);
    }
    const auto [at, fresh] = known.emplace(look, kinds.examples.size());
    if (fresh) {
      kinds.examples.push_back(unit);
      kinds.counts.push_back(0);
    }
    kinds.kind_of.push_back(at->second);
    ++kinds.counts[at->second];
  }
  return kinds;
}

DeviceMap make_device_map(const cluster::Cluster& cluster) {
  DeviceMap map;
  if (cluster.torus) {
    const auto& dims = cluster.torus->dims;
    const std::int64_t plane = dims.size() > 1 ? dims[0] * dims[1] : dims[0];
    map.tiers.push_back(equal_units(dims.size() > 2 ? "plane" : "torus", plane, cluster.devices, false));
    map.columns = dims[0];
  } else {
    for (std::size_t l = 1; l <= cluster.fabric.levels; ++l) map.tiers.push_back(level_units(cluster, l));
    map.columns = tile_columns(map.tiers[0].largest());
  }
  if (map.tiers[0].largest() > kLargestTile) {
    const std::int64_t size = cluster.torus ? kBlock / std::gcd(kBlock, map.columns) * map.columns : kBlock;
    if (size <= kLargestTile) {
      map.tiers.insert(map.tiers.begin(), equal_units("block", size, cluster.devices, true));
      if (!cluster.torus) map.columns = tile_columns(size);
    } else {
      map.tiers.insert(map.tiers.begin(), equal_units("block", kBlock, cluster.devices, true));
      map.columns = tile_columns(kBlock);
    }
  }
  map.largest_tile = map.tiers[0].largest();
  if (map.tiers[0].count() > kMostTilesInFull || cluster.devices > kMostDevicesInFull) {
    map.overview = overview_tier(map.tiers);
  }
  return map;
}

}  // namespace nest::html
