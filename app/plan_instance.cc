#include "plan_instance.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "instance/planner.h"
#include "instance/read.h"
#include "load/input.h"
#include "output.h"
#include "report/json.h"
#include "report/table.h"

namespace nest {
namespace {

Json instance_json(const ProfileInstance& instance, const ProfileAnswer& answer, const std::string& name) {
  const ProfilePlan& plan = *answer.solution.plan;
  Json stages = Json::array();
  for (const ProfileStage& stage : answer.evaluation.stages) {
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

std::string instance_text(const ProfileAnswer& answer, const Style& style) {
  const ProfilePlan& plan = *answer.solution.plan;
  std::string text =
      style.paint(Ink::strong, fmt::format("{} per step", format_duration(answer.solution.objective_s))) +
      fmt::format(": width {}, {} stages, {} replicas\n\n", plan.width, answer.evaluation.stages.size(), plan.replicas);
  Table table({{"stage", Align::right}, {"layers", Align::left}, {"ms", Align::right}, {"GiB", Align::right}});
  for (std::size_t s = 0; s < answer.evaluation.stages.size(); ++s) {
    const ProfileStage& stage = answer.evaluation.stages[s];
    table.add({std::to_string(s), fmt::format("{}-{}", stage.first_node, stage.first_node + stage.node_count - 1),
               fmt::format("{:.3f}", 1e3 * stage.load_s),
               fmt::format("{:.2f}", static_cast<double>(stage.memory_bytes) / 0x1p30)});
  }
  return text + table.render(style) +
         fmt::format("\nProven optimal: {} candidates. Judged by an independent evaluation: ok.\n",
                     format_integer(answer.solution.counters.candidates));
}

}  // namespace

ExitCode plan_instance(const std::string& file, const std::string& output, Session& session) {
  const ProfileInstance instance = read_profile_instance(parse_json(source_name(file), read_text(file)));
  const ProfileAnswer answer = plan_profile_instance(instance);
  if (!answer.solution.plan) {
    std::string message = "nest: no plan fits";
    if (answer.least_memory) {
      message += fmt::format("; {} per device would be enough (width {}, {} stages), there are {}",
                             format_bytes(answer.least_memory->bytes), answer.least_memory->width,
                             answer.least_memory->stages, format_bytes(instance.device_memory_bytes));
    }
    write_stderr(message + "\n");
    return kExitNoPlan;
  }
  const std::string json = to_text(instance_json(instance, answer, source_name(file)));
  if (!output.empty()) write_file_atomically(output, json);
  session.out = session.json ? json : instance_text(answer, session.style);
  return kExitOk;
}

}  // namespace nest
