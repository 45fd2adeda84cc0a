#include "exporter/job_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "exporter/accelerate.h"
#include "exporter/deepspeed.h"
#include "exporter/nemo.h"
#include "exporter/sbatch.h"
#include "exporter/titan_main.h"
#include "exporter/titan_order.h"
#include "exporter/torchtitan.h"
#include "launch/recipe_names.h"
#include "launch/titan_schedules.h"
#include "plan/strategy_text.h"

namespace nest::exporter {
namespace {

std::string quoted_options(const std::vector<LaunchOption>& options) {
  std::string text;
  for (const LaunchOption& option : options) {
    text += " \\\n    " + option.name;
    for (const std::string& value : option.values) text += " " + shell_quoted(value);
  }
  return text;
}

JobParts megatron_job(const ExportTask& task) {
  MegatronExport exported = export_megatron(task);
  JobParts parts;
  parts.command = "\"$MEGATRON/pretrain_gpt.py\"" + quoted_options(exported.options);
  parts.files = {{"megatron.args", arguments_text(exported.options)}};
  parts.environment = std::move(exported.environment);
  parts.notes = std::move(exported.notes);
  parts.variables = {{"MEGATRON", "the folder of Megatron-LM"}};
  return parts;
}

// The recipe of the model; empty where the framework has none.
std::string recipe_of(const ExportTask& task, NemoForm form) {
  for (const launch::RecipeName& known : launch::kRecipeNames) {
    if (known.preset != task.job.model.architecture.name) continue;
    if (form == NemoForm::bridge && known.bridge) return std::string(known.stem) + "_pretrain_config";
    if (form == NemoForm::nemo2 && known.nemo2) return std::string(known.stem);
  }
  return {};
}

JobParts recipe_job(const ExportTask& task, NemoForm form) {
  NemoExport exported = export_nemo(task, form);
  JobParts parts;
  parts.files = {{"plan.overrides", overrides_text(exported)}};
  parts.before = "mapfile -t OVERRIDES < plan.overrides\n";
  const std::string recipe = recipe_of(task, form);
  if (recipe.empty()) {
    parts.variables.emplace_back("RECIPE", "the recipe of the model, to which the overrides belong");
  } else {
    parts.before += fmt::format("RECIPE=${{RECIPE:-{}}}\n", recipe);
  }
  if (form == NemoForm::bridge) {
    parts.variables.emplace_back("BRIDGE", "the folder of Megatron-Bridge");
    parts.command =
        "\"$BRIDGE/scripts/training/run_recipe.py\" --recipe \"$RECIPE\" --mode pretrain \\\n"
        "    --dataset \"${DATASET:-mock}\" \"${OVERRIDES[@]}\"";
  } else {
    parts.command = fmt::format(
        "--no-python nemo llm pretrain --factory \"$RECIPE\" \\\n"
        "    trainer.num_nodes={} trainer.devices={} \"${{OVERRIDES[@]}}\"",
        task.launch->hosts.hosts.size(), task.launch->hosts.ranks_per_host);
    std::erase_if(exported.notes, [](const std::string& note) { return note.starts_with("set trainer.num_nodes"); });
  }
  parts.environment = std::move(exported.environment);
  parts.notes = std::move(exported.notes);
  return parts;
}
JobParts bridge_job(const ExportTask& task) { return recipe_job(task, NemoForm::bridge); }
JobParts nemo2_job(const ExportTask& task) { return recipe_job(task, NemoForm::nemo2); }

JobParts deepspeed_job(const ExportTask& task) {
  DeepspeedExport exported = export_deepspeed(task);
  JobParts parts;
  parts.files = {{"deepspeed.json", exported.config.dump(2) + "\n"}};
  parts.variables = {{"TRAIN", "the training program, which takes what stands behind it in launch.sh"}};
  // Megatron-DeepSpeed has a flag and a file; transformers' Trainer has the file as the option's value.
  parts.command = exported.arguments.empty()
                      ? "\"$TRAIN\" --deepspeed deepspeed.json"
                      : "\"$TRAIN\" --deepspeed_config deepspeed.json" + quoted_options(exported.arguments);
  parts.notes = std::move(exported.notes);
  return parts;
}

void add_titan_order(const ExportTask& task, JobParts& parts) {
  if (task.strategy.pp == 1 || launch::titan_file(task.strategy.schedule) == nullptr) return;
  parts.files.emplace_back(launch::titan_file_name(task.strategy.schedule),
                           titan_order(task.strategy, task.job.run.global_batch));
  std::erase_if(parts.notes, [](const std::string& note) { return note.find("--format csv") != std::string::npos; });
}

JobParts torchtitan_job(const ExportTask& task) {
  TorchtitanExport exported = export_torchtitan(task);
  JobParts parts;
  parts.files = {{"plan.toml", std::move(exported.toml)}};
  parts.notes = std::move(exported.notes);
  parts.environment = {{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}};  // as its run_train.sh
  parts.command = "-m torchtitan.train --job.config_file plan.toml";
  add_titan_order(task, parts);
  return parts;
}

JobParts titan_main_job(const ExportTask& task) {
  TitanMainExport exported = export_titan_main(task);
  JobParts parts;
  parts.files = {{"plan.py", std::move(exported.python)}};
  parts.notes = std::move(exported.notes);
  parts.environment = {{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}};
  parts.command = "-m torchtitan.train --module plan --config plan";
  add_titan_order(task, parts);
  return parts;
}

JobParts accelerate_job(const ExportTask& task) {
  AccelerateExport exported = export_accelerate(task);
  JobParts parts;
  parts.files = {{"accelerate.yaml", std::move(exported.yaml)}};
  parts.variables = {{"TRAIN", "the training program, which parses TrainingArguments"}};
  parts.command = "\"$TRAIN\"" + quoted_options(exported.arguments);
  parts.notes = std::move(exported.notes);
  parts.accelerate = true;
  return parts;
}

constexpr std::array kJobKinds = {
    JobKind{"megatron", "Megatron-LM's `pretrain_gpt.py`", launch::Framework::megatron, megatron_job},
    JobKind{"bridge", "a Megatron-Bridge recipe with overrides", launch::Framework::nemo, bridge_job},
    JobKind{"nemo2", "a NeMo 2 factory with overrides", launch::Framework::nemo, nemo2_job},
    JobKind{"deepspeed", "a training program with DeepSpeed's configuration", launch::Framework::deepspeed,
            deepspeed_job},
    JobKind{"torchtitan", "torchtitan 0.2.2", launch::Framework::torchtitan, torchtitan_job},
    JobKind{"torchtitan-main", "torchtitan's main", launch::Framework::torchtitan_main, titan_main_job},
    JobKind{"fsdp", "a training program under `accelerate launch`", launch::Framework::fsdp, accelerate_job}};

std::string title_of(const ExportTask& task) {
  return fmt::format("{} as {}", task.job.model.architecture.name, plan::strategy_text(task.strategy));
}

// On one host. Whatever is given to it goes to the training program.
std::string start_script(const ExportTask& task, const JobParts& parts) {
  const HostOrder& order = task.launch->hosts;
  const std::size_t hosts = order.hosts.size();
  std::string text = fmt::format(
      "#!/bin/bash\n"
      "# {}\n"
      "# On every host, with NODE_RANK (its line in `hosts`, from 0) and MASTER_ADDR (the first host) set.\n"
      "set -euo pipefail\n"
      "cd \"$(dirname \"${{BASH_SOURCE[0]}}\")\"\n",
      title_of(task));
  if (hosts == 1) {
    text += "NODE_RANK=${NODE_RANK:-0}\nMASTER_ADDR=${MASTER_ADDR:-localhost}\n";
  }
  for (const auto& [name, words] : parts.variables) text += fmt::format(": \"${{{}:?{}}}\"\n", name, words);
  for (const auto& [name, value] : parts.environment) text += fmt::format("export {}={}\n", name, shell_quoted(value));
  if (!order.natural_devices()) {
    text += fmt::format("export CUDA_VISIBLE_DEVICES={}\n", fmt::join(order.local_devices, ","));
  }
  text += parts.before;
  if (parts.accelerate) {
    text += fmt::format(
        "exec accelerate launch --config_file accelerate.yaml --num_machines {} --num_processes {} \\\n"
        "    --machine_rank \"$NODE_RANK\" --main_process_ip \"$MASTER_ADDR\" --main_process_port "
        "\"${{MASTER_PORT:-29500}}\" \\\n    ",
        hosts, task.strategy.devices_used());
  } else {
    text += fmt::format(
        "exec torchrun --nnodes {} --nproc-per-node {} --node-rank \"$NODE_RANK\" \\\n"
        "    --master-addr \"$MASTER_ADDR\" --master-port \"${{MASTER_PORT:-29500}}\" \\\n    ",
        hosts, order.ranks_per_host);
  }
  return text + parts.command + " \"$@\"\n";
}

std::string submit_script(const ExportTask& task, const JobParts& parts) {
  std::string text = sbatch_start(task);
  const std::size_t hosts = task.launch->hosts.hosts.size();
  text += "[ -f launch.sh ] || { echo 'submit it inside its folder' >&2; exit 1; }\n";
  for (const auto& [name, words] : parts.variables) text += fmt::format("export {}=${{{}:?{}}}\n", name, name, words);
  text += fmt::format(
      "\nsrun --nodes={} --ntasks={} --distribution=arbitrary bash -c 'NODE_RANK=$SLURM_PROCID exec bash launch.sh'\n",
      hosts, hosts);
  return text;
}

std::string readme(const ExportTask& task, const JobKind& kind, const JobParts& parts) {
  std::string text = fmt::format("# {}\n\nStarts {}: {} ranks on {} hosts.\n\n    ", title_of(task), kind.words,
                                 task.strategy.devices_used(), task.launch->hosts.hosts.size());
  for (const auto& [name, words] : parts.variables) text += fmt::format("{}=… ", name);
  text += "sbatch job.sbatch     # in this folder\n\n";
  if (!parts.variables.empty()) {
    for (const auto& [name, words] : parts.variables) text += fmt::format("- `{}`: {}\n", name, words);
    text += '\n';
  }
  text += "Without Slurm: `launch.sh` on every host, with `NODE_RANK` and `MASTER_ADDR` set.\n\n";
  for (const auto& [name, content] : parts.files) text += fmt::format("- `{}`: the configuration\n", name);
  text +=
      "- `launch.sh`: starts one host's ranks; what is given to it goes to the training program\n"
      "- `job.sbatch`: `launch.sh` on all hosts, in the plan's order\n"
      "- `hosts`: line i is the host of node rank i\n";
  if (!parts.notes.empty()) text += "\nWhat is not carried, or must be known:\n\n";
  for (const std::string& note : parts.notes) text += "- " + note + "\n";
  return text;
}

}  // namespace

std::span<const JobKind> job_kinds() { return kJobKinds; }

std::vector<JobFile> job_files(const ExportTask& task, const JobKind& kind, const JobParts& parts) {
  std::vector<JobFile> files;
  for (const auto& [name, content] : parts.files) files.push_back({name, content});
  std::string hosts;
  for (const std::int64_t host : task.launch->hosts.hosts) {
    hosts += task.hosts[static_cast<std::size_t>(host)].name + "\n";
  }
  files.push_back({"launch.sh", start_script(task, parts)});
  files.push_back({"job.sbatch", submit_script(task, parts)});
  files.push_back({"hosts", hosts});
  files.push_back({"README.md", readme(task, kind, parts)});
  return files;
}

}  // namespace nest::exporter
