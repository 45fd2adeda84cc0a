#include <nlohmann/json.hpp>

#include "accuracy/report.h"

namespace nest::accuracy {
namespace {

using Json = nlohmann::ordered_json;  // members stay in the order they were added

constexpr std::size_t kWorstOfSet = 20;
constexpr std::size_t kWorstOfSource = 5;

Json left_out(const Set& set, const std::string& source) {
  Json list = Json::array();
  for (const auto& [reason, rows] : reasons_of(set, source)) list.push_back({{"reason", reason}, {"rows", rows}});
  return list;
}

void add_errors(Json& into, const Errors& errors) {
  const bool any = errors.count > 0;
  into["mean_abs_error"] = any ? Json(errors.mean_absolute) : Json();
  into["median_abs_error"] = any ? Json(errors.median_absolute) : Json();
  into["bias"] = any ? Json(errors.bias) : Json();
}

Json reading_json(const Reading& reading) {
  Json json = {{"id", reading.id},
               {"source", reading.source},
               {"predicted", reading.point.predicted},
               {"measured", reading.point.measured},
               {"error", reading.point.error()}};
  if (!reading.note.empty()) json["note"] = reading.note;
  const RunFacts& run = reading.run;
  if (run.file.empty()) return json;
  json["file"] = run.file;
  if (!run.release.empty()) json["release"] = run.release;
  json["device"] = run.device;
  if (!run.ab_group.empty()) json["ab"] = {{"group", run.ab_group}, {"change", run.ab_change}};
  if (!run.not_expressed.empty()) json["not_expressed"] = run.not_expressed;
  json["fits"] = run.fits;
  json["over"] = run.over;
  return json;
}

Json worst(const Set& set, std::size_t at_most, const std::string& source) {
  Json list = Json::array();
  for (const Reading* reading :
       worst_of(set, at_most, [&](const Reading& r) { return source.empty() || r.source == source; })) {
    list.push_back(reading_json(*reading));
  }
  return list;
}

Json source_json(const Set& set, const std::string& source) {
  const auto here = [&](const Reading& reading) { return reading.source == source; };
  const Errors errors = errors_of(set, here);
  std::size_t dropped = 0;
  for (const LeftOut& row : set.left_out) dropped += row.source == source ? 1 : 0;
  Json json = {{"source", source},
               {"rows", errors.count + dropped},
               {"used", errors.count},
               {"left_out", left_out(set, source)}};
  add_errors(json, errors);
  const Errors strict = errors_of(set, [&](const Reading& reading) { return here(reading) && reading.strict; });
  if (strict.count != errors.count) {
    json["strict"] = {{"used", strict.count}};
    add_errors(json["strict"], strict);
  }
  json["worst"] = worst(set, kWorstOfSource, source);
  return json;
}

Json set_json(const Set& set) {
  Json json = {{"name", set.name}, {"title", set.title},          {"unit", set.unit},
               {"rows", set.rows}, {"used", set.readings.size()}, {"left_out", left_out(set, {})}};
  add_errors(json, errors_of(set));
  json["worst"] = worst(set, kWorstOfSet, {});
  json["sources"] = Json::array();
  for (const std::string& source : sources_of(set)) json["sources"].push_back(source_json(set, source));
  return json;
}

Json readings_json(const Set& set) {
  Json list = Json::array();
  for (const Reading& reading : set.readings) {
    Json json = reading_json(reading);
    json["strict"] = reading.strict;
    json["moe"] = reading.moe;
    list.push_back(std::move(json));
  }
  return list;
}

Json errors_json(const Errors& errors) {
  Json json = {{"used", errors.count}};
  add_errors(json, errors);
  return json;
}

Json refusals_json(const Refusals& file) {
  Json json = {{"file", file.file.empty() ? "all" : file.file},
               {"strict", {{"runs", file.strict}, {"refused", file.strict_refused}, {"share", file.strict_share()}}},
               {"all", {{"runs", file.all}, {"refused", file.all_refused}, {"share", file.share()}}}};
  json["refused"] = Json::array();
  for (const RefusedRun& run : file.runs)
    json["refused"].push_back({{"id", run.id}, {"over", run.over}, {"strict", run.strict}});
  return json;
}

void add_runs(const Summary& summary, Json& root) {
  root["files"] = Json::array();
  for (const FilePart& file : summary.files) {
    Json json = errors_json(file.part.errors);
    json["file"] = file.file;
    json["part"] = file.part.name;
    root["files"].push_back(std::move(json));
  }
  root["refused"] = Json::array();
  for (const Refusals& file : summary.refusals) root["refused"].push_back(refusals_json(file));
  root["ratios"] = Json::array();
  for (const Ratio& ratio : summary.ratios) {
    root["ratios"].push_back({{"group", ratio.group},
                              {"of", ratio.quantity},
                              {"from", ratio.from},
                              {"to", ratio.to},
                              {"measured", ratio.point.measured},
                              {"predicted", ratio.point.predicted},
                              {"strict", ratio.strict}});
  }
  root["slices"] = Json::array();
  for (const Slice& slice : summary.slices) {
    root["slices"].push_back({{"release", slice.release},
                              {"device", slice.device},
                              {"dense", errors_json(slice.dense)},
                              {"mixtures", errors_json(slice.mixtures)}});
  }
  root["not_expressed"] = Json::array();
  for (const Unexpressed& one : summary.not_expressed)
    root["not_expressed"].push_back({{"name", one.name}, {"runs", one.runs}});
}

}  // namespace

std::string to_json(const std::vector<Set>& sets, const Summary& summary, const std::string& data) {
  Json root = {{"schema", "nest.accuracy/1"}, {"data", data}};
  root["sets"] = Json::array();
  for (const Set& set : sets) root["sets"].push_back(set_json(set));
  root["marks"] = Json::array();
  for (const Mark& mark : summary.marks) {
    root["marks"].push_back({{"what", mark.what},
                             {"measure", mark.measure},
                             {"rows", mark.rows},
                             {"aim", mark.aim},
                             {"reached", mark.reached},
                             {"met", mark.met()}});
  }
  root["published_parts"] = Json::array();
  for (const Part& part : summary.parts) {
    Json json = {{"part", part.name}, {"used", part.errors.count}};
    add_errors(json, part.errors);
    root["published_parts"].push_back(std::move(json));
  }
  root["rank"] = Json::array();
  for (const Sweep& sweep : summary.sweeps) {
    root["rank"].push_back({{"source", sweep.source},
                            {"kendall", sweep.all.tau},
                            {"pairs", sweep.all.pairs},
                            {"kendall_apart", sweep.apart.tau},
                            {"pairs_apart", sweep.apart.pairs},
                            {"apart", kApart}});
  }
  const Surprises& surprises = summary.surprises;
  root["out_of_memory_surprises"] = {{"readings", surprises.readings},
                                     {"surprises", surprises.surprises},
                                     {"lowest_margin", surprises.lowest_margin},
                                     {"highest_margin", surprises.highest_margin},
                                     {"largest_excess", surprises.largest_excess}};
  add_runs(summary, root);
  root["readings"] = Json::object();
  for (const Set& set : sets) root["readings"][set.name] = readings_json(set);
  // Names in rows that are not UTF-8 are written with U+FFFD.
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace nest::accuracy
