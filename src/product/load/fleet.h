// A cluster file that names several pools, each of one kind of device with a network of its own:
//
//   name: ours
//   pools:
//     main: {cluster: dgx-h100, devices: 256, price: 2.50}       # a preset, or a file beside this one
//     old: {device: a100-80, levels: […], devices: 512}         # or the keys of a cluster file
//
// A job runs on one pool: "fleet.yaml#main" names it wherever a cluster is named. What a pool says of devices and price
// takes the place of what its cluster says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/cluster.h"
#include "nest/input.h"

namespace nest::load {

struct Pool {
  std::string name;
  cluster::Cluster cluster;  // called "fleet#pool", of the size and at the price that the pool says
};

struct Fleet {
  std::string name;
  std::string description;
  std::vector<Pool> pools;  // in the order of the file; names differ
};

// Nothing where the input is no file with pools: a preset, a file of one cluster, a name that does not exist.
// Throws InputError that names file, pool, key, value seen and what is allowed.
std::optional<Fleet> read_fleet(const Input& input);

// "fleet.yaml#main" -> the file and the pool; nothing where no pool is named.
std::optional<std::pair<std::string, std::string>> named_pool(const Input& input);

// The pool that the input names, of the size that it has. Throws InputError.
std::optional<cluster::Cluster> find_pool(const Input& input);

// Throws InputError where the document holds pools, and a single cluster is wanted.
void refuse_pools(const Document& document);

}  // namespace nest::load
