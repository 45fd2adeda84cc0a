#include "instance/least_memory.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/index.h"

namespace nest::instance {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Bytes of one stage, split into what it always holds and what every further micro-batch in flight adds.
struct StageBytes {
  std::int64_t resident;
  std::int64_t stash;
};

// All stages that begin at each node, indexed by their length minus one.
std::vector<std::vector<StageBytes>> all_stages(const ProfileInstance& instance, const ProfileGraph& graph) {
  const auto nodes = static_cast<int>(graph.nodes.size());
  const std::int64_t per_parameter = instance.optimizer == ProfileOptimizer::adam ? 8 : 2;
  std::vector<std::vector<ProfileEdge>> leaving(graph.nodes.size());
  for (const ProfileEdge& edge : graph.edges) leaving[at(edge.source)].push_back(edge);

  std::vector<std::int64_t> entering(graph.nodes.size(), 0);  // at each node, from before `begin`
  std::vector<std::vector<StageBytes>> stages(graph.nodes.size());
  for (int begin = 0; begin < nodes; ++begin) {
    StageBytes bytes{0, 0};
    for (int k = begin; k < nodes; ++k) {
      const ProfileNode& node = graph.nodes[at(k)];
      bytes.resident += per_parameter * node.parameter_bytes + node.activation_bytes;
      bytes.stash += instance.recompute ? entering[at(k)] : node.activation_bytes;
      stages[at(begin)].push_back(bytes);
    }
    for (const ProfileEdge& edge : leaving[at(begin)]) entering[at(edge.destination)] += edge.bytes;
  }
  return stages;
}

void improve(const ProfileInstance& instance, const ProfileGraph& graph, LeastMemory& least) {
  const auto nodes = static_cast<int>(graph.nodes.size());
  const auto most_stages =
      static_cast<int>(std::min<std::int64_t>(nodes, instance.devices / instance.stage_devices(graph)));
  const std::vector<std::vector<StageBytes>> stages = all_stages(instance, graph);
  std::vector<std::int64_t> suffix(at(nodes + 1),
                                   kNever);  // least largest stage of the nodes from here on, in s-1 stages
  suffix.back() = 0;
  for (int s = 1; s <= most_stages; ++s) {
    std::vector<std::int64_t> longer(suffix.size(), kNever);
    for (int begin = nodes - s; begin >= 0; --begin) {
      std::int64_t best = kNever;
      for (int end = begin + 1; end <= nodes - s + 1; ++end) {
        const StageBytes& bytes = stages[at(begin)][at(end - begin - 1)];
        const std::int64_t needed = bytes.resident + (s - 1) * bytes.stash;
        if (needed >= best) break;  // and so do all longer ones
        best = std::min(best, std::max(needed, suffix[at(end)]));
      }
      longer[at(begin)] = best;
    }
    suffix = std::move(longer);
    if (suffix.front() < least.bytes) least = {suffix.front(), graph.width, s};
  }
}

}  // namespace

std::optional<LeastMemory> least_profile_memory(const ProfileInstance& instance) {
  LeastMemory least{kNever, 0, 0};
  for (const ProfileGraph& graph : instance.graphs) {
    if (instance.stage_devices(graph) <= instance.devices) improve(instance, graph, least);
  }
  if (least.bytes == kNever) return std::nullopt;
  return least;
}

}  // namespace nest::instance
