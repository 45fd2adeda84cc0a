// The topology of one node as NCCL dumps it (NCCL_TOPO_DUMP_FILE), with the rates that NCCL itself derives from it; or as
// vendors of clouds hand it to NCCL (NCCL_TOPO_FILE): GPUs and adapters are PCI functions without <gpu> and <nic>, known
// by their class, NVLinks and rates of adapters are left to NCCL to find.
//
//   PCIe      width · S / 80 GB/s with S = 15, 30, 60, 120, 240, 480 for 2.5, 5, 8, 16, 32, 64 GT/s
//   network   Mb/s / 8000 GB/s
//   NVLink    links are counted; import_cluster.cc knows the rate of one by device
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doc/value.h"
#include "importer/node_inside.h"

namespace nest::importer {

struct NcclGpu {
  std::string busid;
  std::int64_t dev = 0;
  std::int64_t sm = 0;                                           // compute capability, 90 for 9.0; 0: not given
  bool ranked = false;                                           // part of the communicator
  bool by_class = false;                                         // a PCI function: its NVLinks are not in the file
  std::int64_t switch_links = 0;                                 // NVLinks to switches
  std::vector<std::pair<std::string, std::int64_t>> peer_links;  // bus id of another GPU, links
  std::vector<std::size_t> path;                                 // PCI elements above it, outermost first, its own last
  std::size_t cpu = 0;
  double pci_bytes_per_s = 0;     // of its own link
  double uplink_bytes_per_s = 0;  // of the outermost PCI link above it
};

struct NcclNet {
  std::string name;
  double bytes_per_s = 0;  // 0: not in the file
  std::vector<std::size_t> path;
  std::size_t cpu = 0;
};

struct NcclCpu {
  double interconnect_bytes_per_s = 0;  // to another socket, as NCCL assumes
  std::string host;
};

struct NcclTopology {
  std::vector<NcclCpu> cpus;
  std::vector<NcclGpu> gpus;  // by dev
  std::vector<NcclNet> nets;
};

// Throws InputError with the line.
NcclTopology parse_nccl_topology(const doc::SourceText& source);

// Throws InputError for a dump that covers several hosts.
NodeInside inside_of(const NcclTopology& topology, const std::string& file);

}  // namespace nest::importer
