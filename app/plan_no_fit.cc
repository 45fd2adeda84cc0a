#include "plan_no_fit.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "plan/strategy_text.h"
#include "report/json.h"
#include "report/layout.h"

namespace nest {
namespace {

constexpr double kHintSeconds = 2;
constexpr std::int64_t kMostTimes = 64;  // as many devices as there are

struct Hint {
  std::int64_t devices = 0;
  Plan plan;
};

// A multiple by a power of two on which something fits; the smallest unless its search took too long.
std::optional<Hint> more_devices(const PlanRequest& request) {
  for (std::int64_t times = 2; times <= kMostTimes; times *= 2) {
    Job larger = *request.job;
    PlanRequest other = request;
    try {
      larger.cluster = resized(larger.cluster, larger.cluster.devices * times);
      other.job = &larger;
      other.prices = nullptr;
      other.most_devices = 0;
      other.order.time_limit_s = kHintSeconds;
      const PlanAnswer answer = make_plan(other);
      if (!answer.plans.empty()) return Hint{larger.cluster.devices, answer.plans.front()};
    } catch (const InputError&) {
      return std::nullopt;  // the cluster does not come in that size, or the batch is too small for it
    }
  }
  return std::nullopt;
}

std::string parts(const StageMemory& memory, std::int64_t needed, std::int64_t room) {
  const auto gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / 0x1p30; };
  return fmt::format(
      "weights {:.1f} + gradients {:.1f} + optimizer {:.1f} + activations {:.1f} + working {:.1f} + buffers {:.1f}; "
      "with "
      "margin and context {:.1f} of {:.1f} GiB",
      gib(memory.weights), gib(memory.gradients), gib(memory.optimizer), gib(memory.activations), gib(memory.working),
      gib(memory.buffers), gib(needed), gib(room));
}

}  // namespace

std::string no_fit_text(const PlanRequest& request, const Session& session) {
  const Job& job = *request.job;
  const std::int64_t room = job.cluster.device.memory_bytes;
  const StateBytes bytes = state_bytes(job);
  const double state = (bytes.weight + bytes.gradient + bytes.optimizer) * static_cast<double>(job.parameters);
  const std::optional<ClosestPlan> closest = closest_plan(request);
  const std::optional<Hint> hint = more_devices(request);
  const auto total = static_cast<std::int64_t>(state);
  std::string text = wrap_after("", fmt::format("{} needs {} for weights, gradients and optimizer; {} x {} have {}.",
                                                job.title, format_bytes(total), format_integer(job.cluster.devices),
                                                job.cluster.device.name, format_bytes(room * job.cluster.devices))) +
                     "\n";
  if (closest) {
    const auto stage = static_cast<std::size_t>(closest->stage);
    text += wrap_after("", fmt::format(
                               "The closest plan ({}, recompute {}, ZeRO {}) lacks {} on stage {}:",
                               strategy_text(closest->plan.strategy), to_string(closest->plan.stages[stage].recompute),
                               closest->plan.stages[stage].zero,
                               format_bytes(std::max<std::int64_t>(0, closest->needed_bytes - room)), closest->stage)) +
            "\n\n";
    text += wrap_after("  ", parts(closest->plan.stages[stage].memory, closest->needed_bytes, room)) + "\n\n";
  }
  text += "What would make it fit:\n";
  if (hint) {
    text += fmt::format("  devices   {} ({}: {} per step)\n", format_integer(hint->devices),
                        strategy_text(hint->plan.strategy), format_duration(hint->plan.prediction.iteration_s));
  }
  if (closest) text += fmt::format("  memory    {} per device\n", format_bytes(closest->needed_bytes));
  if (session.json) {
    Json json = {{"schema", "nest.no-plan/1"}, {"state_bytes", json_number(state)}, {"device_memory_bytes", room}};
    json["devices"] = job.cluster.devices;
    if (closest) {
      json["closest"] = {{"strategy", strategy_text(closest->plan.strategy)},
                         {"stage", closest->stage},
                         {"needed_bytes", closest->needed_bytes},
                         {"missing_bytes", closest->needed_bytes - room}};
    }
    if (hint) {
      json["would_fit"] = {{"devices", hint->devices},
                           {"strategy", strategy_text(hint->plan.strategy)},
                           {"iteration_s", hint->plan.prediction.iteration_s}};
    }
    json["text"] = text;
    return to_text(json);
  }
  return text;
}

}  // namespace nest
