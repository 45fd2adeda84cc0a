#include "cluster/torus_collective.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/error.h"
#include "base/index.h"

namespace nest::cluster {
namespace {

struct Dimension {
  std::size_t index = 0;
  std::int64_t extent = 1;
  std::int64_t stride = 1;
  std::int64_t size = 1;  // of the torus
  double sharing = 1;
  bool closed = false;
};

std::vector<Dimension> box_of(const Torus& torus, const TorusPlace& place) {
  std::vector<Dimension> box;
  for (std::size_t k = 0; k < torus.dims.size(); ++k) {
    if (place.extent[k] < 2) continue;
    Dimension dimension{k, place.extent[k], place.stride[k], torus.dims[k], real(place.sharing[k]), false};
    dimension.closed = torus.wrap[k] && dimension.extent * dimension.stride == torus.dims[k];
    box.push_back(dimension);
  }
  return box;
}

CollectiveTime make_time(Algorithm algorithm, double latency_s, double bandwidth_s, std::size_t bottleneck) {
  return {latency_s + bandwidth_s, latency_s, bandwidth_s, algorithm, bottleneck};
}

std::optional<double> passes(Collective collective) {
  if (collective == Collective::all_reduce) return 2;
  if (collective == Collective::all_gather || collective == Collective::reduce_scatter) return 1;
  return std::nullopt;
}

double hop_latency_s(const Torus& torus, std::int64_t hops) {
  return real(hops) * torus.latency_s + torus.message_overhead_s;
}

std::int64_t ring_hops(const Dimension& dimension) {
  return dimension.closed ? dimension.stride : (dimension.extent - 1) * dimension.stride;
}

// Hops of the longest step of one ring through the whole box.
std::int64_t path_hops(const std::vector<Dimension>& box) {
  if (box.size() == 1) return ring_hops(box[0]);
  std::int64_t stride = 1;
  bool even = false;
  std::int64_t shortest_return = box[0].extent;
  for (const Dimension& dimension : box) {
    stride = std::max(stride, dimension.stride);
    even = even || dimension.extent % 2 == 0;
    shortest_return = std::min(shortest_return, dimension.extent);
  }
  return even ? stride : stride * shortest_return;
}

double most_sharing(const std::vector<Dimension>& box) {
  double sharing = 1;
  for (const Dimension& dimension : box) sharing = std::max(sharing, dimension.sharing);
  return sharing;
}

std::optional<CollectiveTime> ring_time(const Torus& torus, const std::vector<Dimension>& box, double n,
                                        Collective collective, double bytes) {
  const double sharing = most_sharing(box);
  const double hop_s = hop_latency_s(torus, path_hops(box));
  if (collective == Collective::broadcast) {
    return make_time(Algorithm::ring, (n - 1) * hop_s, bytes * sharing / torus.link_bytes_per_s, box[0].index);
  }
  const auto rounds = passes(collective);
  if (!rounds) return std::nullopt;
  const double steps = *rounds * (n - 1);
  return make_time(Algorithm::ring, steps * hop_s, steps * bytes / n * sharing / torus.link_bytes_per_s, box[0].index);
}

std::optional<CollectiveTime> halving_time(const Torus& torus, const std::vector<Dimension>& box, Collective collective,
                                           double bytes) {
  const auto rounds = passes(collective);
  if (!rounds) return std::nullopt;
  struct Partner {
    std::int64_t hops;
    double flows;
  };
  std::vector<Partner> partners;
  for (const Dimension& dimension : box) {
    if (!std::has_single_bit(static_cast<std::uint64_t>(dimension.extent))) return std::nullopt;
    for (std::int64_t distance = 1; distance < dimension.extent; distance *= 2) {
      partners.push_back({distance * dimension.stride, real(distance) * dimension.sharing});
    }
  }
  CollectiveTime time;
  time.algorithm = Algorithm::halving_doubling;
  time.bottleneck = box[0].index;
  double part = bytes;
  for (const Partner& partner : partners) {
    part /= 2;
    time.latency_s += *rounds * hop_latency_s(torus, partner.hops);
    time.bandwidth_s += *rounds * part * partner.flows / torus.link_bytes_per_s;
  }
  time.seconds = time.latency_s + time.bandwidth_s;
  return time;
}

std::optional<CollectiveTime> tree_time(const Torus& torus, const std::vector<Dimension>& box, Collective collective,
                                        double bytes) {
  if (collective != Collective::all_reduce && collective != Collective::broadcast) return std::nullopt;
  const double rounds = collective == Collective::all_reduce ? 2 : 1;
  std::int64_t hops = 0;
  for (const Dimension& dimension : box) hops += dimension.stride * (dimension.extent / (dimension.closed ? 2 : 1));
  return make_time(Algorithm::tree, rounds * hop_latency_s(torus, hops),
                   rounds * bytes * most_sharing(box) / torus.link_bytes_per_s, box[0].index);
}

// Histogram over hops of where one device's messages go within one dimension; entry h: peers at h hops, itself
// included.
std::vector<double> peers_by_hops(const Dimension& dimension) {
  std::vector<double> peers(at(dimension.extent * dimension.stride) + 1);
  for (std::int64_t i = 0; i < dimension.extent; ++i) {
    const std::int64_t way = dimension.closed ? std::min(i, dimension.extent - i) : i;
    peers[at(way * dimension.stride)] += 1;
  }
  return peers;
}

// The same for the messages on the busiest link of the dimension, in the direction that also takes the half-way ones.
// On an open line that is the middle link: i·(e−i) pairs cross it, most of them at i = e/2.
std::vector<double> flows_by_hops(const Dimension& dimension) {
  std::vector<double> flows(at(dimension.extent * dimension.stride) + 1);
  const std::int64_t half = dimension.extent / 2;
  for (std::int64_t distance = 1; distance < dimension.extent; ++distance) {
    if (dimension.closed && distance > half) break;
    const std::int64_t crossing =
        dimension.closed ? distance : std::min({distance, half, dimension.extent - half, dimension.extent - distance});
    flows[at(distance * dimension.stride)] += real(crossing) * dimension.sharing;
  }
  return flows;
}

std::vector<double> convolved(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> result(a.size() + b.size() - 1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == 0) continue;
    for (std::size_t j = 0; j < b.size(); ++j) result[i + j] += a[i] * b[j];
  }
  return result;
}

CollectiveTime direct_all_to_all(const Torus& torus, const std::vector<Dimension>& box, double n, double bytes) {
  CollectiveTime slowest;
  slowest.algorithm = Algorithm::direct;
  for (const Dimension& busiest : box) {
    std::vector<double> flows = flows_by_hops(busiest);
    for (const Dimension& other : box) {
      if (other.index != busiest.index) flows = convolved(flows, peers_by_hops(other));
    }
    double farther = 0;
    for (std::size_t hops = flows.size(); hops-- > 1;) {
      farther += flows[hops];
      const double latency_s = real(hops) * torus.latency_s;
      const double transfer_s = bytes / n * farther / torus.link_bytes_per_s;
      if (farther > 0 && latency_s + transfer_s >= slowest.seconds) {
        slowest = make_time(Algorithm::direct, latency_s, transfer_s, busiest.index);
      }
    }
  }
  slowest.latency_s += (n - 1) * torus.message_overhead_s;
  slowest.seconds += (n - 1) * torus.message_overhead_s;
  return slowest;
}

// Step `shift` of the pairwise exchange: how far rank i -> i + shift goes in every dimension, with and without the
// carry.
CollectiveTime pairwise_all_to_all(const Torus& torus, const std::vector<Dimension>& box, std::int64_t n,
                                   double bytes) {
  CollectiveTime time;
  time.algorithm = Algorithm::pairwise;
  for (std::int64_t shift = 1; shift < n; ++shift) {
    std::int64_t rest = shift;
    std::int64_t hops = 0;
    double load = 0;
    bool carry = false;
    for (const Dimension& dimension : box) {
      const std::int64_t apart = rest % dimension.extent;
      std::int64_t farthest = 0;
      for (const std::int64_t distance : {apart, (apart + (carry ? 1 : 0)) % dimension.extent}) {
        const std::int64_t way = dimension.closed ? std::min(distance, dimension.extent - distance) : distance;
        farthest = std::max(farthest, way);
      }
      hops += farthest * dimension.stride;
      load = std::max(load, real(farthest) * dimension.sharing);
      carry = carry || apart > 0;
      rest /= dimension.extent;
    }
    time.latency_s += hop_latency_s(torus, hops);
    time.bandwidth_s += bytes / real(n) * load / torus.link_bytes_per_s;
  }
  time.seconds = time.latency_s + time.bandwidth_s;
  time.bottleneck = box[0].index;
  return time;
}

// Best of the dimension rings, over all ways to use more links.
std::optional<CollectiveTime> multi_ring_time(const Torus& torus, const TorusPlace& place,
                                              const std::vector<Dimension>& box, Collective collective, double bytes) {
  std::optional<CollectiveTime> best;
  for (const std::size_t directions : {std::size_t{1}, std::size_t{2}}) {
    auto time = torus_dimension_rings(torus, place, collective, bytes, box.size(), directions);
    if (time && (!best || time->seconds < best->seconds)) best = time;
  }
  if (best) best->algorithm = Algorithm::multi_ring;
  return best;
}

// No box: one ring, as it is routed. What is sent to everybody at once may cross the whole torus.
std::optional<CollectiveTime> unboxed_time(const Torus& torus, const TorusPlace& place, Collective collective,
                                           double bytes, Algorithm algorithm) {
  const double n = real(place.members);
  const std::int64_t diameter = torus.diameter();
  const bool one_shot = collective == Collective::all_to_all || collective == Collective::send_recv;
  if (one_shot && algorithm == Algorithm::direct) {
    const double share = collective == Collective::all_to_all ? n - 1 : 1;
    return make_time(algorithm, hop_latency_s(torus, diameter), bytes * real(diameter) * share / torus.link_bytes_per_s,
                     0);
  }
  if (one_shot || algorithm != Algorithm::ring) return std::nullopt;
  const double steps = passes(collective).value_or(1) * (n - 1);
  const double link_s = bytes * real(place.ring_load) / torus.link_bytes_per_s;
  const double part = collective == Collective::broadcast ? link_s : steps / n * link_s;
  return make_time(algorithm, steps * hop_latency_s(torus, place.ring_hops), part, 0);
}

}  // namespace

std::optional<CollectiveTime> torus_dimension_rings(const Torus& torus, const TorusPlace& place, Collective collective,
                                                    double bytes, std::size_t rotations, std::size_t directions) {
  const std::vector<Dimension> box = box_of(torus, place);
  const auto rounds = passes(collective);
  const bool closed = std::all_of(box.begin(), box.end(), [](const Dimension& dimension) { return dimension.closed; });
  if (!rounds || box.empty() || !place.boxed || rotations > box.size() || (directions > 1 && !closed))
    return std::nullopt;
  const double part = bytes / real(rotations * directions);
  CollectiveTime time;
  time.algorithm = Algorithm::hierarchical;
  std::vector<double> below(rotations, 1);
  for (std::size_t phase = 0; phase < box.size(); ++phase) {
    CollectiveTime slowest;
    for (std::size_t rotation = 0; rotation < rotations; ++rotation) {
      const Dimension& dimension = box[(phase + rotation) % box.size()];
      const double extent = real(dimension.extent);
      const double latency_s = *rounds * (extent - 1) * hop_latency_s(torus, ring_hops(dimension));
      const double transfer_s =
          *rounds * (extent - 1) * part / (below[rotation] * extent) * dimension.sharing / torus.link_bytes_per_s;
      if (latency_s + transfer_s >= slowest.seconds) {
        slowest = make_time(Algorithm::hierarchical, latency_s, transfer_s, dimension.index);
      }
      below[rotation] *= extent;
    }
    time.latency_s += slowest.latency_s;
    time.bandwidth_s += slowest.bandwidth_s;
    if (phase == 0) time.bottleneck = slowest.bottleneck;  // later phases carry less
  }
  time.seconds = time.latency_s + time.bandwidth_s;
  return time;
}

std::optional<CollectiveTime> torus_algorithm_time(const Torus& torus, const TorusPlace& place, Collective collective,
                                                   double bytes, Algorithm algorithm) {
  if (place.members < 2) return CollectiveTime{.algorithm = algorithm};
  if (collective == Collective::send_recv && place.members == 2) {
    if (algorithm != Algorithm::direct) return std::nullopt;
    return make_time(algorithm, hop_latency_s(torus, place.pair_hops),
                     bytes * real(place.pair_load) / torus.link_bytes_per_s, 0);
  }
  if (!place.boxed) return unboxed_time(torus, place, collective, bytes, algorithm);
  const std::vector<Dimension> box = box_of(torus, place);
  const double n = real(place.members);
  switch (algorithm) {
    case Algorithm::ring: return ring_time(torus, box, n, collective, bytes);
    case Algorithm::multi_ring: return multi_ring_time(torus, place, box, collective, bytes);
    case Algorithm::hierarchical: return torus_dimension_rings(torus, place, collective, bytes, 1, 1);
    case Algorithm::halving_doubling: return halving_time(torus, box, collective, bytes);
    case Algorithm::tree: return tree_time(torus, box, collective, bytes);
    case Algorithm::direct:
      if (collective == Collective::all_to_all) return direct_all_to_all(torus, box, n, bytes);
      if (collective != Collective::send_recv) return std::nullopt;
      return make_time(algorithm, hop_latency_s(torus, path_hops(box)),
                       bytes * most_sharing(box) / torus.link_bytes_per_s, box[0].index);
    case Algorithm::pairwise:
      if (collective != Collective::all_to_all) return std::nullopt;
      return pairwise_all_to_all(torus, box, place.members, bytes);
    case Algorithm::measured: return std::nullopt;
  }
  return std::nullopt;
}

CollectiveTime torus_best_time(const Torus& torus, const TorusPlace& place, Collective collective, double bytes,
                               AlgorithmSet allowed) {
  for (const AlgorithmSet set : {allowed, AlgorithmSet::all()}) {
    std::optional<CollectiveTime> best;
    for (const AlgorithmFacts& row : kAlgorithmTable) {
      if (!row.is_tried || !set.has(row.algorithm)) continue;
      const auto time = torus_algorithm_time(torus, place, collective, bytes, row.algorithm);
      if (time && (!best || time->seconds < best->seconds)) best = time;
    }
    if (best) return *best;
  }
  NEST_CHECK(false, "every collective has an algorithm");
  return {};
}

}  // namespace nest::cluster
