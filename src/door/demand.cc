#include "nest/demand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "door/demand_limits.h"
#include "door/job_data.h"
#include "door/option_checks.h"
#include "door/search_limits.h"
#include "nest/option.h"
#include "questions/fewest.h"
#include "search/planner.h"

namespace nest {
namespace {

constexpr int kMostTimesExecuted = 6;          // that the formula is held to less because execution takes longer
constexpr double kLargerSeconds = 2;           // of each search on more devices than were allowed
constexpr std::int64_t kMostTimesLarger = 64;  // as many of them

void require_positive(std::string_view name, double value, const char* example) {
  if (value == 0 || (value > 0 && std::isfinite(value))) return;
  throw InputError(fmt::format("{}: {:g} is not more than 0; write for example {}", option(name), value, example));
}

void check_demand(const Demand& demand) {
  require_positive("deadline", demand.deadline_s, "30d");
  require_positive("budget", demand.budget, "1M");
  require_positive("tokens", demand.tokens, "15T");
  require_positive("price", demand.price_per_device_hour, "2.50");
  if (!demand.is_made())
    throw InputError(fmt::format("neither {} nor {} is given", option("deadline"), option("budget")));
  if (demand.tokens == 0) {
    throw InputError(
        fmt::format("{}: how many tokens are to be trained on by then is missing; give {}, for example 15T",
                    option(demand.deadline_s != 0 ? "deadline" : "budget"), option("tokens")));
  }
}

class DemandSearch {
 public:
  DemandSearch(const TrainingJob& job, const Demand& demand, const SearchOptions& options, const search::Deadline& end,
               DemandAnswer& out)
      : job_(job), demand_(demand), options_(options), end_(end), limits_(step_limits(job, demand)), out_(out) {
    const cost::Job& data = unwrap(job);
    most_ = search::device_limit(data, options.max_devices);
    const double work = search::least_score(data, 1, PlanObjective::device_hours);
    low_ = std::max(search::fewest_devices(data),
                    static_cast<std::int64_t>(std::clamp(std::ceil(work / limits_.step_s), 1.0, 0x1p40)));
    out.steps = limits_.steps;
    out.most_devices = most_;
    out.least_devices = low_;
  }

  // Fills in outcome, devices and answer.
  void run(OffloadSearch offload) {
    StepLimits held = limits_;
    for (int k = 0; k < kMostTimesExecuted; ++k) {
      const questions::Fewest found = find(offload, held);
      out_.outcome = !found.proven ? PlanOutcome::limit : found.best ? PlanOutcome::optimal : PlanOutcome::no_plan;
      if (!found.best) return;
      SearchOptions last = options_;
      last.offload = offload;
      last.objective = PlanObjective::time;
      last.max_devices = found.best->devices;
      set_ceiling(last, held);
      last.time_limit_s = seconds_left(end_);
      Answer answer = find_plan(job_, last);
      if (answer.plans.empty()) {  // no time was left for it
        out_.outcome = PlanOutcome::limit;
        return;
      }
      const Plan& plan = answer.plans.front();
      const double told_s = plan.expected().iteration_s;
      const double most_s = limits_.seconds_on(plan.strategy.devices_spanned());
      out_.devices = found.best->devices;
      out_.answer = std::move(answer);
      if (told_s <= most_s * (1 + 1e-9)) return;
      if (out_.formula_devices == 0) out_.formula_devices = found.best->devices;
      const double less = std::min(0.999, most_s / told_s);
      held.step_s *= less;
      held.device_s *= less;
      out_.answer.reset();
      out_.outcome = end_.has_passed() ? PlanOutcome::limit : PlanOutcome::no_plan;
      if (end_.has_passed()) return;
    }
  }

 private:
  static void set_ceiling(SearchOptions& options, const StepLimits& limits) {
    options.most_step_s = std::isfinite(limits.step_s) ? limits.step_s : 0;
    options.most_device_s = std::isfinite(limits.device_s) ? limits.device_s : 0;
  }

  // One search under the ceiling.
  std::optional<questions::Corner> search_under(const StepLimits& limits, SearchOptions options) {
    set_ceiling(options, limits);
    options.time_limit_s = seconds_left(end_);
    std::optional<questions::Corner> corner;
    try {
      const Answer answer = find_plan(job_, options);
      is_stopped_ = is_stopped_ || answer.outcome == PlanOutcome::limit;
      if (!answer.plans.empty()) {
        const Plan& plan = answer.plans.front();
        corner = {plan.strategy.devices_spanned(), plan.prediction.iteration_s};
      }
    } catch (const InputError&) {
      // No plan at all on so few devices. On all of them that is a mistake in the question.
      if (options.max_devices == most_) throw;
    }
    out_.tries.push_back({options.max_devices, corner ? corner->devices : 0, corner ? corner->step_s : 0});
    return corner;
  }

  std::optional<questions::Corner> fastest(std::int64_t devices, OffloadSearch offload, const StepLimits& limits) {
    SearchOptions options = bare_search(options_);
    options.offload = offload;
    options.objective = PlanObjective::time;
    options.max_devices = devices;
    return search_under(limits, options);
  }

  questions::Fewest find(OffloadSearch offload, const StepLimits& limits) {
    is_stopped_ = false;
    if (low_ > most_) return {std::nullopt, true};
    if (demand_.aim == DemandAim::devices) {
      plan::PlanLimits asked;
      set_limits(asked, options_.micro_batch, options_.set);
      const auto order = asked.all_devices ? questions::CountOrder::each : questions::CountOrder::nested;
      // Without a deadline the cheapest plans are on few devices: all the way down.
      const double guide_s = std::isfinite(limits.step_s) ? limits.step_s : limits.device_s;
      return questions::fewest_devices(
          low_, most_, guide_s, order, [&](std::int64_t n) { return fastest(n, offload, limits); },
          [&] { return is_stopped_ || end_.has_passed(); });
    }
    SearchOptions options = bare_search(options_);
    options.offload = offload;
    options.objective = demand_.aim == DemandAim::cost ? PlanObjective::device_hours : PlanObjective::time;
    options.max_devices = most_;
    const std::optional<questions::Corner> corner = search_under(limits, options);
    return {corner, !is_stopped_};
  }

  const TrainingJob& job_;
  const Demand& demand_;
  const SearchOptions& options_;
  const search::Deadline& end_;
  StepLimits limits_;
  DemandAnswer& out_;
  std::int64_t most_ = 0, low_ = 1;
  bool is_stopped_ = false;
};

bool is_preset(const Input& cluster) {
  return cluster.empty() || (!cluster.text && cluster::find_cluster(cluster.name).has_value());
}

// The question on `times` as many devices; nothing where the cluster does not come in that size.
std::optional<TrainingJob> larger_job(Question question, std::int64_t devices, std::int64_t times) {
  question.devices = devices * times;
  try {
    return read_job(question);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// Where the deadline cannot be met: the fastest plan; where it is the budget, the cheapest.
Answer nearest_plan(const TrainingJob& job, const Demand& demand, const SearchOptions& options,
                    const search::Deadline& end) {
  SearchOptions search = options;
  search.why = false;
  search.top = 1;
  search.objective = demand.deadline_s > 0 ? PlanObjective::time : PlanObjective::device_hours;
  search.time_limit_s = seconds_left(end);
  return find_plan(job, search);
}

std::optional<Plan> larger_plan(const Question& question, const DemandAnswer& unmet, const SearchOptions& options,
                                const search::Deadline& end) {
  const std::int64_t devices = unmet.job.devices();
  for (std::int64_t times = 2; times <= kMostTimesLarger && !end.has_passed(); times *= 2) {
    const std::optional<TrainingJob> job = larger_job(question, devices, times);
    if (!job) return std::nullopt;
    SearchOptions search = bare_search(options);
    const StepLimits limits = step_limits(*job, unmet.demand);
    search.objective = PlanObjective::time;
    search.max_devices = 0;
    search.offload = OffloadSearch::never;
    search.most_step_s = std::isfinite(limits.step_s) ? limits.step_s : 0;
    search.most_device_s = std::isfinite(limits.device_s) ? limits.device_s : 0;
    search.time_limit_s = std::min(kLargerSeconds, end.left_s());
    Answer answer = find_plan(*job, search);
    if (!answer.plans.empty()) return std::move(answer.plans.front());
  }
  return std::nullopt;
}

}  // namespace

StepLimits step_limits(const TrainingJob& job, const Demand& demand) {
  const Run& run = unwrap(job).run;
  StepLimits limits;
  limits.steps = std::ceil(demand.tokens / (static_cast<double>(run.global_batch) * static_cast<double>(run.sequence)));
  if (demand.deadline_s > 0) limits.step_s = demand.deadline_s / limits.steps;
  if (demand.budget > 0) limits.device_s = demand.budget / demand.price_per_device_hour * 3600 / limits.steps;
  return limits;
}

const char* to_string(DemandAim aim) {
  for (const auto& word : kAimWords) {
    if (word.value == aim) return word.text;
  }
  return "?";
}

double parse_money(std::string_view text) {
  std::string_view rest = trim(text);
  for (const std::string_view sign : {"$", "€", "£", "¥"}) {
    if (!rest.starts_with(sign)) continue;
    rest = trim(rest.substr(sign.size()));
    break;
  }
  return parse_count(rest);
}

DemandAnswer meet_demand(const Question& question, const Demand& demand, const SearchOptions& options) {
  check_demand(demand);
  require_seconds("time_limit", options.time_limit_s);
  const search::Deadline end(options.time_limit_s > 0 ? options.time_limit_s : std::numeric_limits<double>::infinity(),
                             options.stop);
  TrainingJob job = read_job(question);
  Demand asked = demand;
  if (asked.price_per_device_hour == 0) asked.price_per_device_hour = unwrap(job).cluster.price_per_device_hour;
  if (asked.price_per_device_hour == 0 && asked.budget > 0) {
    throw InputError(fmt::format("{}: what a device-hour costs is missing; give {}, or `price` in the cluster's file",
                                 option("budget"), option("price")));
  }
  DemandAnswer answer{asked, job, 0, 0, 1, PlanOutcome::no_plan, 0, {}, {}, 0, {}, {}};
  const bool grows = question.devices == 0 && options.max_devices == 0 && is_preset(question.cluster);
  const OffloadSearch first = options.offload == OffloadSearch::any ? OffloadSearch::any : OffloadSearch::never;
  const std::int64_t size = job.devices();
  // The smallest size of the cluster on which the demand can be met; of a cluster that somebody has, its own.
  for (std::int64_t times = 1;;) {
    answer.job = job;
    DemandSearch search(job, asked, options, end, answer);
    search.run(first);
    if (answer.outcome != PlanOutcome::no_plan) break;
    times *= 2;
    const std::optional<TrainingJob> next = grows ? larger_job(question, size, times) : std::nullopt;
    if (!next) {
      if (options.offload == OffloadSearch::needed) search.run(OffloadSearch::any);
      break;
    }
    job = *next;
  }
  if (answer.answer || answer.outcome != PlanOutcome::no_plan) return answer;
  answer.nearest = nearest_plan(answer.job, asked, options, end);
  if (!grows && options.larger) answer.larger = larger_plan(question, answer, options, end);
  return answer;
}

}  // namespace nest
