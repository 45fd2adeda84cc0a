#include "nest/failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "cluster/cluster.h"
#include "door/job_data.h"
#include "door/option_checks.h"
#include "door/search_limits.h"
#include "door/state_layout.h"
#include "nest/option.h"
#include "questions/goodput.h"
#include "search/planner.h"

namespace nest {
namespace {

constexpr double kTold = 0.9;  // goodput that restarts are told for

void check_failures(const FailureOptions& failures) {
  const auto require = [](std::string_view name, double value, bool zero, const char* example) {
    if (std::isfinite(value) && (value > 0 || (zero && value == 0))) return;
    throw InputError(fmt::format("{}: {:g} is not more than 0; write for example {}", option(name), value, example));
  };
  require("mtbf", failures.device_mtbf_s, false, "50000h");
  if (failures.storage_bytes_per_s == 0) {
    throw InputError(fmt::format("{}: how fast state is saved is missing; give {}, for example 2TB/s", option("mtbf"),
                                 option("checkpoint_bandwidth")));
  }
  require("checkpoint_bandwidth", failures.storage_bytes_per_s, false, "2TB/s");
  require("restart", failures.restart_s, true, "10min");
  require("repair", failures.repair_s, true, "24h");
  require_given("lost_nodes", failures.lost_nodes, kLostNodes);
}

questions::Reliability reliability_of(const FailureAnswer& answer) {
  return {answer.options.device_mtbf_s, answer.save_s, answer.restart_s};
}

// Bytes per second that every device has where all send at once, on the slowest level.
double device_rate(const cluster::Cluster& cluster) {
  double rate = std::numeric_limits<double>::infinity();
  for (const cluster::LevelSummary& level : cluster::summarise(cluster)) {
    rate = std::min(rate, level.device_bytes_per_s);
  }
  return rate;
}

void tell_goodput(FailureAnswer& answer) {
  const Plan& plan = answer.answer.plans.front();
  const std::int64_t devices = plan.strategy.devices_spanned();
  const double step_s = plan.expected().iteration_s;
  const questions::Reliability reliability = reliability_of(answer);
  const questions::SavingPlan saving = questions::save_best(reliability, devices, step_s);
  answer.system_mtbf_s = saving.system_mtbf_s;
  answer.steps = saving.steps;
  answer.interval_s = saving.interval_s;
  answer.young_interval_s = saving.young_interval_s;
  answer.goodput = saving.goodput;
  answer.saving = saving.saving;
  answer.lost = saving.lost;
  answer.restarting = saving.restarting;
  answer.step_s = saving.step_s;
  answer.restart_for_90_s = questions::longest_restart_s(reliability, devices, step_s, kTold).value_or(0);
}

// The number of devices of the plan that trains most, failures counted; exact by the formula.
std::int64_t devices_of_best_goodput(const TrainingJob& job, const SearchOptions& options, const search::Deadline& end,
                                     FailureAnswer& answer) {
  const auto fastest = [&](std::int64_t most, double below_s) -> std::optional<questions::Corner> {
    if (end.has_passed()) return std::nullopt;
    SearchOptions bare = bare_search(options);
    bare.time_limit_s = seconds_left(end);
    bare.objective = PlanObjective::time;
    bare.max_devices = most;
    bare.most_step_s = std::isfinite(below_s) ? below_s : 0;
    ++answer.searches;
    try {
      const Answer found = find_plan(job, bare);
      if (found.plans.empty()) return std::nullopt;
      const Plan& plan = found.plans.front();
      return questions::Corner{plan.strategy.devices_spanned(), plan.prediction.iteration_s};
    } catch (const InputError&) {
      if (most == search::device_limit(unwrap(job), options.max_devices)) throw;
      return std::nullopt;  // no plan at all on so few
    }
  };
  const std::int64_t high = search::device_limit(unwrap(job), options.max_devices);
  const auto best = questions::best_goodput(reliability_of(answer), high, fastest);
  return best ? best->devices : options.max_devices;
}

SmallerPlan smaller_plan(const TrainingJob& job, const SearchOptions& options, const search::Deadline& end,
                         const FailureAnswer& answer, const StateLayout& before, std::int64_t per_node,
                         std::int64_t lost) {
  const Plan& whole = answer.answer.plans.front();
  SmallerPlan smaller;
  smaller.lost_nodes = lost;
  smaller.devices = (answer.nodes - lost) * per_node;
  SearchOptions search = options;
  search.why = search.explain = false;
  search.top = 1;
  search.time_limit_s = seconds_left(end);
  search.max_devices = smaller.devices;
  Answer found{job, PlanOutcome::no_plan, {}, {}, {}};
  try {
    found = find_plan(job, search);
  } catch (const InputError&) {
    return smaller;  // no plan at all on so few
  }
  if (found.plans.empty()) return smaller;
  smaller.plan = std::move(found.plans.front());
  const StateLayout after = state_layout(unwrap(job), smaller.plan);
  std::vector<std::int64_t> past = survivors(whole.strategy.devices_spanned(), per_node, lost);
  past.resize(after.weights.size(), -1);
  questions::Movement moved = questions::movement(before.weights, after.weights, past, before.weight_bytes);
  moved += questions::movement(before.optimizer, after.optimizer, past, before.optimizer_bytes);
  smaller.moved_bytes = moved.received_bytes;
  smaller.from_storage_bytes = moved.from_storage_bytes;
  smaller.most_received_bytes = moved.most_received_bytes;
  smaller.move_s = std::max(moved.most_received_bytes / device_rate(unwrap(job).cluster),
                            moved.from_storage_bytes / answer.options.storage_bytes_per_s);
  return smaller;
}

}  // namespace

double parse_mtbf(std::string_view text, std::int64_t devices_per_node) {
  const std::string_view whole = trim(text);
  const std::size_t slash = whole.find('/');
  const double mtbf_s = parse_duration(whole.substr(0, slash));
  if (slash == std::string_view::npos) return mtbf_s;
  const std::string_view of = trim(whole.substr(slash + 1));
  if (of == "device" || of == "gpu") return mtbf_s;
  if (of != "node") {
    throw InputError(fmt::format("\"{}\" is no time between failures; write for example 50000h/device or 6000h/node",
                                 clip(text, 40)));
  }
  return mtbf_s * static_cast<double>(devices_per_node);
}

FailureAnswer plan_with_failures(const TrainingJob& job, const FailureOptions& failures, const SearchOptions& options) {
  check_failures(failures);
  require_seconds("time_limit", options.time_limit_s);
  // One limit for all searches.
  const search::Deadline end(options.time_limit_s > 0 ? options.time_limit_s : std::numeric_limits<double>::infinity(),
                             options.stop);
  const cost::Job& data = unwrap(job);
  const std::int64_t per_node = cluster::devices_per_node(data.cluster).value_or(0);
  if (per_node == 0 && failures.lost_nodes > 0) {
    throw InputError(fmt::format("{}: {} has no nodes", option("lost_nodes"), data.cluster.name));
  }
  FailureAnswer answer{failures, Answer{job, PlanOutcome::limit, {}, {}, {}}};
  answer.state_bytes = checkpoint_bytes(data);
  answer.save_s = answer.state_bytes / failures.storage_bytes_per_s;
  answer.restart_s = failures.restart_s + answer.save_s;
  SearchOptions search = options;
  if (failures.best_goodput) search.max_devices = devices_of_best_goodput(job, options, end, answer);
  search.time_limit_s = seconds_left(end);
  answer.answer = find_plan(job, search);
  if (answer.answer.plans.empty()) return answer;
  tell_goodput(answer);
  const Plan& plan = answer.answer.plans.front();
  if (per_node == 0) return answer;
  answer.nodes = (plan.strategy.devices_spanned() + per_node - 1) / per_node;
  if (failures.repair_s > 0) {
    answer.spares = questions::spares_needed(answer.nodes, failures.device_mtbf_s / static_cast<double>(per_node),
                                             failures.repair_s, failures.spare_risk);
  }
  if (failures.lost_nodes == 0) return answer;
  const StateLayout before = state_layout(data, plan);
  for (std::int64_t lost = 1; lost <= std::min(failures.lost_nodes, answer.nodes - 1); ++lost) {
    if (end.has_passed()) break;
    answer.smaller.push_back(smaller_plan(job, options, end, answer, before, per_node, lost));
    ++answer.searches;
  }
  return answer;
}

}  // namespace nest
