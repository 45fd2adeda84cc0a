// A plan as arguments of Megatron-LM's pretrain_gpt.py.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cost/job.h"
#include "exporter/rank_map.h"
#include "plan/plan.h"

namespace nest::exporter {

// What an exporter needs: a plan without obstacles, the order in which its ranks are counted, and where they start.
struct ExportTask {
  const cost::Job& job;
  const Strategy& strategy;
  const std::vector<StagePlan>& stages;
  groups::RankOrder order = groups::RankOrder::stages_last;
  bool with_model = true;               // sizes of the model too; without, only what a plan decides
  std::vector<Host> hosts = {};         // of the cluster; none on a torus
  const LaunchOrder* launch = nullptr;  // where hosts can be started one by one
  std::int64_t cores_per_device = 0;    // rank files bind every rank to so many; 0: not at all
  std::string ranks = "all";            // whose traces
};

// One option with its values; none for a flag.
struct LaunchOption {
  std::string name;
  std::vector<std::string> values;
};

struct MegatronExport {
  std::vector<LaunchOption> options;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> notes;  // what no option says
};

// Throws InputError when pretrain_gpt.py has no such model.
MegatronExport export_megatron(const ExportTask& task);

// One option per line: values separated by blanks, nothing quoted.
std::string arguments_text(const std::vector<LaunchOption>& options);

// A bash script: environment, torchrun with static rendezvous, all options quoted where the shell needs it. NODE_RANK
// and MASTER_ADDR come from whoever starts it on every host.
std::string launch_script(const MegatronExport& exported, std::int64_t hosts, std::int64_t ranks_per_host,
                          const std::string& visible_devices);

// Modules of Megatron's --recompute-modules: those that are named, or that selective recomputation of this stack repeats.
// Throws InputError for a module it does not have.
std::vector<std::string> recompute_modules(const cost::SoftwareStack& stack, const Recomputation& recompute);

// moe_layer_freq for these layers: empty when all have experts, else "([0]*3+[1]*58)".
std::string layer_frequency(const std::vector<bool>& sparse);

// Whether this device still orders kernels by one hardware queue, which Megatron then insists on.
bool needs_one_connection(const cluster::Device& device);

}  // namespace nest::exporter
