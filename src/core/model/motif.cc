#include "model/motif.h"

#include <algorithm>

#include "base/index.h"

namespace nest::model {

ChainMotif find_motif(const std::vector<int>& layers) {
  constexpr std::int64_t kLongestMotif = 8;
  const std::int64_t n = std::ssize(layers);
  ChainMotif best;
  for (std::int64_t motif = 1; motif <= std::min(kLongestMotif, n / 2); ++motif) {
    for (std::int64_t head = 0; head + 2 * motif <= n; ++head) {
      std::int64_t end = head + motif;
      while (end < n && layers[at(end)] == layers[at(end - motif)]) ++end;
      const std::int64_t repeats = (end - head) / motif;
      if (repeats >= 2 && repeats * motif > best.repeats * best.motif) best = {head, motif, repeats, 0};
    }
  }
  best.tail = n - best.end();
  return best;
}

}  // namespace nest::model
