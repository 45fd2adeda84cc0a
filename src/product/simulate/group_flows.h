// Gradient exchange and weight gathering as flows between devices.
//
// A reduce-scatter or all-gather of m bytes by a ring of n moves (n-1)/n m along every edge of the ring, in n-1 equal
// steps. While conditions do not change, that is one flow per edge, after as many of the edge's latencies: the step
// lasts as long as its slowest edge, latency and bytes together, and so does the sum of the steps. So the exchange is
// played as one transfer, or as one per dimension where it goes dimension by dimension. Which algorithm runs is the
// cost model's choice (cost/group_time.h); what it does to the links is worked out here.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster.h"

namespace nest::simulate {

struct GroupFlow {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 1;  // equal flows
  double share = 0;        // bytes of one of them over the bytes of the buffer
  std::int64_t steps = 1;  // latencies that pass while it is under way
  bool falling = false;    // on a torus: towards falling coordinates where both ways are equally short
};

struct GroupExchange {
  // Transfers that follow each other; none where the algorithm's way is not known and its time must be taken as
  // predicted.
  std::vector<std::vector<GroupFlow>> transfers;
  cluster::Algorithm algorithm = cluster::Algorithm::ring;
};

// The algorithm of one pass (reduce-scatter or all-gather) of all groups of the spec. `stages` further groups like these,
// one per stage of the pipeline, exchange beside them: with the bytes of a call, that decides which is best. Where the
// groups begin does not matter.
cluster::Algorithm group_algorithm(const cluster::Cluster& cluster, GroupSpec groups, Stride stages, double call_bytes);

// Such a pass, by that algorithm.
GroupExchange group_exchange(const cluster::Cluster& cluster, const GroupSpec& groups, cluster::Algorithm algorithm);

}  // namespace nest::simulate
