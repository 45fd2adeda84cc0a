// What both of Slurm's formats have in common: switches and blocks with host lists, checked and turned into a fabric.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "importer/imported_fabric.h"

namespace nest::importer {

// Where an entry stood, so that a mistake can be shown there.
using FailHere = std::function<void(std::string_view message)>;

struct SlurmSwitch {
  std::string name;
  std::string nodes;  // host lists; one of the two is empty
  std::string switches;
  FailHere fail;
};

struct SlurmBlocks {
  std::string unit = "block";  // or "ring"
  std::vector<SlurmSwitch> blocks;
  std::vector<std::int64_t> sizes;  // in nodes; the first is the base size; may be empty
  FailHere fail_sizes;
};

// `fail` of the entries throws.
ImportedFabric fabric_of_switches(const std::vector<SlurmSwitch>& switches, const FabricPart& part,
                                  const std::string& file);
ImportedFabric fabric_of_blocks(const SlurmBlocks& blocks, const FabricPart& part, const std::string& file);

}  // namespace nest::importer
