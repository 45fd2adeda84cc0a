#include "cluster_template.h"

namespace nest::app {

const char* cluster_template() {
  return R"(# A cluster for nest: change what differs, then
#   nest show my-cluster.yaml
#   nest plan llama3-70b --cluster my-cluster.yaml --nodes 64
name: my-cluster
device: h100             # nest show devices; or an object with the keys of a device file
levels:                  # innermost first
  # 8 GPUs of a node on NVLink. Per GPU and per direction: data sheets add up both.
  - {name: node, group: 8, bandwidth: 450GB/s}
  # 8 rails: every GPU has a 400 Gb/s port of its own into leaf switches that 16 nodes share.
  - {name: leaf, group: 16, bandwidth: 400Gbps, rails: true}
  # 8 such groups below the spine, 2:1: half of what the GPUs below bring goes up.
  - {name: spine, group: 8, oversubscription: 2}
# Neither latency nor efficiency is given: those measured on DGX H100 are assumed. Your own, from nccl-tests, go beside
# the bandwidth as  latency: 5us, efficiency: 0.85
)";
}

}  // namespace nest::app
