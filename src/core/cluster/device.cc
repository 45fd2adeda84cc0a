#include "cluster/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/index.h"
#include "base/text.h"
#include "doc/reader.h"
#include "preset_data/preset_data.h"

namespace nest::cluster {
namespace {

constexpr double kFastest = 1e21;  // operations or bytes per second; beyond any device
constexpr std::size_t kAliasLimit = 16;

double positive(doc::Reader& reader, std::string_view key, std::optional<double> value, double otherwise) {
  if (!value) return otherwise;
  if (*value <= 0 || *value > kFastest)
    reader.fail(key, fmt::format("{} must lie above 0 and below {:g}", key, kFastest));
  return *value;
}

void read_peaks(doc::Reader& root, Device& device) {
  doc::Reader peaks = root.object("peak");
  bool any = false;
  for (const Precision precision : kDevicePrecisions) {
    const char* key = to_string(precision);
    double& peak = device.peak_flops_per_s[static_cast<std::size_t>(precision)];
    peak = positive(peaks, key, peaks.maybe_compute_rate(key), 0);
    any = any || peak > 0;
  }
  peaks.refuse_unknown_keys();
  if (!any) root.fail("peak", "no rate is given; write for example bf16: 989TFLOPS");
}

void read_efficiency(doc::Reader& root, Device& device) {
  auto constants = root.maybe_object("efficiency");
  if (!constants) return;
  for (const std::string& key : constants->keys()) device.efficiency[key] = constants->number(key, {0, 1e6});
}

Device read_shipped_device(const EmbeddedFile& file) {
  return read_device(doc::parse_yaml(fmt::format("devices/{}.yaml", file.name), std::string(file.text)), file.name);
}

}  // namespace

std::string Device::calibrated_on() const {
  const std::size_t found = source.rfind(kCalibrated);
  return found == std::string::npos ? "" : source.substr(found + kCalibrated.size());
}

std::optional<double> Device::efficiency_of(std::string_view constant) const {
  const auto found = efficiency.find(constant);
  return found == efficiency.end() ? std::nullopt : std::optional(found->second);
}

Device read_device(const Document& document, std::string_view name) {
  doc::Reader root(document);
  Device device;
  device.name = root.text_or("name", name);
  device.description = root.text_or("description", device.name);
  device.source = root.text_or("source", "");
  device.aliases = root.maybe_texts("aliases", kAliasLimit).value_or(std::vector<std::string>());
  device.family = to_lower(root.text_or("family", ""));
  read_peaks(root, device);
  device.memory_bytes = root.bytes("memory");
  if (device.memory_bytes <= 0) root.fail("memory", "must be more than 0 bytes; write for example 79.2GiB");
  device.memory_bytes_per_s = positive(root, "memory_bandwidth", root.bandwidth("memory_bandwidth"), 0);
  device.multiprocessors = root.integer_or("multiprocessors", 0, {0, 1 << 20});
  device.power_w = root.maybe_number("power_w", {0, 1e6}).value_or(0);
  device.link_bytes_per_s = positive(root, "link_bandwidth", root.maybe_bandwidth("link_bandwidth"), 0);
  device.host_link_bytes_per_s = positive(root, "host_link", root.maybe_bandwidth("host_link"), 0);
  device.host_memory_bytes_per_s = positive(
      root, "host_memory_bandwidth", root.maybe_bandwidth("host_memory_bandwidth"), cluster::Device::kHostMemory);
  read_efficiency(root, device);
  root.refuse_unknown_keys();
  return device;
}

const Shelf<Device>& device_presets() {
  static const Shelf<Device> kDevices = [] {
    std::vector<Device> devices;
    for (const EmbeddedFile& file : embedded_files("devices")) devices.push_back(read_shipped_device(file));
    return Shelf<Device>(std::move(devices));
  }();
  return kDevices;
}

std::optional<Device> find_device(std::string_view name) {
  static const std::span<const EmbeddedFile> kFiles = embedded_files("devices");
  static ReadOnce<Device> shipped(kFiles.size());
  if (const EmbeddedFile* file = embedded_file("devices", to_lower(name))) {
    return shipped.at(static_cast<std::size_t>(file - kFiles.data()), [&] { return read_shipped_device(*file); });
  }
  const Device* found = device_presets().find(name);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

}  // namespace nest::cluster
