// A cluster file from what Slurm, nvidia-smi, ibnetdiscover or NCCL say about a cluster.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nest/input.h"
#include "nest/style.h"

namespace nest {

struct ImportQuestion {
  std::vector<Input> files = {};  // one about the network, one about the inside of a node, or one of each
  std::string name = {};          // of the cluster; empty: that of the first file
  std::string format = {};        // of the files, one of import_formats(); empty: recognised by content
  Input device = {};              // what the nodes hold: a preset's name or a YAML file
  std::vector<std::string> devices_per_node = {};  // "8", or "node[1-4]=8" where hosts differ
  std::vector<std::string> bandwidth = {};         // "leaf=400Gbps": of one child's link into a level, per direction
  std::vector<std::string> latency = {};           // "leaf=5us": of a message that climbs to a level
  std::string rails = {};                 // level with a port for every device, or none; empty: as the files say
  std::string only = {};                  // what is below this switch, or in this block or topology
  std::vector<std::string> exclude = {};  // "login[1-2]": hosts without devices
};

std::vector<std::string> import_formats();

// Something that no file says, and how the question above would say it.
struct MissingFact {
  std::string option;    // "bandwidth"
  std::string prefix;    // "leaf=": what its value starts with
  std::string example;   // "400Gbps"
  std::string question;  // "one node's link into its leaf"
};

struct ImportResult;  // internal

struct ClusterImport {
  std::vector<MissingFact> missing;  // not empty: nothing else is filled in
  std::string yaml;                  // the cluster file, with comments that say where the numbers come from
  std::shared_ptr<const ImportResult> result;
};

// Throws InputError for anything that cannot be read, contradicts itself or names what is not there.
ClusterImport import_cluster(const ImportQuestion& question);

// The cluster, and where the numbers come from.
std::string to_text(const ClusterImport& imported, const Style& style = Style());
std::string to_json(const ClusterImport& imported);  // nest.import/1

}  // namespace nest
