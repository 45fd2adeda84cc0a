// A whole calibration: measurement files in, constants, errors and a device out; for people and for programs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "calibrate/fit.h"
#include "calibrate/measurement.h"
#include "report/json.h"
#include "report/style.h"

namespace nest::calibrate {

struct Calibration {
  cluster::Device before;
  cluster::Device after;  // with the fitted constants, and a name and source that say so
  std::vector<std::string> files;
  std::vector<std::string> origins;  // "NVIDIA H200, torch 2.11, 2026-11-15" per file, as far as known
  std::size_t left_out = 0;
  double sustained_gemm = 0;  // share of the bf16 peak; 0: not measured
  BurstFit fit;
};

// Throws InputError when the device lacks what the formulas need (bf16 rate, multiprocessors) or the files hold no
// usable row.
Calibration calibrate(const cluster::Device& device, std::span<const Document> files);

std::string calibration_text(const Calibration& calibration, const Style& style);
report::Json calibration_json(const Calibration& calibration);  // schema nest.calibration/1

}  // namespace nest::calibrate
