#include "calibrate/device_yaml.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace nest::calibrate {
namespace {

// JSON strings are YAML strings.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string shortest(double value) { return fmt::format("{}", std::stod(fmt::format("{:.5g}", value))); }

}  // namespace

std::string device_yaml(const cluster::Device& device) {
  std::string text = fmt::format("name: {}\ndescription: {}\n", quoted(device.name), quoted(device.description));
  if (!device.source.empty()) text += fmt::format("source: {}\n", quoted(device.source));
  if (!device.aliases.empty()) {
    text += "aliases: [";
    for (std::size_t i = 0; i < device.aliases.size(); ++i) {
      text += fmt::format("{}{}", i == 0 ? "" : ", ", quoted(device.aliases[i]));
    }
    text += "]\n";
  }
  if (!device.family.empty()) text += fmt::format("family: {}\n", quoted(device.family));
  text += "peak: {";
  bool first = true;
  for (const Precision precision : cluster::kDevicePrecisions) {
    if (device.peak(precision) <= 0) continue;
    text += fmt::format("{}{}: {}TFLOPS", first ? "" : ", ", to_string(precision), device.peak(precision) * 1e-12);
    first = false;
  }
  text +=
      fmt::format("}}\nmemory: {}\nmemory_bandwidth: {}GB/s\n", device.memory_bytes, device.memory_bytes_per_s * 1e-9);
  if (device.multiprocessors > 0) text += fmt::format("multiprocessors: {}\n", device.multiprocessors);
  if (device.power_w > 0) text += fmt::format("power_w: {}\n", device.power_w);
  if (device.link_bytes_per_s > 0) text += fmt::format("link_bandwidth: {}GB/s\n", device.link_bytes_per_s * 1e-9);
  if (device.host_link_bytes_per_s > 0) text += fmt::format("host_link: {}GB/s\n", device.host_link_bytes_per_s * 1e-9);
  if (device.host_memory_bytes_per_s != cluster::Device::kHostMemory) {
    text += fmt::format("host_memory_bandwidth: {}GB/s\n", device.host_memory_bytes_per_s * 1e-9);
  }
  if (device.efficiency.empty()) return text;
  text += "efficiency:\n";
  for (const auto& [name, value] : device.efficiency) text += fmt::format("  {}: {}\n", name, shortest(value));
  return text;
}

cluster::Device calibrated_device(const cluster::Device& device, const BurstConstants& constants,
                                  double sustained_gemm) {
  cluster::Device result = device;
  for (std::size_t i = 0; i < kBurstConstants; ++i) {
    const auto constant = static_cast<BurstConstant>(i);
    result.efficiency[fmt::format("burst_{}", info(constant).name)] = constants[constant];
  }
  if (sustained_gemm > 0) result.efficiency["gemm_bf16"] = sustained_gemm;
  return result;
}

}  // namespace nest::calibrate
