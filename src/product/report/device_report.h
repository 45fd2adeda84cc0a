// A device for people and for programs.
#pragma once

#include <string>

#include "cluster/device.h"
#include "report/json.h"
#include "report/style.h"

namespace nest::report {

// The precision that models are trained in, as far as the device has it: bf16, else fp16, tf32, fp32.
Precision training_precision(const cluster::Device& device);

std::string device_text(const cluster::Device& device, const Style& style);

// The members of schema nest.show.device/1, without the schema itself.
Json device_json(const cluster::Device& device);

}  // namespace nest::report
