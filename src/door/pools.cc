#include "nest/pools.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "doc/to_json.h"
#include "door/job_data.h"
#include "door/option_checks.h"
#include "door/search_limits.h"
#include "load/fleet.h"
#include "nest/option.h"

namespace nest {
namespace {

constexpr double kPoolHour_s = 3600;
constexpr double kPoolTokens = 1e9;

Question question_on(const Question& question, const load::Pool& pool) {
  Question asked = question;
  asked.cluster = Input::memory(
      pool.cluster.name + ".yaml",
      doc::to_json(pool.cluster.document.root()).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  asked.devices = pool.cluster.devices;
  return asked;
}

void name_devices(Answer& answer) {
  for (Plan& plan : answer.plans) {
    for (StagePlan& stage : plan.stages) stage.device = plan.cluster.device;
  }
}

void weigh(PlannedPool& pool) {
  const Plan* plan = pool.plan();
  if (plan == nullptr) return;
  const double tokens = static_cast<double>(plan->run.global_batch) * static_cast<double>(plan->run.sequence);
  pool.tokens_per_s = tokens / plan->expected().iteration_s;
  pool.device_hours_per_gtoken =
      static_cast<double>(plan->strategy.devices_spanned()) * kPoolTokens / pool.tokens_per_s / kPoolHour_s;
  pool.cost_per_gtoken = pool.device_hours_per_gtoken * pool.price_per_device_hour;
}

void choose(PoolsAnswer& answer, PlanObjective objective) {
  answer.is_priced = true;
  for (const PlannedPool& pool : answer.pools)
    answer.is_priced = answer.is_priced && (pool.plan() == nullptr || pool.price_per_device_hour > 0);
  const auto cost = [&](const PlannedPool& pool) {
    return answer.is_priced ? pool.cost_per_gtoken : pool.device_hours_per_gtoken;
  };
  for (std::size_t k = 0; k < answer.pools.size(); ++k) {
    const PlannedPool& pool = answer.pools[k];
    if (pool.plan() == nullptr) continue;
    if (!answer.fastest || pool.tokens_per_s > answer.pools[*answer.fastest].tokens_per_s) answer.fastest = k;
    if (!answer.cheapest || cost(pool) < cost(answer.pools[*answer.cheapest])) answer.cheapest = k;
  }
  answer.chosen = objective == PlanObjective::device_hours ? answer.cheapest : answer.fastest;
}

}  // namespace

bool has_pools(const Input& cluster) { return load::read_fleet(cluster).has_value(); }

PoolsAnswer plan_pools(const Question& question, const SearchOptions& options) {
  for (const auto& [name, given] : {std::pair{"devices", question.devices}, std::pair{"nodes", question.nodes}}) {
    if (given > 0) throw InputError(fmt::format("{}: a pool has the devices that it has; leave it out", option(name)));
  }
  require_seconds("time_limit", options.time_limit_s);
  const search::Deadline end(options.time_limit_s > 0 ? options.time_limit_s : std::numeric_limits<double>::infinity(),
                             options.stop);
  const std::optional<load::Fleet> fleet = load::read_fleet(question.cluster);
  if (!fleet) throw InputError(fmt::format("{}: names no pools", option("cluster")));
  PoolsAnswer answer;
  answer.name = fleet->name;
  std::optional<InputError> refusal;
  const auto search_on = [&](const load::Pool& pool, const SearchOptions& search) {
    Answer found = find_plan(read_job(for_target(question_on(question, pool), options.target)), search);
    name_devices(found);
    answer.is_stopped = answer.is_stopped || found.outcome == PlanOutcome::limit;
    return found;
  };
  bool any = false;
  for (std::size_t k = 0; k < fleet->pools.size(); ++k) {
    const load::Pool& pool = fleet->pools[k];
    PlannedPool& planned = answer.pools.emplace_back();
    planned.name = pool.name;
    planned.device = pool.cluster.device.name;
    planned.devices = pool.cluster.devices;
    planned.price_per_device_hour = pool.cluster.price_per_device_hour;
    SearchOptions search = options;
    search.why = false;
    search.larger = false;
    if (const double left = seconds_left(end); left > 0)
      search.time_limit_s = left / static_cast<double>(fleet->pools.size() - k);
    try {
      planned.answer = search_on(pool, search);
      any = true;
      if (planned.plan() == nullptr)
        planned.note = planned.answer->outcome == PlanOutcome::no_plan ? "no plan fits" : "none was found in time";
    } catch (const InputError& error) {
      planned.note = plain_options(error.marked());
      if (!refusal) refusal = error;
    }
    weigh(planned);
  }
  if (!any && refusal) throw InputError(*refusal);
  choose(answer, options.objective);
  if (answer.chosen && options.why && !end.has_passed()) {
    SearchOptions search = options;
    search.time_limit_s = seconds_left(end);
    Answer told = search_on(fleet->pools[*answer.chosen], search);
    PlannedPool& chosen = answer.pools[*answer.chosen];
    if (!told.plans.empty()) chosen.answer = std::move(told);
    weigh(chosen);
  }
  return answer;
}

}  // namespace nest
