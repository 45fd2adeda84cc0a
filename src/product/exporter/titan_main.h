// A plan as a configuration of torchtitan's main: a Python module whose function plan() returns Trainer.Config.
//
// It starts from a configuration that torchtitan ships (data, optimizer, paths) and exchanges what the plan decides: the model,
// the batch, ParallelismConfig, recomputation and compilation; the loss is the one that was priced, without chunks. Facts of
// its source at b5bcd76c6 (2026-08-21): launch/titan_main.h.
#pragma once

#include <string>
#include <vector>

#include "exporter/megatron.h"

namespace nest::exporter {

struct TitanMainExport {
  std::string python;
  std::vector<std::string> notes;
};

TitanMainExport export_titan_main(const ExportTask& task);

}  // namespace nest::exporter
