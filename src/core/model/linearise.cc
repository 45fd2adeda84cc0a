#include "model/linearise.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>

#include "base/error.h"

namespace nest {

std::vector<int> topological_order(int layers, std::span<const Edge> edges) {
  const auto known = [layers](int layer) { return layer >= 0 && layer < layers; };
  std::vector<int> waiting(static_cast<std::size_t>(layers), 0);
  std::vector<std::vector<int>> readers(static_cast<std::size_t>(layers));
  for (const Edge& edge : edges) {
    for (const int to : edge.to) {
      if (!known(edge.from) || !known(to)) {
        throw InputError(
            fmt::format("an edge joins layers {} and {}; there are layers 0 … {}", edge.from, to, layers - 1));
      }
      readers[static_cast<std::size_t>(edge.from)].push_back(to);
      ++waiting[static_cast<std::size_t>(to)];
    }
  }
  // The smallest ready layer first: a graph that already is in topological order keeps it.
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int layer = 0; layer < layers; ++layer) {
    if (waiting[static_cast<std::size_t>(layer)] == 0) ready.push(layer);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int layer = ready.top();
    ready.pop();
    order.push_back(layer);
    for (const int reader : readers[static_cast<std::size_t>(layer)]) {
      if (--waiting[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
    }
  }
  if (order.size() != static_cast<std::size_t>(layers)) {
    const auto stuck = std::find_if(waiting.begin(), waiting.end(), [](int count) { return count > 0; });
    throw InputError(
        fmt::format("the layers form a cycle through layer {}; a training step has none", stuck - waiting.begin()));
  }
  return order;
}

std::vector<std::vector<int>> crossing_edges(int layers, std::span<const Edge> edges) {
  std::vector<std::vector<int>> crossing(static_cast<std::size_t>(std::max(0, layers - 1)));
  for (std::size_t e = 0; e < edges.size(); ++e) {
    if (edges[e].to.empty()) continue;
    const int last = *std::max_element(edges[e].to.begin(), edges[e].to.end());
    for (int cut = edges[e].from; cut < last; ++cut)
      crossing[static_cast<std::size_t>(cut)].push_back(static_cast<int>(e));
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
