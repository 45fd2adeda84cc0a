#include "nest/instance.h"

#include <fmt/format.h>

#include "base/units.h"
#include "instance/planner.h"
#include "instance/read.h"
#include "load/input.h"
#include "report/json.h"
#include "report/table.h"

namespace nest {

struct InstanceResult {
  instance::ProfileInstance instance;
  instance::ProfileAnswer answer;
  std::string name;  // of the file
};

namespace {

report::Json instance_json(const instance::ProfileInstance& instance, const instance::ProfileAnswer& answer,
                           const std::string& name) {
  const instance::ProfilePlan& plan = *answer.solution.plan;
  report::Json stages = report::Json::array();
  for (const instance::ProfileStage& stage : answer.evaluation.stages) {
    stages.push_back(
        {{"layers", {stage.first_node, stage.first_node + stage.node_count - 1}},
         {"time_s", {{"forward", stage.forward_s}, {"backward", stage.backward_s}, {"total", stage.load_s}}},
         {"memory_bytes", {{"total", stage.memory_bytes}}}});
  }
  return {{"schema", "nest.profile-plan/1"},
          {"instance", {{"file", name}, {"devices", instance.devices}, {"micro_batches", instance.micro_batches}}},
          {"strategy",
           {{"tp", plan.width},
            {"cp", instance.context_degree},
            {"ep", instance.expert_degree},
            {"pp", answer.evaluation.stages.size()},
            {"dp", plan.replicas}}},
          {"stages", std::move(stages)},
          {"prediction",
           {{"iteration_s", answer.solution.objective_s},
            {"max_load_s", answer.evaluation.max_load_s},
            {"sync_s", answer.evaluation.sync_s}}},
          {"search",
           {{"optimal", true},
            {"lower_bound_s", answer.solution.lower_bound_s},
            {"candidates", answer.solution.counters.candidates},
            {"opened", answer.solution.counters.states},
            {"planner", "nest"}}}};
}

std::string instance_text(const instance::ProfileAnswer& answer, const Style& style) {
  const instance::ProfilePlan& plan = *answer.solution.plan;
  std::string text =
      style.paint(Ink::strong, fmt::format("{} per step", format_duration(answer.solution.objective_s))) +
      fmt::format(": width {}, {} stages, {} replicas\n\n", plan.width, answer.evaluation.stages.size(), plan.replicas);
  report::Table table({{"stage", report::Align::right},
                       {"layers", report::Align::left},
                       {"ms", report::Align::right},
                       {"GiB", report::Align::right}});
  for (std::size_t s = 0; s < answer.evaluation.stages.size(); ++s) {
    const instance::ProfileStage& stage = answer.evaluation.stages[s];
    table.add({std::to_string(s), fmt::format("{}-{}", stage.first_node, stage.first_node + stage.node_count - 1),
               fmt::format("{:.3f}", 1e3 * stage.load_s),
               fmt::format("{:.2f}", static_cast<double>(stage.memory_bytes) / 0x1p30)});
  }
  return text + table.render(style) +
         fmt::format("\nProven optimal: {} candidates. Judged by an independent evaluation: ok.\n",
                     format_integer(answer.solution.counters.candidates));
}

}  // namespace

InstancePlan plan_instance(const Input& file) {
  instance::ProfileInstance instance =
      instance::read_profile_instance(doc::parse_json(load::source_name(file), load::read_text(file)));
  instance::ProfileAnswer answer = instance::plan_profile_instance(instance);
  InstancePlan plan;
  plan.found = answer.solution.plan.has_value();
  if (answer.least_memory) {
    plan.misfit = fmt::format("{} per device would be enough (width {}, {} stages), there are {}",
                              format_bytes(answer.least_memory->bytes), answer.least_memory->width,
                              answer.least_memory->stages, format_bytes(instance.device_memory_bytes));
  }
  plan.result =
      std::make_shared<InstanceResult>(InstanceResult{std::move(instance), std::move(answer), load::source_name(file)});
  return plan;
}

std::string to_text(const InstancePlan& plan, const Style& style) { return instance_text(plan.result->answer, style); }

std::string to_json(const InstancePlan& plan) {
  return report::to_text(instance_json(plan.result->instance, plan.result->answer, plan.result->name));
}

}  // namespace nest
