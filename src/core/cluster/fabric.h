// A hierarchical network, reduced to the numbers that collective times need.
//
// Level l = 0 … levels−1, innermost first. A level-l unit is a block of U_l devices with consecutive indices (U_0 = 1:
// a device; U_1: a node; U_2: a rack …). Every level-l unit has one uplink into its level-l switch, of capacity C_l per
// direction (bandwidth · efficiency / oversubscription), shared by everything below it: k flows get 1/k each. A flow
// between two devices whose closest common switch stands at level L climbs the uplinks 0 … L and descends the same on
// the other side; its latency is a_L.
//
// Rails. Where level r has rails, every device owns a port into it: flows that leave the node (L >= r) use that port of
// capacity C_r instead of the uplinks below r, so that devices of one node do not share. Where the switches of level r
// are rail switches too, one stands per device position, U_r of them side by side ("lanes"): each has its own uplink
// into level r+1 (capacity C_{r+1}), and a flow that changes lanes must climb to level r+1 even inside one level-(r+1)
// unit.
//
// Full mesh. Where the innermost units are full meshes, no switch stands in them: every two devices of a unit have a link
// of their own, of capacity C_0 per direction, so that k of them have k−1 links each. What leaves the unit uses none of
// these links; it begins at the uplinks of level 1.
//
// Units are full except perhaps the last one; irregular clusters list where their units begin (`starts`).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace nest::cluster {

inline constexpr std::size_t kMaxLevels = 8;
inline constexpr std::int64_t kMaxDevices = std::int64_t{1} << 24;

// What links reach where nobody says it: as fitted to published runs on DGX H100, inside nodes and between them.
inline constexpr double kInsideLatency_s = 3.2e-6;
inline constexpr double kOutsideLatency_s = 8e-6;
inline constexpr double kInsideEfficiency = 0.788;
inline constexpr double kOutsideEfficiency = 0.647;

// One level as people describe it.
struct Level {
  std::string name;                  // of the unit that its switch forms: "node", "rack", "pod"
  std::int64_t group = 1;            // children of one switch; the largest number where they differ
  std::vector<std::int64_t> counts;  // children of each switch in order, where they differ; else empty
  double bandwidth_bytes_per_s =
      0;                        // of ONE child's link into this level, per direction; full mesh: of one pair's link
  double latency_s = 0;         // of a message that climbs to this level
  double oversubscription = 1;  // divides the bandwidth
  double efficiency = 1;        // share of the bandwidth that payload reaches (protocol, headers)
  bool assumed = false;         // latency and efficiency are the constants above: nobody gave either
  bool rails = false;           // one port per device instead of one link per child
  bool rail_switches = false;   // with rails: one switch per device position
  bool full_mesh = false;       // innermost level only: a link per pair of devices, and no switch
  // Racks with spares (rack_use.h): children that one switch is built for, and how many of them the file says to use; 0:
  // all of them always. `group` counts those in use.
  std::int64_t built = 0;
  std::int64_t use = 0;
  std::int64_t tray = 0;    // devices of one host, where a unit of the innermost level holds several; 0: it is the host
  std::int64_t planes = 1;  // networks side by side that the bandwidth is the sum of

  std::int64_t tray_or_one() const { return tray > 0 ? tray : 1; }
};

// Neighbouring units of one size.
struct UnitStretch {
  std::int64_t first_device = 0;
  std::int64_t size = 1;
  std::int64_t units = 1;
};

// The devices begin … end−1 of one unit.
struct UnitSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct Fabric {
  std::size_t levels = 0;
  std::int64_t devices = 0;
  std::array<std::int64_t, kMaxLevels + 1> unit{};  // U_l; U_levels is the whole cluster
  std::array<double, kMaxLevels> capacity{};        // C_l, bytes per second
  std::array<double, kMaxLevels> latency_s{};       // a_l, not decreasing
  std::size_t rail_level = kMaxLevels;              // r; kMaxLevels: no rails
  bool rail_switches = false;
  bool full_mesh = false;                                    // innermost units
  double message_overhead_s = 0;                             // of every message beside its latency; 0 unless calibrated
  std::array<std::vector<std::int64_t>, kMaxLevels> starts;  // first device of every level-l unit, where irregular
  // The same for l >= 1 and every fabric, as stretches; the last unit may reach beyond the last device.
  std::array<std::vector<UnitStretch>, kMaxLevels> stretches;

  bool regular = true;  // no `starts` anywhere

  bool has_rails() const { return rail_level < levels; }
  // Whether the uplinks of level l are per lane (device position) and not per unit.
  bool lanes(std::size_t level) const { return level == rail_level || (rail_switches && level == rail_level + 1); }
  // First uplink that flows use whose closest common switch stands at `top`: 0, the rail port, or what leaves a mesh.
  std::size_t first_link(std::size_t top) const {
    if (has_rails() && top >= rail_level) return rail_level;
    return full_mesh && top > 0 ? 1 : 0;
  }
  // Bytes per second that a device can send to k−1 others of its innermost unit, evenly.
  double inside_rate(std::int64_t k) const {
    return full_mesh && k > 2 ? static_cast<double>(k - 1) * capacity[0] : capacity[0];
  }
  std::int64_t unit_of(std::size_t level, std::int64_t device) const;
  // The level-l unit, 1 <= l < levels, that holds a device.
  UnitSpan unit_at(std::size_t level, std::int64_t device) const;
  // Level of the closest common switch of two different devices, not counting climbs forced by rail switches.
  std::size_t level_between(std::int64_t a, std::int64_t b) const;
};

// `devices` may leave the last units partly filled. Levels must be valid (see read_cluster).
Fabric make_fabric(const std::vector<Level>& levels, std::int64_t devices);

}  // namespace nest::cluster
