#include "calibrate/calibration.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/layout.h"
#include "calibrate/device_yaml.h"
#include "report/table.h"

namespace nest::calibrate {
namespace {

void refuse_device(const cluster::Device& device) {
  if (device.peak(Precision::bf16) <= 0) {
    throw InputError(fmt::format("device {}: peak.bf16 is missing; calibration needs it", device.name));
  }
  if (device.multiprocessors <= 0) {
    throw InputError(fmt::format("device {}: multiprocessors is missing; calibration needs it", device.name));
  }
}

std::string origin_of(const Measurements& file) {
  std::string text = file.device.empty() ? "unnamed device" : file.device;
  if (!file.software.empty()) text += ", " + file.software;
  if (!file.date.empty()) text += ", " + file.date;
  return text;
}

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

const KindError* find_kind(const std::vector<KindError>& errors, MeasuredKind kind) {
  const auto found = std::find_if(errors.begin(), errors.end(), [&](const KindError& e) { return e.kind == kind; });
  return found == errors.end() ? nullptr : &*found;
}

std::string error_table(const BurstFit& fit, const Style& style) {
  report::Table table({{"error in %", report::Align::left},
                       {"rows"},
                       {"before"},
                       {"mean"},
                       {"median"},
                       {"bias"},
                       {"unseen"},
                       {"worst"},
                       {"at", report::Align::left, true, Ink::faint}});
  for (const KindError& after : fit.after) {
    table.add({to_string(after.kind), fmt::format("{}", after.rows), percent(find_kind(fit.before, after.kind)->mean),
               percent(after.mean), percent(after.median), fmt::format("{:+.1f}", 100 * after.bias),
               percent(find_kind(fit.unseen, after.kind)->mean), percent(after.worst), after.worst_label});
  }
  return table.render(style);
}

const char* verdict(const FittedConstant& constant) {
  if (!constant.measured) return "kept";
  if (constant.at_bound) return "at bound";
  return constant.determined ? "" : "weak";
}

std::string constant_table(const BurstFit& fit, const Style& style) {
  report::Table table({{"constant", report::Align::left},
                       {"before"},
                       {"after"},
                       {"+err"},
                       {"", report::Align::left, false, Ink::accent},
                       {"allowed", report::Align::left, true, Ink::faint}});
  for (const FittedConstant& constant : fit.fitted) {
    table.add({info(constant.constant).name, fmt::format("{:.4g}", constant.before),
               fmt::format("{:.4g}", constant.after),
               constant.measured ? fmt::format("{:.1f}", 100 * constant.sensitivity) : "", verdict(constant),
               fmt::format("{:g} … {:g}", info(constant.constant).low, info(constant.constant).high)});
  }
  return table.render(style);
}

report::Json kind_json(const KindError& error) {
  return {{"kind", to_string(error.kind)}, {"rows", error.rows}, {"mean", error.mean},
          {"median", error.median},        {"bias", error.bias}, {"worst", error.worst},
          {"worst_at", error.worst_label}};
}

report::Json kinds_json(const std::vector<KindError>& errors) {
  report::Json list = report::Json::array();
  for (const KindError& error : errors) list.push_back(kind_json(error));
  return list;
}

}  // namespace

Calibration calibrate(const cluster::Device& device, std::span<const Document> files) {
  refuse_device(device);
  Calibration result;
  result.before = device;
  std::vector<Measurement> rows;
  double sustained = 0;
  std::size_t loops = 0;
  for (const Document& document : files) {
    const Measurements file = read_measurements(document);
    result.files.push_back(document.source->name);
    result.origins.push_back(origin_of(file));
    result.left_out += file.left_out;
    rows.insert(rows.end(), file.rows.begin(), file.rows.end());
    for (const double rate : file.sustained_flops_per_s) sustained += rate / device.peak(Precision::bf16);
    loops += file.sustained_flops_per_s.size();
  }
  // fp8 rows say nothing about a device without fp8 arithmetic.
  if (device.peak(Precision::fp8) <= 0) {
    result.left_out += std::erase_if(rows, [](const Measurement& row) { return row.kind == MeasuredKind::gemm_fp8; });
  }
  if (rows.empty()) {
    throw InputError(fmt::format("{}: no entry that calibration can use",
                                 result.files.empty() ? std::string("no file") : result.files.front()));
  }
  result.sustained_gemm = loops == 0 ? 0 : sustained / real(loops);
  result.fit = calibrate_burst(device, burst_constants(device), rows);
  result.after = calibrated_device(device, result.fit.constants, result.sustained_gemm);
  std::string measured;
  for (const std::string& origin : result.origins) measured += (measured.empty() ? "" : "; ") + origin;
  result.after.aliases.clear();
  // Plans use the rate of long loops alone; without one, nothing that was measured is theirs.
  const bool sustains = result.sustained_gemm > 0;
  result.after.source = fmt::format("{}{}{}", device.source,
                                    sustains ? cluster::Device::kCalibrated : " | bursts calibrated: ", measured);
  return result;
}

std::string calibration_text(const Calibration& calibration, const Style& style) {
  std::size_t rows = 0;
  for (const KindError& error : calibration.fit.after) rows += error.rows;
  std::string text =
      style.paint(Ink::strong,
                  wrap_after("", fmt::format("{}: {} measurements from {} file{}", calibration.before.description, rows,
                                             calibration.files.size(), calibration.files.size() == 1 ? "" : "s")));
  text += "\n\n" + error_table(calibration.fit, style) + '\n';
  text +=
      wrap_after("  ", "unseen: the mean error of rows that were predicted by a fit to the other half of the rows.") +
      "\n\n";
  text += constant_table(calibration.fit, style) + '\n';
  text +=
      wrap_after(
          "  ",
          "+err: points of mean error that the constant's rows gain when it moves by a quarter. weak: less than 0.1, "
          "the data do not determine it. kept: nothing measured here depends on it.") +
      '\n';
  if (calibration.sustained_gemm > 0) {
    const auto before = calibration.before.efficiency_of("gemm_bf16");
    text += '\n' +
            wrap_after("  ", fmt::format("sustained bf16 matmul: {:.3f} of the peak{}", calibration.sustained_gemm,
                                         before ? fmt::format(" (before: {:.3f})", *before) : "")) +
            '\n';
  }
  if (calibration.left_out > 0) {
    text +=
        wrap_after("  ", fmt::format("{} entries have no formula here and were left out", calibration.left_out)) + '\n';
  }
  return text;
}

report::Json calibration_json(const Calibration& calibration) {
  report::Json constants = report::Json::array();
  for (const FittedConstant& constant : calibration.fit.fitted) {
    const BurstConstantInfo& known = info(constant.constant);
    constants.push_back(
        {{"name", fmt::format("burst_{}", known.name)},
         {"before", constant.before},
         {"after", constant.after},
         {"low", known.low},
         {"high", known.high},
         {"measured", constant.measured},
         {"determined", constant.determined},
         {"at_bound", constant.at_bound},
         {"sensitivity", constant.measured ? report::Json(constant.sensitivity) : report::Json(nullptr)},
         {"meaning", known.meaning}});
  }
  return {{"schema", "nest.calibration/1"},
          {"device", calibration.before.name},
          {"files", calibration.files},
          {"measured_on", calibration.origins},
          {"left_out", calibration.left_out},
          {"sustained_gemm",
           calibration.sustained_gemm > 0 ? report::Json(calibration.sustained_gemm) : report::Json(nullptr)},
          {"errors",
           {{"before", kinds_json(calibration.fit.before)},
            {"after", kinds_json(calibration.fit.after)},
            {"unseen", kinds_json(calibration.fit.unseen)}}},
          {"constants", std::move(constants)},
          {"efficiency", calibration.after.efficiency}};
}

}  // namespace nest::calibrate
