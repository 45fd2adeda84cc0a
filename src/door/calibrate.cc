#include "nest/calibrate.h"

#include "calibrate/calibration.h"
#include "calibrate/device_yaml.h"
#include "door/named_device.h"
#include "load/input.h"

namespace nest {

struct CalibrationResult {
  Calibration calibration;
};

CalibratedDevice calibrate_device(const Input& device, const std::vector<Input>& measurements,
                                  const std::string& name) {
  const Device before = named_device(device).device;
  std::vector<Document> documents;
  documents.reserve(measurements.size());
  for (const Input& file : measurements) documents.push_back(parse_json(source_name(file), read_text(file)));
  Calibration calibration = calibrate(before, documents);
  if (!name.empty()) calibration.after.name = name;
  CalibratedDevice calibrated;
  calibrated.yaml = device_yaml(calibration.after);
  calibrated.result = std::make_shared<CalibrationResult>(CalibrationResult{std::move(calibration)});
  return calibrated;
}

std::string to_text(const CalibratedDevice& calibrated, const Style& style) {
  return calibration_text(calibrated.result->calibration, style);
}

std::string to_json(const CalibratedDevice& calibrated) {
  return to_text(calibration_json(calibrated.result->calibration));
}

}  // namespace nest
