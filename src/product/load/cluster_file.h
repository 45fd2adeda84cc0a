// A cluster file with what it names: tables of nccl-tests lie beside it, and a plan that holds the cluster holds them.
#pragma once

#include "nest/document.h"
#include "nest/input.h"

namespace nest::load {

// The YAML of a cluster or a device. Under `collectives`, names of files and {file: …} become {source, log}; files are
// looked for beside the cluster's own. Throws InputError.
Document read_cluster_file(const Input& input);

}  // namespace nest::load
