// Slurm's description of a network: topology.conf (tree, block and ring; also what `scontrol show topology` prints) and
// topology.yaml.
//
// Neither says how fast anything is: LinkSpeed is a number without a unit that Slurm itself does not use. Block sizes
// say how Slurm hands out nodes, not what joins them: beside the blocks and the whole, aggregated blocks become levels
// only where somebody gives their bandwidth (as block2, block4, … of so many blocks).
#pragma once

#include "doc/value.h"
#include "importer/imported_fabric.h"

namespace nest::importer {

// Both throw InputError with the line, or the key.
ImportedFabric read_slurm_conf(const doc::SourceText& source, const FabricPart& part);
ImportedFabric read_slurm_yaml(const doc::SourceText& source, const FabricPart& part);

}  // namespace nest::importer
