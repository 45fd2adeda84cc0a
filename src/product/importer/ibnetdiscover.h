// What ibnetdiscover prints of an InfiniBand subnet: blocks of switches and channel adapters with their ports, or, with
// -p, one line per port.
//
// Every link stands in the file twice, once per end; a port with two different peers is refused. Rates are those that
// are sold: 4x of SDR 8, DDR 16, QDR 32, FDR10 40, FDR 54.5, EDR 100, HDR 200, NDR 400, XDR 800 Gb/s. Speeds that the
// program which wrote the file did not know (???) stay unknown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doc/value.h"
#include "importer/imported_fabric.h"

namespace nest::importer {

struct IbNode {
  enum class Kind : std::uint8_t { channel_adapter, switch_, router };
  Kind kind = Kind::channel_adapter;
  std::string guid;         // hexadecimal; with -p that of the port for adapters
  std::string description;  // "node001 mlx5_0", "MF0;leaf1:MQM9700/U1"
};

struct IbLink {
  std::size_t a = 0;  // node
  std::size_t b = 0;
  std::int64_t port_a = 0;
  std::int64_t port_b = 0;
  double bytes_per_s = 0;  // per direction; 0: not known
  std::string rate;        // "4xNDR"
};

struct IbSubnet {
  std::vector<IbNode> nodes;
  std::vector<IbLink> links;   // each once
  std::size_t port_lines = 0;  // with a peer
};

inline constexpr std::size_t kMostIbLinks = 1U << 21U;

// Throws InputError with the line.
IbSubnet parse_ibnetdiscover(const doc::SourceText& source);

// Hosts are named by the first word of their adapters' descriptions; the aggregation nodes inside switches, and
// routers, are left out. A switch with hosts is a leaf; any other stands one above its lowest neighbour.
ImportedFabric fabric_of_subnet(const IbSubnet& subnet, const FabricPart& part, const std::string& file);

// "node001" of "node001 mlx5_0"; "leaf1" of "MF0;leaf1:MQM9700/U1".
std::string host_of(const std::string& description);
std::string switch_name_of(const std::string& description);

}  // namespace nest::importer
