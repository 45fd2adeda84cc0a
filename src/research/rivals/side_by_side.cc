#include "rivals/side_by_side.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/index.h"
#include "rivals/settle.h"

namespace nest::rivals {
namespace {

PlannerRun run_own(const RivalRequest& request) {
  search::PlanRequest own;
  own.job = request.job;
  own.limits = request.limits;
  own.most_devices = request.most_devices;
  own.search.threads = 1;
  own.search.stop = request.stop;
  if (request.time_limit_s > 0) own.search.time_limit_s = request.time_limit_s;
  search::PlanAnswer answer = search::make_plan(own);
  PlannerRun run{kOwnPlanner, "the fastest plan of the whole space, and the proof", "this program", {}, {}};
  if (!answer.plans.empty()) run.plan = std::move(answer.plans.front());
  run.optimal = answer.outcome == PlanOutcome::optimal;
  run.lower_bound_s = answer.lower_bound;
  run.considered = real(answer.leaves);
  run.keys = answer.keys;
  run.opened = answer.opened;
  run.wall_s = answer.wall_s;
  run.stopped = answer.outcome == PlanOutcome::limit;
  run.none_fits = answer.outcome == PlanOutcome::no_plan;
  if (run.stopped) run.note = kStopped;
  if (run.none_fits) run.note = "proven: no plan fits in memory";
  return run;
}

}  // namespace

std::vector<std::string> planner_names() {
  std::vector<std::string> names{kOwnPlanner};
  for (const Rival& rival : rivals()) names.emplace_back(rival.name);
  return names;
}

PlannerRun run_planner(const std::string& name, const RivalRequest& request) {
  if (name == kOwnPlanner) return run_own(request);
  const Rival* rival = find_rival(name);
  NEST_CHECK(rival != nullptr, "planners are asked for by their names");
  RivalAnswer answer = rival->plan(request);
  PlannerRun run{rival->name, rival->idea, rival->source, std::move(answer.plan), std::move(answer.note)};
  run.stopped = answer.stopped;
  run.considered = real(answer.considered);
  run.wall_s = answer.wall_s;
  if (run.plan) {
    SearchRecord& record = run.plan->search.emplace();
    record.wall_s = run.wall_s;
    record.candidates = run.considered;
    record.planner = run.planner;
  }
  return run;
}

std::vector<PlannerRun> run_planners(const std::vector<std::string>& names, const RivalRequest& request, int threads,
                                     const std::function<void(const PlannerRun&)>& done) {
  const search::PlanSpace space(*request.job, request.limits, device_limit(request));
  search::refuse_empty(space, space.count_keys());
  std::vector<PlannerRun> runs(names.size());
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t k = next++; k < names.size(); k = next++) {
      try {
        runs[k] = run_planner(names[k], request);
        const std::lock_guard lock(mutex);
        if (done) done(runs[k]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = names.size();
      }
    }
  };
  std::vector<std::thread> others;
  const std::size_t wanted = std::min(names.size(), at(std::max(1, threads)));
  for (std::size_t k = 1; k < wanted; ++k) {
    try {
      others.emplace_back(work);
    } catch (const std::exception&) {
      break;  // no more threads are to be had, or no memory for them: fewer do
    }
  }
  work();
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
  return runs;
}

}  // namespace nest::rivals
