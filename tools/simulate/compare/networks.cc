#include "simulation_check/networks.h"

#include <fmt/format.h>

#include "base/error.h"
#include "doc/value.h"

namespace nest {
namespace {

// 32 nodes of 8 in leaves of 4.
std::string cluster_yaml(const std::string& name, const std::string& device, const std::string& leaf,
                         const std::string& spine) {
  return fmt::format(
      "name: {}\ndevice: {}\nlevels:\n"
      "  - {{name: node, group: 8, bandwidth: 450GB/s, latency: 3.2us, efficiency: 0.788}}\n"
      "  - {{name: leaf, group: 4, {}}}\n  - {{name: spine, group: 32, {}}}\n",
      name, device, leaf, spine);
}

Network shared_uplinks(const std::string& device, double gigabytes, int oversubscription) {
  const std::string over = oversubscription > 1 ? fmt::format("-o{}", oversubscription) : "";
  const std::string name = fmt::format("{}-up{}{}", device, gigabytes, over);
  return {name, cluster_yaml(name, device, fmt::format("bandwidth: {}GB/s, latency: 8us", gigabytes),
                             fmt::format("bandwidth: {}GB/s, latency: 10us, oversubscription: {}", 4 * gigabytes,
                                         oversubscription))};
}

Network rails(int oversubscription) {
  const std::string name = fmt::format("h100-rails-o{}", oversubscription);
  return {name, cluster_yaml(name, "h100", "bandwidth: 50GB/s, latency: 8us, efficiency: 0.647, rails: true",
                             fmt::format("bandwidth: 1600GB/s, latency: 10us, efficiency: 0.647, oversubscription: {}",
                                         oversubscription))};
}

// One link per direction and dimension.
Network slow_torus(const std::string& name, const std::string& device, const std::string& dims, double gigabytes) {
  return {name, fmt::format("name: {}\ndevice: {}\ntorus: {{dims: {}, wrap: true, bandwidth: {}GB/s, latency: 1us}}\n"
                            "resize: {{at_most: 4096}}\n",
                            name, device, dims, gigabytes)};
}

}  // namespace

std::vector<Network> slow_networks() {
  std::vector<Network> all;
  for (const double gigabytes : {12.5, 25.0, 50.0, 100.0}) all.push_back(shared_uplinks("h100", gigabytes, 1));
  for (const int oversubscription : {2, 4, 8}) all.push_back(shared_uplinks("h100", 25, oversubscription));
  all.push_back(shared_uplinks("a100", 25, 1));
  all.push_back(shared_uplinks("b200", 50, 1));
  for (const int oversubscription : {2, 4, 8}) all.push_back(rails(oversubscription));
  all.push_back(slow_torus("tpuv4-torus-slow", "tpuv4", "[4, 4, 4]", 11));
  all.push_back(slow_torus("tpuv6e-torus-slow", "tpuv6e", "[8, 8]", 22));
  return all;
}

std::vector<Network> networks() {
  std::vector<Network> all = slow_networks();
  for (const cluster::Cluster& preset : cluster::cluster_presets()) all.push_back({preset.name, ""});
  return all;
}

cluster::Cluster network_cluster(const std::string& name, std::int64_t devices) {
  for (const Network& network : slow_networks()) {
    if (network.name != name) continue;
    return cluster::resized(cluster::read_cluster(doc::parse_yaml(name + ".yaml", network.yaml), name), devices);
  }
  if (std::optional<cluster::Cluster> preset = cluster::find_cluster(name, devices)) return std::move(*preset);
  throw InputError("there is no network " + name);
}

}  // namespace nest
