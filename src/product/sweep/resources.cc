#include "sweep/resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/index.h"
#include "base/text.h"
#include "base/units.h"
#include "cost/evaluate.h"
#include "cost/rates.h"
#include "cost/stack.h"
#include "doc/to_json.h"
#include "doc/value.h"
#include "load/job.h"

namespace nest::sweep {
namespace {

// To the last digit, in base units.
SweepValue exactly(double value, const char* unit) { return {fmt::format("{:.17g}{}", value, unit), value, false}; }

Resource named(std::string key, std::string name, std::string before, std::string after) {
  return {std::move(key), std::move(name), std::move(before), std::move(after), {}, {}, {}};
}

Resource rate(std::string key, std::string name, double before, double after) {
  return named(std::move(key), std::move(name), format_bandwidth(before), format_bandwidth(after));
}

Resource delay(std::string key, std::string name, double before, double after) {
  return named(std::move(key), std::move(name), format_duration(before), format_duration(after));
}

void add_device(const cost::Job& job, double more, std::vector<Resource>& list) {
  const cluster::Device& device = job.cluster.device;
  const double peak = cost::mfu_peak_flops_per_s(device, job.run.precision);
  Resource flops = named("flops", "FLOP/s", format_compute_rate(peak), format_compute_rate(peak * more));
  for (const Precision precision : cluster::kDevicePrecisions) {
    if (device.peak(precision) <= 0) continue;
    flops.device.push_back(
        {fmt::format("peak.{}", to_string(precision)), exactly(device.peak(precision) * more, "FLOPS")});
  }
  list.push_back(std::move(flops));
  const std::int64_t bytes = std::llround(real(device.memory_bytes) * more);
  list.push_back(named("memory", "size of the memory", format_bytes(device.memory_bytes), format_bytes(bytes)));
  list.back().device = {{"memory", exactly(real(bytes), "B")}};
  const double bandwidth = device.memory_bytes_per_s;
  list.push_back(rate("memory_bandwidth", "bandwidth of the memory", bandwidth, bandwidth * more));
  list.back().device = {{"memory_bandwidth", exactly(bandwidth * more, "B/s")}};
}

void add_levels(const cluster::Cluster& cluster, double more, double less, std::vector<Resource>& list) {
  for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
    const cluster::Level& level = cluster.levels[l];
    if (level.group == 1 || cluster.fabric.unit[l] >= cluster.devices) continue;
    const bool shared = cluster.fabric.unit[l] > 1 && !cluster.fabric.lanes(l);
    const std::string where = "inside a " + clip(level.name, 24);
    const std::string path = fmt::format("{}.", l + 1);
    const double each = level.bandwidth_bytes_per_s / real(level.planes);
    list.push_back(rate(level.name + ".bandwidth", (shared ? "uplinks " : "bandwidth ") + where,
                        level.bandwidth_bytes_per_s, level.bandwidth_bytes_per_s * more));
    list.back().cluster = {{path + "bandwidth", exactly(each * more, "B/s")}};
    const double inside = l > 0 ? cluster.levels[l - 1].latency_s : 0;
    const double after = std::max(level.latency_s * less, inside);
    if (!(after < level.latency_s)) continue;
    list.push_back(delay(level.name + ".latency", "latency " + where, level.latency_s, after));
    list.back().cluster = {{path + "latency", exactly(after, "s")}};
  }
}

double quantity(const nlohmann::ordered_json& object, const char* key, double (*parse)(std::string_view)) {
  if (!object.is_object() || !object.contains(key)) return 0;
  const auto& value = object[key];
  if (value.is_number()) return value.get<double>();
  return value.is_string() ? parse(value.get<std::string>()) : 0;
}

void add_torus(const nlohmann::ordered_json& torus, double more, double less, std::vector<Resource>& list) {
  const double bandwidth = quantity(torus, "bandwidth", parse_bandwidth);
  const double latency = quantity(torus, "latency", parse_duration);
  list.push_back(rate("torus.bandwidth", "bandwidth of links", bandwidth, bandwidth * more));
  list.back().cluster = {{"torus.bandwidth", exactly(bandwidth * more, "B/s")}};
  if (!(latency > 0)) return;
  list.push_back(delay("torus.latency", "latency of a hop", latency, latency * less));
  list.back().cluster = {{"torus.latency", exactly(latency * less, "s")}};
}

// All links of a graph alike: levels follow from them.
void add_graph(const nlohmann::ordered_json& links, double more, double less, std::vector<Resource>& list) {
  Resource bandwidth = named("links.bandwidth", "bandwidth of all links", "", "");
  Resource latency = named("links.latency", "latency of all links", "", "");
  for (std::size_t k = 0; k < links.size(); ++k) {
    const std::string path = fmt::format("graph.links.{}.", k);
    const double bytes_per_s = quantity(links[k], "bandwidth", parse_bandwidth);
    const double seconds = quantity(links[k], "latency", parse_duration);
    bandwidth.cluster.push_back({path + "bandwidth", exactly(bytes_per_s * more, "B/s")});
    if (seconds > 0) latency.cluster.push_back({path + "latency", exactly(seconds * less, "s")});
  }
  list.push_back(std::move(bandwidth));
  if (!latency.cluster.empty()) list.push_back(std::move(latency));
}

}  // namespace

std::vector<Resource> resources_of(const cost::Job& job, double share) {
  const double more = 1 + share, less = 1 - share;
  std::vector<Resource> list;
  add_device(job, more, list);
  const nlohmann::ordered_json document = doc::to_json(job.cluster.document.root());
  if (document.contains("graph")) {
    add_graph(document["graph"].value("links", nlohmann::ordered_json::array()), more, less, list);
  } else if (job.cluster.torus) {
    add_torus(document["torus"], more, less, list);
  } else {
    add_levels(job.cluster, more, less, list);
  }
  if (const double host = job.stack.host_kernel_s; host > 0) {
    list.push_back(delay("host_time", "host time of a launch", host, host * less));
    list.back().stack = {{"host_kernel", exactly(host * less, "s")}};
  }
  return list;
}

cost::Job changed_job(const cost::Job& job, const std::vector<const Resource*>& resources) {
  Plan about = cost::empty_plan(job);
  std::vector<Change> cluster, device, stack;
  for (const Resource* resource : resources) {
    cluster.insert(cluster.end(), resource->cluster.begin(), resource->cluster.end());
    device.insert(device.end(), resource->device.begin(), resource->device.end());
    stack.insert(stack.end(), resource->stack.begin(), resource->stack.end());
  }
  about.cluster.description = changed_cluster(about.cluster.description, cluster, device);
  about.stack = changed_stack(about.stack, stack);
  return load::load_job(about);
}

}  // namespace nest::sweep
