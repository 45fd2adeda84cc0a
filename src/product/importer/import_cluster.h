// A cluster file from what people have at hand: one file about the network between nodes (Slurm's topology,
// ibnetdiscover), one about the inside of a node (nvidia-smi topo -m, NCCL's topology), or one of both.
//
// Numbers come, in this order, from the options, from the files, from the device, and from assumptions that nest's own
// presets share; every level remembers where each came from. What none of them knows is asked for by name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/cluster.h"
#include "doc/value.h"
#include "importer/imported_fabric.h"
#include "importer/node_inside.h"
#include "nest/import.h"

namespace nest::importer {

enum class ImportFormat : std::uint8_t { slurm, slurm_yaml, nvidia_smi, ibnetdiscover, nccl };
inline constexpr std::size_t kImportFormats = 5;
const char* to_string(ImportFormat format);  // one of import_formats()

// By content. Throws InputError that lists what can be read.
ImportFormat recognise_format(const doc::SourceText& source);

struct ImportRequest {
  std::string name;  // of the cluster
  std::optional<cluster::Device> device;
  std::string device_yaml;  // what stands behind `device:` in the file: a preset's name or an object
  std::map<std::string, double> bandwidth_bytes_per_s;  // by level
  std::map<std::string, double> latency_s;
  std::optional<std::int64_t> devices_per_node;
  std::vector<std::pair<std::vector<std::string>, std::int64_t>> devices_of_hosts;  // where hosts differ
  std::string rails;  // level into which every device has a port of its own; "none"; or empty: as the files say
  FabricPart part;
};

// Where a number comes from that the request holds.
inline constexpr const char* kGiven = "given";

struct ImportedLevel {
  std::string name;
  std::vector<std::int64_t> children;  // of each unit in the cluster
  std::string children_from;
  std::string link;  // whose bandwidth it is: "one node's link into its leaf"
  std::optional<double> bandwidth_bytes_per_s;
  std::string bandwidth_from;
  double latency_s = 0;
  std::string latency_from;
  double efficiency = 1;
  std::string efficiency_from;
  bool rails = false;
  bool rail_switches = false;
  std::string rails_from;

  bool even() const;
};

struct ImportedCluster {
  std::string name;
  std::string description;
  std::string source;
  std::string device_yaml;
  std::vector<ImportedLevel> levels;    // innermost first
  std::vector<std::string> node_names;  // may be empty
  std::vector<std::string> notes;
  std::vector<MissingFact> missing;  // empty: complete
};

// One or two files. Throws InputError for anything that cannot be read, contradicts itself or names what is not there.
ImportedCluster import_cluster(const std::vector<doc::SourceText>& files, std::optional<ImportFormat> format,
                               const ImportRequest& request);

// The cluster as a file for read_cluster, with comments that say where the numbers come from. Must be complete.
std::string cluster_yaml(const ImportedCluster& imported);

// "50GB/s" such that parse_bandwidth gives the same number.
std::string exact_bandwidth(double bytes_per_s);
std::string exact_duration(double seconds);

}  // namespace nest::importer
