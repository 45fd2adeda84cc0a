// Names of accelerators and networks in published rows -> devices and clusters.
#pragma once

#include <optional>
#include <string>

#include "accuracy/run.h"
#include "cluster/cluster.h"

namespace nest::accuracy {

// The device of that name ("H100-SXM5-80GB", "TPU v5p", …), or nothing when nest has no constants fitted for it.
std::optional<cluster::Device> device_for(const std::string& gpu);

// Nodes (or NVLink domains) of the devices with one port per device between them, at the efficiency that collectives
// reach.
cluster::Cluster cluster_for(const PublishedRun& run, const cluster::Device& device, std::int64_t devices);

}  // namespace nest::accuracy
