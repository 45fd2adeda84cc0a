// A plan as overrides of a Megatron-Bridge recipe (Hydra's KEY=VALUE), or of a NeMo 2 factory on its command line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "exporter/megatron.h"

namespace nest::exporter {

enum class NemoForm : std::uint8_t { bridge, nemo2 };

struct NemoExport {
  std::vector<std::pair<std::string, std::string>> overrides;  // key, value as the override grammar wants it
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> notes;
};

NemoExport export_nemo(const ExportTask& task, NemoForm form);

// One override per line.
std::string overrides_text(const NemoExport& exported);

// A value with double quotes around it where the grammar needs them.
std::string override_value(const std::string& text);

}  // namespace nest::exporter
