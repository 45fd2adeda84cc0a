// What a file says about the network outside the nodes: who is grouped with whom, and how fast the links are where the
// file knows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "importer/node_tree.h"

namespace nest::importer {

inline constexpr std::size_t kMostSwitches = 1U << 16U;

struct FabricLevel {
  std::string name;                             // of the unit: "leaf", "spine", "block"
  std::vector<std::int64_t> children;           // of each unit, in order
  std::optional<double> bandwidth_bytes_per_s;  // of all links of one child together; the least where they differ
  std::string bandwidth_from;                   // how the file says so
  bool only_if_asked = false;                   // left out unless its bandwidth is given
};

struct ImportedFabric {
  std::string kind;                        // "Slurm tree", "InfiniBand subnet"
  std::vector<std::string> nodes;          // in hierarchical order
  std::vector<FabricLevel> levels;         // innermost first; level 0 joins nodes
  std::vector<std::int64_t> ports;         // of each node into the fabric; empty where not known
  double port_bytes_per_s = 0;             // of one port; 0 where not known
  bool ports_of_node_apart = false;        // every port of a node leads to another switch, the k-th of all to the same
  std::optional<double> lane_bytes_per_s;  // then: the uplinks of one such switch
  std::vector<std::string> notes;
};

// Which part of a fabric is wanted.
struct FabricPart {
  std::string only;                  // what is below this switch, or in this block or named topology
  std::vector<std::string> without;  // hosts
};

// The graph with only the nodes of `part`; switches stay. Throws InputError for names that are not there.
FabricGraph restrict_graph(const FabricGraph& graph, const FabricPart& part, const std::string& file);

// Throws InputError where the nodes are not all connected.
NodeTree connected_tree(const FabricGraph& graph, const std::string& file);

// "leaf", "spine", "core", "core2" … for switches of height 0, 1, 2 …
std::string tier_name(std::size_t height);

}  // namespace nest::importer
