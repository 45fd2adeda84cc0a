// What `nvidia-smi topo -m` prints: a matrix of how GPUs and network adapters of one node reach each other.
//
// Separated by tabs as printed or by blanks as pasted, with or without the terminal's escape sequences. The matrix must
// be symmetric. It says how many NVLinks join two GPUs, but neither the generation of PCIe nor the speed of adapters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doc/value.h"
#include "importer/node_inside.h"

namespace nest::importer {

struct NvidiaSmiTopology {
  std::size_t gpus = 0;
  std::vector<std::string> adapters;            // as the header names them: NIC0, mlx5_0
  std::vector<std::vector<std::string>> cells;  // rows and columns: GPUs, then adapters; "X" on the diagonal

  // Adapters with the best connection to a GPU.
  std::vector<std::size_t> closest_adapters(std::size_t gpu) const;
};

// Throws InputError with the line.
NvidiaSmiTopology parse_nvidia_smi(const doc::SourceText& source);

NodeInside inside_of(const NvidiaSmiTopology& topology);

}  // namespace nest::importer
