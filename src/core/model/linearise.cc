#include "model/linearise.h"

#include <algorithm>

#include "base/index.h"

namespace nest {

std::vector<std::vector<int>> crossing_edges(int layers, std::span<const Edge> edges) {
  std::vector<std::vector<int>> crossing(at(std::max(0, layers - 1)));
  for (std::size_t e = 0; e < edges.size(); ++e) {
    if (edges[e].to.empty()) continue;
    const int last = *std::max_element(edges[e].to.begin(), edges[e].to.end());
    for (int cut = edges[e].from; cut < last; ++cut) crossing[at(cut)].push_back(static_cast<int>(e));
  }
  return crossing;
}

std::vector<LayerRun> find_runs(std::span<const int> layers) {
  std::vector<LayerRun> runs;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (runs.empty() || runs.back().kind != layers[i]) runs.push_back({static_cast<int>(i), 0, layers[i]});
    ++runs.back().count;
  }
  return runs;
}

}  // namespace nest
