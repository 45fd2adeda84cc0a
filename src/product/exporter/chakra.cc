#include "exporter/chakra.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "exporter/protobuf_writer.h"
#include "exporter/rank_map.h"
#include "nest/option.h"
#include "schedule/rules.h"

namespace nest::exporter {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNodeBytes = 110;  // measured: 90 to 104 on a mean

enum NodeType : std::uint32_t { kCompute = 4, kSend = 5, kReceive = 6, kCollective = 7 };

// Fields of the schema's messages.
enum MetadataField : std::uint32_t { kVersion = 1 };
enum NodeField : std::uint32_t { kId = 1, kName = 2, kType = 3, kDataDeps = 5, kDuration = 7, kAttribute = 10 };
enum AttributeField : std::uint32_t {
  kAttributeName = 1,
  kInt32 = 7,
  kInt64 = 9,
  kUint64 = 13,
  kBool = 27,
  kString = 29
};

std::uint64_t collective_type(TraceCollective collective) {
  switch (collective) {
    case TraceCollective::all_reduce: return 0;
    case TraceCollective::all_gather: return 2;
    case TraceCollective::all_to_all: return 6;
    case TraceCollective::reduce_scatter: return 7;
  }
  return 0;
}

void attribute(ProtobufWriter& node, const char* name, AttributeField field, std::int64_t value) {
  ProtobufWriter attribute;
  attribute.text(kAttributeName, name);
  attribute.integer(field, static_cast<std::uint64_t>(value));
  node.message(kAttribute, attribute);
}

void attribute(ProtobufWriter& node, const char* name, const std::string& value) {
  ProtobufWriter attribute;
  attribute.text(kAttributeName, name);
  attribute.text(kString, value);
  node.message(kAttribute, attribute);
}

std::uint64_t node_type(TraceNode::Kind kind) {
  switch (kind) {
    case TraceNode::Kind::compute: return kCompute;
    case TraceNode::Kind::collective: return kCollective;
    case TraceNode::Kind::send: return kSend;
    case TraceNode::Kind::receive: return kReceive;
  }
  return 0;
}

std::int64_t read_rank(std::string_view word, const std::string& text, std::int64_t ranks) {
  std::int64_t rank = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), rank);
  if (error != std::errc() || end != word.data() + word.size() || rank < 0 || rank >= ranks) {
    throw InputError(fmt::format("--ranks: `{}` in `{}` is no rank; allowed are 0 … {}, ranges (0-7) and `all`",
                                 clip(std::string(word), 40), clip(text, 40), ranks - 1));
  }
  return rank;
}

// Groups name every rank, whichever have traces.
const Strategy& refuse_ranks(const Strategy& strategy) {
  if (strategy.devices_used() <= kMostTraceRanks) return strategy;
  throw InputError(fmt::format("chakra: {} ranks are more than the {} whose groups are listed",
                               format_integer(strategy.devices_used()), format_integer(kMostTraceRanks)));
}

}  // namespace

ChakraExport::ChakraExport(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages)
    : job_(job),
      ranks_(refuse_ranks(strategy)),
      plan_(job, strategy, stages),
      groups_(job.cluster, ranks_, plan_.work()) {
  if (strategy.pp > 1 && schedule::rule_of(strategy.schedule).is_split()) {
    throw InputError(fmt::format("traces have both gradients of a layer in one: schedule {} computes them apart",
                                 to_string(strategy.schedule)));
  }
}

double ChakraExport::refuse_size(const std::vector<std::int64_t>& ranks, double most, double most_nodes) const {
  std::vector<double> of_stage(static_cast<std::size_t>(ranks_.stages()), -1);
  double nodes = 0;
  for (const std::int64_t rank : ranks) {
    const std::int64_t stage = place(rank).stage;
    double& bound = of_stage[static_cast<std::size_t>(stage)];
    if (bound < 0) bound = plan_.node_bound(stage);
    if (bound > most_nodes) {
      throw InputError(
          fmt::format("the trace of rank {} would have {} nodes; the limit is {}: plan a smaller global batch",
                      format_integer(rank), format_integer(static_cast<std::int64_t>(bound)),
                      format_integer(static_cast<std::int64_t>(most_nodes))));
    }
    nodes += bound;
  }
  if (kNodeBytes * nodes > most) {
    throw InputError(fmt::format(
        "the traces of {} ranks would have {} nodes, about {}; the limit is {}: name fewer ranks ({} 0,8,16) "
        "or plan a smaller global batch",
        format_integer(static_cast<std::int64_t>(ranks.size())), format_integer(static_cast<std::int64_t>(nodes)),
        format_bytes(static_cast<std::int64_t>(kNodeBytes * nodes)), format_bytes(static_cast<std::int64_t>(most)),
        option("ranks")));
  }
  return kNodeBytes * nodes;
}

std::string ChakraExport::trace(const std::vector<TraceNode>& nodes, std::int64_t rank) const {
  groups::Place peer_place = place(rank);
  std::string file;
  ProtobufWriter metadata;
  metadata.text(kVersion, kChakraVersion);
  append_delimited(file, metadata);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const TraceNode& node = nodes[i];
    ProtobufWriter out;
    if (i > 0) out.integer(kId, i);
    out.text(kName, node.name);
    out.integer(kType, node_type(node.kind));
    out.packed(kDataDeps, node.after);
    if (node.duration_us > 0) out.integer(kDuration, static_cast<std::uint64_t>(node.duration_us));
    attribute(out, "is_cpu_op", kBool, 0);
    if (node.kind == TraceNode::Kind::compute) {
      attribute(out, "num_ops", kInt64, node.operations);
      attribute(out, "tensor_size", kUint64, node.bytes);
    } else if (node.kind == TraceNode::Kind::collective) {
      attribute(out, "comm_type", kInt64, static_cast<std::int64_t>(collective_type(node.collective)));
      attribute(out, "comm_size", kInt64, node.bytes);
      attribute(out, "pg_name", std::to_string(groups_.group_of(node.group, rank)));
      attribute(out, "comm_priority", kInt32, 0);
    } else {
      const bool sends = node.kind == TraceNode::Kind::send;
      peer_place.stage = node.peer_stage;
      const std::int64_t peer = ranks_.number_of(ranks_.device_of(peer_place));
      attribute(out, "comm_src", kInt32, sends ? rank : peer);
      attribute(out, "comm_dst", kInt32, sends ? peer : rank);
      attribute(out, "comm_tag", kInt32, node.tag);
      attribute(out, "comm_size", kInt64, node.bytes);
    }
    append_delimited(file, out);
  }
  return file;
}

Json ChakraExport::group_file() const {
  Json file = Json::object();
  // Looking each key up among those before it would take quadratic time.
  auto& entries = file.get_ref<Json::object_t&>();
  for (std::size_t i = 0; i < groups_.groups().size(); ++i) {
    entries.emplace_back(std::to_string(i + 1), groups_.groups()[i]);
  }
  return file;
}

Json ChakraExport::rank_file(const std::vector<std::int64_t>& ranks) const {
  Json file = {{"schema", "nest.chakra/1"}, {"version", kChakraVersion}, {"ranks_in_all", this->ranks()}};
  file["groups"] = Json::array();
  std::int64_t first = 1;
  for (std::size_t kind = 0; kind < kTraceGroups; ++kind) {
    const std::int64_t count = groups_.count(static_cast<TraceGroup>(kind));
    if (count == 0) continue;
    file["groups"].push_back(
        {{"kind", to_string(static_cast<TraceGroup>(kind))}, {"first", first}, {"last", first + count - 1}});
    first += count;
  }
  std::vector<Host> hosts;
  if (!job_.cluster.torus) hosts = hosts_of(job_.cluster);
  file["ranks"] = Json::array();
  for (const std::int64_t rank : ranks) {
    const groups::Place place = this->place(rank);
    const std::int64_t device = ranks_.device_number(rank);
    Json row = {{"rank", rank}, {"device", device}};
    if (!hosts.empty()) {
      const auto after = std::upper_bound(hosts.begin(), hosts.end(), device,
                                          [](std::int64_t at, const Host& host) { return at < host.first_device; });
      const Host& host = *(after - 1);
      row["node"] = host.name;
      row["local_device"] = device - host.first_device;
    }
    row["stage"] = place.stage;
    row["replica"] = place.replica;
    row["inner"] = place.inner;
    file["ranks"].push_back(std::move(row));
  }
  return file;
}

std::vector<std::int64_t> parse_ranks(const std::string& text, std::int64_t ranks) {
  std::set<std::int64_t> chosen;
  if (text == "all") {
    for (std::int64_t rank = 0; rank < ranks; ++rank) chosen.insert(chosen.end(), rank);
    return {chosen.begin(), chosen.end()};
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    const std::size_t dash = word.find('-');
    const std::int64_t first = read_rank(word.substr(0, dash), text, ranks);
    const std::int64_t last = dash == std::string_view::npos ? first : read_rank(word.substr(dash + 1), text, ranks);
    if (last < first) {
      throw InputError(
          fmt::format("--ranks: the range `{}` falls; the smaller rank comes first", clip(std::string(word), 40)));
    }
    for (std::int64_t rank = first; rank <= last; ++rank) chosen.insert(rank);
    begin = end + 1;
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace nest::exporter
