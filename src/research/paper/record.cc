#include "paper/record.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"
#include "door/job_data.h"
#include "nest/search.h"
#include "nest/simulate.h"
#include "paper/publications.h"
#include "plan/strategy_text.h"
#include "report/compare_report.h"
#include "rivals/side_by_side.h"
#include "simulate/step_judge.h"

namespace nest::paper {
namespace {

// Of this thread: wall time says how busy the machine was.
double processor_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

PlannerResult result_of(const rivals::PlannerRun& run) {
  PlannerResult result;
  result.planner = run.planner;
  result.optimal = run.optimal;
  result.note = run.note;
  if (!run.plan) return result;
  const Plan& plan = *run.plan;
  result.iteration_s = plan.prediction.iteration_s;
  result.strategy = plan::strategy_text(plan.strategy);
  if (plan.strategy.dp > 1 && plan.strategy.pp > 1)
    result.strategy += fmt::format(" dp_inner={}", plan.strategy.dp_inner);
  result.strategy += ", " + report::memory_measures(plan);
  result.devices = plan.strategy.devices_used();
  result.mfu = plan.prediction.mfu;
  return result;
}

void execute_plan(const cost::Job& job, const Plan& plan, const Effort& effort, PlannerResult& result) {
  try {
    result.simulated_s = simulate::StepJudge(job, {.seconds = effort.simulation_s}).seconds(plan.strategy, plan.stages);
  } catch (const SimulatorError& error) {
    result.simulation_note = error.what();
  } catch (const InputError& error) {
    result.simulation_note = error.what();
  }
}

rivals::PlannerRun run_judged(const cost::Job& job, const std::vector<std::string>& settings, const Effort& effort) {
  SearchOptions options;
  options.target = "any";  // as the planners of others
  options.set = settings;
  options.offload = OffloadSearch::never;
  options.tie_percent = 0;
  options.threads = 1;
  options.time_limit_s = effort.time_limit_s;
  options.why = options.explain = false;
  Answer answer = find_plan(wrap_job(job), options);
  rivals::PlannerRun run;
  run.planner = rivals::kOwnPlanner;
  run.stopped = answer.outcome == PlanOutcome::limit;
  if (answer.plans.empty()) {
    run.note = run.stopped ? "stopped by the time limit" : "proven: no plan fits in memory";
    return run;
  }
  const SearchRecord& record = *answer.plans.front().search;
  run.optimal = record.optimal || (record.execution && record.execution->certain);
  run.plan = std::move(answer.plans.front());
  return run;
}

// Planners of the build; as published, those that published.
std::vector<std::string> planners_at(const Point& point) {
  std::vector<std::string> names = rivals::planner_names();
  if (!point.published) return names;
  std::erase_if(names, [](const std::string& name) {
    return std::none_of(publications().begin(), publications().end(),
                        [&](const Publication& one) { return name == one.planner; });
  });
  return names;
}

// As published. manual is one strategy, deeper where it does not fit.
rivals::PlannerRun run_published(const std::string& name, const Point& point, rivals::RivalRequest request) {
  constexpr int kDeepest = 4;
  if (name != "manual") {
    request.limits = publication_limits(name, point);
    return rivals::run_planner(name, request);
  }
  rivals::PlannerRun run;
  for (int deeper = 0; deeper <= kDeepest && !run.plan; ++deeper) {
    request.limits = publication_limits(name, point, deeper);
    try {
      run = rivals::run_planner(rivals::kOwnPlanner, request);
    } catch (const InputError&) {
      continue;  // more stages than layers or devices
    }
  }
  run.planner = name;
  run.optimal = false;
  return run;
}

}  // namespace

const PlannerResult* Record::find(const std::string& planner) const {
  for (const PlannerResult& result : planners) {
    if (result.planner == planner) return &result;
  }
  return nullptr;
}

std::optional<double> Record::ratio(const std::string& planner) const {
  const PlannerResult *own = find(rivals::kOwnPlanner), *other = find(planner);
  if (own == nullptr || other == nullptr || !own->has_plan() || !other->has_plan()) return std::nullopt;
  return other->judged_s() / own->judged_s();
}

std::optional<double> Record::predicted_ratio(const std::string& planner) const {
  const PlannerResult *own = find(rivals::kOwnPlanner), *other = find(planner);
  if (own == nullptr || other == nullptr || !own->has_plan() || !other->has_plan()) return std::nullopt;
  return other->iteration_s / own->iteration_s;
}

bool Record::answers(const Effort& effort) const {
  return program == NEST_VERSION && time_limit_s == effort.time_limit_s && seed == effort.seed && batch == kGlobalBatch;
}

Record run_point(const Point& point, const Effort& effort, std::mutex& solver) {
  const cost::Job job = job_of(point);
  rivals::RivalRequest request;
  request.job = &job;
  request.limits = limits_of(settings_of(point));
  request.seed = effort.seed;
  request.time_limit_s = effort.time_limit_s;
  Record record;
  record.id = point.id();
  record.program = NEST_VERSION;
  record.time_limit_s = effort.time_limit_s;
  record.seed = effort.seed;
  record.batch = kGlobalBatch;
  const auto run_one = [&](const std::string& name) {
    if (point.published) return run_published(name, point, request);
    return name == rivals::kOwnPlanner ? run_judged(job, settings_of(point), effort)
                                       : rivals::run_planner(name, request);
  };
  for (const std::string& name : planners_at(point)) {
    std::unique_lock alone(solver, std::defer_lock);
    if (name == "alpa") alone.lock();
    const double start_s = processor_s();
    const rivals::PlannerRun run = run_one(name);
    const double search_s = processor_s() - start_s;
    if (alone.owns_lock()) alone.unlock();
    PlannerResult& result = record.planners.emplace_back(result_of(run));
    result.search_s = search_s;
    result.stopped = run.stopped;
    if (run.plan) execute_plan(job, *run.plan, effort, result);
  }
  return record;
}

std::string to_line(const Record& record) {
  nlohmann::ordered_json json = {{"id", record.id},
                                 {"program", record.program},
                                 {"time_limit_s", record.time_limit_s},
                                 {"seed", record.seed},
                                 {"batch", record.batch}};
  for (const PlannerResult& result : record.planners) {
    json["planners"].push_back({{"planner", result.planner},
                                {"iteration_s", result.iteration_s},
                                {"strategy", result.strategy},
                                {"devices", result.devices},
                                {"mfu", result.mfu},
                                {"search_s", result.search_s},
                                {"stopped", result.stopped},
                                {"optimal", result.optimal},
                                {"note", result.note},
                                {"simulated_s", result.simulated_s},
                                {"simulation_note", result.simulation_note}});
  }
  return json.dump() + "\n";
}

Records read_records(const std::string& text) {
  std::set<std::string> asked;
  for (const Point& point : all_points()) asked.insert(point.id());
  Records records;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    try {
      const auto json = nlohmann::json::parse(line);
      Record record;
      record.id = json.at("id");
      if (!asked.contains(record.id)) continue;
      record.program = json.at("program");
      record.time_limit_s = json.at("time_limit_s");
      record.seed = json.at("seed");
      record.batch = json.at("batch");
      for (const auto& row : json.at("planners")) {
        PlannerResult result;
        result.planner = row.at("planner");
        result.iteration_s = row.at("iteration_s");
        result.strategy = row.at("strategy");
        result.devices = row.at("devices");
        result.mfu = row.at("mfu");
        result.search_s = row.at("search_s");
        result.stopped = row.at("stopped");
        result.optimal = row.at("optimal");
        result.note = row.at("note");
        result.simulated_s = row.at("simulated_s");
        result.simulation_note = row.at("simulation_note");
        record.planners.push_back(std::move(result));
      }
      records[record.id] = std::move(record);
    } catch (const nlohmann::json::exception&) {
      continue;
    }
  }
  return records;
}

}  // namespace nest::paper
