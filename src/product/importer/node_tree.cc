#include "importer/node_tree.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace nest::importer {
namespace {

class Sets {
 public:
  explicit Sets(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }

  std::size_t find(std::size_t item) {
    while (parent_[item] != item) {
      parent_[item] = parent_[parent_[item]];
      item = parent_[item];
    }
    return item;
  }
  // The smaller number stands for the set: units keep the order of their first nodes.
  void join(std::size_t a, std::size_t b) {
    const std::size_t low = std::min(find(a), find(b));
    const std::size_t high = std::max(find(a), find(b));
    parent_[high] = low;
  }

 private:
  std::vector<std::size_t> parent_;
};

// Joins level by level; a unit is known by the number of its first node.
class TreeBuilder {
 public:
  explicit TreeBuilder(const FabricGraph& graph)
      : graph_(graph), sets_(graph.nodes.size()), first_below_(graph.switches.size(), kNoUnit) {}

  NodeTree build() {
    std::size_t heights = 0;
    for (const FabricSwitch& one : graph_.switches) heights = std::max(heights, one.height + 1);
    std::vector<std::size_t> below(graph_.nodes.size());
    std::iota(below.begin(), below.end(), std::size_t{0});
    for (std::size_t height = 0; height <= heights; ++height) {
      if (height < heights) join_switches(height);
      if (height == heights) join_peers();
      keep_level(height, below);
    }
    NodeTree tree;
    tree.levels = std::move(levels_);
    order_nodes(tree, below);
    for (std::size_t node = 0; node < below.size(); ++node) {
      if (below[node] == node) tree.roots.push_back(node);
    }
    return tree;
  }

 private:
  void join_switches(std::size_t height) {
    for (std::size_t s = 0; s < graph_.switches.size(); ++s) {
      const FabricSwitch& one = graph_.switches[s];
      if (one.height != height) continue;
      std::size_t& first = first_below_[s];
      const auto join = [&](std::size_t node) {
        if (node == kNoUnit) return;  // a switch with nothing below
        if (first == kNoUnit) first = node;
        sets_.join(first, node);
      };
      for (const std::size_t node : one.nodes) join(node);
      for (const std::size_t child : one.switches) {
        NEST_CHECK(graph_.switches[child].height < height, "a switch stands above its children");
        join(first_below_[child]);
      }
    }
  }

  void join_peers() {
    for (const PeerLink& link : graph_.peers) {
      if (first_below_[link.a] != kNoUnit && first_below_[link.b] != kNoUnit) {
        sets_.join(first_below_[link.a], first_below_[link.b]);
      }
    }
  }

  // `below`: the unit of every node one level further in, replaced by that of this level.
  void keep_level(std::size_t height, std::vector<std::size_t>& below) {
    NodeTreeLevel level;
    level.height = height;
    level.unit_of_node.resize(below.size());
    bool joins = false;
    for (std::size_t node = 0; node < below.size(); ++node) {
      level.unit_of_node[node] = sets_.find(node);
      joins = joins || level.unit_of_node[node] != below[node];
    }
    if (!joins) return;
    for (const std::size_t first : first_below_) {
      level.unit_of_switch.push_back(first == kNoUnit ? kNoUnit : sets_.find(first));
    }
    below = level.unit_of_node;
    levels_.push_back(std::move(level));
  }

  // Sorts nodes by their units from the outermost in, then numbers the units in that order and counts their children.
  static void order_nodes(NodeTree& tree, const std::vector<std::size_t>& nodes) {
    tree.order.resize(nodes.size());
    std::iota(tree.order.begin(), tree.order.end(), std::size_t{0});
    std::sort(tree.order.begin(), tree.order.end(), [&](std::size_t a, std::size_t b) {
      for (std::size_t l = tree.levels.size(); l-- > 0;) {
        const auto& unit = tree.levels[l].unit_of_node;
        if (unit[a] != unit[b]) return unit[a] < unit[b];
      }
      return a < b;
    });
    std::vector<std::size_t> child_of(nodes.size());  // the unit one level further in
    std::iota(child_of.begin(), child_of.end(), std::size_t{0});
    for (NodeTreeLevel& level : tree.levels) {
      std::vector<std::size_t> number(nodes.size(), kNoUnit);  // by the first node of the unit
      std::size_t last_child = kNoUnit;
      for (const std::size_t node : tree.order) {
        std::size_t& own = number[level.unit_of_node[node]];
        if (own == kNoUnit) {
          own = level.children.size();
          level.children.push_back(0);
        }
        if (child_of[node] != last_child) ++level.children[own];
        last_child = child_of[node];
      }
      child_of = level.unit_of_node;
      for (std::size_t& unit : level.unit_of_node) unit = number[unit];
      for (std::size_t& unit : level.unit_of_switch) unit = unit == kNoUnit ? kNoUnit : number[unit];
    }
  }

  const FabricGraph& graph_;
  Sets sets_;
  std::vector<std::size_t> first_below_;  // a node below each switch
  std::vector<NodeTreeLevel> levels_;
};

}  // namespace

NodeTree make_node_tree(const FabricGraph& graph) { return TreeBuilder(graph).build(); }

}  // namespace nest::importer
