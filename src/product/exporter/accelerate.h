// A plan as Hugging Face accelerate's configuration (FSDP2), and as arguments of transformers' Trainer.
//
// Sources: accelerate 1.15 (16cb6eb8): commands/config/config_args.py, utils/dataclasses.py, parallelism_config.py;
// transformers 5.16 (d56c55bf): training_args.py, trainer.py.
#pragma once

#include <string>
#include <vector>

#include "exporter/megatron.h"

namespace nest::exporter {

struct AccelerateExport {
  std::string yaml;                     // accelerate launch --config_file F
  std::vector<LaunchOption> arguments;  // of a program that parses TrainingArguments
  std::vector<std::string> notes;
};

AccelerateExport export_accelerate(const ExportTask& task);

}  // namespace nest::exporter
