#include "cluster/layout.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"
#include "cluster/lattice_layout.h"

namespace nest::cluster {
namespace {

constexpr std::int64_t kScannedUnits = 4096;  // of one level, for contiguous groups whose pattern repeats even later

// Whether every axis starts only after the one before it has ended, so that no two index sums coincide.
bool nested(const std::vector<Stride>& sorted) {
  for (std::size_t i = 0; i + 1 < sorted.size(); ++i) {
    if (sorted[i + 1].stride < sorted[i].stride * sorted[i].count) return false;
  }
  return true;
}

// Whether units of `unit` devices cut the axes evenly: each axis lies below the unit, is cut into whole pieces, or lies
// above.
bool divides_evenly(const std::vector<Stride>& all, std::int64_t first, std::int64_t unit) {
  std::int64_t below = first % unit;
  std::int64_t room = unit;
  for (const Stride& axis : all) {
    if (axis.stride >= unit) {
      if (axis.stride % unit != 0) return false;
    } else if (axis.stride * axis.count > unit) {
      if (unit % axis.stride != 0) return false;
      room = axis.stride;
    } else {
      below += axis.stride * (axis.count - 1);
    }
  }
  return below < room;
}

// Values of the axis that fall into one unit.
std::int64_t values_inside(const Stride& axis, std::int64_t unit) {
  return axis.stride >= unit ? 1 : std::min(axis.count, ceil_div(unit, axis.stride));
}

// The same for the last unit that the axis reaches, which it may fill only in part.
std::int64_t values_at_the_end(const Stride& axis, std::int64_t unit) {
  const std::int64_t inside = values_inside(axis, unit);
  const std::int64_t rest = axis.count % inside;
  return rest == 0 ? inside : rest;
}

std::int64_t product_inside(const std::vector<Stride>& axes, std::int64_t unit) {
  std::int64_t product = 1;
  for (const Stride& axis : axes) product *= values_inside(axis, unit);
  return product;
}

// Fills what follows from inside[] and groups_inside[] when all groups that meet on an uplink climb equally high.
void share_equally(const Fabric& fabric, GroupLayout& layout) {
  layout.top = 0;
  for (std::size_t l = 0; l < fabric.levels; ++l) {
    layout.ring_exits[l] = 1;
    if (layout.inside[l] < layout.members) layout.top = l;
  }
  for (std::size_t l = 0; l <= layout.top; ++l) {
    for (std::size_t above = l; above <= layout.top; ++above) layout.sharing[l][above] = layout.groups_inside[l];
  }
}

GroupLayout aligned_layout(const Fabric& fabric, const std::vector<Stride>& members,
                           const std::vector<Stride>& siblings, std::int64_t size) {
  GroupLayout layout;
  layout.members = size;
  for (std::size_t l = 0; l < fabric.levels; ++l) {
    layout.inside[l] = product_inside(members, fabric.unit[l]);
    layout.head[l] = layout.inside[l];
    layout.most[l] = layout.inside[l];
    layout.fewest[l] = 1;
    for (const Stride& axis : members) layout.fewest[l] *= values_at_the_end(axis, fabric.unit[l]);
    layout.groups_inside[l] = product_inside(siblings, fabric.unit[l]);
  }
  if (fabric.has_rails()) layout.lane_period = layout.inside[fabric.rail_level];
  share_equally(fabric, layout);
  return layout;
}

// Contiguous groups of `size` devices laid end to end from `first`.
class ContiguousGroups {
 public:
  ContiguousGroups(const Fabric& fabric, std::int64_t first, std::int64_t size, std::int64_t groups)
      : fabric_(fabric), first_(first), size_(size), end_(first + size * groups) {}

  GroupLayout layout() const {
    GroupLayout layout;
    layout.members = size_;
    layout.inside[0] = layout.head[0] = layout.fewest[0] = layout.most[0] = layout.groups_inside[0] = 1;
    layout.ring_exits.fill(1);
    if (fabric_.has_rails()) layout.lane_period = fabric_.unit[fabric_.rail_level];
    for (std::size_t l = 1; l < fabric_.levels; ++l) scan_level(l, layout);
    layout.top = 0;
    for (std::size_t l = 1; l < fabric_.levels; ++l) {
      if (layout.sharing[l][l] > 0) layout.top = l;
    }
    for (std::size_t above = 0; above <= layout.top; ++above) layout.sharing[0][above] = 1;
    for (std::size_t l = fabric_.levels; l < kMaxLevels; ++l) layout.ring_exits[l] = 0;
    layout.alike = end_ == first_ + size_ || (layout.fewest == layout.inside && layout.most == layout.inside);
    return layout;
  }

 private:
  // Start of the group that holds a boundary strictly inside itself, or -1.
  std::int64_t group_cut_at(std::int64_t boundary) const {
    if (boundary <= first_ || boundary >= end_) return -1;
    const std::int64_t offset = (boundary - first_) % size_;
    return offset == 0 ? -1 : boundary - offset;
  }

  // Groups with members in [begin, end) that are cut by the ends of the level-`above` unit around it.
  std::int64_t cut_groups(std::int64_t begin, std::int64_t end, std::size_t above) const {
    const std::int64_t unit = fabric_.unit[above];
    const std::int64_t outer_begin = begin / unit * unit;
    const std::int64_t left = group_cut_at(outer_begin);
    const std::int64_t right = group_cut_at(outer_begin + unit);
    const bool has_left = left >= 0 && left + size_ > begin;
    const bool has_right = right >= 0 && right < end && !(has_left && right == left);
    return (has_left ? 1 : 0) + (has_right ? 1 : 0);
  }

  // Members of the group that has most of them in [begin, end).
  std::int64_t fullest_part(std::int64_t begin, std::int64_t end) const {
    const std::int64_t first_end = begin + size_ - (begin - first_) % size_;  // of the group that holds `begin`
    if (end <= first_end) return end - begin;
    if (end >= first_end + size_) return size_;
    return std::max(first_end - begin, end - first_end);
  }

  void keep_worse_cut(std::int64_t inside, std::int64_t& worst) const {
    const std::int64_t even = std::min(inside, size_ - inside);
    const std::int64_t so_far = std::min(worst, size_ - worst);
    if (even > so_far || (even == so_far && inside > worst)) worst = inside;
  }

  void scan_level(std::size_t l, GroupLayout& layout) const {
    const std::int64_t unit = fabric_.unit[l];
    const std::int64_t last = (end_ - 1) / unit;
    std::int64_t worst = size_;
    std::int64_t fewest = size_;
    const auto keep_part = [&](std::int64_t part) {
      keep_worse_cut(part, worst);
      fewest = std::min(fewest, part);
    };
    // How groups and units of all levels meet repeats with this many units; the first one may be cut short by `first_`.
    const std::int64_t period = std::lcm(size_, fabric_.unit[fabric_.levels - 1]) / unit + 1;
    const std::int64_t scanned = std::min({last, first_ / unit + period, first_ / unit + kScannedUnits});
    layout.exact = layout.exact && (scanned == last || period <= kScannedUnits);
    for (std::int64_t u = first_ / unit; u <= scanned; ++u) {
      const std::int64_t begin = std::max(u * unit, first_);
      const std::int64_t end = std::min((u + 1) * unit, end_);
      layout.groups_inside[l] =
          std::max(layout.groups_inside[l], (end - 1 - first_) / size_ - (begin - first_) / size_ + 1);
      for (std::size_t above = l; above < fabric_.levels; ++above) {
        layout.sharing[l][above] = std::max(layout.sharing[l][above], cut_groups(begin, end, above));
      }
      layout.most[l] = std::max(layout.most[l], fullest_part(begin, end));
      const std::int64_t left = group_cut_at(u * unit);
      const std::int64_t right = group_cut_at((u + 1) * unit);
      if (left >= 0) keep_part(std::min(left + size_, end) - begin);
      if (right >= 0) keep_part(end - std::max(right, begin));
    }
    layout.inside[l] = worst;
    layout.fewest[l] = fewest;
    layout.head[l] = end_ == first_ + size_ ? std::min(size_, unit - first_ % unit) : worst;
  }

  const Fabric& fabric_;
  std::int64_t first_;
  std::int64_t size_;
  std::int64_t end_;
};

GroupLayout upper_bound(const Fabric& fabric, const std::vector<Stride>& members, const std::vector<Stride>& siblings,
                        std::int64_t size, std::int64_t groups) {
  GroupLayout layout;
  layout.members = size;
  layout.exact = false;
  layout.alike = false;
  for (std::size_t l = 0; l < fabric.levels; ++l) {
    const std::int64_t unit = fabric.unit[l];
    layout.inside[l] = std::min({size, unit, product_inside(members, unit)});
    layout.head[l] = layout.inside[l];
    layout.fewest[l] = layout.inside[l] < size ? 1 : size;
    layout.most[l] = std::min(size, unit);
    std::int64_t present = 1;
    for (const Stride& axis : siblings) present *= l == 0 ? 1 : std::min(axis.count, values_inside(axis, unit) + 1);
    layout.groups_inside[l] = std::min({groups, unit, present});
  }
  if (fabric.has_rails()) layout.lane_period = fabric.unit[fabric.rail_level];
  share_equally(fabric, layout);
  return layout;
}

}  // namespace

GroupLayout make_layout(const Fabric& fabric, const GroupSpec& spec) {
  const std::vector<Stride> members = normalised(spec.members);
  const std::vector<Stride> siblings = normalised(spec.siblings);
  std::vector<Stride> all;
  all.reserve(members.size() + siblings.size());
  all.insert(all.end(), members.begin(), members.end());
  all.insert(all.end(), siblings.begin(), siblings.end());
  std::sort(all.begin(), all.end(), [](const Stride& a, const Stride& b) { return a.stride < b.stride; });
  NEST_CHECK(spec.first >= 0 && spec.first + last_of(all) < fabric.devices, "a group lies outside its cluster");
  const std::int64_t size = spec.size();
  const std::int64_t groups = spec.groups();

  if (fabric.regular && nested(all)) {
    bool even = true;
    for (std::size_t l = 1; l < fabric.levels; ++l) even = even && divides_evenly(all, spec.first, fabric.unit[l]);
    if (even) return aligned_layout(fabric, members, siblings, size);
    const bool contiguous = size > 1 && members.size() == 1 && members[0].stride == 1 &&
                            (siblings.empty() || (siblings.size() == 1 && siblings[0].stride == size));
    if (contiguous) return ContiguousGroups(fabric, spec.first, size, groups).layout();
  }
  if (checked_product({size, groups}) <= kCountedDevices) {
    if (nested(all) && all.size() <= kLatticeAxes) return lattice_layout(fabric, spec.first, members, siblings);
    const auto listed = list_groups(spec);
    return count_layout(fabric, listed);
  }
  return upper_bound(fabric, members, siblings, size, groups);
}

}  // namespace nest::cluster
