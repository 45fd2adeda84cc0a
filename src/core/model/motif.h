// The chain of layers as head + motif * repeats + tail. The motif is the sequence of at most 8 layers whose repetition
// covers most of the chain; of those that cover equally many the shortest, then the earliest.
#pragma once

#include <cstdint>
#include <vector>

namespace nest::model {

struct ChainMotif {
  std::int64_t head = 0;     // layers before the first motif
  std::int64_t motif = 1;    // its layers
  std::int64_t repeats = 0;  // at least 2; 0: nothing repeats
  std::int64_t tail = 0;     // layers after the last motif: all where nothing repeats

  std::int64_t end() const { return head + motif * repeats; }
};

// `layers` as Model::layers.
ChainMotif find_motif(const std::vector<int>& layers);

}  // namespace nest::model
