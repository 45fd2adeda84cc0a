#include <fmt/format.h>

#include "base/error.h"
#include "cluster/cluster.h"
#include "doc/reader.h"
#include "load/input.h"
#include "report/cluster_report.h"
#include "report/device_report.h"
#include "show.h"

namespace nest {
namespace {

std::string show_device(const Device& device, std::int64_t devices, const Session& session) {
  if (devices != 0) throw InputError(fmt::format("--devices: is for clusters only; `{}` is a device", device.name));
  if (!session.json) return device_text(device, session.style);
  Json document = {{"schema", "nest.show.device/1"}};
  document.update(device_json(device));
  return to_text(document);
}

std::string show_cluster(const Cluster& cluster, const Session& session) {
  if (!session.json) return cluster_text(cluster, session.style);
  Json document = {{"schema", "nest.show.cluster/1"}};
  document.update(cluster_json(cluster));
  return to_text(document);
}

bool is_yaml(const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

std::string show_file(const std::string& path, std::int64_t devices, const Session& session) {
  const Document document = parse_yaml(source_name(path), read_text(path));
  // Only devices have peak rates.
  if (Reader(document).has("peak")) return show_device(read_device(document, file_stem(path)), devices, session);
  const Cluster cluster = read_cluster(document, file_stem(path));
  return show_cluster(devices == 0 ? cluster : resized(cluster, devices), session);
}

}  // namespace

std::optional<std::string> show_hardware(const std::string& name, std::int64_t devices, const Session& session) {
  if (const std::optional<Device> device = find_device(name)) return show_device(*device, devices, session);
  const auto size = devices == 0 ? std::nullopt : std::optional(devices);
  if (const std::optional<Cluster> cluster = find_cluster(name, size)) return show_cluster(*cluster, session);
  if (is_yaml(name) && path_exists(name)) return show_file(name, devices, session);
  return std::nullopt;
}

}  // namespace nest
