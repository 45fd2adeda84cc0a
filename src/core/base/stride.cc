#include "base/stride.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace nest {
namespace {

bool smaller_stride(const Stride& a, const Stride& b) { return a.stride < b.stride; }

void visit(const std::vector<Stride>& axes, std::size_t axis, std::int64_t at, std::vector<std::int64_t>& found) {
  if (axis == 0) {
    found.push_back(at);
    return;
  }
  const Stride& outer = axes[axis - 1];
  for (std::int64_t i = 0; i < outer.count; ++i) visit(axes, axis - 1, at + i * outer.stride, found);
}

}  // namespace

std::int64_t size_of(const std::vector<Stride>& axes) {
  std::int64_t product = 1;
  for (const Stride& axis : axes) product = checked_product({product, axis.count});
  return product;
}

std::int64_t last_of(const std::vector<Stride>& axes) {
  std::int64_t last = 0;
  for (const Stride& axis : axes) last += axis.stride * (axis.count - 1);
  return last;
}

std::vector<Stride> normalised(const std::vector<Stride>& axes) {
  std::vector<Stride> sorted;
  sorted.reserve(axes.size());
  for (const Stride& axis : axes) {
    NEST_CHECK(axis.stride > 0 && axis.count > 0, "strides and counts of a group are positive");
    if (axis.count > 1) sorted.push_back(axis);
  }
  if (sorted.size() < 2) return sorted;
  std::sort(sorted.begin(), sorted.end(), smaller_stride);
  std::size_t joined = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    Stride& last = sorted[joined];
    if (sorted[i].stride == last.stride * last.count) {
      last.count *= sorted[i].count;
    } else {
      sorted[++joined] = sorted[i];
    }
  }
  sorted.resize(joined + 1);
  return sorted;
}

std::vector<std::vector<std::int64_t>> list_groups(const GroupSpec& spec) {
  std::vector<std::int64_t> starts;
  const std::vector<Stride> members = normalised(spec.members);
  const std::vector<Stride> siblings = normalised(spec.siblings);
  visit(siblings, siblings.size(), spec.first, starts);
  std::vector<std::vector<std::int64_t>> groups(starts.size());
  for (std::size_t i = 0; i < starts.size(); ++i) visit(members, members.size(), starts[i], groups[i]);
  return groups;
}

Division divide(std::vector<Stride> axes, std::int64_t degree) {
  std::sort(axes.begin(), axes.end(), smaller_stride);
  Division division;
  for (const Stride& axis : axes) {
    const bool whole = degree % axis.count == 0;
    if (!whole && axis.count % degree != 0) {
      division.even = false;
      continue;
    }
    const std::int64_t taken = whole ? axis.count : degree;
    if (taken > 1) division.inside.push_back({axis.stride, taken});
    if (taken < axis.count) division.outside.push_back({axis.stride * taken, axis.count / taken});
    degree /= taken;
  }
  division.even = division.even && degree == 1;
  return division;
}

}  // namespace nest
