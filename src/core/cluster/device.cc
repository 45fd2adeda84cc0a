#include "cluster/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/index.h"
#include "base/text.h"
#include "doc/reader.h"
#include "preset_data/preset_data.h"

namespace nest {
namespace {

constexpr std::array kPrecisionNames = {"fp32", "tf32", "bf16", "fp16", "fp8"};
constexpr double kFastest = 1e21;  // operations or bytes per second; beyond any device
constexpr std::size_t kAliasLimit = 16;

double positive(Reader& reader, std::string_view key, std::optional<double> value, double otherwise) {
  if (!value) return otherwise;
  if (*value <= 0 || *value > kFastest)
    reader.fail(key, fmt::format("{} must lie above 0 and below {:g}", key, kFastest));
  return *value;
}

void read_peaks(Reader& root, Device& device) {
  Reader peaks = root.object("peak");
  bool any = false;
  for (std::size_t i = 0; i < kPrecisions; ++i) {
    device.peak_flops_per_s[i] = positive(peaks, kPrecisionNames[i], peaks.maybe_compute_rate(kPrecisionNames[i]), 0);
    any = any || device.peak_flops_per_s[i] > 0;
  }
  peaks.refuse_unknown_keys();
  if (!any) root.fail("peak", "no rate is given; write for example bf16: 989TFLOPS");
}

void read_efficiency(Reader& root, Device& device) {
  auto constants = root.maybe_object("efficiency");
  if (!constants) return;
  for (const std::string& key : constants->keys()) device.efficiency[key] = constants->number(key, {0, 1e6});
}

}  // namespace

const char* to_string(Precision precision) { return kPrecisionNames[at(precision)]; }

std::optional<double> Device::efficiency_of(std::string_view constant) const {
  const auto found = efficiency.find(constant);
  return found == efficiency.end() ? std::nullopt : std::optional(found->second);
}

Device read_device(const Document& document, std::string_view name) {
  Reader root(document);
  Device device;
  device.name = root.text_or("name", name);
  device.description = root.text_or("description", device.name);
  device.source = root.text_or("source", "");
  device.aliases = root.maybe_texts("aliases", kAliasLimit).value_or(std::vector<std::string>());
  read_peaks(root, device);
  device.memory_bytes = root.bytes("memory");
  if (device.memory_bytes <= 0) root.fail("memory", "must be more than 0 bytes; write for example 79.2GiB");
  device.memory_bytes_per_s = positive(root, "memory_bandwidth", root.bandwidth("memory_bandwidth"), 0);
  device.multiprocessors = root.integer_or("multiprocessors", 0, {0, 1 << 20});
  device.power_w = root.maybe_number("power_w", {0, 1e6}).value_or(0);
  device.link_bytes_per_s = positive(root, "link_bandwidth", root.maybe_bandwidth("link_bandwidth"), 0);
  read_efficiency(root, device);
  root.refuse_unknown_keys();
  return device;
}

const std::vector<Device>& device_presets() {
  static const std::vector<Device> presets = [] {
    std::vector<Device> devices;
    for (const EmbeddedFile& file : embedded_files("devices")) {
      devices.push_back(
          read_device(parse_yaml(fmt::format("devices/{}.yaml", file.name), std::string(file.text)), file.name));
    }
    return devices;
  }();
  return presets;
}

std::optional<Device> find_device(std::string_view name) {
  const std::string wanted = to_lower(name);
  for (const Device& device : device_presets()) {
    const bool alias = std::any_of(device.aliases.begin(), device.aliases.end(),
                                   [&](const std::string& candidate) { return to_lower(candidate) == wanted; });
    if (alias || to_lower(device.name) == wanted) return device;
  }
  return std::nullopt;
}

}  // namespace nest
