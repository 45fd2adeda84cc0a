// Small instances as a file would hold them, made from a seed.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace nest::test {

struct RawNode {
  int id;
  std::int64_t parameters, activations;
  double forward, backward;
};

struct RawEdge {
  int source, destination;  // ids
  std::int64_t bytes;
};

struct RawInstance {
  std::int64_t devices = 1, memory = 0, micro_batches = 1, ep = 1, cp = 1;
  std::vector<std::int64_t> groups;
  std::vector<double> bandwidths, latencies;
  bool recompute = false, adam = false;
  std::map<int, std::vector<RawNode>> nodes;
  std::map<int, std::vector<RawEdge>> edges;
};

// At most 9 nodes in any order and shape (chains, skips, several sources, parallel edges), 1 … 4 levels that need not
// be full, 1 … 3 widths, memory from far too little to plenty.
RawInstance random_instance(std::mt19937_64& random);

// As the reader takes it; doubles keep every bit.
std::string to_json(const RawInstance& raw);

}  // namespace nest::test
