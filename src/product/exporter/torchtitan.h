// A plan as torchtitan's TOML (v0.2.2, the last that reads it).
#pragma once

#include <string>
#include <vector>

#include "exporter/framework_rules.h"
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

// --- what its versions have in common

// The stack of torchtitan's graph trainer, whose graphs compute weight gradients apart.
bool is_graph_trainer(const cost::SoftwareStack& stack);

// module_fqns_per_model_part: names in quotes, by part of the model in the order of the chain; `head` is the output's module.
std::vector<std::vector<std::string>> titan_parts(const ExportTask& task, const char* head);

// How all stages that have layers recompute.
Recomputation titan_recomputation(const ExportTask& task);

// What none of its versions does.
void refuse_titan(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found);
void restrict_to_titan(const cost::Job& job, plan::PlanLimits& limits);

}  // namespace nest::exporter
