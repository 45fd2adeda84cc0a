#include "importer/imported_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/hostlist.h"
#include "nest/option.h"

namespace nest::importer {
namespace {

// Marks the nodes below a switch; switches are visited once.
void mark_below(const FabricGraph& graph, std::size_t root, std::vector<bool>& wanted) {
  std::vector<bool> seen(graph.switches.size());
  std::vector<std::size_t> open = {root};
  seen[root] = true;
  while (!open.empty()) {
    const FabricSwitch& one = graph.switches[open.back()];
    open.pop_back();
    for (const std::size_t node : one.nodes) wanted[node] = true;
    for (const std::size_t child : one.switches) {
      if (!seen[child]) open.push_back(child);
      seen[child] = true;
    }
  }
}

std::vector<bool> below_named_switch(const FabricGraph& graph, const std::string& name, const std::string& file) {
  std::vector<bool> wanted(graph.nodes.size());
  std::vector<std::string> known;
  for (std::size_t s = 0; s < graph.switches.size(); ++s) {
    known.push_back(graph.switches[s].name);
    if (known.back() != name) continue;
    mark_below(graph, s, wanted);
    return wanted;
  }
  throw InputError(fmt::format("{}: {}: `{}` is not a switch, block or topology of the file{}", file, option("only"),
                               clip(name, 60), did_you_mean(name, known)));
}

}  // namespace

FabricGraph restrict_graph(const FabricGraph& graph, const FabricPart& part, const std::string& file) {
  std::vector<bool> wanted(graph.nodes.size(), true);
  if (!part.only.empty()) wanted = below_named_switch(graph, part.only, file);
  if (!part.without.empty()) {
    std::set<std::string> without(part.without.begin(), part.without.end());
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      if (without.erase(graph.nodes[node]) > 0) wanted[node] = false;
    }
    if (!without.empty()) {
      throw InputError(fmt::format("{}: {}: there is no host `{}`{}", file, option("exclude"),
                                   clip(*without.begin(), 60), did_you_mean(*without.begin(), graph.nodes)));
    }
  }
  FabricGraph kept;
  std::vector<std::size_t> number(graph.nodes.size(), kNoUnit);
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    if (!wanted[node]) continue;
    number[node] = kept.nodes.size();
    kept.nodes.push_back(graph.nodes[node]);
  }
  if (kept.nodes.empty()) throw InputError(fmt::format("{}: no host is left", file));
  kept.switches = graph.switches;
  kept.peers = graph.peers;
  for (FabricSwitch& one : kept.switches) {
    std::vector<std::size_t> nodes;
    for (const std::size_t node : one.nodes) {
      if (number[node] != kNoUnit) nodes.push_back(number[node]);
    }
    one.nodes = std::move(nodes);
  }
  return kept;
}

NodeTree connected_tree(const FabricGraph& graph, const std::string& file) {
  NodeTree tree = make_node_tree(graph);
  if (tree.roots.size() > 1) {
    throw InputError(
        fmt::format("{}: no switch joins all hosts: nothing connects `{}` and `{}` ({} parts in all); name one switch "
                    "above the part "
                    "you want with {}, or leave hosts out with {}",
                    file, graph.nodes[tree.roots[0]], graph.nodes[tree.roots[1]], tree.roots.size(), option("only"),
                    option("exclude")));
  }
  return tree;
}

std::string tier_name(std::size_t height) {
  if (height == 0) return "leaf";
  if (height == 1) return "spine";
  return height == 2 ? "core" : fmt::format("core{}", height - 1);
}

}  // namespace nest::importer
