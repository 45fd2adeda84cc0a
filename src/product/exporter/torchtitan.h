// A plan as torchtitan's TOML (v0.2.2, the last that reads it).
#pragma once

#include <string>
#include <vector>

#include "exporter/megatron.h"

namespace nest::exporter {

struct TorchtitanExport {
  std::string toml;
  std::vector<std::string> notes;
};

TorchtitanExport export_torchtitan(const ExportTask& task);

// torchtitan's name and flavor of a preset of ours; empty where it has none.
struct TitanModel {
  std::string name, flavor;
};
TitanModel titan_model(const std::string& preset);

}  // namespace nest::exporter
