// Hierarchical all-reduce in chunks that follow each other through the phases.
#include "base/checked.h"
#include "base/error.h"
#include "cluster/collective.h"
#include "cluster/fluid.h"
#include "cluster/step.h"

namespace nest {
namespace {

// One ring phase as a task: the steps of the class of flows that takes longest.
FluidTask phase_task(const Fabric& fabric, const GroupLayout& layout, double bytes, std::int64_t below,
                     std::int64_t dim) {
  const std::int64_t span = checked_product({below, dim});
  StepFlows step;
  step.bytes = bytes / static_cast<double>(span);
  std::size_t top = 0;
  for (std::size_t l = 0; l <= layout.top; ++l) {
    step.exits[l] = layout.inside[l] >= span ? 0 : std::min(layout.inside[l], below);
    if (step.exits[l] > 0) top = l;
  }
  step.keeps_lane = !fabric.has_rails() || below % layout.inside[fabric.rail_level] == 0;
  const std::size_t highest = climb(fabric, step, top);
  FluidTask task;
  task.steps = dim - 1;
  task.latency_s = fabric.latency_s[highest] + fabric.message_overhead_s;
  task.bytes = step.bytes;
  for (std::size_t l = first_link(fabric, top); l <= highest; ++l) {
    task.loads.push_back({l, flows_on_link(fabric, layout, step, l, top)});
  }
  return task;
}

}  // namespace

double pipelined_hierarchical_s(const Fabric& fabric, const GroupLayout& layout, double bytes,
                                std::span<const std::int64_t> dims, std::int64_t chunks) {
  NEST_CHECK(chunks >= 1, "at least one chunk");
  std::vector<FluidTask> phases;
  std::int64_t below = 1;
  for (const std::int64_t dim : dims) {
    if (dim > 1) phases.push_back(phase_task(fabric, layout, bytes / static_cast<double>(chunks), below, dim));
    below *= dim;
  }
  NEST_CHECK(below == layout.members, "the dimensions of a hierarchy multiply to the size of its group");
  for (std::size_t i = phases.size(); i-- > 0;) phases.push_back(phases[i]);  // the all-gather goes back
  std::vector<FluidTask> tasks;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::size_t p = 0; p < phases.size(); ++p) {
      FluidTask task = phases[p];
      if (p > 0) task.after.push_back(tasks.size() - 1);
      if (chunk > 0) task.after.push_back(tasks.size() - phases.size());
      tasks.push_back(std::move(task));
    }
  }
  if (tasks.empty()) return 0;
  const auto ends = play(std::span(fabric.capacity).first(fabric.levels), tasks);
  return ends.back();
}

}  // namespace nest
