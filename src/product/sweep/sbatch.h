// A study as a job array of Slurm.
#pragma once

#include <string>

#include "nest/sweep.h"

namespace nest::sweep {

std::string sbatch_text(const Study& study, const SweepArray& array);

}  // namespace nest::sweep
