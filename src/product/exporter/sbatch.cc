#include "exporter/sbatch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "plan/strategy_text.h"

namespace nest::exporter {
namespace {

// Letters, digits and what else squeue shows well.
std::string job_name(const std::string& model) {
  std::string name = "nest-" + model;
  std::replace_if(
      name.begin(), name.end(),
      [](char c) {
        return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-');
      },
      '-');
  return name;
}

}  // namespace

std::string sbatch_start(const ExportTask& task) {
  if (task.launch == nullptr) {
    throw InputError("sbatch: hosts of this cluster cannot be started one by one for this plan");
  }
  const HostOrder& order = task.launch->hosts;
  const bool named = !task.job.cluster.node_names.empty() && task.job.cluster.node_names.size() == task.hosts.size();
  std::vector<std::string> names;
  for (const std::int64_t host : order.hosts) names.push_back(task.hosts[static_cast<std::size_t>(host)].name);
  const std::int64_t devices = task.hosts[static_cast<std::size_t>(order.hosts.front())].devices;
  const std::string model = task.job.model.architecture.name;
  std::string text = fmt::format(
      "#!/bin/bash\n"
      "# {} as {}\n"
      "#SBATCH --job-name={}\n"
      "#SBATCH --nodes={}\n"
      "#SBATCH --ntasks-per-node=1\n"
      "#SBATCH --gpus-per-node={}\n"
      "#SBATCH --exclusive\n",
      model, plan::strategy_text(task.strategy), job_name(model), names.size(), devices);
  if (named) {
    std::vector<std::string> sorted = names;
    std::sort(sorted.begin(), sorted.end());
    text += fmt::format("#SBATCH --nodelist={}\n", fmt::join(sorted, ","));
  }
  text += "set -euo pipefail\n\n# Line i is the host of node rank i: ranks sit where the plan puts them.\n";
  if (named) {
    text += fmt::format("HOSTS=({})\n", fmt::join(names, " "));
  } else if (order.natural_hosts()) {
    text += "HOSTS=($(scontrol show hostnames \"$SLURM_JOB_NODELIST\"))\n";
  } else {
    text += fmt::format(
        "ALLOCATED=($(scontrol show hostnames \"$SLURM_JOB_NODELIST\"))\n"
        "HOSTS=()\n"
        "for i in {}; do HOSTS+=(\"${{ALLOCATED[i]}}\"); done\n",
        fmt::join(order.hosts, " "));
  }
  text +=
      "export SLURM_HOSTFILE=$(mktemp)\n"
      "trap 'rm -f \"$SLURM_HOSTFILE\"' EXIT\n"
      "printf '%s\\n' \"${HOSTS[@]}\" > \"$SLURM_HOSTFILE\"\n"
      "export MASTER_ADDR=${HOSTS[0]}\n"
      "export MASTER_PORT=${MASTER_PORT:-29500}\n";
  return text;
}

std::string sbatch_text(const ExportTask& task, const MegatronExport& exported) {
  std::string text = sbatch_start(task);
  const HostOrder& order = task.launch->hosts;
  const std::size_t hosts = order.hosts.size();
  for (const auto& [name, value] : exported.environment) text += fmt::format("export {}={}\n", name, value);
  text += "\nTRAINING=(pretrain_gpt.py";
  for (const LaunchOption& option : exported.options) {
    text += "\n    " + option.name;
    for (const std::string& value : option.values) text += " " + shell_quoted(value);
  }
  // Set inside the task: Slurm sets it for every step.
  const std::string devices_in_order =
      order.natural_devices() ? ""
                              : fmt::format("export CUDA_VISIBLE_DEVICES={}; ", fmt::join(order.local_devices, ","));
  text += fmt::format(
      ")\n\n"
      "srun --nodes={} --ntasks={} --distribution=arbitrary bash -c '{}exec torchrun --nnodes {} --nproc-per-node {} "
      "\\\n"
      "    --node-rank \"$SLURM_PROCID\" --master-addr \"$MASTER_ADDR\" --master-port \"$MASTER_PORT\" \"$@\"' \\\n"
      "    torchrun \"${{TRAINING[@]}}\"\n",
      hosts, hosts, devices_in_order, hosts, order.ranks_per_host);
  return text;
}

}  // namespace nest::exporter
