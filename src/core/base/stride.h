// Sets of numbers given by arithmetic: ranks or devices of a group.
//
// Axes {stride_i, count_i} describe the numbers Σ stride_i · x_i with 0 <= x_i < count_i. A group is such a set from
// `first` on, in the order of rising index (axis of the smallest stride fastest); equal groups that exist beside it
// start at first + Σ stride_j · y_j over the sibling axes. A tensor-parallel group of 8 among 64 devices has the member
// axis {1, 8} and the sibling axis {8, 8}; a data-parallel one over the same devices the other way round.
#pragma once

#include <cstdint>
#include <vector>

namespace nest {

struct Stride {
  std::int64_t stride = 1;
  std::int64_t count = 1;
  bool operator==(const Stride&) const = default;
};

// Product of the counts; throws InputError when it does not fit in 63 bits.
std::int64_t size_of(const std::vector<Stride>& axes);
// The largest of the numbers.
std::int64_t last_of(const std::vector<Stride>& axes);
// Sorted by stride, without axes of one, and with axes joined where one continues the other.
std::vector<Stride> normalised(const std::vector<Stride>& axes);

struct GroupSpec {
  std::int64_t first = 0;
  std::vector<Stride> members;
  std::vector<Stride> siblings;

  std::int64_t size() const { return size_of(members); }
  std::int64_t groups() const { return size_of(siblings); }
};

// All groups of a spec as lists, the members of each in rank order. O(devices).
std::vector<std::vector<std::int64_t>> list_groups(const GroupSpec& spec);

// The innermost `degree` members of a group, and what is left: {2, 6} divided by 3 is {2, 3} inside and {6, 2} outside.
// An axis is taken whole or cut into equal parts; where that cannot give `degree` members, `even` is false and the rest
// means nothing.
struct Division {
  std::vector<Stride> inside;
  std::vector<Stride> outside;
  bool even = true;
};
Division divide(std::vector<Stride> axes, std::int64_t degree);

}  // namespace nest
