// Layouts by counting every device: the slow, obvious way.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "cluster/layout.h"

namespace nest::cluster {
namespace {

struct UnitTally {
  std::int64_t groups = 0;  // with members here
  PerLevel crossing{};      // of them, those that reach beyond the level-L unit around this one
};

// What one group has in each of its units of one level.
struct GroupTally {
  std::int64_t members = 0;
  std::int64_t exits = 0;  // flows to the next rank that leave the unit
  std::int64_t first_rank = 0;
  std::int64_t last_rank = 0;
};

using Group = std::vector<std::int64_t>;

std::map<std::int64_t, GroupTally> tally_group(const Fabric& fabric, const Group& group, std::size_t level) {
  std::map<std::int64_t, GroupTally> units;
  for (std::size_t rank = 0; rank < group.size(); ++rank) {
    const std::int64_t unit = fabric.unit_of(level, group[rank]);
    const std::int64_t next = fabric.unit_of(level, group[(rank + 1) % group.size()]);
    GroupTally& tally = units[unit];
    if (tally.members == 0) tally.first_rank = static_cast<std::int64_t>(rank);
    tally.last_rank = static_cast<std::int64_t>(rank);
    ++tally.members;
    tally.exits += next != unit ? 1 : 0;
  }
  return units;
}

// The highest level whose units this group does not fit into.
std::size_t top_of(const Fabric& fabric, const Group& group) {
  std::size_t top = 0;
  for (std::size_t l = 1; l < fabric.levels; ++l) {
    const std::int64_t unit = fabric.unit_of(l, group.front());
    const bool fits =
        std::all_of(group.begin(), group.end(), [&](std::int64_t d) { return fabric.unit_of(l, d) == unit; });
    if (!fits) top = l;
  }
  return top;
}

void count_level(const Fabric& fabric, std::span<const Group> groups, const std::vector<std::size_t>& tops,
                 std::size_t l, GroupLayout& layout) {
  std::map<std::int64_t, UnitTally> units;
  std::int64_t worst = layout.members;
  layout.fewest[l] = layout.members;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto tallies = tally_group(fabric, groups[i], l);
    for (const auto& [unit, tally] : tallies) {
      UnitTally& shared = units[unit];
      ++shared.groups;
      layout.most[l] = std::max(layout.most[l], tally.members);
      const bool crosses = tally.members < layout.members;
      if (crosses) {
        for (std::size_t above = l; above <= tops[i]; ++above) ++shared.crossing[above];
        layout.fewest[l] = std::min(layout.fewest[l], tally.members);
        const std::int64_t even = std::min(tally.members, layout.members - tally.members);
        const std::int64_t so_far = std::min(worst, layout.members - worst);
        if (even > so_far || (even == so_far && tally.members > worst)) worst = tally.members;
      }
      layout.ring_exits[l] = std::max(layout.ring_exits[l], tally.exits);
      layout.in_order = layout.in_order && tally.last_rank - tally.first_rank + 1 == tally.members;
    }
    if (i == 0) layout.head[l] = tallies.at(fabric.unit_of(l, groups[0][0])).members;
  }
  layout.inside[l] = worst;
  if (groups.size() > 1 && worst < layout.members) layout.head[l] = worst;
  for (const auto& [unit, shared] : units) {
    layout.groups_inside[l] = std::max(layout.groups_inside[l], shared.groups);
    for (std::size_t above = l; above < fabric.levels; ++above) {
      layout.sharing[l][above] = std::max(layout.sharing[l][above], shared.crossing[above]);
    }
  }
}

}  // namespace

GroupLayout count_layout(const Fabric& fabric, std::span<const Group> groups) {
  NEST_CHECK(!groups.empty() && !groups[0].empty(), "a layout needs a group with members");
  GroupLayout layout;
  layout.members = static_cast<std::int64_t>(groups[0].size());
  std::vector<std::size_t> tops;
  for (const Group& group : groups) {
    NEST_CHECK(static_cast<std::int64_t>(group.size()) == layout.members, "groups of one layout have equal sizes");
    tops.push_back(top_of(fabric, group));
    layout.top = std::max(layout.top, tops.back());
  }
  for (std::size_t l = 0; l < fabric.levels; ++l) {
    count_level(fabric, groups, tops, l, layout);
    layout.ring_exits[l] = std::max<std::int64_t>(layout.ring_exits[l], 1);
  }
  layout.inside[0] = layout.head[0] = layout.fewest[0] = 1;
  layout.alike = groups.size() == 1 || (layout.fewest == layout.inside && layout.most == layout.inside);
  if (fabric.has_rails()) {
    const std::size_t r = fabric.rail_level;
    const bool filled_alike = layout.fewest[r] == layout.inside[r];
    layout.lane_period = filled_alike ? layout.inside[r] : fabric.unit[r];
  }
  return layout;
}

}  // namespace nest::cluster
