// YAML -> Cluster.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/checked.h"
#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "base/units.h"
#include "cluster/cluster.h"
#include "cluster/link_graph.h"
#include "cluster/rack_use.h"
#include "doc/reader.h"

namespace nest::cluster {
namespace {

constexpr double kFastestLink = 1e18;  // bytes per second
constexpr double kSlowestHop = 10;     // seconds
constexpr double kMostPlanes = 64;
constexpr std::size_t kMostUnits = 1U << 20U;

double read_bandwidth(doc::Reader& reader, std::string_view key) {
  const double bandwidth = reader.bandwidth(key);
  if (bandwidth <= 0) reader.fail(key, "a link of no bandwidth connects nothing; write for example 450GB/s");
  if (bandwidth > kFastestLink)
    reader.fail(key, fmt::format("{} is faster than any link", format_bandwidth(bandwidth)));
  return bandwidth;
}

double read_latency(doc::Reader& reader) {
  const double latency_s = reader.maybe_duration("latency").value_or(0);
  if (latency_s > kSlowestHop) reader.fail("latency", "more than 10 s; write for example 5us");
  return latency_s;
}

// Spares and trays of a rack.
void read_use(doc::Reader& reader, Level& level, std::size_t index) {
  const bool uneven = !level.counts.empty();
  if (const auto use = reader.maybe_integer("use", {1, real(level.group)})) {
    if (uneven) reader.fail("use", "needs `group`; write into `counts` how many children of each switch are used");
    level.built = level.group;
    level.use = level.group = *use;
  }
  level.tray = reader.integer_or("tray", 0, {1, real(kMaxDevices)});
  if (level.tray == 0) return;
  if (index > 0) reader.fail("tray", "trays are parts of the innermost units; give it on the first level");
  if (uneven || level.group % level.tray != 0 || level.built % level.tray != 0) {
    reader.fail("tray", fmt::format("units of {} are not made of trays of {}", level.group, level.tray));
  }
}

// Without oversubscription: what all links of the unit below bring together.
double uplink_of(const std::vector<Level>& inner) {
  const Level& below = inner.back();
  std::int64_t ports = below.group;  // links into the level below, of one of its units
  if (below.rails) {
    for (std::size_t l = 0; l + 1 < inner.size(); ++l) ports *= inner[l].group;
  }
  return below.bandwidth_bytes_per_s / below.oversubscription * real(ports);
}

double read_uplink(doc::Reader& reader, const std::vector<Level>& inner) {
  if (reader.has("bandwidth") || !reader.has("oversubscription")) return read_bandwidth(reader, "bandwidth");
  if (inner.size() < 2 || inner.back().rail_switches) {
    reader.fail("bandwidth",
                inner.size() < 2
                    ? "missing; `oversubscription` alone gives the uplinks of switches, from the third level on"
                    : "missing; uplinks of rail switches do not follow from `oversubscription`");
  }
  return uplink_of(inner);
}

// `inner` are the levels inside it.
Level read_level(doc::Reader& reader, const std::vector<Level>& inner) {
  const std::size_t index = inner.size();
  Level level;
  level.name = reader.text_or("name", fmt::format("level{}", index + 1));
  if (reader.has("counts") == reader.has("group")) {
    reader.fail("give either `group` (children per switch) or `counts` (children of each switch)");
  }
  if (const auto counts = reader.maybe_integers("counts", {1, real(kMaxDevices)}, kMostUnits)) {
    if (counts->empty()) reader.fail("counts", "an empty list; expected the children of each switch");
    level.group = *std::max_element(counts->begin(), counts->end());
    level.counts = *counts;
  } else {
    level.group = reader.integer("group", {1, real(kMaxDevices)});
  }
  read_use(reader, level, index);
  level.planes = reader.integer_or("planes", 1, {1, kMostPlanes});
  level.bandwidth_bytes_per_s = read_uplink(reader, inner) * real(level.planes);
  level.assumed = !reader.has("latency") && !reader.has("efficiency");
  level.latency_s = read_latency(reader);
  level.oversubscription = reader.maybe_number("oversubscription", {0.01, 1e4}).value_or(1);
  level.efficiency = reader.maybe_number("efficiency", {0.001, 1}).value_or(1);
  if (level.assumed) {
    level.efficiency = index == 0 ? kInsideEfficiency : kOutsideEfficiency;
    level.latency_s = index == 0 ? kInsideLatency_s : std::max(kOutsideLatency_s, inner.back().latency_s);
  }
  level.full_mesh = reader.flag_or("full_mesh", false);
  if (level.full_mesh && index > 0) {
    reader.fail("full_mesh",
                "links between every two devices are those of the innermost units; give it on the first level");
  }
  level.rail_switches = reader.flag_or("rail_switches", false);
  level.rails = reader.flag_or("rails", level.rail_switches);
  reader.refuse_unknown_keys();
  return level;
}

// What holds between levels: latencies rise, one level has rails, sizes stay within reason.
void check_levels(std::vector<doc::Reader>& readers, const std::vector<Level>& levels) {
  bool rails = false;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    if (l > 0 && levels[l].latency_s < levels[l - 1].latency_s) {
      readers[l].fail("latency",
                      fmt::format("{} is less than the {} of the level inside it; a farther switch cannot be closer",
                                  format_duration(levels[l].latency_s), format_duration(levels[l - 1].latency_s)));
    }
    if (levels[l].rail_switches && !levels[l].rails) readers[l].fail("rails", "rail switches need rails: true");
    if (levels[l].rails && l == 0) readers[l].fail("rails", "the innermost links belong to single devices anyway");
    if (levels[l].rails && rails)
      readers[l].fail("rails", "one level has them already; the levels above join the rails");
    if (levels[l].rail_switches && l + 1 == levels.size()) {
      readers[l].fail("rail_switches", "traffic between rails needs a level above that joins them");
    }
    if (levels[l].rails && l > 1 && levels[0].full_mesh) {
      readers[l].fail("rails", "beside a full mesh they are ports of its devices into the second level");
    }
    rails = rails || levels[l].rails;
    if (levels[l].use > 0 && level_with_use(levels) != l) readers[l].fail("use", "one level has it already");
  }
}

// Devices of the full cluster; fills in and checks `counts` from the outermost level inwards.
std::int64_t count_devices(std::vector<doc::Reader>& readers, std::vector<Level>& levels) {
  std::int64_t units = 1;  // switches of the level
  for (std::size_t l = levels.size(); l-- > 0;) {
    Level& level = levels[l];
    if (!level.counts.empty()) {
      if (static_cast<std::int64_t>(level.counts.size()) != units) {
        readers[l].fail("counts", fmt::format("{} switches are listed, but the levels outside have {} of them",
                                              level.counts.size(), units));
      }
      std::int64_t sum = 0;
      for (const std::int64_t count : level.counts) sum += count;
      units = sum;
      const bool even =
          std::all_of(level.counts.begin(), level.counts.end(), [&](std::int64_t c) { return c == level.group; });
      if (even) level.counts.clear();
    } else if (__builtin_mul_overflow(units, level.group, &units)) {
      units = kMaxDevices + 1;
    }
    if (units > kMaxDevices) {
      readers[l].fail(fmt::format("the levels hold more than {} devices", format_integer(kMaxDevices)));
    }
  }
  return units;
}

void read_levels(doc::Reader& root, Cluster& cluster) {
  std::vector<doc::Reader> readers = root.objects("levels");
  if (readers.empty()) root.fail("levels", "an empty list; expected at least one level, innermost first");
  if (readers.size() > kMaxLevels) {
    root.fail("levels", fmt::format("{} levels; at most {} are supported", readers.size(), kMaxLevels));
  }
  for (doc::Reader& reader : readers) {
    Level level = read_level(reader, cluster.levels);
    cluster.levels.push_back(std::move(level));
  }
  check_levels(readers, cluster.levels);
  std::int64_t full = count_devices(readers, cluster.levels);
  cluster.devices = root.integer_or("devices", full, {1, real(kMaxDevices)});
  if (cluster.devices != full && level_with_use(cluster.levels)) {
    if (const std::string why = fit_use(cluster.levels, cluster.devices); !why.empty()) {
      root.fail("devices", fmt::format("{} devices: {}", cluster.devices, why));
    }
    full = count_devices(readers, cluster.levels);
  }
  if (cluster.devices > full) {
    root.fail("devices", fmt::format("{} devices, but the levels hold {}", cluster.devices, full));
  }
  const bool irregular =
      std::any_of(cluster.levels.begin(), cluster.levels.end(), [](const Level& l) { return !l.counts.empty(); });
  if (irregular && cluster.devices != full) {
    root.fail("devices", fmt::format("{} devices, but the counts of the levels add up to {}", cluster.devices, full));
  }
}

void read_torus(doc::Reader& root, Cluster& cluster) {
  doc::Reader reader = root.object("torus");
  Torus torus;
  const auto dims = reader.maybe_integers("dims", {1, real(kMaxDevices)}, kMaxDimensions);
  if (!dims || dims->empty()) reader.fail("dims", "expected one to four sizes, for example [4, 4, 8]");
  torus.dims = *dims;
  std::int64_t devices = 1;
  for (const std::int64_t size : torus.dims) {
    if (__builtin_mul_overflow(devices, size, &devices) || devices > kMaxDevices) {
      reader.fail("dims", fmt::format("more than {} devices", format_integer(kMaxDevices)));
    }
  }
  const doc::Value* wrap = reader.raw("wrap");
  if (!wrap || wrap->as_bool()) {
    torus.wrap.assign(torus.dims.size(), !wrap || *wrap->as_bool());
  } else if (wrap->as_array() && wrap->as_array()->size() == torus.dims.size()) {
    for (const doc::Value& flag : *wrap->as_array()) {
      if (!flag.as_bool()) reader.fail("wrap", fmt::format("{} is neither true nor false", flag.shown()));
      torus.wrap.push_back(*flag.as_bool());
    }
  } else {
    reader.fail("wrap", fmt::format("found {}; expected true, false, or one of them for each of the {} dimensions",
                                    wrap->shown(), torus.dims.size()));
  }
  torus.link_bytes_per_s =
      read_bandwidth(reader, "bandwidth") * reader.maybe_number("efficiency", {0.001, 1}).value_or(1);
  torus.latency_s = read_latency(reader);
  reader.refuse_unknown_keys();
  cluster.torus = torus;
  cluster.devices = root.integer_or("devices", devices, {1, real(kMaxDevices)});
  if (cluster.devices != devices) {
    root.fail("devices", fmt::format("{} devices, but the dimensions hold {}", cluster.devices, devices));
  }
}

void add_vertices(doc::Reader& reader, const char* key, std::size_t at_most,
                  std::map<std::string, std::size_t>& vertices, std::vector<std::string>& names) {
  for (const std::string& name : reader.maybe_texts(key, at_most).value_or(std::vector<std::string>())) {
    if (!vertices.emplace(name, vertices.size()).second)
      reader.fail(key, fmt::format("`{}` is named twice", clip(name, 40)));
    names.push_back(name);
  }
}

void read_graph(doc::Reader& root, Cluster& cluster) {
  doc::Reader reader = root.object("graph");
  std::map<std::string, std::size_t> vertices;
  std::vector<std::string> names;
  add_vertices(reader, "devices", kGraphDevices, vertices, names);
  LinkGraph graph;
  graph.devices = vertices.size();
  if (graph.devices == 0) reader.fail("devices", "expected the names of the devices");
  add_vertices(reader, "switches", kGraphLinks, vertices, names);
  graph.switches = vertices.size() - graph.devices;
  std::vector<doc::Reader> links = reader.objects("links");
  if (links.size() > kGraphLinks)
    reader.fail("links", fmt::format("{} links; at most {} are supported", links.size(), kGraphLinks));
  for (doc::Reader& link : links) {
    const auto ends = link.maybe_texts("between", 2);
    if (!ends || ends->size() != 2) link.fail("between", "expected the two ends of the link");
    GraphLink made;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto found = vertices.find((*ends)[i]);
      if (found == vertices.end()) {
        link.fail("between", fmt::format("`{}` is neither a device nor a switch{}", clip((*ends)[i], 40),
                                         did_you_mean((*ends)[i], names)));
      }
      (i == 0 ? made.from : made.to) = found->second;
    }
    if (made.from == made.to) link.fail("between", fmt::format("`{}` is linked to itself", clip((*ends)[0], 40)));
    made.bandwidth_bytes_per_s = read_bandwidth(link, "bandwidth");
    made.latency_s = read_latency(link);
    if (made.latency_s <= 0) link.fail("latency", "must be more than 0: it decides which devices are close");
    link.refuse_unknown_keys();
    graph.links.push_back(made);
  }
  reader.refuse_unknown_keys();
  if (const std::size_t lost = first_disconnected(graph); lost < graph.devices) {
    reader.fail("links", fmt::format("no path leads from `{}` to `{}`", clip(names[0], 40), clip(names[lost], 40)));
  }
  cluster.devices = static_cast<std::int64_t>(graph.devices);
  if (graph.devices == 1) {
    cluster.levels = {Level{.name = "device", .group = 1, .counts = {}, .bandwidth_bytes_per_s = 1}};
  } else {
    DerivedLevels derived = derive_levels(graph);
    cluster.levels = std::move(derived.levels);
    for (const std::size_t device : derived.order) cluster.device_names.push_back(names[device]);
  }
}

Device read_device_of(doc::Reader& root) {
  const doc::Value* value = root.raw("device");
  if (!value) root.fail("device", "missing; give the name of a device, for example h100");
  if (value->as_object()) {
    const Document part{std::make_shared<doc::SourceText>(root.source()), *value};
    return read_device(part, "device");
  }
  const std::string name = root.text("device");
  if (auto device = find_device(name)) return *device;
  root.fail("device", device_presets().unknown(name));
}

AlgorithmChoice read_algorithms(doc::Reader& root) {
  const auto names = root.maybe_texts("algorithms", kAlgorithms);
  if (!names) return {};
  AlgorithmSet set;
  for (const std::string& name : *names) {
    const auto* found = std::find_if(kAlgorithmTable.begin(), kAlgorithmTable.end(),
                                     [&](const AlgorithmFacts& row) { return row.is_listed && name == row.name; });
    if (found == kAlgorithmTable.end()) {
      std::vector<std::string> known;
      for (const AlgorithmFacts& row : kAlgorithmTable) {
        if (row.is_listed) known.emplace_back(row.name);
      }
      root.fail("algorithms", fmt::format("`{}` is not known; allowed are {}{}", clip(name, 40), join_words(known),
                                          did_you_mean(name, known)));
    }
    set.add(found->algorithm);
  }
  return AlgorithmChoice(set);
}

void read_sizes(doc::Reader& root, Cluster& cluster) {
  auto reader = root.maybe_object("resize");
  if (!reader) return;
  const doc::Range range{1, real(kMaxDevices)};
  cluster.sizes.at_least = reader->integer_or("at_least", 1, range);
  cluster.sizes.at_most = reader->integer_or("at_most", kMaxDevices, range);
  cluster.sizes.multiple_of = reader->integer_or("multiple_of", 1, range);
  reader->refuse_unknown_keys();
}

}  // namespace

Cluster read_cluster(const Document& document, std::string_view name) {
  doc::Reader root(document);
  Cluster cluster;
  cluster.name = root.text_or("name", name);
  cluster.document = document;
  cluster.description = root.text_or("description", cluster.name);
  cluster.source = root.text_or("source", "");
  cluster.aliases = root.maybe_texts("aliases", 16).value_or(std::vector<std::string>());
  cluster.device = read_device_of(root);
  const int networks = (root.has("levels") ? 1 : 0) + (root.has("torus") ? 1 : 0) + (root.has("graph") ? 1 : 0);
  if (networks != 1) root.fail("expected exactly one of `levels`, `torus` and `graph`");
  if (root.has("levels")) {
    read_levels(root, cluster);
  } else if (root.has("torus")) {
    read_torus(root, cluster);
  } else {
    read_graph(root, cluster);
  }
  cluster.algorithms = read_algorithms(root);
  cluster.measured = read_collectives(root);
  const double overhead_s = root.maybe_duration("message_overhead").value_or(0);
  if (overhead_s > kSlowestHop) root.fail("message_overhead", "more than 10 s; write for example 2us");
  if (cluster.torus) {
    cluster.torus->message_overhead_s = overhead_s;
  } else {
    cluster.fabric = make_fabric(cluster.levels, cluster.devices);
    cluster.fabric.message_overhead_s = overhead_s;
  }
  for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
    if (cluster.levels[l].name == "node") cluster.node_level = l;
  }
  if (const auto names = root.maybe_texts("node_names", at(kMaxDevices))) {
    cluster.node_names = *names;
    const std::int64_t nodes = cluster.torus || cluster.node_level + 1 >= cluster.fabric.levels
                                   ? 1
                                   : cluster.fabric.unit_of(cluster.node_level + 1, cluster.devices - 1) + 1;
    const std::int64_t tray = devices_per_tray(cluster);
    const std::int64_t hosts = tray > 0 ? ceil_div(cluster.devices, tray) : nodes;
    if (static_cast<std::int64_t>(names->size()) != hosts) {
      root.fail("node_names", fmt::format("{} names for {} nodes", names->size(), hosts));
    }
  }
  read_sizes(root, cluster);
  cluster.price_per_device_hour = root.maybe_number("price", {0, 1e9}).value_or(0);
  root.refuse_unknown_keys();
  return cluster;
}

}  // namespace nest::cluster
