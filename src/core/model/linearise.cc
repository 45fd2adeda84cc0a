#include "model/linearise.h"

#include <algorithm>

#include "base/index.h"

namespace nest::model {

std::vector<std::vector<int>> crossing_edges(int layers, std::span<const Edge> edges) {
  std::vector<std::vector<int>> crossing(at(std::max(0, layers - 1)));
  for (std::size_t e = 0; e < edges.size(); ++e) {
    if (edges[e].to.empty()) continue;
    const int last = *std::max_element(edges[e].to.begin(), edges[e].to.end());
    for (int cut = edges[e].from; cut < last; ++cut) crossing[at(cut)].push_back(static_cast<int>(e));
  }
  return crossing;
}

std::vector<LayerStretch> find_stretches(std::span<const int> layers) {
  std::vector<LayerStretch> stretches;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (stretches.empty() || stretches.back().kind != layers[i])
      stretches.push_back({static_cast<int>(i), 0, layers[i]});
    ++stretches.back().count;
  }
  return stretches;
}

}  // namespace nest::model
