#include "random_instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace nest::test {
namespace {

class Draw {
 public:
  explicit Draw(std::mt19937_64& random) : random_(random) {}
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  double real(double high) { return high * static_cast<double>(random_() >> 11U) * 0x1p-53; }
  bool chance(int percent) { return integer(1, 100) <= percent; }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i) {
      std::swap(list[i - 1], list[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(i) - 1))]);
    }
  }

 private:
  std::mt19937_64& random_;
};

void add_network(Draw& draw, RawInstance& raw) {
  std::int64_t places = 1;
  const std::int64_t levels = draw.integer(1, 4);
  for (std::int64_t i = 0; i < levels; ++i) {
    raw.groups.push_back(draw.integer(1, levels == 1 ? 24 : levels == 2 ? 6 : 4));
    raw.bandwidths.push_back(1 + draw.real(100));
    raw.latencies.push_back(draw.chance(20) ? 0 : draw.real(2));
    places *= raw.groups.back();
  }
  raw.devices = std::min<std::int64_t>(draw.chance(70) ? places : draw.integer(1, places), 32);
}

void add_graph(Draw& draw, RawInstance& raw, int width, int nodes) {
  const bool equal_layers = draw.chance(40);
  const bool whole_times = draw.chance(40);
  const double scale = draw.chance(50) ? 1 : 20;
  const auto time = [&] { return whole_times ? static_cast<double>(draw.integer(0, 5)) : draw.real(5); };
  std::vector<int> ids(static_cast<std::size_t>(nodes));
  std::iota(ids.begin(), ids.end(), -1);
  draw.shuffle(ids);
  RawNode layer{0, draw.integer(0, 20), draw.integer(0, 20), time(), time()};
  std::vector<RawNode>& list = raw.nodes[width];
  for (const int id : ids) {
    if (!equal_layers) layer = {0, draw.integer(0, 20), draw.integer(0, 20), time(), time()};
    layer.id = id;
    list.push_back(layer);
  }
  const int percent = static_cast<int>(draw.integer(0, 60));
  const bool chain = draw.chance(40);
  const auto size = [&] { return static_cast<std::int64_t>(draw.real(50 * scale)); };
  std::vector<RawEdge>& edges = raw.edges[width];
  for (std::size_t to = 1; to < ids.size(); ++to) {
    for (std::size_t from = 0; from < to; ++from) {
      if ((chain && from + 1 == to) || draw.chance(percent)) edges.push_back({ids[from], ids[to], size()});
      if (draw.chance(percent / 10)) edges.push_back({ids[from], ids[to], size()});
    }
  }
  draw.shuffle(edges);
  draw.shuffle(list);
}

}  // namespace

RawInstance random_instance(std::mt19937_64& random) {
  Draw draw(random);
  RawInstance raw;
  add_network(draw, raw);
  raw.micro_batches = draw.chance(20) ? draw.integer(1, 3) : draw.integer(1, 40);
  raw.ep = draw.chance(80) ? 1 : draw.integer(2, 3);
  raw.cp = draw.chance(80) ? 1 : draw.integer(2, 3);
  raw.recompute = draw.chance(50);
  raw.adam = draw.chance(50);
  const int nodes = static_cast<int>(draw.chance(90) ? draw.integer(1, 7) : draw.integer(8, 9));
  for (const int width : {1, 2, 3}) {
    if (raw.nodes.empty() || draw.chance(40)) add_graph(draw, raw, draw.chance(50) ? width : width + 3, nodes);
  }
  raw.memory = draw.chance(5) ? 0 : draw.integer(1, (raw.adam ? 80 : 35) * nodes * (draw.chance(50) ? 1 : 4));
  return raw;
}

std::string to_json(const RawInstance& raw) {
  std::string nodes;
  std::string edges;
  for (const auto& [width, list] : raw.nodes) {
    std::vector<std::string> entries;
    for (const RawNode& n : list) {
      entries.push_back(fmt::format(
          R"({{"id":{},"parameterSize":{},"activationSize":{},"optimalLatencyFw":{},"optimalLatencyBw":{}}})", n.id,
          n.parameters, n.activations, n.forward, n.backward));
    }
    nodes += fmt::format("{}\"{}\":[{}]", nodes.empty() ? "" : ",", width, fmt::join(entries, ",\n "));
  }
  for (const auto& [width, list] : raw.edges) {
    std::vector<std::string> entries;
    for (const RawEdge& e : list) {
      entries.push_back(
          fmt::format(R"({{"sourceId":{},"destId":{},"communicationCost":{}}})", e.source, e.destination, e.bytes));
    }
    edges += fmt::format("{}\"{}\":[{}]", edges.empty() ? "" : ",", width, fmt::join(entries, ",\n "));
  }
  return fmt::format(
      R"({{"maxDevices":{},"devices_per_level":[{}],"bws":[{}],"latency_per_level":[{}],"maxMemoryPerDevice":{},
"mbsInBatch":{},"ep_degree":{},"cp_degree":{},"activationRecomputation":{},"optimizerAlgorithm":"{}",
"nodes":{{{}}},
"edges":{{{}}}}})",
      raw.devices, fmt::join(raw.groups, ","), fmt::join(raw.bandwidths, ","), fmt::join(raw.latencies, ","),
      raw.memory, raw.micro_batches, raw.ep, raw.cp, raw.recompute, raw.adam ? "Adam" : "SGD", nodes, edges);
}

}  // namespace nest::test
