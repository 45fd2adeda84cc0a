#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "cluster/cluster.h"
#include "doc/reader.h"
#include "door/shown_thing.h"
#include "load/cluster_file.h"
#include "load/fleet.h"
#include "load/input.h"
#include "nest/option.h"
#include "report/cluster_report.h"
#include "report/device_report.h"
#include "report/table.h"

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

// The pools of a file, one line each.
struct ShownFleet : ShownThing {
  explicit ShownFleet(load::Fleet shown, std::string file) : fleet(std::move(shown)), path(std::move(file)) {}
  std::string text(const Style& style) const override {
    using report::Align;
    report::Table table({{"pool", Align::left, true, Ink::accent},
                         {"devices"},
                         {"device", Align::left},
                         {"memory"},
                         {"shape", Align::left, true},
                         {"price"}});
    for (const load::Pool& pool : fleet.pools) {
      const cluster::Cluster& cluster = pool.cluster;
      table.add({pool.name, format_integer(cluster.devices), cluster.device.name,
                 format_bytes(cluster.device.memory_bytes), report::cluster_shape(cluster),
                 cluster.price_per_device_hour > 0 ? fmt::format("{:.2f}", cluster.price_per_device_hour) : "-"});
    }
    const std::size_t count = fleet.pools.size();
    return style.paint(Ink::strong,
                       fmt::format("{}: {} pool{} of devices", fleet.description, count, count == 1 ? "" : "s")) +
           "\n\n" + table.render(style) + "\n" +
           fmt::format("One of them: nest show {0}#{1}; jobs name it as --cluster {0}#{1}.\n", path,
                       fleet.pools.front().name);
  }
  report::Json json() const override {
    report::Json document = {{"schema", "nest.show.pools/1"},
                             {"name", fleet.name},
                             {"description", fleet.description},
                             {"pools", report::Json::array()}};
    for (const load::Pool& pool : fleet.pools) {
      report::Json one = {{"pool", pool.name}};
      one.update(report::cluster_json(pool.cluster));
      if (pool.cluster.price_per_device_hour > 0) one["price"] = pool.cluster.price_per_device_hour;
      document["pools"].push_back(std::move(one));
    }
    return document;
  }
  load::Fleet fleet;
  std::string path;
};

Showing show_yaml(const Input& what, std::optional<std::int64_t> devices) {
  if (std::optional<load::Fleet> fleet = load::read_fleet(what)) {
    if (devices) {
      throw InputError(
          fmt::format("{}: is for one cluster; show {}#{}", option("devices"), what.name, fleet->pools.front().name));
    }
    return std::make_shared<ShownFleet>(std::move(*fleet), what.name);
  }
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
  if (const std::optional<cluster::Cluster> pool = load::find_pool(what))
    return std::make_shared<ShownCluster>(devices ? cluster::resized(*pool, *devices) : *pool);
  if (is_yaml(what.name) && (what.text || load::path_exists(what.name))) return show_yaml(what, devices);
  return nullptr;
}

}  // namespace nest
