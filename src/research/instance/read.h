// The JSON form of a layer-profile instance:
//
//   maxDevices K, devices_per_level [g0, …], bws [bytes/s per level], latency_per_level, maxMemoryPerDevice, mbsInBatch
//   m, activationRecomputation, optimizerAlgorithm SGD | Adam, ep_degree and cp_degree (1 where absent), nodes {"t":
//   [{id, parameterSize, activationSize, optimalLatencyFw, optimalLatencyBw}]}, edges {"t": [{sourceId, destId,
//   communicationCost}]}
//
// bandwidth, frequency, sp_enabled, baselines, and a node's isTensorParallelized and energy play no part and are
// skipped; any other key is refused.
#pragma once

#include "doc/value.h"
#include "instance/instance.h"

namespace nest::instance {

// What is accepted; beyond it nobody means it, and exact arithmetic or memory would give out.
struct ProfileLimits {
  static constexpr int kNodes = 2048;  // per width
  static constexpr int kWidths = 64;
  static constexpr int kLevels = 8;
  static constexpr std::int64_t kDevices = 1LL << 20;  // also of each degree
  static constexpr std::int64_t kMicroBatches = 1LL << 40;
  static constexpr std::int64_t kGraphBytes = 1LL << 50;  // all sizes of one width together
  static constexpr double kTime = 1e30;
};

// Throws InputError. Nodes are put in the artifact's topological order: nodes without open predecessors lie on a stack,
// first in the order given, then as their last predecessor is placed (its edges in the order given); the top is placed
// next.
ProfileInstance read_profile_instance(const Document& document);

}  // namespace nest::instance
