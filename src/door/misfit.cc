#include "door/misfit.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cluster/cluster.h"
#include "cost/default_stack.h"
#include "cost/memory.h"
#include "cost/offload.h"
#include "door/job_data.h"
#include "door/search_limits.h"

namespace nest {
namespace {

constexpr std::int64_t kMostTimes = 64;  // as many devices as there are
constexpr std::int64_t kMostSizes = 64;  // looked at between two powers of two
constexpr std::int64_t kOpenedBySearch = 20'000;
constexpr std::int64_t kOpenedInAll = 300'000;  // about five seconds on one core

// Searches that only ask whether something fits.
class FitSearch {
 public:
  // `host`: state and activations may wait on the host where nothing fits without.
  FitSearch(search::PlanRequest request, LimitsOf limits_of, bool host, const search::Deadline& end)
      : request_(std::move(request)), limits_of_(std::move(limits_of)), host_(host), end_(end) {
    request_.prices = nullptr;
    request_.search.progress = nullptr;
    request_.search.first = false;
    request_.search.top = 1;
    request_.search.most_opened = kOpenedBySearch;
  }

  const cost::Job& job() const { return *request_.job; }
  bool is_spent() const { return opened_ >= kOpenedInAll || end_.has_passed(); }
  // Whether every search so far was decided.
  bool is_sure() const { return sure_; }

  // The best plan that a limited search finds; nothing where none fits, or the job is none.
  std::optional<Plan> plan_for(const cost::Job& job, bool all_devices = true) {
    std::optional<Plan> plan = search(job, all_devices, false);
    if (plan || !host_) return plan;
    cost::Job frugal = job;
    if (frugal.run.optimizer_offload == 0) frugal.run.optimizer_offload = 100;
    if (!cost::refuse_offload(frugal).empty()) frugal.run.optimizer_offload = job.run.optimizer_offload;
    return search(frugal, all_devices, true);
  }

  std::optional<Plan> plan_on(std::int64_t devices) {
    cost::Job larger = job();
    try {
      larger.cluster = cluster::resized(larger.cluster, devices);
    } catch (const InputError&) {
      return std::nullopt;
    }
    return plan_for(larger);
  }

 private:
  std::optional<Plan> search(const cost::Job& job, bool all_devices, bool offloads) {
    if (is_spent()) {
      sure_ = false;
      return std::nullopt;
    }
    try {
      search::PlanRequest other = request_;
      other.job = &job;
      other.limits = limits_of_(job);
      if (offloads && other.limits.more_offloads) other.limits.offload[1] = true;
      if (all_devices) other.most_devices = 0;
      other.search.time_limit_s = end_.left_s();
      search::PlanAnswer answer = search::make_plan(other);
      opened_ += answer.opened;
      if (answer.outcome == PlanOutcome::limit && answer.plans.empty()) sure_ = false;
      if (!answer.plans.empty()) return std::move(answer.plans.front());
    } catch (const InputError&) {
      // The cluster does not come in that size, the batch does not divide, the device has no such arithmetic.
    }
    return std::nullopt;
  }

  search::PlanRequest request_;
  LimitsOf limits_of_;
  bool host_;
  const search::Deadline& end_;
  std::int64_t opened_ = 0;
  bool sure_ = true;
};

std::int64_t devices_per_host(const cluster::Cluster& cluster) {
  const std::int64_t tray = cluster::devices_per_tray(cluster);
  const std::int64_t host = tray > 0 ? tray : cluster::devices_per_node(cluster).value_or(1);
  return std::max(host, cluster.sizes.multiple_of);
}

// By twice, four times, … as many devices, then every number of hosts below the first that does.
void find_fewest_devices(FitSearch& search, NoFit& none) {
  const std::int64_t now = search.job().cluster.devices;
  std::int64_t high = 0;
  for (std::int64_t times = 2; times <= kMostTimes && !none.larger; times *= 2) {
    none.larger = search.plan_on(now * times);
    high = now * times;
  }
  if (!none.larger) return;
  const std::int64_t host = devices_per_host(search.job().cluster);
  const std::int64_t low = high / 2;
  std::int64_t step = host;
  while ((high - low) / step > kMostSizes) step *= 2;
  const bool all_looked_at = step == host;
  // Coarse, then fine below what was found.
  for (std::int64_t from = low;;) {
    for (std::int64_t devices = from / step * step + step; devices < high; devices += step) {
      std::optional<Plan> plan = search.plan_on(devices);
      if (!plan) continue;
      none.larger = std::move(plan);
      high = devices;
      break;
    }
    if (step == host) break;
    step = std::max(host, step / 2);
    from = std::max(low, high - 2 * step);
  }
  none.fewest = all_looked_at && search.is_sure();
}

void add_change(NoFit& none, std::string name, std::optional<Plan> plan) {
  if (plan) none.changes.push_back({std::move(name), std::move(*plan)});
}

void try_optimizers(FitSearch& search, NoFit& none) {
  for (const Word<Optimizer>& word : kOptimizerWords) {
    if (word.value == search.job().run.optimizer || word.value == Optimizer::sgd) continue;  // nobody trains by it
    cost::Job other = search.job();
    other.run.optimizer = word.value;
    const cost::StateBytes bytes = cost::state_bytes(other), now = cost::state_bytes(search.job());
    if (bytes.optimizer >= now.optimizer) continue;
    add_change(none, fmt::format("--optimizer {}", word.text), search.plan_for(other, false));
  }
}

void try_precisions(FitSearch& search, NoFit& none) {
  const cost::Job& job = search.job();
  if (job.model.traced || job.profile != nullptr || job.run.stack_reason.empty()) return;
  for (const Precision precision : {Precision::bf16, Precision::fp8}) {
    const bool fewer =
        job.run.precision == Precision::fp32 || (precision == Precision::fp8 && job.run.precision != Precision::fp4);
    if (!fewer || precision == job.run.precision) continue;
    Run run = job.run;
    run.precision = precision;
    const cost::StackChoice choice = cost::default_stack(job.model.architecture, job.cluster.device, precision);
    run.stack_reason = choice.reason;
    try {
      cost::Job other = cost::make_job(job.model.architecture, run, *cost::find_stack(choice.name), job.cluster);
      other.title = job.title;
      add_change(none, fmt::format("--precision {}", to_string(precision)), search.plan_for(other, false));
    } catch (const InputError&) {
      continue;  // the device has no such arithmetic
    }
  }
}

// Searches that may use it have tried it.
void try_offload(FitSearch& search, const SearchOptions& options, NoFit& none) {
  if (options.offload != OffloadSearch::never || search.job().run.optimizer_offload > 0) return;
  cost::Job other = search.job();
  other.run.optimizer_offload = 100;
  if (!cost::refuse_offload(other).empty()) return;
  add_change(none, "--optimizer-offload 100", search.plan_for(other, false));
}

}  // namespace

NoFit explain_misfit(search::PlanRequest request, const SearchOptions& options, const LimitsOf& limits_of,
                     const search::Deadline& end) {
  const cost::Job& job = *request.job;
  const cost::StateBytes bytes = cost::state_bytes(job);
  NoFit none;
  none.state_bytes = (bytes.weight + bytes.gradient + bytes.optimizer) * static_cast<double>(job.parameters);
  request.search.time_limit_s = end.left_s();
  if (std::optional<search::ClosestPlan> closest = search::closest_plan(request)) {
    none.closest = NoFit::Closest{std::move(closest->plan), closest->stage, closest->needed_bytes};
  }
  if (!options.larger) return none;
  const bool host = options.offload != OffloadSearch::never;
  if (!options.set.empty() || options.micro_batch != "auto") {
    FitSearch free(
        request, [](const cost::Job&) { return plan::PlanLimits(); }, host, end);
    add_change(none, "without limits", free.plan_for(job, false));
  }
  FitSearch search(request, limits_of, host, end);
  try_optimizers(search, none);
  try_precisions(search, none);
  try_offload(search, options, none);
  find_fewest_devices(search, none);
  return none;
}

}  // namespace nest
