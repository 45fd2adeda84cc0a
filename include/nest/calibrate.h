// Constants of a device from measurements on it (tools/measure/measure.py).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nest/input.h"
#include "nest/style.h"

namespace nest {

struct CalibrationResult;  // internal

struct CalibratedDevice {
  std::string yaml;  // the device with its new constants, for cluster files
  std::shared_ptr<const CalibrationResult> result;
};

// Fits the constants of nest's operator formulas to files of measurements (nest.measurements/1). `name` is what the
// device is called afterwards; empty: as before, with a word that says so. Throws InputError when the device lacks what
// the formulas need or the files hold no usable row.
CalibratedDevice calibrate_device(const Input& device, const std::vector<Input>& measurements,
                                  const std::string& name = {});

std::string to_text(const CalibratedDevice& calibrated, const Style& style = Style());
std::string to_json(const CalibratedDevice& calibrated);  // nest.calibration/1

}  // namespace nest
