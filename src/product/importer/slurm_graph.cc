#include "importer/slurm_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "importer/hostlist.h"

namespace nest::importer {
namespace {

constexpr std::size_t kLongestSwitchName = 64;
constexpr std::int64_t kLargestBlockFactor = 1 << 15;

std::vector<std::string> expand_here(const std::string& list, const SlurmSwitch& entry) {
  try {
    return expand_hostlist(list);
  } catch (const InputError& error) {
    entry.fail(error.what());
  }
  return {};
}

class GraphBuilder {
 public:
  explicit GraphBuilder(const std::vector<SlurmSwitch>& entries) : entries_(entries) {
    for (std::size_t s = 0; s < entries.size(); ++s) {
      const SlurmSwitch& entry = entries[s];
      if (s >= kMostSwitches) entry.fail(fmt::format("more than {} switches", kMostSwitches));
      if (entry.name.empty() || entry.name.size() > kLongestSwitchName) {
        entry.fail(fmt::format("names have 1 … {} characters", kLongestSwitchName));
      }
      if (!numbers_.emplace(entry.name, s).second) {
        entry.fail(fmt::format("`{}` is defined twice", clip(entry.name, 64)));
      }
      FabricSwitch made;
      made.name = entry.name;
      graph_.switches.push_back(std::move(made));
    }
  }

  FabricGraph build() {
    for (std::size_t s = 0; s < entries_.size(); ++s) add_children(s);
    set_heights();
    return std::move(graph_);
  }

  std::size_t nodes_in_several() const { return nodes_in_several_; }

 private:
  void add_children(std::size_t s) {
    const SlurmSwitch& entry = entries_[s];
    FabricSwitch& made = graph_.switches[s];
    if (entry.nodes.empty() == entry.switches.empty()) {
      entry.fail(entry.nodes.empty() ? "has neither Nodes nor Switches" : "has both Nodes and Switches");
    }
    for (const std::string& name : expand_here(entry.nodes.empty() ? entry.switches : entry.nodes, entry)) {
      if (entry.nodes.empty()) {
        const auto child = numbers_.find(name);
        if (child == numbers_.end()) {
          entry.fail(fmt::format("switch `{}` is defined nowhere in the file{}", clip(name, 64), meant(name)));
        }
        made.switches.push_back(child->second);
      } else {
        made.nodes.push_back(node_number(name, s, entry));
      }
    }
    std::vector<std::size_t> sorted = made.switches;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) entry.fail(fmt::format("switch `{}` is listed twice", entries_[*twice].name));
  }

  std::size_t node_number(const std::string& name, std::size_t s, const SlurmSwitch& entry) {
    const auto [at, is_new] = nodes_.emplace(name, graph_.nodes.size());
    if (is_new) {
      if (graph_.nodes.size() >= kMostHosts) entry.fail(fmt::format("more than {} hosts in the file", kMostHosts));
      graph_.nodes.push_back(name);
      last_switch_.push_back(s);
      return at->second;
    }
    std::size_t& last = last_switch_[at->second];
    if (last == s) entry.fail(fmt::format("host `{}` is listed twice", clip(name, 64)));
    last = s;
    ++nodes_in_several_;
    return at->second;
  }

  // Children first; what is left when none is without unfinished children goes round in a circle.
  void set_heights() {
    std::vector<std::size_t> waiting(entries_.size());
    std::vector<std::vector<std::size_t>> parents(entries_.size());
    std::vector<std::size_t> ready;
    for (std::size_t s = 0; s < entries_.size(); ++s) {
      waiting[s] = graph_.switches[s].switches.size();
      for (const std::size_t child : graph_.switches[s].switches) parents[child].push_back(s);
      if (waiting[s] == 0) ready.push_back(s);
    }
    std::size_t done = 0;
    for (; done < ready.size(); ++done) {
      for (const std::size_t parent : parents[ready[done]]) {
        std::size_t& height = graph_.switches[parent].height;
        height = std::max(height, graph_.switches[ready[done]].height + 1);
        if (--waiting[parent] == 0) ready.push_back(parent);
      }
    }
    if (done == entries_.size()) return;
    for (std::size_t s = 0; s < entries_.size(); ++s) {
      if (waiting[s] > 0) entries_[s].fail(fmt::format("switch `{}` is above or beside itself", entries_[s].name));
    }
  }

  std::string meant(const std::string& name) const {
    std::vector<std::string> known;
    for (const SlurmSwitch& entry : entries_) known.push_back(entry.name);
    return did_you_mean(name, known);
  }

  const std::vector<SlurmSwitch>& entries_;
  std::map<std::string, std::size_t> numbers_;
  std::map<std::string, std::size_t> nodes_;
  std::vector<std::size_t> last_switch_;  // that listed each node
  std::size_t nodes_in_several_ = 0;
  FabricGraph graph_;
};

void take_nodes(const FabricGraph& graph, const NodeTree& tree, ImportedFabric& fabric) {
  for (const std::size_t node : tree.order) fabric.nodes.push_back(graph.nodes[node]);
}

// Switches above the blocks: one for each aggregated size, in order of the file, and one above all.
void add_aggregates(const SlurmBlocks& blocks, FabricGraph& graph, std::vector<std::string>& names) {
  const std::size_t base_blocks = blocks.blocks.size();
  std::size_t height = 0;
  for (std::size_t i = 1; i < blocks.sizes.size(); ++i) {
    const std::int64_t factor = blocks.sizes[i] / blocks.sizes[0];
    if (factor >= static_cast<std::int64_t>(base_blocks)) break;
    ++height;
    names.push_back(fmt::format("{}{}", blocks.unit, factor));
    for (std::size_t first = 0; first < base_blocks; first += static_cast<std::size_t>(factor)) {
      FabricSwitch aggregate;
      aggregate.height = height;
      const std::size_t end = std::min(base_blocks, first + static_cast<std::size_t>(factor));
      for (std::size_t b = first; b < end; ++b) aggregate.switches.push_back(b);
      graph.switches.push_back(std::move(aggregate));
    }
  }
  FabricSwitch whole;
  whole.height = height + 1;
  for (std::size_t b = 0; b < base_blocks; ++b) whole.switches.push_back(b);
  graph.switches.push_back(std::move(whole));
  names.emplace_back("cluster");
}

void check_sizes(const SlurmBlocks& blocks) {
  for (std::size_t i = 0; i < blocks.sizes.size(); ++i) {
    const std::int64_t base = blocks.sizes[0];
    const std::int64_t size = blocks.sizes[i];
    if (base < 1 || size < 1) blocks.fail_sizes("block sizes are at least 1");
    if (i > 0 && size <= blocks.sizes[i - 1]) blocks.fail_sizes("block sizes rise");
    const std::int64_t factor = size / base;
    if (size % base != 0 || (factor & (factor - 1)) != 0 || factor > kLargestBlockFactor) {
      blocks.fail_sizes(fmt::format("block size {} is not {} times a power of two", size, base));
    }
  }
}

}  // namespace

ImportedFabric fabric_of_switches(const std::vector<SlurmSwitch>& switches, const FabricPart& part,
                                  const std::string& file) {
  GraphBuilder builder(switches);
  const FabricGraph graph = restrict_graph(builder.build(), part, file);
  const NodeTree tree = connected_tree(graph, file);
  ImportedFabric fabric;
  fabric.kind = "Slurm tree";
  take_nodes(graph, tree, fabric);
  for (const NodeTreeLevel& level : tree.levels) {
    FabricLevel made;
    made.name = tier_name(level.height);
    made.children = level.children;
    fabric.levels.push_back(std::move(made));
  }
  if (builder.nodes_in_several() > 0) {
    fabric.notes.push_back(fmt::format("{} hosts are below more than one leaf switch; those switches count as one unit",
                                       format_integer(static_cast<std::int64_t>(builder.nodes_in_several()))));
  }
  return fabric;
}

ImportedFabric fabric_of_blocks(const SlurmBlocks& blocks, const FabricPart& part, const std::string& file) {
  check_sizes(blocks);
  GraphBuilder builder(blocks.blocks);
  FabricGraph whole = builder.build();
  if (builder.nodes_in_several() > 0) {
    throw InputError(
        fmt::format("{}: {} hosts are in more than one {}", file, builder.nodes_in_several(), blocks.unit));
  }
  std::vector<std::string> names = {blocks.unit};
  add_aggregates(blocks, whole, names);
  const FabricGraph graph = restrict_graph(whole, part, file);
  const NodeTree tree = connected_tree(graph, file);
  ImportedFabric fabric;
  fabric.kind = fmt::format("Slurm {}s", blocks.unit);
  take_nodes(graph, tree, fabric);
  for (const NodeTreeLevel& level : tree.levels) {
    FabricLevel made;
    const bool outermost = &level == &tree.levels.back() && level.height > 0;  // joins all that is wanted
    made.name = outermost ? names.back() : names[level.height];
    made.children = level.children;
    made.only_if_asked = level.height > 0 && !outermost;
    fabric.levels.push_back(std::move(made));
  }
  return fabric;
}

}  // namespace nest::importer
