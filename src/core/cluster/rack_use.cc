#include "cluster/rack_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/checked.h"
#include "base/text.h"
#include "base/units.h"
#include "cluster/cluster.h"

namespace nest::cluster {
namespace {

std::int64_t devices_below(const std::vector<Level>& levels, std::size_t level) {
  std::int64_t devices = 1;
  for (std::size_t l = 0; l < level; ++l) devices *= levels[l].group;
  return devices;
}

// The sizes next to `devices` that whole units of either kind make.
std::string nearest_sizes(std::int64_t devices, std::int64_t used, std::int64_t built) {
  std::set<std::int64_t> sizes;
  const auto below = [&](std::int64_t unit) { return devices / unit * unit; };
  sizes.insert(std::max(below(used), below(built)));
  sizes.insert(std::min(below(used) + used, below(built) + built));
  std::vector<std::string> words;
  for (const std::int64_t size : sizes) {
    if (size > 0) words.push_back(format_integer(size));
  }
  return fmt::format("{}", fmt::join(words, " and "));
}

}  // namespace

std::optional<std::size_t> level_with_use(const std::vector<Level>& levels) {
  for (std::size_t l = 0; l < levels.size(); ++l) {
    if (levels[l].use > 0) return l;
  }
  return std::nullopt;
}

std::string fit_use(std::vector<Level>& levels, std::int64_t devices) {
  const auto found = level_with_use(levels);
  if (!found) return {};
  Level& level = levels[*found];
  const std::int64_t below = devices_below(levels, *found);
  const std::int64_t used = below * level.use, built = below * level.built;
  if (devices > built && *found + 1 == levels.size()) {
    return fmt::format("there is one {} of {} devices and no level that joins several", clip(level.name, 30), built);
  }
  if (devices % built == 0) {
    level.group = level.built;
  } else if (devices % used == 0) {
    level.group = level.use;
  } else if (devices < built) {
    level.group = ceil_div(devices, below);
  } else {
    return fmt::format(
        "{} hold {} devices, of which {} or {} are used; give a multiple of {} or of {} (the nearest are "
        "{}), or less than one {} holds",
        plural_of(level.name, 2), built, used, built, used, built, nearest_sizes(devices, used, built),
        clip(level.name, 30));
  }
  const bool whole_trays = devices % level.tray_or_one() == 0 || level.tray_or_one() % devices == 0;
  if (!whole_trays) {
    return fmt::format("trays of the {} have {} devices; give a multiple of it, or an even part of one tray",
                       clip(level.name, 30), level.tray);
  }
  return {};
}

std::string use_text(const Cluster& cluster) {
  const auto found = level_with_use(cluster.levels);
  if (!found || cluster.levels[*found].group == cluster.levels[*found].built) return {};
  const Level& level = cluster.levels[*found];
  const std::int64_t below = devices_below(cluster.levels, *found);
  const std::int64_t units = ceil_div(cluster.devices, below * level.group);
  return fmt::format("{} {}, {} of {} devices used{}", format_integer(units), plural_of(level.name, units),
                     below * level.group, below * level.built, units == 1 ? "" : " in each");
}

std::string plural_of(const std::string& name, std::int64_t count) {
  std::string shown = clip(name, 30);
  if (count == 1) return shown;
  if (shown.ends_with("leaf")) return shown.substr(0, shown.size() - 1) + "ves";
  return shown + (shown.ends_with("ch") || shown.ends_with("s") || shown.ends_with("x") ? "es" : "s");
}

}  // namespace nest::cluster
