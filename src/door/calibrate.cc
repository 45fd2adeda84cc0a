#include "nest/calibrate.h"

#include "calibrate/calibration.h"
#include "calibrate/device_yaml.h"
#include "door/named_device.h"
#include "load/input.h"

namespace nest {

struct CalibrationResult {
  calibrate::Calibration calibration;
};

CalibratedDevice calibrate_device(const Input& device, const std::vector<Input>& measurements,
                                  const std::string& name) {
  const cluster::Device before = named_device(device).device;
  std::vector<Document> documents;
  documents.reserve(measurements.size());
  for (const Input& file : measurements)
    documents.push_back(doc::parse_json(load::source_name(file), load::read_text(file)));
  calibrate::Calibration calibration = calibrate::calibrate(before, documents);
  if (!name.empty()) calibration.after.name = name;
  CalibratedDevice calibrated;
  calibrated.yaml = calibrate::device_yaml(calibration.after);
  calibrated.result = std::make_shared<CalibrationResult>(CalibrationResult{std::move(calibration)});
  return calibrated;
}

std::string to_text(const CalibratedDevice& calibrated, const Style& style) {
  return calibrate::calibration_text(calibrated.result->calibration, style);
}

std::string to_json(const CalibratedDevice& calibrated) {
  return report::to_text(calibrate::calibration_json(calibrated.result->calibration));
}

}  // namespace nest
