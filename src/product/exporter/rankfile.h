// Which rank runs on which host and device, in the forms that launchers read.
//   slurm        SLURM_HOSTFILE, one line per rank: srun places task i on line i (--distribution=arbitrary)
//   slurm_hosts  the same with one line per host, for one torchrun per host with --node_rank=$SLURM_PROCID
//   openmpi      rankfile for mpirun --rankfile F (4.x) and --map-by rankfile:file=F (5.x); every line has its slots
//   torchrun     node ranks and hosts, for static rendezvous
//   json         everything, "nest.ranks/1"
// In all of them comments start with `#`. The first three tell ranks of one host apart by their order in the file.
#pragma once

#include <cstdint>
#include <string>

#include "exporter/rank_map.h"

namespace nest::exporter {

enum class RankfileForm : std::uint8_t { slurm, slurm_hosts, openmpi, torchrun, json };

struct RankfileTask {
  const Strategy& strategy;
  const std::vector<Host>& hosts;
  groups::RankOrder order = groups::RankOrder::stages_last;
  std::int64_t cores_per_device = 0;  // openmpi: binds local rank k to its part of the cores; 0: no binding
};

// Throws InputError where the form cannot say it: hosts that run ranks that are not consecutive (slurm_hosts,
// torchrun), or whose devices are taken in another order on every host.
std::string rankfile_text(const RankfileTask& task, RankfileForm form);

// "0,1,4,5,2,3,6,7" where local rank k is to sit on another device than k; empty where they agree.
std::string visible_devices(const RankfileTask& task);

}  // namespace nest::exporter
