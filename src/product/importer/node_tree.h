// The network outside the nodes, as files describe it (switches that have nodes or other switches below them), reduced
// to levels of nested units.
//
// Level h joins what the switches of height h have below them: a unit is a set of children that these switches connect,
// directly or through each other. Several spines above the same leaves therefore make one unit, and so do the rail
// switches that all nodes of a scalable unit share. A switch with nodes has height 0, any other stands above the
// highest of its children. Units may differ in size; where one lacks a level, it has a unit of one child there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nest::importer {

struct FabricSwitch {
  std::string name;
  std::vector<std::size_t> nodes;     // below it, directly
  std::vector<std::size_t> switches;  // the same
  std::size_t height = 0;
};

// Switches of one height that are linked to each other; they make one level more on top.
struct PeerLink {
  std::size_t a = 0;
  std::size_t b = 0;
};

struct FabricGraph {
  std::vector<std::string> nodes;
  std::vector<FabricSwitch> switches;
  std::vector<PeerLink> peers;
};

struct NodeTreeLevel {
  std::size_t height = 0;                   // of the switches that make it; one more than the highest for peer links
  std::vector<std::int64_t> children;       // of each unit, in order
  std::vector<std::size_t> unit_of_node;    // by node of the graph
  std::vector<std::size_t> unit_of_switch;  // by switch of the graph; kNoUnit for switches above
};

inline constexpr std::size_t kNoUnit = static_cast<std::size_t>(-1);

struct NodeTree {
  std::vector<std::size_t> order;     // nodes of the graph in hierarchical order, otherwise as the graph has them
  std::vector<NodeTreeLevel> levels;  // innermost first; levels at which nothing joins are left out
  std::vector<std::size_t> roots;     // a node of each of the outermost units; one where all are connected
};

// Heights must be set and rise from child to parent.
NodeTree make_node_tree(const FabricGraph& graph);

}  // namespace nest::importer
