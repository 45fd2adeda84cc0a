// A device description as YAML that read_device() reads back.
#pragma once

#include <string>

#include "calibrate/burst.h"
#include "cluster/device.h"

namespace nest::calibrate {

// Five significant digits per constant: more than any measurement determines.
std::string device_yaml(const cluster::Device& device);

// The device with new constants in its efficiency map; `sustained_gemm` (share of the bf16 peak in long loops) where
// measured, else 0.
cluster::Device calibrated_device(const cluster::Device& device, const BurstConstants& constants,
                                  double sustained_gemm);

}  // namespace nest::calibrate
