#include "instance/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "doc/reader.h"

namespace nest::instance {
namespace {

constexpr doc::Range kDegrees{1, static_cast<double>(ProfileLimits::kDevices)};
constexpr doc::Range kSizes{0, static_cast<double>(ProfileLimits::kGraphBytes)};
constexpr doc::Range kTimes{0, ProfileLimits::kTime};
constexpr doc::Range kIds{-0x1p53, 0x1p53};

// One number per network level.
std::vector<double> level_numbers(doc::Reader& reader, std::string_view key, doc::Range range, std::size_t levels) {
  const doc::Value* value = reader.raw(key);
  if (!value) reader.fail(key, "missing");
  const doc::Array* array = value->as_array();
  if (!array) reader.fail(key, fmt::format("found {}; expected a list of numbers", value->shown()));
  if (array->size() != levels) {
    reader.fail(key, fmt::format("{} entries for the {} levels of devices_per_level", array->size(), levels));
  }
  std::vector<double> numbers;
  for (const doc::Value& entry : *array) {
    const double* real = entry.as_real();
    const std::int64_t* whole = entry.as_integer();
    const double number = real ? *real : whole ? static_cast<double>(*whole) : std::nan("");
    if (!(number >= range.low && number <= range.high)) {
      reader.fail(key, fmt::format("entry {} is not a number in {:g} … {:g}", entry.shown(), range.low, range.high));
    }
    numbers.push_back(number);
  }
  return numbers;
}

void read_network(doc::Reader& reader, ProfileInstance& instance) {
  const auto groups = reader.maybe_integers("devices_per_level", kDegrees, ProfileLimits::kLevels);
  if (!groups) reader.fail("devices_per_level", "missing");
  if (groups->empty()) reader.fail("devices_per_level", "empty; there is at least one level");
  const std::vector<double> bandwidths = level_numbers(reader, "bws", {1e-3, 1e30}, groups->size());
  const std::vector<double> latencies = level_numbers(reader, "latency_per_level", kTimes, groups->size());

  instance.devices = reader.integer("maxDevices", kDegrees);
  std::int64_t places = 1;
  for (std::size_t i = 0; i < groups->size(); ++i) {
    instance.levels.push_back({(*groups)[i], bandwidths[i], latencies[i]});
    if (places < instance.devices) places *= (*groups)[i];
  }
  if (places < instance.devices) {
    reader.fail("maxDevices",
                fmt::format("{} devices, but the groups of devices_per_level hold {}", instance.devices, places));
  }
}

struct FileEdge {
  std::size_t source;  // index in the file's list of nodes
  std::size_t destination;
  std::int64_t bytes;
};

// Indices of the nodes in the artifact's topological order; shorter than the list of nodes when there is a cycle.
std::vector<std::size_t> stack_order(std::size_t nodes, const std::vector<FileEdge>& edges) {
  std::vector<std::vector<std::size_t>> successors(nodes);
  std::vector<std::size_t> open_predecessors(nodes, 0);
  for (const FileEdge& edge : edges) {
    successors[edge.source].push_back(edge.destination);
    ++open_predecessors[edge.destination];
  }
  std::vector<std::size_t> ready;
  for (std::size_t node = 0; node < nodes; ++node) {
    if (open_predecessors[node] == 0) ready.push_back(node);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t node = ready.back();
    ready.pop_back();
    order.push_back(node);
    for (const std::size_t successor : successors[node]) {
      if (--open_predecessors[successor] == 0) ready.push_back(successor);
    }
  }
  return order;
}

class GraphReader {
 public:
  GraphReader(doc::Reader& nodes, doc::Reader& edges, std::string key)
      : nodes_(nodes), edges_(edges), key_(std::move(key)) {}

  ProfileGraph read(std::int64_t width) {
    read_nodes();
    read_edges();
    const std::vector<std::size_t> order = stack_order(listed_.size(), file_edges_);
    if (order.size() < listed_.size()) fail_cycle(order);

    ProfileGraph graph;
    graph.width = width;
    std::vector<int> position(listed_.size());
    for (const std::size_t index : order) {
      position[index] = static_cast<int>(graph.nodes.size());
      graph.nodes.push_back(listed_[index]);
    }
    for (const FileEdge& edge : file_edges_) {
      graph.edges.push_back({position[edge.source], position[edge.destination], edge.bytes});
    }
    return graph;
  }

 private:
  void read_nodes() {
    std::vector<doc::Reader> entries = nodes_.objects(key_);
    if (entries.empty()) nodes_.fail(key_, "no nodes; a width needs at least one");
    if (entries.size() > ProfileLimits::kNodes) {
      nodes_.fail(key_, fmt::format("{} nodes; at most {} are supported", entries.size(), ProfileLimits::kNodes));
    }
    for (doc::Reader& entry : entries) {
      ProfileNode node;
      node.id = entry.integer("id", kIds);
      node.parameter_bytes = entry.integer("parameterSize", kSizes);
      node.activation_bytes = entry.integer("activationSize", kSizes);
      node.forward_s = entry.number("optimalLatencyFw", kTimes);
      node.backward_s = entry.number("optimalLatencyBw", kTimes);
      entry.raw("isTensorParallelized");
      entry.raw("energy");
      entry.refuse_unknown_keys();
      if (!index_of_id_.emplace(node.id, listed_.size()).second) {
        entry.fail("id", fmt::format("{} is the id of an earlier node too", node.id));
      }
      count_bytes(entry, node.parameter_bytes);
      count_bytes(entry, node.activation_bytes);
      listed_.push_back(node);
    }
  }

  void read_edges() {
    for (doc::Reader& entry : edges_.objects(key_)) {
      const std::size_t source = node_index(entry, "sourceId");
      const std::size_t destination = node_index(entry, "destId");
      const std::int64_t bytes = entry.integer("communicationCost", kSizes);
      entry.refuse_unknown_keys();
      if (source == destination) entry.fail("destId", "an edge from a node to itself");
      count_bytes(entry, bytes);
      file_edges_.push_back({source, destination, bytes});
    }
  }

  std::size_t node_index(doc::Reader& edge, std::string_view key) const {
    const std::int64_t id = edge.integer(key, kIds);
    const auto found = index_of_id_.find(id);
    if (found == index_of_id_.end())
      edge.fail(key, fmt::format("{} is not the id of a node of {}", id, nodes_.path() + "." + key_));
    return found->second;
  }

  // Keeps every later sum of bytes exact.
  void count_bytes(const doc::Reader& entry, std::int64_t bytes) {
    total_bytes_ += bytes;
    if (total_bytes_ > ProfileLimits::kGraphBytes) {
      entry.fail(fmt::format("the sizes up to here add up to more than {} bytes", ProfileLimits::kGraphBytes));
    }
  }

  [[noreturn]] void fail_cycle(const std::vector<std::size_t>& order) const {
    std::vector<bool> placed(listed_.size(), false);
    for (const std::size_t index : order) placed[index] = true;
    const auto stuck = at(std::find(placed.begin(), placed.end(), false) - placed.begin());
    edges_.fail(key_, fmt::format("the edges form a cycle (node {} waits for itself or for a node that does)",
                                  listed_[stuck].id));
  }

  doc::Reader& nodes_;
  doc::Reader& edges_;
  std::string key_;
  std::vector<ProfileNode> listed_;
  std::vector<FileEdge> file_edges_;
  std::unordered_map<std::int64_t, std::size_t> index_of_id_;
  std::int64_t total_bytes_ = 0;
};

// "4" -> 4; widths are the keys of `nodes` and `edges`.
std::int64_t parse_width(const doc::Reader& nodes, const std::string& key) {
  constexpr std::size_t kMostDigits = 7;
  const bool digits = !key.empty() && key.size() <= kMostDigits &&
                      std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
  const std::int64_t width = digits && key.front() != '0' ? std::stoll(key) : 0;
  if (width < 1 || width > ProfileLimits::kDevices) {
    nodes.fail(key, fmt::format("`{}` is not a tensor width; expected an integer in 1 … {}", clip(key, 40),
                                ProfileLimits::kDevices));
  }
  return width;
}

void read_graphs(doc::Reader& reader, ProfileInstance& instance) {
  doc::Reader nodes = reader.object("nodes");
  doc::Reader edges = reader.object("edges");
  const std::vector<std::string> keys = nodes.keys();
  if (keys.empty()) reader.fail("nodes", "empty; expected the layers of at least one tensor width");
  if (keys.size() > ProfileLimits::kWidths) {
    reader.fail("nodes",
                fmt::format("{} tensor widths; at most {} are supported", keys.size(), ProfileLimits::kWidths));
  }
  std::map<std::int64_t, ProfileGraph> by_width;
  for (const std::string& key : keys) {
    const std::int64_t width = parse_width(nodes, key);
    if (!edges.has(key)) edges.fail(key, fmt::format("missing, although nodes has the width {}", key));
    by_width.emplace(width, GraphReader(nodes, edges, key).read(width));
  }
  edges.refuse_unknown_keys();
  for (auto& [width, graph] : by_width) instance.graphs.push_back(std::move(graph));
}

}  // namespace

ProfileInstance read_profile_instance(const Document& document) {
  doc::Reader reader(document);
  ProfileInstance instance;
  read_network(reader, instance);
  instance.device_memory_bytes =
      static_cast<std::int64_t>(std::floor(reader.number("maxMemoryPerDevice", {0, 0x1p60})));
  instance.micro_batches = reader.integer("mbsInBatch", {1, static_cast<double>(ProfileLimits::kMicroBatches)});
  instance.expert_degree = reader.integer_or("ep_degree", 1, kDegrees);
  instance.context_degree = reader.integer_or("cp_degree", 1, kDegrees);

  const auto recompute = reader.maybe_flag("activationRecomputation");
  if (!recompute) reader.fail("activationRecomputation", "missing; expected true or false");
  instance.recompute = *recompute;
  const std::vector<std::string> optimizers{"SGD", "Adam"};
  if (!reader.has("optimizerAlgorithm")) reader.fail("optimizerAlgorithm", "missing; expected SGD or Adam");
  instance.optimizer = reader.choice_or("optimizerAlgorithm", "SGD", optimizers) == "Adam" ? ProfileOptimizer::adam
                                                                                           : ProfileOptimizer::sgd;
  for (const char* unused : {"bandwidth", "frequency", "sp_enabled", "baselines"}) reader.raw(unused);
  read_graphs(reader, instance);
  reader.refuse_unknown_keys();
  return instance;
}

}  // namespace nest::instance
