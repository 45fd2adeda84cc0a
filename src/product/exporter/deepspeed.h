// A plan as DeepSpeed's JSON. Pipelines are built in Python, and tensor parallelism inside them by Megatron-DeepSpeed;
// both are given as notes and arguments beside the file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exporter/megatron.h"

namespace nest::exporter {

struct DeepspeedExport {
  nlohmann::ordered_json config;
  std::vector<LaunchOption> arguments;  // of Megatron-DeepSpeed, for pipelines; else empty
  std::vector<std::string> notes;
};

DeepspeedExport export_deepspeed(const ExportTask& task);

}  // namespace nest::exporter
