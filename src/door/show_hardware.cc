#include <fmt/format.h>

#include "base/error.h"
#include "cluster/cluster.h"
#include "doc/reader.h"
#include "door/shown_thing.h"
#include "load/input.h"
#include "nest/option.h"
#include "report/cluster_report.h"
#include "report/device_report.h"

namespace nest {
namespace {

struct ShownDevice : ShownThing {
  explicit ShownDevice(Device shown) : device(std::move(shown)) {}
  std::string text(const Style& style) const override { return device_text(device, style); }
  Json json() const override {
    Json document = {{"schema", "nest.show.device/1"}};
    document.update(device_json(device));
    return document;
  }
  Device device;
};

struct ShownCluster : ShownThing {
  explicit ShownCluster(Cluster shown) : cluster(std::move(shown)) {}
  std::string text(const Style& style) const override { return cluster_text(cluster, style); }
  Json json() const override {
    Json document = {{"schema", "nest.show.cluster/1"}};
    document.update(cluster_json(cluster));
    return document;
  }
  Cluster cluster;
};

Showing show_device(const Device& device, std::optional<std::int64_t> devices) {
  if (devices) {
    throw InputError(fmt::format("{}: is for clusters only; `{}` is a device", option("devices"), device.name));
  }
  return std::make_shared<ShownDevice>(device);
}

bool is_yaml(const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

Showing show_yaml(const Input& what, std::optional<std::int64_t> devices) {
  const Document document = parse_yaml(source_name(what), read_text(what));
  // Only devices have peak rates.
  if (Reader(document).has("peak")) return show_device(read_device(document, file_stem(what.name)), devices);
  const Cluster cluster = read_cluster(document, file_stem(what.name));
  return std::make_shared<ShownCluster>(devices ? resized(cluster, *devices) : cluster);
}

}  // namespace

Showing show_hardware(const Input& what, std::optional<std::int64_t> devices) {
  if (!what.text) {
    if (const std::optional<Device> device = find_device(what.name)) return show_device(*device, devices);
    if (const std::optional<Cluster> cluster = find_cluster(what.name, devices)) {
      return std::make_shared<ShownCluster>(*cluster);
    }
  }
  if (is_yaml(what.name) && (what.text || path_exists(what.name))) return show_yaml(what, devices);
  return nullptr;
}

}  // namespace nest
