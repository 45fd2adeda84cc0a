// A cluster: which devices, how many, and the network between them.
//
// The network is either a list of levels (fabric.h) or a torus (torus.h). Clusters are read from YAML:
//
//   name: my-cluster                 # optional; the file's name otherwise
//   device: h100                     # a preset, or an object with the keys of a device file
//   levels:                          # innermost first
//     - {name: node, group: 8, bandwidth: 450GB/s, latency: 3us}
//     - {name: pod, group: 32, bandwidth: 50GB/s, latency: 8us, rails: true}
//   devices: 256                     # optional: fewer than the levels hold leave the last units partly filled
// or
//   torus: {dims: [4, 4, 8], wrap: true, bandwidth: 45GB/s, latency: 1us}      # of one link, per direction; per hop
// or any graph, from which levels are derived (link_graph.h):
//   graph:
//     devices: [gpu0, gpu1, …]
//     switches: [leaf0, …]
//     links: [{between: [gpu0, leaf0], bandwidth: 50GB/s, latency: 1us}, …]
//
// A level that says neither latency nor efficiency has those that were measured on DGX H100 (fabric.h). From the third
// level on, `oversubscription` may stand in place of `bandwidth`: the uplinks are what the level below brings, divided by it.
// Keys of a level: name, group | counts, use, tray, bandwidth, planes, latency, oversubscription, efficiency, full_mesh,
// rails, rail_switches. `group: 72, use: 64` leaves devices of a rack unused (rack_use.h).
// `counts: [4, 4, 3]` gives the children of each switch where they differ: such clusters are uneven, and have the size
// that they have (no `devices`).
// Further keys: description, source, aliases, node_names, algorithms, message_overhead, resize (below), price
// (of a device-hour, in any currency), collectives (measured.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/collective.h"
#include "cluster/device.h"
#include "cluster/fabric.h"
#include "cluster/layout.h"
#include "cluster/measured.h"
#include "cluster/torus.h"
#include "doc/value.h"

namespace nest::cluster {

// Sizes that a cluster may be given by resized(): at_least … at_most, in multiples of `multiple_of`.
struct SizeRule {
  std::int64_t at_least = 1;
  std::int64_t at_most = kMaxDevices;
  std::int64_t multiple_of = 1;
};

struct Cluster {
  std::string name;
  std::string description;
  std::string source;
  std::vector<std::string> aliases;
  Device device;
  std::int64_t devices = 0;
  std::vector<Level> levels;  // empty for a torus; their groups count what is used
  std::optional<Torus> torus;
  Fabric fabric;  // of the levels
  // Index of the level whose units are nodes (hosts): the one called "node", else the first.
  std::size_t node_level = 0;
  std::vector<std::string> node_names;    // of those units, in order; may be empty
  std::vector<std::string> device_names;  // in index order, for clusters given as a graph; else empty
  AlgorithmChoice algorithms;
  std::vector<MeasuredCollective> measured;
  SizeRule sizes;
  double price_per_device_hour = 0;  // what the site asks; 0: not told
  Document document;                 // what it was read from, in whatever size
};

// Throws InputError that names file, key path, value seen and what is allowed.
Cluster read_cluster(const Document& document, std::string_view name);

// The same cluster with another number of devices: whole nodes (or an even part of one), the outermost level growing or
// shrinking; a torus gets the most cubic shape its slices allow. Throws InputError with the reason when that is not
// possible.
Cluster resized(const Cluster& cluster, std::int64_t devices);

// Clusters that ship with nest, in their default sizes, sorted by name.
const Shelf<Cluster>& cluster_presets();
// By name or alias, case-insensitive, at the given or the default size; nothing when there is none of that name.
std::optional<Cluster> find_cluster(std::string_view name, std::optional<std::int64_t> devices = std::nullopt);

// Devices of a full node (Cluster::node_level); nothing for a torus, which has none.
std::optional<std::int64_t> devices_per_node(const Cluster& cluster);
// Devices of one host where a node-level unit holds several of them (the trays of a rack); 0 where it is the host.
std::int64_t devices_per_tray(const Cluster& cluster);

// Of levels that say neither latency nor efficiency: "node: 79 % of 450 GB/s after 3.2 us, …"; empty where none does.
std::string assumed_links(const Cluster& cluster);

// Of a file that somebody wrote: throws InputError where the innermost links carry more than the device's own.
void refuse_fast_links(const Cluster& cluster);

// --- collectives on a cluster
// -------------------------------------------------------------------------------------------

GroupLayout place_group(const Cluster& cluster, const GroupSpec& spec);

// Hosts that a group spans, as measured tables count them: innermost units, or the trays of a rack, filled with
// neighbours. 0 on a torus.
std::int64_t hosts_of(const Cluster& cluster, const GroupLayout& layout);

// The measured time where a table fits; else the best of the cluster's algorithms.
CollectiveTime collective_time(const Cluster& cluster, const GroupLayout& layout, Collective collective, double bytes);

// --- what to show
// -------------------------------------------------------------------------------------------------------

struct LevelSummary {
  std::string name;                   // of the unit whose devices reach each other at this level
  std::int64_t units = 0;             // of that kind in the cluster
  std::int64_t devices_per_unit = 0;  // in a full one
  double link_bytes_per_s = 0;    // capacity of one child's link, per direction, with efficiency and oversubscription
  double device_bytes_per_s = 0;  // what one device gets of it when all send at once
  double latency_s = 0;
  double oversubscription = 1;  // what the level below can bring per device over what this level carries; 1 for the two
                                // innermost levels unless given
  bool rails = false;
  std::int64_t fewest_devices_per_unit = 0;  // in the smallest one; less than devices_per_unit on uneven clusters
  std::int64_t planes = 1;                   // that link_bytes_per_s is the sum of
  std::int64_t links_per_device = 1;         // of link_bytes_per_s each: more than one in a full mesh
};

// For a torus: one entry per distance class (neighbours, half way round each dimension, the whole torus).
std::vector<LevelSummary> summarise(const Cluster& cluster);

}  // namespace nest::cluster
