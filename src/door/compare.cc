#include "nest/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "door/job_data.h"
#include "door/option_checks.h"
#include "door/plan_reports.h"
#include "door/search_limits.h"
#include "html/compare_section.h"
#include "nest/option.h"
#include "nest/search.h"
#include "nest/simulate.h"
#include "report/compare_report.h"
#include "rivals/side_by_side.h"
#include "search/workers.h"
#include "simulate/summary.h"
#include "simulate_client/client.h"

namespace nest {
namespace {

std::vector<std::string> chosen_planners(const std::vector<std::string>& list) {
  std::vector<std::string> known = rivals::planner_names();
  if (list.empty()) return known;
  std::vector<std::string> chosen;
  for (const std::string& part : list) {
    std::string name = to_lower(trim(part));
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const char* left_out = name == "alpa" ? " (alpa needs COIN-OR CBC, which this build was made without)" : "";
      throw InputError(fmt::format("{}: `{}` is no planner{}; known are {}{}", option("planners"), clip(name, 40),
                                   left_out, join_words(known), did_you_mean(name, known)));
    }
    if (std::find(chosen.begin(), chosen.end(), name) == chosen.end()) chosen.push_back(std::move(name));
  }
  return chosen;
}

rivals::RivalRequest rival_request(const CompareOptions& options, const cost::Job& job) {
  require_given("max_devices", options.max_devices, kDevices);
  require_given("threads", options.threads, kThreads);
  require_range("seed", options.seed, kSeeds);
  require_seconds("time_limit", options.time_limit_s);
  rivals::RivalRequest request;
  request.job = &job;
  request.most_devices = options.max_devices;
  request.seed = static_cast<std::uint64_t>(options.seed);
  request.time_limit_s = options.time_limit_s;
  request.stop = options.stop;
  set_limits(request.limits, options.micro_batch, options.set);
  return request;
}

void simulate_planners(const cost::Job& job, const std::atomic<bool>* stop, std::vector<ComparedPlanner>& planners) {
  for (ComparedPlanner& planner : planners) {
    if (!planner.plan) continue;
    try {
      const simulate::LoweredPlan lowered = simulate::lower_plan(job, planner.plan->strategy, planner.plan->stages);
      const simulate::Timeline timeline = execute_program(SimulationEngine::own, lowered.program, {.stop = stop});
      planner.simulated_s = summarise(lowered, timeline, planner.plan->prediction).iteration_s;
    } catch (const SimulatorError& error) {
      planner.simulation_note = fmt::format("not simulated: {}", error.what());
    } catch (const InputError& error) {
      planner.simulation_note = fmt::format("not simulated: {}", error.what());
    }
  }
}

// Where execution is the judge, ours is the plan that it prefers, as nest/search.h gives it.
void judge_own(const TrainingJob& job, const CompareOptions& options, ComparedPlanner& own) {
  if (!own.plan) return;
  SearchOptions search;
  search.target = "any";  // as the others
  search.set = options.set;
  search.micro_batch = options.micro_batch;
  search.max_devices = options.max_devices;
  search.offload = OffloadSearch::never;
  search.tie_percent = 0;
  search.threads = 1;
  search.time_limit_s = options.time_limit_s;
  search.why = search.explain = false;
  search.stop = options.stop;
  Answer answer = find_plan(job, search);
  if (answer.plans.empty()) return;
  own.plan = std::move(answer.plans.front());
  own.wall_s = own.plan->search->wall_s;
}

ComparedPlanner compared(rivals::PlannerRun run) {
  ComparedPlanner planner;
  planner.name = run.planner;
  planner.idea = run.idea;
  planner.source = run.source;
  planner.note = run.note;
  planner.stopped = run.stopped;
  planner.none_fits = run.none_fits;
  planner.considered = run.considered;
  planner.wall_s = run.wall_s;
  planner.plan = std::move(run.plan);
  return planner;
}

report::CompareReport report_of(const Comparison& comparison) {
  report::CompareReport report;
  report.about = cost::empty_plan(unwrap(comparison.job));
  report.planners = comparison.planners;
  report.simulated = comparison.simulated;
  return report;
}

}  // namespace

bool Comparison::found() const {
  return std::any_of(planners.begin(), planners.end(),
                     [](const ComparedPlanner& each) { return each.plan.has_value(); });
}

bool Comparison::is_open() const { return report_of(*this).is_open(); }

Comparison compare_planners(const TrainingJob& training, const CompareOptions& options) {
  const cost::Job& job = unwrap(training);
  const std::vector<std::string> names = chosen_planners(options.planners);
  const rivals::RivalRequest request = rival_request(options, job);
  const int threads = search::thread_count(options.threads);
  Comparison comparison{training, {}, options.simulate};
  for (rivals::PlannerRun& run : rivals::run_planners(names, request, threads, [&](const rivals::PlannerRun& done) {
         if (options.done) options.done(done.planner, done.wall_s);
       })) {
    comparison.planners.push_back(compared(std::move(run)));
  }
  for (ComparedPlanner& planner : comparison.planners) {
    if (options.simulate && planner.name == rivals::kOwnPlanner) judge_own(training, options, planner);
  }
  if (options.simulate) simulate_planners(job, options.stop, comparison.planners);
  return comparison;
}

std::string to_text(const Comparison& comparison, const Style& style) {
  return report::compare_text(report_of(comparison), style);
}

std::string to_json(const Comparison& comparison) {
  return report::to_text(report::compare_json(report_of(comparison)));
}

// The page of the fastest plan, with the comparison before all else; the comparison alone where nobody has a plan.
std::string to_html(const Comparison& comparison, const ReportOptions& options) {
  const report::CompareReport report = report_of(comparison);
  const ComparedPlanner* fastest = report.fastest();
  if (fastest == nullptr) return html::compare_page(report).str();
  html::PlanPage page;
  page.first = {html::compare_section(report)};
  return plan_page_text(*fastest->plan, unwrap(comparison.job), options, std::move(page));
}

std::string to_svg(const Comparison& comparison) {
  return html::bar_chart_svg(html::compare_chart(report_of(comparison)));
}

std::vector<std::string> planner_names() { return rivals::planner_names(); }

}  // namespace nest
