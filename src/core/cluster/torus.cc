#include "cluster/torus.h"

#include <algorithm>

#include "base/error.h"
#include "cluster/layout.h"

namespace nest::cluster {
namespace {

// Adds one axis of a group to its box; false when the axis does not run along dimensions.
bool add_axis(const Torus& torus, Stride axis, TorusPlace& place) {
  std::int64_t block = 1;
  for (std::size_t k = 0; k < torus.dims.size() && axis.count > 1; ++k) {
    const std::int64_t size = torus.dims[k];
    if (axis.stride < block * size) {
      if (axis.stride % block != 0) return false;
      const std::int64_t step = axis.stride / block;
      if (place.extent[k] == 1) {
        place.stride[k] = step;
      } else if (step != place.stride[k] * place.extent[k]) {
        return false;
      }
      const std::int64_t here = std::min(axis.count, size / step);
      if (here < axis.count && (size % step != 0 || axis.count % here != 0)) return false;
      place.extent[k] *= here;
      axis.count /= here;
      axis.stride = block * size;
    }
    block *= size;
  }
  return axis.count == 1;
}

bool fits(const Torus& torus, std::int64_t first, const TorusPlace& place) {
  for (std::size_t k = 0; k < torus.dims.size(); ++k) {
    const std::int64_t at = first % torus.dims[k];
    if (at + (place.extent[k] - 1) * place.stride[k] >= torus.dims[k]) return false;
    first /= torus.dims[k];
  }
  return true;
}

constexpr std::int64_t kMostRouted = 1 << 16;  // devices

// Counts the links on the way from one device to another, dimension by dimension.
void count_way(const Torus& torus, std::int64_t from, std::int64_t to, std::vector<std::int32_t>& loads) {
  std::int64_t block = 1, here = from;
  for (std::size_t k = 0; k < torus.dims.size(); ++k) {
    const std::int64_t size = torus.dims[k], target = to / block % size;
    std::int64_t at = here / block % size;
    const std::int64_t ahead = (target - at + size) % size;
    const bool rising = torus.wrap[k] ? 2 * ahead <= size : target > at;
    while (at != target) {
      ++loads[static_cast<std::size_t>(
          (here * static_cast<std::int64_t>(torus.dims.size()) + static_cast<std::int64_t>(k)) * 2 + (rising ? 1 : 0))];
      const std::int64_t next = (at + (rising ? 1 : size - 1)) % size;
      here += (next - at) * block;
      at = next;
    }
    block *= size;
  }
}

void route_rings(const Torus& torus, const GroupSpec& spec, TorusPlace& place) {
  const std::int64_t reach = spec.first + last_of(spec.members) + last_of(spec.siblings);
  if (place.members * spec.groups() > kMostRouted || torus.devices() > kMostRouted || reach >= torus.devices()) {
    place.ring_hops = place.ring_load = torus.diameter();
    return;
  }
  std::vector<std::int32_t> loads(static_cast<std::size_t>(torus.devices()) * torus.dims.size() * 2, 0);
  for (const std::vector<std::int64_t>& group : list_groups(spec)) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      const std::int64_t from = group[i], to = group[(i + 1) % group.size()];
      place.ring_hops = std::max(place.ring_hops, torus.hops(from, to));
      count_way(torus, from, to, loads);
    }
  }
  place.ring_load = *std::max_element(loads.begin(), loads.end());
}

}  // namespace

std::int64_t Torus::devices() const {
  std::int64_t product = 1;
  for (const std::int64_t size : dims) product *= size;
  return product;
}

std::int64_t Torus::hops(std::int64_t a, std::int64_t b) const {
  std::int64_t total = 0;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    const std::int64_t apart = std::abs(a % dims[k] - b % dims[k]);
    total += wrap[k] ? std::min(apart, dims[k] - apart) : apart;
    a /= dims[k];
    b /= dims[k];
  }
  return total;
}

std::int64_t Torus::diameter() const {
  std::int64_t hops = 0;
  for (std::size_t k = 0; k < dims.size(); ++k) hops += wrap[k] ? dims[k] / 2 : dims[k] - 1;
  return hops;
}

TorusPlace make_torus_place(const Torus& torus, const GroupSpec& spec) {
  TorusPlace place;
  place.members = spec.size();
  std::vector<Stride> axes;
  for (const Stride& axis : spec.members) {
    if (axis.count > 1) axes.push_back(axis);
  }
  std::sort(axes.begin(), axes.end(), [](const Stride& a, const Stride& b) { return a.stride < b.stride; });
  for (const Stride& axis : axes) place.boxed = place.boxed && add_axis(torus, axis, place);
  place.boxed = place.boxed && fits(torus, spec.first, place);
  const std::int64_t groups = spec.groups();
  if (place.members == 2) {
    const std::int64_t other = spec.first + axes.back().stride * (axes.back().count - 1);
    place.pair_hops = torus.hops(spec.first, std::min(other, torus.devices() - 1));
    // Shifted copies of one route meet on a link at most as often as the route has links.
    place.pair_load = std::max<std::int64_t>(1, std::min(groups, place.pair_hops));
  }
  if (!place.boxed) route_rings(torus, spec, place);
  for (std::size_t k = 0; k < torus.dims.size(); ++k) {
    place.sharing[k] = place.extent[k] > 1 ? std::min(place.stride[k], groups) : 1;
  }
  return place;
}

}  // namespace nest::cluster
