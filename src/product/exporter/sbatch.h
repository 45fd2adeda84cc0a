// A job for Slurm that runs the plan: sbatch FILE, and nothing else.
//
// One torchrun per host, with static rendezvous. Node rank i is the i-th host of the plan's order, which Slurm is told by a
// SLURM_HOSTFILE that the job writes (`srun --distribution=arbitrary` places task i on line i): by name where the cluster
// names its hosts, else by position in the allocation.
#pragma once

#include <string>

#include "exporter/megatron.h"

namespace nest::exporter {

// The beginning of every such job: how many hosts, in which order, and the first of them as MASTER_ADDR. Throws InputError
// where hosts cannot be started one by one.
std::string sbatch_start(const ExportTask& task);

// The same, with all of Megatron's options.
std::string sbatch_text(const ExportTask& task, const MegatronExport& exported);

}  // namespace nest::exporter
