// What the published runs say beside their errors: which of them are refused, what one change does, and what of their
// settings is not expressed.
#include <algorithm>
#include <map>
#include <set>

#include "accuracy/summary.h"

namespace nest::accuracy {
namespace {

std::vector<std::string> files_of(const Set& set) {
  std::set<std::string> files;
  for (const Reading& reading : set.readings) files.insert(reading.run.file);
  return {files.begin(), files.end()};
}

std::vector<FilePart> file_parts(const Set& set) {
  std::vector<FilePart> parts;
  for (const std::string& file : files_of(set)) {
    for (const bool strict : {true, false}) {
      for (const bool moe : {true, false}) {
        const Errors errors =
            errors_of(set, [&](const Reading& r) { return r.run.file == file && r.strict == strict && r.moe == moe; });
        if (errors.count == 0) continue;
        const std::string name =
            std::string(strict ? "strict" : "incomplete") + (moe ? ", mixture of experts" : ", dense");
        parts.push_back({file, {name, errors}});
      }
    }
  }
  return parts;
}

Refusals refusals_of(const Set& set, const std::string& file) {
  Refusals result;
  result.file = file;
  for (const Reading& reading : set.readings) {
    if (!file.empty() && reading.run.file != file) continue;
    ++result.all;
    result.strict += reading.strict ? 1 : 0;
    if (reading.run.fits) continue;
    ++result.all_refused;
    result.strict_refused += reading.strict ? 1 : 0;
    result.runs.push_back({reading.id, reading.run.over, reading.strict});
  }
  std::stable_sort(result.runs.begin(), result.runs.end(),
                   [](const RefusedRun& a, const RefusedRun& b) { return a.over > b.over; });
  return result;
}

// Every run of a group against the first of it.
void add_ratios(const Set* set, const std::string& quantity, std::vector<Ratio>& ratios) {
  if (set == nullptr) return;
  std::map<std::string, const Reading*> first;
  for (const Reading& reading : set->readings) {
    const RunFacts& run = reading.run;
    if (run.ab_group.empty()) continue;
    const auto [place, fresh] = first.try_emplace(run.ab_group, &reading);
    if (fresh) continue;
    const Reading& base = *place->second;
    ratios.push_back({run.ab_group,
                      quantity,
                      base.run.ab_change,
                      run.ab_change,
                      {reading.point.predicted / base.point.predicted, reading.point.measured / base.point.measured},
                      base.strict && reading.strict});
  }
}

std::vector<Slice> slices_of(const Set& set) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const Reading& reading : set.readings) {
    if (!reading.strict) continue;
    seen.emplace("", reading.run.device);
    if (!reading.run.release.empty()) seen.emplace(reading.run.release, reading.run.device);
  }
  std::vector<Slice> slices;
  for (const auto& [release, device] : seen) {
    const auto errors = [&](bool moe) {
      return errors_of(set, [&](const Reading& r) {
        return r.strict && r.moe == moe && r.run.device == device && (release.empty() || r.run.release == release);
      });
    };
    slices.push_back({release, device, errors(false), errors(true)});
  }
  return slices;
}

std::vector<Unexpressed> not_expressed_in(const Set& set) {
  std::map<std::string, std::size_t> counts;
  for (const Reading& reading : set.readings) {
    const auto& names = reading.run.not_expressed;
    for (const std::string& name : std::set<std::string>(names.begin(), names.end())) ++counts[name];
  }
  std::vector<Unexpressed> list;
  for (const auto& [name, runs] : counts) list.push_back({name, runs});
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.runs > b.runs; });
  return list;
}

}  // namespace

void summarise_runs(const std::vector<Set>& sets, Summary& summary) {
  const Set* time = find_set(sets, "published_time");
  if (time == nullptr) return;
  summary.files = file_parts(*time);
  for (const std::string& file : files_of(*time)) summary.refusals.push_back(refusals_of(*time, file));
  if (summary.refusals.size() > 1) summary.refusals.push_back(refusals_of(*time, {}));
  add_ratios(time, "time", summary.ratios);
  add_ratios(find_set(sets, "published_memory"), "memory", summary.ratios);
  summary.slices = slices_of(*time);
  summary.not_expressed = not_expressed_in(*time);
  // A planner that refuses what runs finds the second-best plan.
  constexpr double kRefusedAim = 0.05;
  for (const Refusals& refusals : summary.refusals) {
    if (refusals.strict == 0) continue;
    summary.marks.push_back({"runs that ran and are refused" + (refusals.file.empty() ? "" : ", " + refusals.file),
                             "share", refusals.strict, kRefusedAim, refusals.strict_share()});
  }
}

}  // namespace nest::accuracy
