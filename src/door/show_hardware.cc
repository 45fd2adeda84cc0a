#include <fmt/format.h>

#include "base/error.h"
#include "cluster/cluster.h"
#include "doc/reader.h"
#include "door/shown_thing.h"
#include "load/cluster_file.h"
#include "load/input.h"
#include "nest/option.h"
#include "report/cluster_report.h"
#include "report/device_report.h"

namespace nest {
namespace {

struct ShownDevice : ShownThing {
  explicit ShownDevice(cluster::Device shown) : device(std::move(shown)) {}
  std::string text(const Style& style) const override { return report::device_text(device, style); }
  report::Json json() const override {
    report::Json document = {{"schema", "nest.show.device/1"}};
    document.update(report::device_json(device));
    return document;
  }
  cluster::Device device;
};

struct ShownCluster : ShownThing {
  explicit ShownCluster(cluster::Cluster shown) : cluster(std::move(shown)) {}
  std::string text(const Style& style) const override { return report::cluster_text(cluster, style); }
  report::Json json() const override {
    report::Json document = {{"schema", "nest.show.cluster/1"}};
    document.update(report::cluster_json(cluster));
    return document;
  }
  cluster::Cluster cluster;
};

Showing show_device(const cluster::Device& device, std::optional<std::int64_t> devices) {
  if (devices) {
    throw InputError(fmt::format("{}: is for clusters only; `{}` is a device", option("devices"), device.name));
  }
  return std::make_shared<ShownDevice>(device);
}

bool is_yaml(const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

Showing show_yaml(const Input& what, std::optional<std::int64_t> devices) {
  const Document document = load::read_cluster_file(what);
  // Only devices have peak rates.
  if (doc::Reader(document).has("peak"))
    return show_device(cluster::read_device(document, load::file_stem(what.name)), devices);
  const cluster::Cluster cluster = cluster::read_cluster(document, load::file_stem(what.name));
  cluster::refuse_fast_links(cluster);
  return std::make_shared<ShownCluster>(devices ? cluster::resized(cluster, *devices) : cluster);
}

}  // namespace

Showing show_hardware(const Input& what, std::optional<std::int64_t> devices) {
  if (!what.text) {
    if (const std::optional<cluster::Device> device = cluster::find_device(what.name))
      return show_device(*device, devices);
    if (const std::optional<cluster::Cluster> cluster = cluster::find_cluster(what.name, devices)) {
      return std::make_shared<ShownCluster>(*cluster);
    }
  }
  if (is_yaml(what.name) && (what.text || load::path_exists(what.name))) return show_yaml(what, devices);
  return nullptr;
}

}  // namespace nest
