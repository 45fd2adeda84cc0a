// Where the members of a communicating group sit, and who communicates beside them.
//
// Groups are given by arithmetic (base/stride.h): member axes, and sibling axes for the equal groups that communicate at
// the same time.
//
// A layout keeps, per level l of the fabric and for the worst unit, what the time of a collective depends on:
//   inside[l]         p_l: members of one group in one level-l unit (p_0 = 1); where groups are cut differently, of
//                     the one that level l cuts most evenly
//   fewest[l]         members of one group in its least filled level-l unit, of groups that cross level l
//   most[l]           members of any one group in one level-l unit
//   groups_inside[l]  groups that have members in one level-l unit
//   sharing[l][L]     g_l: groups that meet on one level-l uplink with traffic that climbs to level L >= l or higher
//   ring_exits[l]     flows of one group that leave one level-l unit when every member sends to the next one
// Aligned groups have fewest = inside = most (but for a last unit that is partly filled) and sharing[l][L] = g_l for
// all L up to `top`, the highest level that the group crosses.
//
// Exact, in O(axes · levels), when the axes divide the units evenly ("aligned"), and for contiguous groups laid end to
// end at any offset, in time independent of the cluster's size. Other nested axes, and units of different sizes, are
// exact too, by arithmetic on the borders of units (lattice_layout.h); what is not even nested is counted device by
// device. Both up to kCountedDevices devices; beyond that the layout is an upper bound: no group is fuller, and no
// uplink more shared.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/stride.h"
#include "cluster/fabric.h"
#include "cluster/torus.h"

namespace nest::cluster {

inline constexpr std::int64_t kCountedDevices = std::int64_t{1} << 16;

using PerLevel = std::array<std::int64_t, kMaxLevels>;

struct GroupLayout {
  std::int64_t members = 1;
  std::size_t top = 0;           // meaningful for members > 1
  bool in_order = true;          // members of a unit have consecutive ranks
  std::int64_t lane_period = 1;  // with rails: ranks after which the device position within a node repeats
  bool alike = true;             // all groups are cut by the units in the same way
  bool exact = true;             // false: an upper bound
  PerLevel inside{};
  PerLevel head{};  // members in the unit that holds rank 0 (= inside when aligned)
  PerLevel fewest{};
  PerLevel most{};
  PerLevel groups_inside{};
  PerLevel ring_exits{};
  std::array<PerLevel, kMaxLevels> sharing{};
  TorusPlace torus;  // on a torus, in place of everything above

  bool operator==(const GroupLayout&) const = default;
};

GroupLayout make_layout(const Fabric& fabric, const GroupSpec& spec);

// The same by counting, for groups given as lists of devices in rank order, all of one size. O(devices · levels · log).
GroupLayout count_layout(const Fabric& fabric, std::span<const std::vector<std::int64_t>> groups);

}  // namespace nest::cluster
