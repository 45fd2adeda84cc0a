#include "questions/reshard.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace nest::questions {
namespace {

bool comes_before(const Piece& a, const Piece& b) { return std::tie(a.tensor, a.begin) < std::tie(b.tensor, b.begin); }

// Sorted, those that overlap or touch joined.
std::vector<Piece> joined_pieces(std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end(), comes_before);
  std::vector<Piece> result;
  for (const Piece& piece : pieces) {
    if (!result.empty() && result.back().tensor == piece.tensor && result.back().end >= piece.begin) {
      result.back().end = std::max(result.back().end, piece.end);
    } else {
      result.push_back(piece);
    }
  }
  return result;
}

// Of `piece`, what is not in the joined pieces `held`.
std::vector<Piece> missing(const Piece& piece, const std::vector<Piece>& held) {
  std::vector<Piece> result;
  double at = piece.begin;
  // The first that may reach into it is the last one that begins no later.
  auto next = std::upper_bound(held.begin(), held.end(), piece, comes_before);
  if (next != held.begin() && std::prev(next)->tensor == piece.tensor) --next;
  for (; next != held.end() && next->tensor == piece.tensor && next->begin < piece.end; ++next) {
    if (next->end <= at) continue;
    if (next->begin > at) result.push_back({piece.tensor, at, next->begin});
    at = std::max(at, next->end);
  }
  if (at < piece.end) result.push_back({piece.tensor, at, piece.end});
  return result;
}

}  // namespace

Movement& Movement::operator+=(const Movement& other) {
  received_bytes += other.received_bytes;
  from_storage_bytes += other.from_storage_bytes;
  most_received_bytes += other.most_received_bytes;
  return *this;
}

Movement movement(const Layout& before, const Layout& after, const std::vector<std::int64_t>& before_of,
                  const std::vector<double>& bytes) {
  NEST_CHECK(before_of.size() == after.size(), "every device of the new layout has a past");
  std::vector<Piece> left;  // what somebody who is left held
  for (const std::int64_t device : before_of) {
    if (device < 0) continue;
    const std::vector<Piece>& held = before[static_cast<std::size_t>(device)];
    left.insert(left.end(), held.begin(), held.end());
  }
  left = joined_pieces(std::move(left));
  Movement all;
  for (std::size_t d = 0; d < after.size(); ++d) {
    const std::vector<Piece> own =
        before_of[d] < 0 ? std::vector<Piece>{} : joined_pieces(before[static_cast<std::size_t>(before_of[d])]);
    double received = 0;
    for (const Piece& piece : after[d]) {
      for (const Piece& part : missing(piece, own)) {
        const double size = bytes[static_cast<std::size_t>(part.tensor)];
        received += (part.end - part.begin) * size;
        for (const Piece& gone : missing(part, left)) all.from_storage_bytes += (gone.end - gone.begin) * size;
      }
    }
    all.received_bytes += received;
    all.most_received_bytes = std::max(all.most_received_bytes, received);
  }
  return all;
}

}  // namespace nest::questions
