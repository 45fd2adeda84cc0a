// What one accelerator can do: peak rates, memory, links, and the constants fitted to how it behaves.
//
// Peak rates are dense (no structured sparsity) and per device, in operations per second, a multiply-add counting as
// two. The memory size is what a program can allocate, as the runtime reports it, not what the data sheet prints.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.h"
#include "base/shelf.h"
#include "doc/value.h"
#include "nest/strategy.h"

namespace nest::cluster {

// The arithmetic that devices state a rate for, in the order of Precision; fp4 follows from fp8 by a fitted constant.
inline constexpr std::array kDevicePrecisions = {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16,
                                                 Precision::fp8};

struct Device {
  std::string name;
  std::string description;
  std::string source;  // where the figures come from
  std::vector<std::string> aliases;
  std::string family;  // its generation: "hopper", "blackwell"; empty: not told
  std::array<double, kDevicePrecisions.size()> peak_flops_per_s{};  // 0: the device has no such arithmetic
  std::int64_t memory_bytes = 0;
  double memory_bytes_per_s = 0;
  std::int64_t multiprocessors = 0;              // units that run tiles side by side; 0 where the notion does not apply
  double power_w = 0;                            // 0: unknown
  double link_bytes_per_s = 0;                   // per direction, all links of the device together (NVLink, ICI, …)
  double host_link_bytes_per_s = 0;              // per direction, to the host's memory, sustained; 0: unknown
  double host_memory_bytes_per_s = kHostMemory;  // this device's share of what the host's processors read and write

  // Set: 400 GB/s of a host with eight devices.
  static constexpr double kHostMemory = 50e9;

  // Fitted constants by name, e.g. "gemm_bf16": 0.67 of the peak in long training runs. Whoever prices operators
  // decides the names; a device without a constant leaves the choice of a default to them.
  std::map<std::string, double, std::less<>> efficiency;

  double peak(Precision precision) const {
    const std::size_t index = at(precision);
    return index < peak_flops_per_s.size() ? peak_flops_per_s[index] : 0;
  }
  std::optional<double> efficiency_of(std::string_view constant) const;

  // On what its rate of long matrix products was measured, where `nest calibrate` wrote the file ("NVIDIA H200, torch
  // 2.11.0, 2026-11-15"): what follows kCalibrated in `source`. Empty elsewhere.
  static constexpr std::string_view kCalibrated = " | calibrated: ";
  std::string calibrated_on() const;
};

// Reads one device description; throws InputError for anything missing, unknown or out of range. `name` is used when
// the document has none.
Device read_device(const Document& document, std::string_view name);

// The devices that ship with nest, sorted by name.
const Shelf<Device>& device_presets();

// A preset by name or alias, case-insensitive, or nothing.
std::optional<Device> find_device(std::string_view name);

}  // namespace nest::cluster
