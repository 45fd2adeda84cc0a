// A device that is given by the name of a preset or as a YAML file.
#pragma once

#include <string>

#include "cluster/device.h"
#include "nest/input.h"

namespace nest {

struct NamedDevice {
  cluster::Device device;
  std::string yaml;  // the file; empty for a preset
};

// Throws InputError about the option `device`.
NamedDevice named_device(const Input& input);

}  // namespace nest
