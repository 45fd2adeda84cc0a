#include "importer/import_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "importer/hostlist.h"
#include "importer/ibnetdiscover.h"
#include "importer/nccl_topology.h"
#include "importer/nvidia_smi.h"
#include "importer/slurm.h"
#include "nest/option.h"

namespace nest::importer {
namespace {

// Latencies and efficiencies of nest's DGX presets, fitted to published training runs.
constexpr const char* kAssumed = "assumed, as in nest's DGX presets";

struct Inputs {
  std::optional<ImportedFabric> fabric;
  std::string fabric_file;
  std::optional<NodeInside> inside;
  std::string inside_file;
};

void read_file(const doc::SourceText& source, ImportFormat format, const FabricPart& part, Inputs& inputs) {
  const bool outside =
      format == ImportFormat::slurm || format == ImportFormat::slurm_yaml || format == ImportFormat::ibnetdiscover;
  if (outside ? inputs.fabric.has_value() : inputs.inside.has_value()) {
    throw InputError(fmt::format("{} and {} are both about the {}; give one of them",
                                 outside ? inputs.fabric_file : inputs.inside_file, source.name,
                                 outside ? "network between nodes" : "inside of a node"));
  }
  // Where numbers come from is told by the file's name alone.
  (outside ? inputs.fabric_file : inputs.inside_file) = source.name.substr(source.name.rfind('/') + 1);
  switch (format) {
    case ImportFormat::slurm: inputs.fabric = read_slurm_conf(source, part); break;
    case ImportFormat::slurm_yaml: inputs.fabric = read_slurm_yaml(source, part); break;
    case ImportFormat::ibnetdiscover:
      inputs.fabric = fabric_of_subnet(parse_ibnetdiscover(source), part, source.name);
      break;
    case ImportFormat::nvidia_smi: inputs.inside = inside_of(parse_nvidia_smi(source)); break;
    case ImportFormat::nccl: inputs.inside = inside_of(parse_nccl_topology(source), source.name); break;
  }
}

class Assembly {
 public:
  Assembly(const Inputs& inputs, const ImportRequest& request) : inputs_(inputs), request_(request) {}

  ImportedCluster assemble() {
    made_.name = request_.name;
    made_.device_yaml = request_.device_yaml;
    if (inputs_.fabric) made_.node_names = inputs_.fabric->nodes;
    if (!inputs_.fabric && (!request_.part.only.empty() || !request_.part.without.empty())) {
      throw InputError(fmt::format("{} and {} choose hosts; no file about the network between nodes is given",
                                   option("only"), option("exclude")));
    }
    ask_for_device();
    count_devices();
    add_inside();
    add_outside();
    check_options();
    set_rails();
    set_bandwidths();
    set_latencies();
    finish();
    return std::move(made_);
  }

 private:
  std::size_t nodes() const { return inputs_.fabric ? inputs_.fabric->nodes.size() : 1; }
  std::size_t inside_levels() const { return made_.levels.size() - outside_.size(); }

  void ask_for_device() {
    if (request_.device) return;
    const std::vector<std::string> fitting =
        inputs_.inside ? inputs_.inside->device_candidates : std::vector<std::string>();
    made_.missing.push_back({"device", "", fitting.empty() ? "h100" : fitting.front(),
                             fitting.empty() ? "what the nodes hold; `nest show devices` lists them"
                                             : fmt::format("the file fits {}", join_words(fitting, "or"))});
  }

  void count_devices() {
    std::optional<std::int64_t> usual = request_.devices_per_node;
    if (inputs_.inside) {
      if (usual && *usual != inputs_.inside->devices) {
        throw InputError(fmt::format("{} {}: {} shows {} devices", option("devices_per_node"), *usual,
                                     inputs_.inside_file, inputs_.inside->devices));
      }
      usual = inputs_.inside->devices;
      if (!request_.devices_of_hosts.empty() && inputs_.inside->levels.size() > 1) {
        throw InputError(fmt::format("{}: hosts cannot differ where nodes have an inside structure ({})",
                                     option("devices_per_node"), inputs_.inside_file));
      }
    }
    if (!usual) {
      made_.missing.push_back(
          {"devices_per_node", "", "8", "devices of one node; a file about its inside says so too"});
    }
    devices_.assign(nodes(), usual.value_or(8));
    std::map<std::string, std::size_t> numbers;
    for (std::size_t i = 0; i < made_.node_names.size(); ++i) numbers.emplace(made_.node_names[i], i);
    for (const auto& [hosts, count] : request_.devices_of_hosts) {
      for (const std::string& host : hosts) {
        const auto found = numbers.find(host);
        if (found == numbers.end()) {
          throw InputError(fmt::format("{}: there is no host `{}`{}", option("devices_per_node"), clip(host, 60),
                                       did_you_mean(host, made_.node_names)));
        }
        devices_[found->second] = count;
      }
    }
    std::int64_t total = 0;
    for (const std::int64_t count : devices_) total += count;
    if (total > cluster::kMaxDevices)
      throw InputError(fmt::format("more than {} devices", format_integer(cluster::kMaxDevices)));
  }

  void add_inside() {
    if (!inputs_.inside || inputs_.inside->levels.size() == 1) {
      ImportedLevel node;
      node.name = "node";
      node.children = devices_;
      node.children_from = inputs_.inside ? inputs_.inside_file : kGiven;
      made_.levels.push_back(std::move(node));
    } else {
      for (const InsideLevel& level : inputs_.inside->levels) {
        ImportedLevel added;
        added.name = level.name;
        for (std::size_t i = 0; i < nodes(); ++i) {
          added.children.insert(added.children.end(), level.children.begin(), level.children.end());
        }
        added.children_from = inputs_.inside_file;
        made_.levels.push_back(std::move(added));
      }
    }
    std::string child = "device";
    for (std::size_t l = 0; l < made_.levels.size(); ++l) {
      ImportedLevel& level = made_.levels[l];
      level.link = fmt::format("links of one {} into its {}", child, level.name);
      level.efficiency = cluster::kInsideEfficiency;
      level.efficiency_from = kAssumed;
      child = level.name;
      const InsideLevel* known = inputs_.inside ? &inputs_.inside->levels[l] : nullptr;
      if (known && known->closeness != Closeness::nvlink) {
        level.efficiency = 1;  // rates of PCIe are given as what payload gets
        level.efficiency_from.clear();
      }
      if (known && known->bandwidth_bytes_per_s) {
        level.bandwidth_bytes_per_s = known->bandwidth_bytes_per_s;
        level.bandwidth_from = fmt::format("{}: {}", inputs_.inside_file, known->bandwidth_from);
      } else if (l == 0 && (!known || known->closeness == Closeness::nvlink)) {
        set_device_links(level);
      }
    }
    if (inputs_.inside) {
      for (const std::string& note : inputs_.inside->notes) made_.notes.push_back(note);
    }
  }

  // The links of one device to its neighbours: counted by the file, or all that the device has.
  void set_device_links(ImportedLevel& level) {
    if (!request_.device) return;
    const cluster::Device& device = *request_.device;
    const auto rate = nvlink_bytes_per_s(device.name);
    if (inputs_.inside && rate) {
      const NodeInside& inside = *inputs_.inside;
      const bool fits = static_cast<double>(inside.nvlinks) * *rate <= device.link_bytes_per_s;
      const std::int64_t links = inside.nvlinks_to_each_peer || fits ? inside.nvlinks : inside.nvlinks_of_pair;
      if (links > 0) {
        level.bandwidth_bytes_per_s = static_cast<double>(links) * *rate;
        level.bandwidth_from =
            fmt::format("{}: {} NVLinks of {} ({})", inputs_.inside_file, links, format_bandwidth(*rate), device.name);
        return;
      }
    }
    if (device.link_bytes_per_s > 0) {
      level.bandwidth_bytes_per_s = device.link_bytes_per_s;
      level.bandwidth_from = fmt::format("all links of one {}", device.name);
    }
  }

  void add_outside() {
    if (!inputs_.fabric) return;
    const ImportedFabric& fabric = *inputs_.fabric;
    std::string child = "node";
    std::vector<std::int64_t> pending;  // children of units of a level that is left out
    for (const FabricLevel& level : fabric.levels) {
      const bool asked = request_.bandwidth_bytes_per_s.contains(level.name);
      if (level.only_if_asked && !asked) {
        made_.notes.push_back(
            fmt::format("`{}` is how Slurm aggregates blocks; give its bandwidth if a switch stands "
                        "behind it",
                        level.name));
        pending = pending.empty() ? level.children : merged(pending, level.children);
        continue;
      }
      ImportedLevel added;
      added.name = level.name;
      added.children = pending.empty() ? level.children : merged(pending, level.children);
      pending.clear();
      added.children_from = inputs_.fabric_file;
      added.link = level.name == "global" || level.name == "cluster"
                       ? fmt::format("links of one {} to the others", child)
                       : fmt::format("links of one {} into its {}", child, level.name);
      added.efficiency = cluster::kOutsideEfficiency;
      added.efficiency_from = kAssumed;
      if (level.bandwidth_bytes_per_s) {
        added.bandwidth_bytes_per_s = level.bandwidth_bytes_per_s;
        added.bandwidth_from = fmt::format("{}: {}", inputs_.fabric_file, level.bandwidth_from);
      }
      child = level.name;
      outside_.push_back(level.name);
      made_.levels.push_back(std::move(added));
    }
    for (const std::string& note : fabric.notes) made_.notes.push_back(note);
    if (inputs_.inside && inputs_.inside->adapters > 0 && !fabric.ports.empty() &&
        inputs_.inside->adapters != fabric.ports.front()) {
      made_.notes.push_back(fmt::format("{} shows {} network adapters, {} {} ports of a node; the latter is taken",
                                        inputs_.inside_file, inputs_.inside->adapters, inputs_.fabric_file,
                                        fabric.ports.front()));
    }
  }

  // Children of the outer units when the units between are left out.
  static std::vector<std::int64_t> merged(const std::vector<std::int64_t>& inner,
                                          const std::vector<std::int64_t>& outer) {
    std::vector<std::int64_t> children;
    std::size_t at = 0;
    for (const std::int64_t units : outer) {
      std::int64_t sum = 0;
      for (std::int64_t i = 0; i < units; ++i) sum += inner[at++];
      children.push_back(sum);
    }
    return children;
  }

  void check_options() const {
    std::vector<std::string> known;
    for (const ImportedLevel& level : made_.levels) known.push_back(level.name);
    if (known.size() > cluster::kMaxLevels) {
      throw InputError(fmt::format("{} levels; at most {} are supported", known.size(), cluster::kMaxLevels));
    }
    const auto check = [&](const char* asked, const std::string& name) {
      if (std::find(known.begin(), known.end(), name) != known.end()) return;
      throw InputError(fmt::format("{}: there is no level `{}`; the levels are {}{}", option(asked), clip(name, 40),
                                   join_words(known), did_you_mean(name, known)));
    };
    for (const auto& [name, value] : request_.bandwidth_bytes_per_s) check("bandwidth", name);
    for (const auto& [name, value] : request_.latency_s) check("latency", name);
    if (request_.rails.empty() || request_.rails == "none") return;
    check("rails", request_.rails);
    if (std::find(outside_.begin(), outside_.end(), request_.rails) == outside_.end()) {
      throw InputError(fmt::format("{}: `{}` is inside a node; devices have ports of their own there anyway",
                                   option("rails"), clip(request_.rails, 40)));
    }
  }

  // Whether devices have ports of their own into the first level outside the node, and what these and the uplinks of
  // whole nodes can do.
  void set_rails() {
    if (outside_.empty()) return;
    ImportedLevel& level = made_.levels[inside_levels()];
    const ImportedFabric& fabric = *inputs_.fabric;
    const bool even = std::all_of(devices_.begin(), devices_.end(), [&](std::int64_t d) { return d == devices_[0]; });
    if (!fabric.ports.empty()) {
      const auto [fewest, most] = std::minmax_element(fabric.ports.begin(), fabric.ports.end());
      const bool divides = even && *fewest == *most && *fewest % devices_[0] == 0;
      const std::int64_t ports = divides ? *fewest / devices_[0] : *fewest;
      level.rails = divides && request_.rails.empty() && nodes() > 1;
      if (divides && !level.rails) set_port_bandwidth(level, *fewest);
      if (!divides || level.rails) set_port_bandwidth(level, ports);
      if (level.rails) {
        level.rails_from = fmt::format("{}: {} ports per node", inputs_.fabric_file, *fewest);
        set_rail_switches(level, *fewest);
      }
    } else if (inputs_.inside && inputs_.inside->adapters > 0) {
      const NodeInside& inside = *inputs_.inside;
      level.rails = inside.adapter_per_device && request_.rails.empty();
      if (level.rails) level.rails_from = fmt::format("{}: {}", inputs_.inside_file, inside.adapters_from);
      if (inside.adapter_bytes_per_s) {
        const std::int64_t count = level.rails ? inside.adapters / inside.devices : inside.adapters;
        level.bandwidth_bytes_per_s = static_cast<double>(count) * *inside.adapter_bytes_per_s;
        level.bandwidth_from = fmt::format("{}: {}", inputs_.inside_file, inside.adapters_from);
      }
    }
    if (!request_.rails.empty() && request_.rails != "none") {
      ImportedLevel& named = *std::find_if(made_.levels.begin(), made_.levels.end(),
                                           [&](const ImportedLevel& each) { return each.name == request_.rails; });
      // A node's ports, known together, are shared out evenly.
      if (&named == &level && level.bandwidth_bytes_per_s) {
        level.bandwidth_bytes_per_s = *level.bandwidth_bytes_per_s / static_cast<double>(devices_[0]);
        level.bandwidth_from += fmt::format(", shared by {} devices", devices_[0]);
      }
      named.rails = true;
      named.rails_from = kGiven;
    }
    for (ImportedLevel& each : made_.levels) {
      if (each.rails) each.link = fmt::format("one device's own port into its {}", each.name);
    }
  }

  void set_port_bandwidth(ImportedLevel& level, std::int64_t ports) {
    const double port = inputs_.fabric->port_bytes_per_s;
    if (port <= 0) return;
    level.bandwidth_bytes_per_s = static_cast<double>(ports) * port;
    level.bandwidth_from =
        fmt::format("{}: {} of {} Gb/s", inputs_.fabric_file,
                    ports == 1 ? std::string("a port") : fmt::format("{} ports", ports), port * 8 / 1e9);
  }

  // One switch per device position needs a level above that joins them.
  void set_rail_switches(ImportedLevel& level, std::int64_t ports) {
    const ImportedFabric& fabric = *inputs_.fabric;
    if (!fabric.ports_of_node_apart || ports != devices_[0] || outside_.size() < 2) return;
    level.rail_switches = true;
    level.rails_from += ", each to a switch of its own";
    ImportedLevel& above = made_.levels[inside_levels() + 1];
    above.link = fmt::format("links of one rail switch of a {} into its {}", level.name, above.name);
    above.bandwidth_bytes_per_s = fabric.lane_bytes_per_s;
    above.bandwidth_from = fmt::format("{}: the uplinks of one rail switch", inputs_.fabric_file);
  }

  void set_bandwidths() {
    for (ImportedLevel& level : made_.levels) {
      const auto given = request_.bandwidth_bytes_per_s.find(level.name);
      if (given != request_.bandwidth_bytes_per_s.end()) {
        level.bandwidth_bytes_per_s = given->second;
        level.bandwidth_from = kGiven;
      }
      if (!level.bandwidth_bytes_per_s && (request_.device || &level != &made_.levels.front())) {
        made_.missing.push_back({"bandwidth", level.name + "=", "400Gbps", level.link});
      }
    }
  }

  // Assumed latencies give way to given ones: a level is no closer than those inside it.
  void set_latencies() {
    double latest = 1;
    for (std::size_t l = made_.levels.size(); l-- > 0;) {
      ImportedLevel& level = made_.levels[l];
      const auto given = request_.latency_s.find(level.name);
      if (given != request_.latency_s.end()) {
        if (given->second > latest) {
          throw InputError(fmt::format("{} {}={}: a level further out has {}", option("latency"), level.name,
                                       exact_duration(given->second), exact_duration(latest)));
        }
        level.latency_s = latest = given->second;
        level.latency_from = kGiven;
      } else {
        level.latency_s =
            std::min(latest, l < inside_levels() ? cluster::kInsideLatency_s : cluster::kOutsideLatency_s);
        level.latency_from = kAssumed;
      }
    }
    // Assumed ones may still lie below a given one further in.
    double least = 0;
    for (ImportedLevel& level : made_.levels) {
      level.latency_s = std::max(level.latency_s, least);
      least = level.latency_s;
    }
  }

  void finish() {
    std::vector<std::string> parts;
    if (inputs_.fabric) parts.push_back(fmt::format("{} ({})", inputs_.fabric_file, inputs_.fabric->kind));
    if (inputs_.inside) parts.push_back(fmt::format("{} (inside of a node)", inputs_.inside_file));
    made_.source = fmt::format("nest import, from {}", join_words(parts));
    made_.description = made_.name;
  }

  const Inputs& inputs_;
  const ImportRequest& request_;
  ImportedCluster made_;
  std::vector<std::int64_t> devices_;  // of each node
  std::vector<std::string> outside_;   // names of the levels outside the node
};

}  // namespace

bool ImportedLevel::even() const {
  return std::all_of(children.begin(), children.end(), [&](std::int64_t count) { return count == children.front(); });
}

ImportedCluster import_cluster(const std::vector<doc::SourceText>& files, std::optional<ImportFormat> format,
                               const ImportRequest& request) {
  Inputs inputs;
  for (const doc::SourceText& file : files) {
    read_file(file, format ? *format : recognise_format(file), request.part, inputs);
  }
  return Assembly(inputs, request).assemble();
}

}  // namespace nest::importer
