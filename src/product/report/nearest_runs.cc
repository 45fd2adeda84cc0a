#include "report/nearest_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/layout.h"
#include "base/units.h"
#include "doc/reader.h"
#include "doc/value.h"
#include "preset_data/preset_data.h"

namespace nest::report {
namespace {

// Times as large or as small, told from half as much more on.
void add_times(double here, double there, const char* what, std::vector<std::string>& apart) {
  const double times = here / there;
  if (times > 1.5) apart.push_back(fmt::format("{:.2g} x the {}", times, what));
  if (times < 1 / 1.5) apart.push_back(fmt::format("1/{:.2g} of the {}", 1 / times, what));
}

NearRun near_run(const PlanReport& report, const PublishedTime& run) {
  const Plan& plan = report.plan;
  const auto devices = static_cast<double>(plan.strategy.devices_used());
  const auto parameters = static_cast<double>(plan.model.parameters);
  const auto sequence = static_cast<double>(plan.run.sequence);
  const auto& kinds = report.model.kinds;
  const bool experts =
      std::any_of(kinds.begin(), kinds.end(), [](const model::Layer& kind) { return kind.experts > 0; });
  const auto doublings = [](double a, double b) { return std::abs(std::log2(a / b)); };
  NearRun near;
  near.run = run;
  near.distance = doublings(parameters, run.parameters) + (doublings(devices, static_cast<double>(run.devices)) +
                                                           doublings(sequence, static_cast<double>(run.sequence))) /
                                                              2;
  if (!run.complete) near.distance += 0.5;
  std::vector<std::string> apart;
  const auto differs = [&](bool other, double distance, const std::string& what) {
    if (!other) return;
    near.distance += distance;
    apart.push_back(what);
  };
  differs(experts != run.experts, 3, experts ? "a mixture of experts" : "a dense model");
  differs(plan.cluster.device != run.device, 2, plan.cluster.device);
  differs(to_string(plan.run.precision) != run.precision, 1, to_string(plan.run.precision));
  differs(plan.run.stack != run.stack, 1, plan.run.stack);
  add_times(parameters, run.parameters, "parameters", apart);
  add_times(devices, static_cast<double>(run.devices), "devices", apart);
  add_times(sequence, static_cast<double>(run.sequence), "sequence", apart);
  near.apart = fmt::format("{}", fmt::join(apart, ", "));
  return near;
}

}  // namespace

std::vector<PublishedTime> read_runs(const Document& document) {
  std::vector<PublishedTime> runs;
  doc::Reader root(document);
  for (doc::Reader& row : root.objects("runs")) {
    PublishedTime run;
    run.id = row.text("id");
    run.source = row.text("source");
    run.device = row.text("device");
    run.devices = row.integer("devices", {1, 1 << 24});
    run.parameters = row.number("parameters", {1, 1e15});
    run.experts = row.flag_or("experts", false);
    run.complete = row.flag_or("complete", true);
    run.sequence = row.integer("sequence", {1, 0x1p31});
    run.precision = row.text("precision");
    run.stack = row.text("stack");
    run.measured_s = row.number("measured_s", {1e-9, 1e9});
    run.predicted_s = row.number("predicted_s", {1e-9, 1e9});
    row.refuse_unknown_keys();
    runs.push_back(std::move(run));
  }
  root.refuse_unknown_keys();
  return runs;
}

std::string write_runs(const std::vector<PublishedTime>& runs) {
  std::string text = "# Written by `make accuracy` from data/accuracy; do not edit.\nruns:\n";
  for (const PublishedTime& run : runs) {
    text += fmt::format("  - id: {}\n    source: {}\n", run.id, Json(run.source).dump());
    text += fmt::format("    device: {}\n    devices: {}\n    parameters: {:.0f}\n    experts: {}\n    complete: {}\n",
                        run.device, run.devices, run.parameters, run.experts, run.complete);
    text += fmt::format("    sequence: {}\n    precision: {}\n    stack: {}\n", run.sequence, run.precision, run.stack);
    text += fmt::format("    measured_s: {:.4g}\n    predicted_s: {:.4g}\n", run.measured_s, run.predicted_s);
  }
  return text;
}

const std::vector<PublishedTime>& published_runs() {
  static const std::vector<PublishedTime> kRuns = [] {
    const EmbeddedFile* file = embedded_file("runs", "published");
    return file == nullptr ? std::vector<PublishedTime>()
                           : read_runs(doc::parse_yaml("runs/published.yaml", std::string(file->text)));
  }();
  return kRuns;
}

std::vector<NearRun> nearest_runs(const PlanReport& report, std::size_t at_most) {
  std::vector<NearRun> list;
  for (const PublishedTime& run : published_runs()) list.push_back(near_run(report, run));
  std::stable_sort(list.begin(), list.end(),
                   [](const NearRun& a, const NearRun& b) { return a.distance < b.distance; });
  list.resize(std::min(list.size(), at_most));
  return list;
}

std::string nearest_text(const std::vector<NearRun>& runs) {
  if (runs.empty()) return {};
  const NearRun& near = runs.front();
  const PublishedTime& run = near.run;
  return wrap_after("Nearest published run: ",
                    fmt::format("{}, {} parameters on {} x {}: {} measured, {:+.1f} % by nest{}; this plan is {}",
                                run.id, format_count(run.parameters), format_integer(run.devices), run.device,
                                format_duration(run.measured_s), 100 * run.error(),
                                run.complete ? "" : ", which had to assume something",
                                near.apart.empty() ? "like it" : near.apart)) +
         "\n";
}

Json nearest_json(const std::vector<NearRun>& runs) {
  Json list = Json::array();
  for (const NearRun& near : runs) {
    list.push_back({{"id", near.run.id},
                    {"source", near.run.source},
                    {"device", near.run.device},
                    {"devices", near.run.devices},
                    {"parameters", near.run.parameters},
                    {"complete", near.run.complete},
                    {"measured_s", near.run.measured_s},
                    {"predicted_s", near.run.predicted_s},
                    {"distance", near.distance},
                    {"apart", near.apart}});
  }
  return list;
}

}  // namespace nest::report
