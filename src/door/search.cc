#include "nest/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.h"
#include "cluster/cluster.h"
#include "cost/activation_offload.h"
#include "cost/memory.h"
#include "cost/offload.h"
#include "door/executed.h"
#include "door/job_data.h"
#include "door/judged_search.h"
#include "door/misfit.h"
#include "door/option_checks.h"
#include "door/search_limits.h"
#include "exporter/framework.h"
#include "exporter/framework_rules.h"
#include "nest/option.h"
#include "search/choices.h"
#include "search/planner.h"
#include "search/simplest.h"
#include "search/why.h"

namespace nest {
namespace {

constexpr std::int64_t kWhyOpened = 20'000;  // nodes of each search for an alternative: about half a second
constexpr double kShareOfFirst = 0.4;        // of a time limit, for a search in which rules find no plan
constexpr double kShort_s = 0.1;

// Whose plans are searched for; nothing: all there are. A stack's own framework is not asked for what it does not compute
// in at all, nor where some weights are frozen, which no export says.
std::optional<launch::Framework> target_of(const SearchOptions& options, const cost::Job& job) {
  if (options.target.empty()) {
    const std::optional<launch::Framework> own = exporter::framework_of(job.stack);
    const bool trains_all = job.run.freeze.empty() && job.run.lora.empty();
    return own && trains_all && exporter::precision_obstacle(*own, job.run.precision).empty() ? own : std::nullopt;
  }
  const std::size_t target = require_word("target", options.target, plan_targets());
  if (target == 0) return std::nullopt;
  const launch::Framework framework = exporter::framework_rules()[target - 1].framework;
  if (const std::string why = exporter::precision_obstacle(framework, job.run.precision); !why.empty()) {
    throw InputError(fmt::format("{}: {} {}", option("target"), to_string(framework), why));
  }
  return framework;
}

// The settings that were given, as one list.
std::vector<std::string> settings_of(const SearchOptions& options) {
  std::vector<std::string> settings = options.set;
  if (options.micro_batch != "auto" && !options.micro_batch.empty()) settings.push_back("mbs=" + options.micro_batch);
  return settings;
}

// What the target runs and the settings admit. Keeps `job` by reference.
plan::PlanLimits limits_of(const SearchOptions& options, const cost::Job& job) {
  plan::PlanLimits asked;
  set_limits(asked, options.micro_batch, options.set);
  const std::optional<launch::Framework> target = target_of(options, job);
  if (!target) return asked;
  plan::PlanLimits limits = exporter::runnable_limits(*target, job);
  plan::narrow(limits, asked);
  if (plan::is_empty(limits)) {
    throw InputError(fmt::format("{}: {} runs no plan with {}; {} any plans for no framework", option("set"),
                                 exporter::rules_of(*target).version, fmt::join(settings_of(options), ", "),
                                 option("target")));
  }
  return limits;
}

search::PlanRequest request_of(const SearchOptions& options, const cost::Job& job, search::PriceCache& prices) {
  require_given("top", options.top, kTop);
  require_given("threads", options.threads, kThreads);
  require_given("max_devices", options.max_devices, kDevices);
  require_seconds("time_limit", options.time_limit_s);
  require_seconds("most_step", options.most_step_s);
  require_percent("tie", options.tie_percent);
  search::PlanRequest request;
  request.job = &job;
  request.prices = &prices;
  request.most_devices = options.max_devices;
  request.search.objective = options.objective;
  if (options.most_step_s > 0) request.search.ceiling.step_s = options.most_step_s;
  if (options.most_device_s > 0) request.search.ceiling.device_s = options.most_device_s;
  request.search.top = static_cast<int>(options.top);
  request.search.listing = search::Listing::kinds;
  request.search.threads = static_cast<int>(options.threads);
  if (options.time_limit_s > 0) request.search.time_limit_s = options.time_limit_s;
  request.search.stop = options.stop;
  request.limits = limits_of(options, job);
  for (const OffloadSet named : request.limits.offload_only) {
    if (const std::string why = cost::refuse_offload(job, named); !why.empty()) {
      throw InputError(fmt::format("{}: {}", option("set"), why));
    }
  }
  return request;
}

// What a plan's record says of the question.
void name_question(const SearchOptions& options, const std::optional<launch::Framework>& target, SearchRecord& record) {
  record.set = settings_of(options);
  record.max_devices = options.max_devices;
  if (!target) return;
  record.target = to_string(*target);
  record.target_version = exporter::rules_of(*target).version;
}

// Tells whoever waits for the answer of plans for `job` on the way: of those whose value is below `most`, with a bound that
// holds for all plans, `searched` here or in other searches. Nothing where nobody waits. Keeps its arguments by reference.
std::function<void(const Plan&)> teller_of(const SearchOptions& options, const cost::Job& job, bool searched,
                                           double most = std::numeric_limits<double>::infinity()) {
  if (!options.incumbent) return {};
  return [&options, &job, searched, most, target = target_of(options, job)](const Plan& plan) {
    const bool hours = options.objective == PlanObjective::device_hours;
    const double spanned = hours ? static_cast<double>(plan.strategy.devices_spanned()) : 1;
    if (plan.prediction.iteration_s * spanned >= most) return;
    Plan told = plan;
    if (!searched) {
      const std::int64_t devices = search::device_limit(job, options.max_devices);
      told.search->lower_bound_s = search::least_score(job, devices, options.objective) / spanned;
      told.search->optimal = false;
    }
    // Where the time of an executed step goes is said by the answer: until then as the formula divides it.
    if (const auto& execution = told.search->execution) {
      expect_execution(job, execution->simulated_s, options.stop, told, TimePoint::min());
    }
    name_question(options, target, *told.search);
    options.incumbent(told);
  };
}

// One search, with what it leaves for the questions that follow.
struct Searched {
  TrainingJob job;
  std::unique_ptr<search::PriceCache> prices;
  search::PlanRequest request;
  search::PlanAnswer found;
};

// `host`: activations of modules may wait there, unless somebody said which.
// `share` of the time that is left is for it: all once it has a plan, of the first or of all.
// `best`: the value of a plan that is there already.
Searched search_job(const TrainingJob& job, const SearchOptions& options, bool host, const search::Deadline& end,
                    double share_without_first, double share = 1, std::optional<double> best = {}) {
  auto prices = std::make_unique<search::PriceCache>(unwrap(job));
  search::PlanRequest request = request_of(options, unwrap(job), *prices);
  if (host && request.limits.more_offloads) request.limits.offload[1] = true;
  request.search.progress = options.progress;
  // The bound of a search among several says nothing of the others.
  const bool alone = !best && options.offload != OffloadSearch::any;
  request.incumbent = teller_of(options, unwrap(job), alone, best.value_or(std::numeric_limits<double>::infinity()));
  request.search.first = true;
  request.search.time_limit_s = share * end.left_s();
  request.search.share_without_first = share_without_first;
  search::PlanAnswer found = search::make_plan(request);
  return {job, std::move(prices), std::move(request), std::move(found)};
}

// What was made least; infinite where there is no plan.
double value_of(const Searched& searched) {
  if (searched.found.plans.empty()) return std::numeric_limits<double>::infinity();
  const Plan& plan = searched.found.plans.front();
  const bool hours = searched.found.objective == PlanObjective::device_hours;
  return plan.prediction.iteration_s * (hours ? static_cast<double>(plan.strategy.devices_spanned()) : 1);
}

bool may_offload_modules(const Searched& searched) {
  return searched.request.limits.more_offloads && !search::offered_offloads(*searched.request.job).empty();
}

// Percent of the optimizer's state that may wait on the host instead.
std::vector<std::int64_t> offloads_of(const Searched& searched) {
  const cost::Job& job = *searched.request.job;
  if (job.run.optimizer_offload > 0 || !searched.request.limits.zero[1] || !cost::refuse_offload(job).empty())
    return {};
  return {25, 50, 75, 100};
}

}  // namespace

std::vector<std::string> plan_targets() {
  std::vector<std::string> names = {"any"};
  for (const exporter::FrameworkRules& row : exporter::framework_rules()) names.emplace_back(to_string(row.framework));
  return names;
}

Question for_target(Question question, const std::string& target) {
  if (!question.stack.empty() || target.empty()) return question;
  const std::size_t named = require_word("target", target, plan_targets());
  if (named == 0) return question;
  const exporter::FrameworkRules& rules = exporter::framework_rules()[named - 1];
  // Megatron's stacks are the default, by model, device and precision.
  if (!exporter::is_own_stack(rules.framework, *cost::find_stack("megatron-core"))) question.stack = rules.usual_stack;
  return question;
}

void set_limits(plan::PlanLimits& limits, const std::string& micro_batch, const std::vector<std::string>& set) {
  if (micro_batch != "auto" && !micro_batch.empty()) {
    plan::set_limit(limits, "mbs=" + micro_batch, option("micro_batch"));
  }
  for (const std::string& setting : set) plan::set_limit(limits, setting, option("set"));
}

double seconds_left(const search::Deadline& end) {
  constexpr double kLeast = 1e-3;  // a search that is over at once, not one without a limit
  const double left = end.left_s();
  return std::isfinite(left) ? std::max(left, kLeast) : 0;
}

SearchOptions bare_search(SearchOptions options) {
  options.judge = PlanJudge::formula;
  options.tie_percent = 0;
  options.top = 1;
  options.why = options.explain = false;
  options.incumbent = nullptr;  // of the question behind it
  return options;
}

Answer find_plan(const TrainingJob& job, const SearchOptions& options) {
  const bool any = options.offload == OffloadSearch::any;
  // One limit for the search, those that follow it and what is told beside their plan.
  const search::Deadline end(options.time_limit_s > 0 ? options.time_limit_s : std::numeric_limits<double>::infinity(),
                             options.stop);
  const bool may_need = options.offload == OffloadSearch::needed;
  Searched best = search_job(job, options, any, end, may_need ? kShareOfFirst : 1);
  // Nothing fits, or nothing was found in the time that is for it.
  const bool needed = may_need && best.found.plans.empty() && !end.has_passed();
  bool cut_short =
      needed && best.found.outcome == PlanOutcome::limit;  // some search that could have found a better plan
  const auto percent_of = [](const Searched& searched) { return searched.request.job->run.optimizer_offload; };
  const auto take = [&](Searched other) {
    cut_short = cut_short || other.found.outcome == PlanOutcome::limit;
    const double mine = value_of(best), theirs = value_of(other);
    if (theirs < mine || (theirs == mine && percent_of(other) < percent_of(best))) best = std::move(other);
  };
  // Each: activations of modules only (0), or percent of the optimizer's state with them. Under a limit what spares most
  // comes first, since nothing may be found in the time of the others.
  std::vector<std::int64_t> others;
  if (any || needed) others = offloads_of(best);
  if (needed && may_offload_modules(best)) others.insert(others.begin(), 0);
  if (needed && options.time_limit_s > 0) std::reverse(others.begin(), others.end());
  for (std::size_t k = 0; k < others.size(); ++k) {
    if (end.has_passed()) {
      cut_short = true;
      break;
    }
    // Of a short limit all: what is tried first is what is likeliest to fit.
    const double first = needed && k == 0 ? std::max(0.5, std::min(1.0, kShort_s / end.left_s())) : 0;
    const double share = std::max(1 / static_cast<double>(others.size() - k), first);
    if (others[k] == 0) {
      take(search_job(job, options, true, end, kShareOfFirst, share, value_of(best)));
      continue;
    }
    cost::Job offloaded = unwrap(job);
    offloaded.run.optimizer_offload = others[k];
    take(search_job(wrap_job(std::move(offloaded)), options, true, end, 1, share, value_of(best)));
  }
  if (cut_short && best.found.outcome != PlanOutcome::limit) {
    // What was proven holds without what waits on the host only.
    best.found.outcome = PlanOutcome::limit;
    const std::int64_t devices = search::device_limit(*best.request.job, options.max_devices);
    best.found.lower_bound = search::least_score(*best.request.job, devices, options.objective);
    for (Plan& plan : best.found.plans) {
      const bool hours = options.objective == PlanObjective::device_hours;
      plan.search->optimal = false;
      plan.search->lower_bound_s =
          best.found.lower_bound / (hours ? static_cast<double>(plan.strategy.devices_spanned()) : 1);
    }
  }
  search::PlanRequest& request = best.request;
  search::PlanAnswer& found = best.found;
  request.search.progress = nullptr;
  request.incumbent = nullptr;
  request.search.time_limit_s = found.wall_s + end.left_s();
  const auto tell = teller_of(options, *request.job, true);
  const bool is_waited_for = tell && !found.plans.empty() && !end.has_passed();
  // A moment ago a plan was told of a search that goes on: whether a simpler one is as good may take as long again.
  const bool told = is_waited_for && found.wall_s > search::kTellEvery_s;
  if (told) tell(found.plans.front());
  const Strategy fastest = found.plans.empty() ? Strategy{} : found.plans.front().strategy;
  if (!end.has_passed()) search::prefer_simplest(request, options.tie_percent / 100, found);
  const bool executes = options.judge == PlanJudge::simulation && can_execute(*request.job) && !end.has_passed();
  if (executes) {
    if (is_waited_for && !(told && found.plans.front().strategy == fastest)) tell(found.plans.front());
    judge_by_execution(request, options.tie_percent / 100, found, tell);
  }
  Answer answer{best.job, found.outcome, {}, {}, {}};
  if (found.plans.empty()) {
    if (found.outcome == PlanOutcome::no_plan && options.explain) {
      answer.no_fit = explain_misfit(
          request, options, [&](const cost::Job& other) { return limits_of(options, other); }, end);
    }
    return answer;
  }
  if (options.why && !end.has_passed()) {
    request.search.ceiling = {};  // what overrules a decision may take longer: that is what is told
    answer.why_not = search::explain_plan(request, found, kWhyOpened, end);
    if (executes && !end.has_passed()) judge_by_execution(request, found.plans.front(), answer.why_not, end.at());
  }
  answer.plans = std::move(found.plans);
  const std::optional<launch::Framework> target = target_of(options, unwrap(answer.job));
  for (Plan& plan : answer.plans) {
    if (!plan.search) continue;
    if (plan.search->execution) {
      expect_execution(*request.job, plan.search->execution->simulated_s, options.stop, plan, end.at());
    }
    name_question(options, target, *plan.search);
  }
  return answer;
}

}  // namespace nest
