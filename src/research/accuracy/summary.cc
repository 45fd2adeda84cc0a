#include "accuracy/summary.h"

#include <algorithm>
#include <limits>

#include "nest/interval.h"

namespace nest::accuracy {
namespace {

using Wanted = std::function<bool(const Reading&)>;

void add_errors(std::vector<Mark>& marks, const std::string& what, const Errors& errors, double mean,
                std::optional<double> median = {}, std::optional<double> bias = {}) {
  if (errors.count == 0) return;
  marks.push_back({what, "mean error", errors.count, mean, errors.mean_absolute});
  if (median) marks.push_back({what, "median error", errors.count, *median, errors.median_absolute});
  if (bias) marks.push_back({what, "bias", errors.count, *bias, errors.bias});
}

bool in_sweep(const std::string& source) {
  return source == "bloom" || source == "mpt" || source == "internevo" || source == "dgxc";
}

std::vector<Sweep> sweeps_of(const Set& set) {
  // Enough runs that their order says something.
  constexpr std::size_t kSweepRows = 8;
  std::vector<Sweep> sweeps;
  for (const std::string& source : sources_of(set)) {
    const auto points =
        points_of(set, [&](const Reading& reading) { return reading.strict && reading.source == source; });
    if (points.size() < kSweepRows && !(in_sweep(source) && points.size() > 1)) continue;
    sweeps.push_back({source, kendall(points), kendall(points, kApart)});
  }
  return sweeps;
}

std::vector<Part> parts_of(const Set& set) {
  const auto part = [&](const char* name, const Wanted& wanted) { return Part{name, errors_of(set, wanted)}; };
  std::vector<Part> parts = {
      part("all", [](const Reading&) { return true; }),
      part("strict", [](const Reading& r) { return r.strict; }),
      part("strict, dense", [](const Reading& r) { return r.strict && !r.moe; }),
      part("strict, mixture of experts", [](const Reading& r) { return r.strict && r.moe; }),
      part("incomplete", [](const Reading& r) { return !r.strict; }),
      part("incomplete, dense", [](const Reading& r) { return !r.strict && !r.moe; }),
      part("incomplete, mixture of experts", [](const Reading& r) { return !r.strict && r.moe; }),
  };
  std::erase_if(parts, [](const Part& one) { return one.errors.count == 0; });
  return parts;
}

Surprises surprises_of(const std::vector<const Set*>& sets) {
  Surprises result;
  result.lowest_margin = std::numeric_limits<double>::max();
  for (const Set* set : sets) {
    if (!set) continue;
    for (const Reading& reading : set->readings) {
      const double excess = reading.point.measured / reading.point.predicted - 1;
      ++result.readings;
      if (excess > reading.margin) ++result.surprises;
      result.lowest_margin = std::min(result.lowest_margin, reading.margin);
      result.highest_margin = std::max(result.highest_margin, reading.margin);
      result.largest_excess = std::max(result.largest_excess, excess);
    }
  }
  if (result.readings == 0) result.lowest_margin = 0;
  return result;
}

// Peaks of live tensors that the allocator itself counted.
bool is_exact(const Reading& reading) {
  return reading.source.ends_with(" allocated") &&
         (reading.source.starts_with("simumax") || reading.source.starts_with("mlm "));
}

void add_memory_marks(const std::vector<Set>& sets, std::vector<Mark>& marks) {
  std::vector<Point> exact;
  std::vector<Point> all;
  if (const Set* steps = find_set(sets, "step_memory")) exact = points_of(*steps, [](const Reading&) { return true; });
  if (const Set* published = find_set(sets, "published_memory")) {
    const auto counted = points_of(*published, is_exact);
    exact.insert(exact.end(), counted.begin(), counted.end());
    all = points_of(*published, [](const Reading&) { return true; });
  }
  add_errors(marks, "peak memory, where the allocator counted it", errors_of(exact), 0.005);
  add_errors(marks, "peak memory, all published readings", errors_of(all), 0.02);
  for (const char* name : {"layer_saved", "huggingface_saved"}) {
    if (const Set* set = find_set(sets, name)) add_errors(marks, set->title, errors_of(*set), 0.03);
  }
}

}  // namespace

const Set* find_set(const std::vector<Set>& sets, const std::string& name) {
  const auto found = std::find_if(sets.begin(), sets.end(), [&](const Set& set) { return set.name == name; });
  return found == sets.end() ? nullptr : &*found;
}

Summary summarise(const std::vector<Set>& sets) {
  Summary summary;
  if (const Set* set = find_set(sets, "published_time")) {
    summary.parts = parts_of(*set);
    summary.sweeps = sweeps_of(*set);
    add_errors(summary.marks, "published runs, complete and trusted",
               errors_of(*set, [](const Reading& r) { return r.strict; }), 0.035, 0.025, 0.015);
    add_errors(summary.marks, "of these, mixtures of experts",
               errors_of(*set, [](const Reading& r) { return r.strict && r.moe; }), 0.08, 0.05);
    add_errors(summary.marks, "of these, dense models",
               errors_of(*set, [](const Reading& r) { return r.strict && !r.moe; }), 0.05);
  }
  summarise_runs(sets, summary);
  if (const Set* set = find_set(sets, "published_time")) {
    summary.error_bars = judge_error_bars(*set);
    summary.unseen = judge_unseen(unseen_rows(*set));
    if (summary.unseen.sources.size() > 1) {
      summary.marks.push_back({"strict runs, their source left out", "mean error", summary.unseen.all.count, 0.05,
                               summary.unseen.all.mean_absolute});
    }
    for (const Coverage& one : summary.error_bars.coverage) {
      if (one.share != kToldShare || one.strict_rows == 0) continue;
      summary.marks.push_back({"80 % intervals of strict runs, their source left out", "coverage - 80 %",
                               one.strict_rows, 0.05, one.strict - one.share});
    }
  }
  for (const auto& [name, aim] : {std::pair{"vtrain_single", 0.06},
                                  {"vtrain_multi", 0.09},
                                  {"step_time", 0.05},
                                  {"operators", 0.04},
                                  {"layer_time", 0.04}}) {
    if (const Set* set = find_set(sets, name)) add_errors(summary.marks, set->title, errors_of(*set), aim);
  }
  for (const char* name : {"step_time", "layer_time"}) {
    const Set* set = find_set(sets, name);
    if (set == nullptr) continue;
    double worst = 0;
    for (const std::string& family : sources_of(*set)) {
      worst = std::max(worst, errors_of(*set, [&](const Reading& r) { return r.source == family; }).mean_absolute);
    }
    summary.marks.push_back({set->title + ", worst family", "mean error", set->readings.size(), 0.05, worst});
  }
  add_memory_marks(sets, summary.marks);
  for (const Sweep& sweep : summary.sweeps) {
    summary.marks.push_back({"order of the " + sweep.source + " runs more than 5 % apart", "rank correlation",
                             sweep.apart.pairs, 0.95, sweep.apart.tau, true, false});
  }
  if (const Set* set = find_set(sets, "parameter_counts")) add_errors(summary.marks, set->title, errors_of(*set), 0);
  summary.surprises = surprises_of({find_set(sets, "published_memory"), find_set(sets, "step_memory")});
  return summary;
}

}  // namespace nest::accuracy
