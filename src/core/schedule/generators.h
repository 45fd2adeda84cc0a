// One function per schedule: the order of one stage, and the closed form of what it holds.
#pragma once

#include "schedule/operation.h"

namespace nest::schedule {

Order one_f_one_b(const Shape& shape, std::int64_t stage);
std::int64_t one_f_one_b_held(const Shape& shape, std::int64_t stage);

Order interleaved(const Shape& shape, std::int64_t stage);
std::int64_t interleaved_held(const Shape& shape, std::int64_t stage);

Order gpipe(const Shape& shape, std::int64_t stage);
std::int64_t gpipe_held(const Shape& shape, std::int64_t stage);

// Position c p + s in the chain of chunks.
std::int64_t round_robin(const Shape& shape, std::int64_t stage, std::int64_t chunk);

// The micro-batches of one chunk in a row.
Order one_by_one(Pass pass, std::int64_t micro_batches);

// So many forwards first, then forward and backward in turn, then the backwards that are left.
Order in_turn(const Order& forwards, const Order& backwards, std::int64_t first);

}  // namespace nest::schedule
