#include "nest/sweep.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "door/job_data.h"
#include "door/option_checks.h"
#include "load/input.h"
#include "nest/interval.h"
#include "nest/job.h"
#include "nest/option.h"
#include "nest/range.h"
#include "nest/search.h"
#include "nest/version.h"
#include "plan/plan_json.h"
#include "plan/strategy_text.h"
#include "report/plan_report.h"
#include "search/workers.h"
#include "sweep/point.h"
#include "sweep/store.h"
#include "sweep/study.h"

namespace nest {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{200};
constexpr double kGigatoken = 1e9;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// What would be missing on the closest plan, in one line.
std::string misfit_reason(const Answer& answer) {
  if (!answer.no_fit || !answer.no_fit->closest) return "no plan fits: not one stage can be placed";
  const NoFit::Closest& closest = *answer.no_fit->closest;
  const std::int64_t room = answer.job.device_memory_bytes();
  return fmt::format("no plan fits: the closest ({}) needs {} of {} on stage {}",
                     plan::strategy_text(closest.plan.strategy), format_bytes(closest.needed_bytes), format_bytes(room),
                     closest.stage);
}

// The plan as it is kept: all but the time that finding it took, which is another every time.
std::string kept_plan(Plan plan) {
  if (plan.search) plan.search->wall_s = 0;
  return plan::plan_to_json(plan).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

sweep::StoredPoint stored_answer(const Answer& answer) {
  sweep::StoredPoint point;
  SweepResult& r = point.result;
  r.outcome = answer.outcome == PlanOutcome::optimal   ? SweepOutcome::plan
              : answer.outcome == PlanOutcome::no_plan ? SweepOutcome::no_plan
                                                       : SweepOutcome::limit;
  if (answer.plans.empty()) {
    r.reason = r.outcome == SweepOutcome::no_plan ? misfit_reason(answer) : "no plan was found within the time limit";
    return point;
  }
  const Plan& plan = answer.plans.front();
  const Prediction& expected = plan.expected();
  const Interval around = interval(expected.iteration_s, expected.spread);
  if (r.outcome == SweepOutcome::limit) r.reason = "the best within the time limit; not proven";
  r.has_plan = true;
  r.strategy = plan::strategy_text(plan.strategy);
  r.step_s = expected.iteration_s;
  r.low_s = around.low;
  r.high_s = around.high;
  r.lower_bound_s = plan.search ? plan.search->lower_bound_s : 0;
  r.tokens_per_s = expected.samples_per_s * static_cast<double>(plan.run.sequence);
  r.tokens_per_s_per_device = expected.tokens_per_s_per_device;
  r.mfu = expected.mfu;
  r.devices_used = plan.strategy.devices_used();
  r.memory_bytes = plan.stages[plan.fullest_stage()].memory.needed;
  r.device_hours_per_gtoken = kGigatoken / r.tokens_per_s / 3600 * static_cast<double>(r.devices_used);
  point.plan = kept_plan(plan);
  return point;
}

// What price and tokens add to a point's answer.
void add_totals(const sweep::PointQuestion& asked, const Answer* answer, SweepResult& r) {
  if (!r.has_plan || answer == nullptr) return;
  if (asked.price > 0) r.cost_per_gtoken = r.device_hours_per_gtoken * asked.price;
  if (asked.tokens <= 0) return;
  report::PlanReport report;
  report.plan = answer->plans.front();
  report.tokens = asked.tokens;
  report.price_per_device_hour = asked.price;
  const report::TrainingTotals totals = report::training_totals(report);
  r.days = totals.seconds / 86400;
  r.device_hours = totals.device_hours;
  if (asked.price > 0) r.cost = totals.price;
}

// Plans the groups of points on several threads, and hands over what is done in the order in which it is.
class Planners {
 public:
  Planners(const Study& study, std::vector<std::vector<std::int64_t>> groups, int threads,
           const std::atomic<bool>* stop)
      : questions_(study), groups_(std::move(groups)), cores_(threads), stop_(stop) {
    const std::size_t workers = std::min<std::size_t>(static_cast<std::size_t>(threads), groups_.size());
    left_ = groups_.size();
    for (std::size_t k = 0; k < workers && add_worker(); ++k) {}
  }
  ~Planners() {
    halt_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }
  Planners(const Planners&) = delete;
  Planners& operator=(const Planners&) = delete;

  // What was done since the last call, waiting for a tick at most. False: nothing is left and nothing will come.
  bool take(std::vector<sweep::StoredPoint>& points) {
    const bool more = threads_.empty() && work_once();
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, kTick, [&] { return !done_.empty() || working_ == 0; });
    points.assign(std::make_move_iterator(done_.begin()), std::make_move_iterator(done_.end()));
    done_.clear();
    if (stop_ != nullptr && stop_->load()) halt_.store(true);
    if (working_ == 0 && failure_ && points.empty()) std::rethrow_exception(failure_);
    return more || working_ > 0 || !points.empty();
  }

  double planning_s() const { return planning_s_.load(); }

 private:
  // False: no more threads are to be had. Fewer do, and without any the caller of take() works itself.
  bool add_worker() {
    {
      const std::scoped_lock lock(mutex_);
      ++working_;
    }
    try {
      threads_.emplace_back([this] { work(); });
      return true;
    } catch (const std::exception&) {
      const std::scoped_lock lock(mutex_);
      --working_;
      return false;
    }
  }

  // Plans the next group. False: none is left, or something stopped it all.
  bool work_once() {
    const std::size_t index = next_.fetch_add(1);
    if (index >= groups_.size() || halt_.load()) return false;
    try {
      std::vector<sweep::StoredPoint> points = plan_group(groups_[index]);
      const std::scoped_lock lock(mutex_);
      --left_;
      for (sweep::StoredPoint& point : points) done_.push_back(std::move(point));
    } catch (...) {
      halt_.store(true);
      const std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    ready_.notify_one();
    return true;
  }

  void work() {
    while (work_once()) {}
    const std::scoped_lock lock(mutex_);
    --working_;
    ready_.notify_one();
  }

  // The last searches share the cores that nobody needs any more.
  std::int64_t threads_now() {
    const std::scoped_lock lock(mutex_);
    return std::max<std::int64_t>(1, cores_ / static_cast<std::int64_t>(std::max<std::size_t>(1, left_)));
  }

  // Nothing where the search was stopped: the point is open.
  std::vector<sweep::StoredPoint> plan_group(const std::vector<std::int64_t>& group) {
    sweep::StoredPoint common;
    double search_s = 0;
    std::optional<Answer> answer;
    try {
      sweep::PointQuestion asked = questions_.at(group.front());
      asked.options.stop = &halt_;
      asked.options.threads = threads_now();
      const TrainingJob job = read_job(for_target(asked.question, asked.options.target));
      const Clock::time_point search = Clock::now();
      answer = find_plan(job, asked.options);
      search_s = seconds_since(search);
      // As fetch_add() does, which libc++ has for whole numbers only.
      for (double sum = planning_s_.load(); !planning_s_.compare_exchange_weak(sum, sum + search_s);) {}
      if (halt_.load()) return {};
      common = stored_answer(*answer);
    } catch (const InputError& error) {
      common = {};
      common.result.outcome = SweepOutcome::refused;
      common.result.reason = flag_options(error.marked());
    }
    common.wall_s = search_s;
    std::vector<sweep::StoredPoint> points;
    for (const std::int64_t number : group) {
      sweep::StoredPoint point = common;
      point.result.point = number;
      add_totals(questions_.at(number), answer ? &*answer : nullptr, point.result);
      points.push_back(std::move(point));
      common.wall_s = 0;
    }
    return points;
  }

  sweep::Questions questions_;
  std::vector<std::vector<std::int64_t>> groups_;
  std::int64_t cores_;
  const std::atomic<bool>* stop_;
  std::atomic<bool> halt_{false};
  std::atomic<std::size_t> next_{0};
  std::atomic<double> planning_s_{0};
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<sweep::StoredPoint> done_;
  std::size_t left_ = 0, working_ = 0;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

// The groups of a shard, without the points that are there.
std::vector<std::vector<std::int64_t>> open_groups(const Study& study, const SweepOptions& options,
                                                   const std::set<std::int64_t>& there, SweepProgress& progress) {
  std::vector<std::vector<std::int64_t>> open;
  std::int64_t number = 0;
  for (std::vector<std::int64_t>& group : sweep::group_points(study)) {
    if (number++ % options.shards != options.shard % options.shards) continue;
    progress.points += static_cast<std::int64_t>(group.size());
    const auto is_there = [&](std::int64_t point) { return there.contains(point); };
    const auto end = std::remove_if(group.begin(), group.end(), is_there);
    progress.before += group.end() - end;
    group.erase(end, group.end());
    if (!group.empty()) open.push_back(std::move(group));
  }
  progress.done = progress.before;
  return open;
}

void tell(const SweepOptions& options, SweepProgress& progress, Clock::time_point start) {
  progress.elapsed_s = seconds_since(start);
  const std::int64_t now = progress.done - progress.before;
  if (now > 0) {
    progress.left_s =
        progress.elapsed_s / static_cast<double>(now) * static_cast<double>(progress.points - progress.done);
  }
  if (options.progress) options.progress(progress);
}

}  // namespace

bool sweeps_are_built() {
#ifdef NEST_SQLITE
  return true;
#else
  return false;
#endif
}

Study read_study(const Input& file) {
  const std::string source = load::source_name(file);
  Study study = sweep::read_study(doc::parse_yaml(source, load::read_text(file)), load::file_stem(file.name));
  const auto check_targets = [&](const std::string& name, const SweepValue& value) {
    if (name == "target") require_word(source + ": target", value.text, plan_targets());
  };
  for (const SweepSetting& setting : study.fixed) check_targets(setting.name, setting.value);
  for (const SweepAxis& axis : study.axes) {
    for (const SweepValue& value : axis.values) check_targets(axis.name, value);
  }
  study.files = sweep::Questions(study).read_files();
  study.definition = sweep::definition_of(study, version(), sweep::Questions(study).check());
  return study;
}

SweepRun run_sweep(const Study& study, const SweepOptions& options) {
  require_given("threads", options.threads, kThreads);
  if (options.shards < 1 || options.shards > kMostSweepPoints || options.shard < 0 || options.shard > options.shards) {
    throw InputError(fmt::format("{}: {}/{} is no part of a whole; write for example 0/4 … 3/4, or 1/4 … 4/4",
                                 option("shard"), options.shard, options.shards));
  }
  const Clock::time_point start = Clock::now();
  sweep::Store store(options.database, sweep::Access::write);
  store.open_study(study, version());
  const std::vector<std::int64_t> numbers = store.point_numbers(study.name);
  SweepRun run;
  SweepProgress& progress = run.progress;
  Planners planners(study, open_groups(study, options, {numbers.begin(), numbers.end()}, progress),
                    search::thread_count(options.threads), options.stop);
  tell(options, progress, start);
  std::vector<sweep::StoredPoint> points;
  while (planners.take(points)) {
    if (!points.empty()) store.add(study, points);
    progress.done += static_cast<std::int64_t>(points.size());
    for (const sweep::StoredPoint& point : points) progress.plans += point.result.has_plan ? 1 : 0;
    tell(options, progress, start);
  }
  run.planning_s = planners.planning_s();
  run.stopped = progress.done < progress.points;
  return run;
}

SweepResults read_results(const Study& study, const std::string& database) {
  sweep::Store store(database, sweep::Access::read);
  store.require_study(study);
  return {study, database, store.results(study.name)};
}

std::string read_sweep_plan(const SweepResults& results, std::int64_t point) {
  return sweep::Store(results.database, sweep::Access::read).plan(results.study.name, point);
}

std::vector<SweepMerge> merge_sweeps(const std::vector<std::string>& databases, const std::string& output) {
  if (databases.empty()) throw InputError("nothing to merge: name the databases");
  // The whole is made beside the output and takes its name when it is complete.
  const std::filesystem::path beside = fmt::format("{}.{}-merge", output, ::getpid());
  std::vector<std::string> sources = databases;
  const bool exists = std::filesystem::exists(output);
  if (exists) sources.insert(sources.begin(), output);
  std::map<std::string, SweepMerge> merged;
  std::map<std::string, std::pair<std::string, std::string>> known;  // study -> definition, database
  for (const std::string& source : sources) {
    for (const sweep::StoredStudy& study : sweep::Store(source, sweep::Access::read).studies()) {
      const auto [place, is_new] = known.emplace(study.name, std::pair(study.definition, source));
      if (is_new) {
        merged[study.name] = {study.name, study.points, 0, 0};
        continue;
      }
      if (const std::string why = sweep::difference(place->second.first, study.definition); !why.empty()) {
        throw InputError(fmt::format("{}: its study {} is another than that of {}: {}", source, study.name,
                                     place->second.second, why));
      }
    }
  }
  if (known.empty()) throw InputError(fmt::format("{}: holds no study", sources.front()));
  try {
    sweep::Store store(beside.string(), sweep::Access::write);
    std::set<std::filesystem::path> seen;
    for (const std::string& source : sources) {
      if (!seen.insert(std::filesystem::weakly_canonical(source)).second) continue;
      for (const sweep::StoredStudy& study : sweep::Store(source, sweep::Access::read).studies()) {
        merged[study.name].twice += store.merge(source, study.name);
      }
    }
    for (auto& [name, merge] : merged) merge.merged = static_cast<std::int64_t>(store.point_numbers(name).size());
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw;
  }
  std::error_code failed;
  std::filesystem::rename(beside, output, failed);
  if (failed) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw InputError(fmt::format("{}: cannot be written: {}", output, failed.message()));
  }
  std::vector<SweepMerge> list;
  list.reserve(merged.size());
  for (auto& [name, merge] : merged) list.push_back(merge);
  return list;
}

}  // namespace nest
