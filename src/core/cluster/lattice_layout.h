// Layouts of nested strides on units of any size, by arithmetic on unit borders instead of counting devices.
//
// Where every axis starts only after the one before it has ended, the devices of all groups form a mixed-radix number
// system: one digit per axis, outermost first; the sibling digits say which group, the member digits which of its
// ranks. A unit is an interval of devices, so a group has F(end) − F(begin) members in it, F(x) the number of its
// members below x. Following the digits of both borders from the outermost axis inwards splits the groups into O(axes)
// classes that agree in this number, each with its size known as a product: that is all a layout needs to know about
// a unit.
//
// Units whose clipped intervals differ only by whole steps of an axis are alike and looked at once. Traffic that climbs
// past a level-L unit is looked for only where groups reach over its borders. Cost: O(axes²) per unit that is looked
// at, O(axes) for the others of its run until the pattern repeats; no memory.
#pragma once

#include <cstdint>
#include <span>

#include "cluster/fabric.h"
#include "cluster/layout.h"

namespace nest::cluster {

inline constexpr std::size_t kLatticeAxes = 16;

// Equal to count_layout(). The axes of members and siblings are each sorted by stride and without axes of one; together
// they are nested and at most kLatticeAxes.
GroupLayout lattice_layout(const Fabric& fabric, std::int64_t first, std::span<const Stride> members,
                           std::span<const Stride> siblings);

}  // namespace nest::cluster
