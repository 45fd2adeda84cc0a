// How much state must move from one division of a model over devices to another.
//
// The state is a list of tensors. What a device holds of a tensor is a set of intervals of [0, 1), the parameters in
// their order. To go from one layout to another every device of the new one needs its intervals: what it held before
// it has, the rest it receives: from another device that held it, or, where nobody who is left did, from the last state
// that was saved.
#pragma once

#include <cstdint>
#include <vector>

namespace nest::questions {

struct Piece {
  int tensor = 0;
  double begin = 0, end = 0;  // 0 <= begin < end <= 1
};

// What devices hold, by their number. Pieces of one device and tensor do not overlap.
using Layout = std::vector<std::vector<Piece>>;

struct Movement {
  double received_bytes = 0;       // by all devices together
  double from_storage_bytes = 0;   // of that, what no device that is left held
  double most_received_bytes = 0;  // by one device

  Movement& operator+=(const Movement& other);  // of another kind of state, between the same devices
};

// `before_of[d]`: the number in `before` of device d of `after`; -1: it is new. `bytes`: of every tensor.
// The most that one device receives is exact for one kind of state and an upper bound for their sum.
Movement movement(const Layout& before, const Layout& after, const std::vector<std::int64_t>& before_of,
                  const std::vector<double>& bytes);

}  // namespace nest::questions
