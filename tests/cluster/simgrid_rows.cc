#include "simgrid_rows.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace nest::test {
namespace {

constexpr Range kAny{-1e18, 1e18};

std::vector<double> numbers(Reader& reader, const char* key) {
  std::vector<double> values;
  const Value* raw = reader.raw(key);
  NEST_CHECK(raw && raw->as_array(), std::string("expected a list: ") + key);
  for (const Value& value : *raw->as_array()) {
    values.push_back(value.as_integer() ? static_cast<double>(*value.as_integer()) : *value.as_real());
  }
  return values;
}

std::vector<std::int64_t> integers(const Value& list) {
  std::vector<std::int64_t> values;
  for (const Value& value : *list.as_array()) values.push_back(*value.as_integer());
  return values;
}

Level level(const char* name, double group, double gb_per_s, double latency_us) {
  Level made;
  made.name = name;
  made.group = static_cast<std::int64_t>(group);
  made.bandwidth_bytes_per_s = gb_per_s * 1e9;
  made.latency_s = latency_us * 1e-6;
  return made;
}

void read_network(Reader levels, SimulatedRow& row) {
  if (levels.has("dims")) {
    Torus torus;
    torus.dims = levels.maybe_integers("dims", kAny, 3).value();
    torus.wrap.assign(torus.dims.size(), true);
    torus.link_bytes_per_s = levels.number("link_GBps", kAny) * 1e9;
    torus.latency_s = levels.number("latency_us_per_hop", kAny) * 1e-6;
    row.torus = torus;
    return;
  }
  const auto groups = numbers(levels, "devices_per_level");
  const auto latency_us = numbers(levels, "latency_us_by_highest_level_crossed");
  std::vector<Level> made;
  if (levels.has("uplink_GBps_per_level")) {
    const auto bandwidth = numbers(levels, "uplink_GBps_per_level");
    for (std::size_t l = 0; l < groups.size(); ++l)
      made.push_back(level("level", groups[l], bandwidth[l], latency_us[l]));
  } else {
    const double nic = levels.number("nic_GBps_per_device", kAny);
    const bool rail = levels.text("leaf") == "rail";
    const double leaf_ports = rail ? groups[1] : groups[0] * groups[1];
    const double uplink = leaf_ports * nic / levels.number("oversubscription", kAny);
    made = {level("node", groups[0], levels.number("nvlink_GBps", kAny), latency_us[0]),
            level("pod", groups[1], nic, latency_us[1]), level("spine", groups[2], uplink, latency_us[2])};
    made[1].rails = true;
    made[1].rail_switches = rail;
  }
  std::int64_t devices = 1;
  for (const Level& one : made) devices *= one.group;
  row.fabric = make_fabric(made, devices);
}

// Group starts as axes, when they are sums of at most three arithmetic progressions.
std::optional<std::vector<Stride>> axes_of(const std::vector<std::int64_t>& starts) {
  std::vector<Stride> axes;
  std::size_t block = 1;
  while (block < starts.size()) {
    const std::int64_t stride = starts[block] - starts[0];
    std::size_t count = 1;
    while ((count + 1) * block <= starts.size() &&
           starts[count * block] == starts[0] + static_cast<std::int64_t>(count) * stride) {
      ++count;
    }
    axes.push_back({stride, static_cast<std::int64_t>(count)});
    block *= count;
    if (count == 1 || axes.size() > 3) return std::nullopt;
  }
  GroupSpec check;
  check.first = starts[0];
  check.members = axes;
  auto listed = list_groups(check)[0];
  std::sort(listed.begin(), listed.end());
  return listed == starts ? std::optional(axes) : std::nullopt;
}

void read_group(Reader group, SimulatedRow& row) {
  row.ids = group.has("ids") ? group.text("ids") : "";
  row.note = group.has("note") ? group.text("note") : "";
  row.offset_s = group.maybe_number("offset_us", kAny).value_or(0) * 1e-6;
  if (const Value* listed = group.raw("groups")) {
    for (const Value& one : *listed->as_array()) row.listed.push_back(integers(one));
    return;
  }
  if (!group.has("count") || (!group.has("start") && !group.has("starts"))) return;
  GroupSpec spec;
  const std::int64_t count = group.integer("count", kAny);
  const std::int64_t stride = group.integer_or("stride", 1, kAny);
  spec.first = group.integer_or("start", 0, kAny);
  spec.members = {{stride, count}};
  if (const Value* starts = group.raw("starts")) {
    if (starts->as_array()) {
      const auto list = integers(*starts);
      spec.first = list[0];
      const auto siblings = axes_of(list);
      if (siblings) {
        spec.siblings = *siblings;
      } else {
        for (const std::int64_t start : list) {
          GroupSpec one{start, spec.members, {}};
          row.listed.push_back(list_groups(one)[0]);
        }
        return;
      }
    } else {
      // Tiling: `stride` groups side by side, then the next block of stride·count devices.
      spec.siblings = {{1, stride}, {stride * count, row.groups / stride}};
    }
  }
  row.spec = spec;
}

}  // namespace

Collective SimulatedRow::our_collective() const {
  static const std::map<std::string, Collective> names = {{"allreduce", Collective::all_reduce},
                                                          {"allgather", Collective::all_gather},
                                                          {"reducescatter", Collective::reduce_scatter},
                                                          {"alltoall", Collective::all_to_all},
                                                          {"p2p", Collective::send_recv}};
  return names.at(collective);
}

GroupLayout SimulatedRow::layout() const {
  if (torus) {
    GroupLayout layout;
    GroupSpec whole = spec.value_or(GroupSpec{listed.empty() ? 0 : listed[0][0], {{1, members}}, {}});
    layout.torus = make_torus_place(*torus, whole);
    return layout;
  }
  return spec ? make_layout(*fabric, *spec) : count_layout(*fabric, listed);
}

std::vector<SimulatedRow> read_rows(const Document& document, const std::string& key) {
  Reader root(document);
  std::vector<SimulatedRow> rows;
  for (Reader& reader : root.objects(key)) {
    SimulatedRow row;
    row.topology = reader.text("topology");
    row.kind = reader.has("kind") ? reader.text("kind") : "";
    row.collective = reader.text("collective");
    row.algorithm = reader.text("algorithm");
    row.hier_dims = reader.maybe_integers("hier_dims", kAny, 8).value_or(std::vector<std::int64_t>());
    row.chunks = reader.integer_or("chunks", 1, kAny);
    row.members = reader.integer("n", kAny);
    row.groups = reader.integer("concurrent_groups", kAny);
    row.bytes = reader.number("bytes", kAny);
    row.seconds = reader.number("seconds", kAny);
    read_network(reader.object("levels"), row);
    read_group(reader.object("group"), row);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace nest::test
