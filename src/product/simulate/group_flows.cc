#include "simulate/group_flows.h"

#include <algorithm>

#include "cluster/torus_collective.h"
#include "cost/group_time.h"

namespace nest::simulate {
namespace {

constexpr double kReferenceBytes = 256e6;  // that two ways around a torus are compared for

using Members = std::vector<std::int64_t>;

double pass_share(std::size_t members) { return static_cast<double>(members - 1) / static_cast<double>(members); }

void add_ring(const Members& order, std::vector<GroupFlow>& flows) {
  const auto steps = static_cast<std::int64_t>(order.size()) - 1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    flows.push_back({order[i], order[(i + 1) % order.size()], 1, pass_share(order.size()), steps, false});
  }
}

bool in_one_unit(const cluster::Fabric& fabric, const Members& group) {
  return std::all_of(group.begin(), group.end(), [&](std::int64_t device) {
    return fabric.levels < 2 || fabric.unit_of(1, device) == fabric.unit_of(1, group.front());
  });
}

// Rings over all links of a full mesh, each link with the same part: what a device sends goes to all others evenly.
void add_mesh(const Members& group, std::vector<GroupFlow>& flows) {
  const auto steps = static_cast<std::int64_t>(group.size()) - 1;
  const double share = pass_share(group.size()) / static_cast<double>(steps);
  for (const std::int64_t from : group) {
    for (const std::int64_t to : group) {
      if (from != to) flows.push_back({from, to, 1, share, steps, false});
    }
  }
}

// As many rings as a node has members: every device passes all but one of them on inside its node, and sends one to its
// counterpart in the next node. In a full mesh the others go to one device each.
void add_rings(const cluster::Fabric& fabric, const Members& group, std::vector<GroupFlow>& flows) {
  const std::size_t level = fabric.has_rails() ? fabric.rail_level : 1;
  std::size_t inside = 1;
  while (inside < group.size() && fabric.unit_of(level, group[inside]) == fabric.unit_of(level, group[0])) ++inside;
  const double share = pass_share(group.size()) / static_cast<double>(inside);
  const auto steps = static_cast<std::int64_t>(group.size()) - 1;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const std::size_t node = i / inside * inside;
    if (fabric.full_mesh) {
      for (std::size_t k = node; k < node + inside; ++k) {
        if (k != i) flows.push_back({group[i], group[k], 1, share, steps, false});
      }
    } else if (inside > 1) {
      const std::size_t next = node + (i - node + 1) % inside;
      flows.push_back({group[i], group[next], static_cast<std::int64_t>(inside) - 1, share, steps, false});
    }
    flows.push_back({group[i], group[(i + inside) % group.size()], 1, share, steps, false});
  }
}

// A box of a torus, dimension by dimension.
class TorusBox {
 public:
  TorusBox(const cluster::Torus& torus, const cluster::TorusPlace& place, std::int64_t first) : first_(first) {
    std::int64_t block = 1;
    for (std::size_t k = 0; k < torus.dims.size(); ++k) {
      const std::int64_t extent = place.extent[k];
      if (extent > 1) dims_.push_back({block * place.stride[k], extent});
      block *= torus.dims[k];
    }
    for (const Stride& dim : dims_) members_ *= dim.count;
  }

  std::size_t dimensions() const { return dims_.size(); }
  std::int64_t extent(std::size_t dim) const { return dims_[dim].count; }

  // All rings along one dimension.
  void add_rings(std::size_t dim, bool rising, double share, std::vector<GroupFlow>& flows) const {
    for (std::int64_t i = 0; i < members_; ++i) {
      const std::int64_t at = coordinate(i, dim);
      const std::int64_t next = (at + (rising ? 1 : dims_[dim].count - 1)) % dims_[dim].count;
      const std::int64_t from = device(i);
      flows.push_back({from, from + (next - at) * dims_[dim].stride, 1, share, dims_[dim].count - 1, !rising});
    }
  }

  // The members in an order in which each is the neighbour of the one before.
  Members snake() const {
    Members order;
    for (std::int64_t i = 0; i < members_; ++i) {
      std::int64_t device = first_;
      std::int64_t rest = i;
      for (const Stride& dim : dims_) {
        const std::int64_t turn = rest / dim.count;  // every second pass runs backwards
        const std::int64_t at = rest % dim.count;
        device += (turn % 2 == 0 ? at : dim.count - 1 - at) * dim.stride;
        rest = turn;
      }
      order.push_back(device);
    }
    return order;
  }

 private:
  std::int64_t coordinate(std::int64_t member, std::size_t dim) const {
    for (std::size_t k = 0; k < dim; ++k) member /= dims_[k].count;
    return member % dims_[dim].count;
  }
  std::int64_t device(std::int64_t member) const {
    std::int64_t at = first_;
    for (const Stride& dim : dims_) {
      at += member % dim.count * dim.stride;
      member /= dim.count;
    }
    return at;
  }

  std::int64_t first_;
  std::int64_t members_ = 1;
  std::vector<Stride> dims_;
};

GroupExchange by_dimensions(const cluster::Cluster& cluster, const std::vector<Members>& groups,
                            const cluster::GroupLayout& layout, cluster::Algorithm algorithm) {
  const cluster::Torus& torus = *cluster.torus;
  const std::size_t dims = TorusBox(torus, layout.torus, 0).dimensions();
  const std::size_t rotations = algorithm == cluster::Algorithm::multi_ring ? dims : 1;
  std::size_t directions = 1;
  if (algorithm == cluster::Algorithm::multi_ring) {
    const auto one = cluster::torus_dimension_rings(torus, layout.torus, cluster::Collective::reduce_scatter,
                                                    kReferenceBytes, dims, 1);
    const auto two = cluster::torus_dimension_rings(torus, layout.torus, cluster::Collective::reduce_scatter,
                                                    kReferenceBytes, dims, 2);
    if (two && two->seconds < one->seconds) directions = 2;
  }
  GroupExchange exchange;
  exchange.algorithm = algorithm;
  exchange.transfers.resize(dims);
  for (const Members& group : groups) {
    const TorusBox box(torus, layout.torus, group.front());
    std::vector<double> below(rotations, 1);
    for (std::size_t phase = 0; phase < dims; ++phase) {
      for (std::size_t rotation = 0; rotation < rotations; ++rotation) {
        const std::size_t dim = (phase + rotation) % dims;
        const auto extent = static_cast<double>(box.extent(dim));
        const double share = (extent - 1) / extent / below[rotation] / static_cast<double>(rotations * directions);
        box.add_rings(dim, true, share, exchange.transfers[phase]);
        if (directions == 2) box.add_rings(dim, false, share, exchange.transfers[phase]);
        below[rotation] *= extent;
      }
    }
  }
  return exchange;
}

GroupExchange torus_exchange(const cluster::Cluster& cluster, const GroupSpec& spec, const std::vector<Members>& groups,
                             cluster::Algorithm algorithm) {
  const cluster::GroupLayout layout = cluster::place_group(cluster, spec);
  const bool dimensional = algorithm == cluster::Algorithm::multi_ring || algorithm == cluster::Algorithm::hierarchical;
  if (layout.torus.boxed && dimensional) return by_dimensions(cluster, groups, layout, algorithm);
  GroupExchange exchange;
  exchange.algorithm = algorithm;
  if (algorithm != cluster::Algorithm::ring) return exchange;
  exchange.transfers.resize(1);
  for (const Members& group : groups) {
    const Members order = layout.torus.boxed ? TorusBox(*cluster.torus, layout.torus, group.front()).snake() : group;
    add_ring(order, exchange.transfers[0]);
  }
  return exchange;
}

}  // namespace

cluster::Algorithm group_algorithm(const cluster::Cluster& cluster, GroupSpec groups, Stride stages,
                                   double call_bytes) {
  if (groups.size() < 2) return cluster::Algorithm::ring;
  groups.first = 0;
  groups.siblings.push_back(stages);
  const cluster::GroupLayout layout = cluster::place_group(cluster, groups);
  return cost::group_collective(cluster, layout, cluster::Collective::reduce_scatter, call_bytes).algorithm;
}

GroupExchange group_exchange(const cluster::Cluster& cluster, const GroupSpec& groups, cluster::Algorithm algorithm) {
  if (groups.size() < 2) return {};
  const std::vector<Members> members = list_groups(groups);
  if (cluster.torus) return torus_exchange(cluster, groups, members, algorithm);
  GroupExchange exchange;
  exchange.algorithm = algorithm;
  if (algorithm != cluster::Algorithm::ring && algorithm != cluster::Algorithm::multi_ring) return exchange;
  exchange.transfers.resize(1);
  for (const Members& group : members) {
    if (algorithm == cluster::Algorithm::ring) {
      add_ring(group, exchange.transfers[0]);
    } else if (cluster.fabric.full_mesh && in_one_unit(cluster.fabric, group)) {
      add_mesh(group, exchange.transfers[0]);
    } else {
      add_rings(cluster.fabric, group, exchange.transfers[0]);
    }
  }
  return exchange;
}

}  // namespace nest::simulate
