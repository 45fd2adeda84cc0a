// Tori and meshes: device index = x + d_0·(y + d_1·z), one link per direction between neighbours, with or without
// wrap-around. A message takes the shortest way in x, then y, then z (half way round: towards rising coordinates); its
// latency is a per hop.
//
// A group that fills a box of the torus, every t-th device of d_k in dimension k, has `extent` members along each
// dimension. Its collectives run on the rings of the dimensions. A dimension is closed when the group goes all the way
// round it; otherwise the ring is closed by a message back across the whole extent.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/stride.h"

namespace nest::cluster {

inline constexpr std::size_t kMaxDimensions = 4;

struct Torus {
  std::vector<std::int64_t> dims;  // 1 … kMaxDimensions of them
  std::vector<bool> wrap;          // per dimension
  double link_bytes_per_s = 0;     // one link, per direction, efficiency applied
  double latency_s = 0;            // per hop
  double message_overhead_s = 0;

  std::int64_t devices() const;
  std::int64_t hops(std::int64_t a, std::int64_t b) const;
  std::int64_t diameter() const;  // hops of the longest way
};

struct TorusPlace {
  bool boxed = true;  // false: no box; its rings are routed
  std::int64_t members = 1;
  std::array<std::int64_t, kMaxDimensions> extent{1, 1, 1, 1};
  std::array<std::int64_t, kMaxDimensions> stride{1, 1, 1, 1};
  std::array<std::int64_t, kMaxDimensions> sharing{1, 1, 1, 1};  // equal groups on one link of the dimension

  // Of a group without a box, its ring in the order of its members: hops of the longest step, and steps of all groups on
  // the busiest link. Where too many devices take part to route them, the longest way through the torus for both.
  std::int64_t ring_hops = 0;
  std::int64_t ring_load = 1;

  // Of a group of two, box or not: hops between them, and flows on the busiest link when all its siblings send too.
  std::int64_t pair_hops = 0;
  std::int64_t pair_load = 1;

  bool operator==(const TorusPlace&) const = default;
};

TorusPlace make_torus_place(const Torus& torus, const GroupSpec& spec);

}  // namespace nest::cluster
