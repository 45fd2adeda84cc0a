#include "accuracy/hardware.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/text.h"

namespace nest::accuracy {
namespace {

struct Name {
  const char* part;    // of the name in the row, in lower case
  const char* device;  // preset
};

// The first that matches counts, so that more special names stand first.
constexpr std::array kNames = {
    Name{"h100-96gb", "h100-96-500w"},
    Name{"h100-94/96gb", "h100-96-500w"},
    Name{"a100-40", "a100-40"},
    Name{"a100-sxm4-40", "a100-40"},
    Name{"a100", "a100-80"},
    Name{"a800", "a800"},
    Name{"v100", "v100"},
    Name{"h200", "h200"},
    Name{"h100", "h100"},
    Name{"gb300", "gb300"},
    Name{"gb200", "gb200"},
    Name{"b300", "b300"},
    Name{"b200", "b200"},
    Name{"v5e", "tpuv5e"},
    Name{"v5p", "tpuv5p"},
    Name{"v6e", "tpuv6e"},
    Name{"trillium", "tpuv6e"},
    Name{"tpu v4", "tpuv4"},
};

bool is_tpu(const cluster::Device& device) { return device.name.starts_with("tpu"); }
bool is_rack_scale(const cluster::Device& device) { return device.name.starts_with("gb"); }

bool calibrated(const cluster::Device& device) {
  return std::any_of(device.efficiency.begin(), device.efficiency.end(),
                     [](const auto& constant) { return constant.first.starts_with("gemm"); });
}

bool mentions(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

// Line rate of one device's port into the network between nodes.
double port_bytes_per_s(const PublishedRun& run, const cluster::Device& device) {
  const std::string& network = run.interconnect;
  if (mentions(network, "4x100Gb") || mentions(network, "4x Omni-Path")) return 6.25e9;  // 4 x 12.5 GB/s for 8 devices
  if (mentions(network, "1600Gb/s") || mentions(network, "8x200Gb") || mentions(network, "SuperPOD A100")) return 25e9;
  if (mentions(network, "CX-8")) return 100e9;
  if (device.name.starts_with("v100")) return 12.5e9;
  if (device.name.starts_with("a100") || device.name.starts_with("a800")) return 25e9;
  return 50e9;
}

// Devices that reach each other at full link speed.
std::int64_t domain_size(const PublishedRun& run, const cluster::Device& device, std::int64_t devices) {
  if (is_tpu(device)) return devices;
  // Racks of 72 are used as 64 where a job needs several: powers of two fit.
  if (is_rack_scale(device)) return devices <= 72 ? devices : 64;
  const std::int64_t node = run.gpus_per_node > 0 ? std::min<std::int64_t>(8, run.gpus_per_node) : 8;
  return std::min(node, devices);
}

// Share of the line rates that collectives reach, and of the device's usual rate that its products do. One site's network
// was measured far below everyone else's, by its own users. InternEvo's has better ports and slower devices than the
// others of that kind; its 20 runs of one model determine both weakly (ports of 0.75 … 0.9 fit them alike).
struct Site {
  double link;
  double port;
  double products = 1;
};

Site site_of(const PublishedRun& run, const cluster::Device& device) {
  if (mentions(run.interconnect, "Omni-Path")) return {0.321, 0.313};
  const double link = device.efficiency_of("link").value_or(0.788);
  if (run.source == "internevo") return {link, 0.80, 0.94};
  return {link, device.efficiency_of("nic").value_or(0.647)};
}

constexpr double kLinkLatency_s = 3.2e-6;
constexpr double kPortLatency_s = 8e-6;

}  // namespace

std::optional<cluster::Device> device_for(const std::string& gpu) {
  const std::string name = to_lower(gpu);
  for (const Name& known : kNames) {
    if (!mentions(name, known.part)) continue;
    auto device = cluster::find_device(known.device);
    if (!device && std::string_view(known.device) == "a800") {
      // An A100 with two thirds of its links.
      device = cluster::find_device("a100-80");
      if (device) {
        device->name = "a800";
        device->link_bytes_per_s = 200e9;
      }
    }
    return device && calibrated(*device) ? device : std::nullopt;
  }
  auto device = cluster::find_device(name);
  return device && calibrated(*device) ? device : std::nullopt;
}

cluster::Cluster cluster_for(const PublishedRun& run, const cluster::Device& device, std::int64_t devices) {
  const std::int64_t domain = domain_size(run, device, devices);
  const Site site = site_of(run, device);
  cluster::Cluster cluster;
  cluster.name = run.id;
  cluster.device = device;
  if (const auto products = cluster.device.efficiency.find("gemm_bf16"); products != cluster.device.efficiency.end()) {
    products->second *= site.products;
  }
  cluster.devices = devices;

  cluster::Level inside;
  inside.name = is_tpu(device) ? "slice" : is_rack_scale(device) ? "rack" : "node";
  inside.group = domain;
  // A ring on a torus uses half of the links of a device.
  inside.bandwidth_bytes_per_s = device.link_bytes_per_s / (is_tpu(device) ? 2 : 1);
  inside.latency_s = kLinkLatency_s;
  inside.efficiency = site.link;
  cluster.levels.push_back(inside);
  if (devices > domain) {
    cluster::Level across;
    across.name = "network";
    across.group = ceil_div(devices, domain);
    across.bandwidth_bytes_per_s = port_bytes_per_s(run, device);
    across.latency_s = kPortLatency_s;
    across.efficiency = site.port;
    across.rails = true;
    cluster.levels.push_back(across);
  }
  cluster.fabric = cluster::make_fabric(cluster.levels, devices);
  return cluster;
}

}  // namespace nest::accuracy
