// Racks of which not every device gets a rank.
//
// A level `{name: rack, group: 72, use: 64}` is built for 72 children and uses 64 of them: the rest are spares, and sizes
// stay powers of two. Links keep the capacity of what is built (a rack's uplink does not shrink because a device rests;
// ports belong to devices), ranks and units count what is used. A cluster of n devices uses
//     the largest of {use, group} whose unit divides n; one unit alone where n devices fit into it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/fabric.h"

namespace nest::cluster {

struct Cluster;

// The level that has `use`; at most one has.
std::optional<std::size_t> level_with_use(const std::vector<Level>& levels);

// Sets the children that the level with `use` uses for `devices`. Empty, or why that is not possible and what is.
std::string fit_use(std::vector<Level>& levels, std::int64_t devices);

// "4 racks, 64 of 72 devices used in each"; empty where all are used.
std::string use_text(const Cluster& cluster);

// "rack", "racks", "leaves", "switches": names of units come from files.
std::string plural_of(const std::string& name, std::int64_t count);

}  // namespace nest::cluster
