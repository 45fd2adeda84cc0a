// Many questions at once: a study names axes, every combination of their values is a point, every point is planned as
// find_plan() would plan it, and what comes out is kept in an SQLite database as it comes.
//
//   const Study study = read_study("study.yaml");
//   SweepOptions options;
//   options.database = "study.sqlite";
//   run_sweep(study, options);                       // goes on where an earlier run was stopped
//   std::cout << to_text(read_results(study, "study.sqlite"));
//
// A study file (docs/sweep.md):
//
//   study: fabrics                      # names the table; default: the file's name
//   model: llama3-70b                   # what is the same for all points
//   axes:
//     devices: {from: 64, to: 1024, times: 2}
//     cluster: [dgx-h100, dgx-b200]
//     price: [2.5, 4]
//   zip: [[cluster, price]]             # axes that advance together
//   where: [devices >= 128]             # of all combinations these only
//
// The number of a point is its place among all combinations, the last axis changing fastest, those left out by `where`
// included: it depends on nothing but the study. Points that differ only in price or tokens share one search.
// Results depend neither on the number of threads nor on how often a run was stopped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nest/input.h"
#include "nest/report.h"
#include "nest/style.h"

namespace nest {

inline constexpr std::int64_t kMostSweepPoints = 1'000'000;

// Whether this nest was built with SQLite; without, everything below that names a database throws InputError.
bool sweeps_are_built();

struct SweepValue {
  std::string text;              // as it was written
  std::optional<double> number;  // where it is one, in base units: bytes, bytes per second, seconds, operations per s
  bool is_plain = false;         // it was written as a number, or as true or false
};

struct SweepAxis {
  std::string name;
  std::vector<SweepValue> values;
};

struct SweepSetting {
  std::string name;
  SweepValue value;
};

struct SweepCondition {
  std::string left, comparison, right;  // names of axes or of fixed values, or numbers and words; "<" "<=" …
};

struct SweepFile {
  std::string path;
  std::string text;
};

struct Study {
  std::string name;
  std::string description;
  std::string source;                         // the file, for messages
  std::string text;                           // what it held
  std::vector<SweepSetting> fixed;            // sorted by name
  std::vector<SweepAxis> axes;                // in their order
  std::vector<std::vector<std::size_t>> zip;  // indices of axes that advance together
  std::vector<SweepCondition> where;
  std::vector<std::int64_t> points;  // the numbers of those that are planned, ascending
  // Models, clusters, stacks and profiles that it names, as they were when it was read: whatever becomes of the files, all
  // points are planned with these.
  std::vector<SweepFile> files;
  std::string definition;  // all of it that decides results, as JSON: what a database is compared by

  // Of every axis, the index of the point's value.
  std::vector<std::size_t> choice(std::int64_t point) const;
  // The value of an axis or a fixed value at a point; nothing where the study does not say.
  const SweepValue* value(std::int64_t point, std::string_view name) const;
};

// Throws InputError for anything that no point could be planned with: an axis that does not exist, a value that cannot
// be, a model, cluster or stack that is not there, a value that is given twice, more than kMostSweepPoints points.
// Files named in the study lie beside it, or where the program runs.
Study read_study(const Input& file);

struct SweepProgress {
  std::int64_t points = 0;  // of the shard
  std::int64_t before = 0;  // were there when this run began
  std::int64_t done = 0;    // with those of before
  std::int64_t plans = 0;   // of those done in this run, have a plan
  double elapsed_s = 0;     // of this run
  double left_s = 0;        // expected; 0: not known yet
};

struct SweepOptions {
  std::string database = {};
  // Of `shards` parts the one with this number, counted from 0 or from 1 (the last is then 0 again). Points that share
  // a search stay together.
  std::int64_t shard = 0;
  std::int64_t shards = 1;
  std::int64_t threads = 0;                                 // 0: one per core
  const std::atomic<bool>* stop = nullptr;                  // becomes true: what is being planned is dropped
  std::function<void(const SweepProgress&)> progress = {};  // called by the calling thread, a few times a second
};

struct SweepRun {
  SweepProgress progress;
  double planning_s = 0;  // seconds that threads spent in find_plan()
  bool stopped = false;   // before all points of the shard were there
};

// Throws InputError where the database cannot be opened, is locked, holds another study of that name, or where the disk is
// full; what was stored before stays.
SweepRun run_sweep(const Study& study, const SweepOptions& options);

enum class SweepOutcome : std::uint8_t {
  plan,     // proven
  limit,    // the study's time limit was reached; there may be a plan
  no_plan,  // proven that nothing fits
  refused,  // there is no such job: the cluster does not come in that size, the framework runs no such plan, …
};
std::string_view to_string(SweepOutcome outcome);

struct SweepResult {
  std::int64_t point = 0;
  SweepOutcome outcome = SweepOutcome::plan;
  bool has_plan = false;
  std::string reason;    // why there is no plan
  std::string strategy;  // "tp=2 sp pp=4 …"
  double step_s = 0, low_s = 0, high_s = 0;
  double lower_bound_s = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_device = 0;
  double mfu = 0;
  std::int64_t devices_used = 0;
  std::int64_t memory_bytes = 0;                   // that the fullest device needs
  double device_hours_per_gtoken = 0;              // of the devices used, for a billion tokens
  std::optional<double> cost_per_gtoken;           // at the point's price
  std::optional<double> days, device_hours, cost;  // for the point's tokens
};

struct SweepResults {
  Study study;
  std::string database;
  std::vector<SweepResult> points;  // those that are there, ascending
};

// Throws InputError where the database does not hold the study.
SweepResults read_results(const Study& study, const std::string& database);

// A point's plan (nest.plan/3), empty where it has none. Throws InputError.
std::string read_sweep_plan(const SweepResults& results, std::int64_t point);

struct SweepMerge {
  std::string study;
  std::int64_t points = 0;  // of the study
  std::int64_t merged = 0;  // that are in the output
  std::int64_t twice = 0;   // were in several databases, equal
};

// Databases of one study into one. What is in `output` already counts as one of them. Throws InputError where they are
// of different studies or disagree; `output` is then as it was.
std::vector<SweepMerge> merge_sweeps(const std::vector<std::string>& databases, const std::string& output);

// The points of a front: nobody is faster and costs less. Costs are money where all points have a price, device-hours
// where not. Only points that train the same (model, sequence, …) are compared. Ascending by number.
std::vector<std::int64_t> pareto_front(const SweepResults& results);

std::string to_text(const SweepResults& results, const Style& style = Style());
std::string to_json(const SweepResults& results);  // nest.sweep/1, without plans
std::string to_csv(const SweepResults& results);
// One object per point, with its plan; `write` gets them line by line.
void to_json_lines(const SweepResults& results, const std::function<void(std::string_view)>& write);
// Curves, heat maps, fronts and all points, each with its plan, on one page that needs nothing else.
std::string to_html(const SweepResults& results, const ReportOptions& options = {});

// A job array for Slurm: `sbatch FILE` runs the shards, `bash FILE` submits them and the merge that waits for them.
struct SweepArray {
  std::string study;     // the file
  std::string database;  // of the whole; shards lie beside it
  std::int64_t shards = 1;
  std::int64_t threads = 0;  // per task; 0: as many as the job is given
  std::string program = "nest";
};
std::string sweep_sbatch(const Study& study, const SweepArray& array);

}  // namespace nest
