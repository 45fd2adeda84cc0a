// What autograd keeps of a layer on one device. Internal to split.
//
// Every operator names the tensors that its backward needs; a tensor that several name is kept once. Where products are
// of 8 or 4 bits (Implementation::kept_input_bytes), a linear keeps the copy of its input that it quantised for itself:
//     bytes = rows * width * kept_input_bytes         for every linear that reads the tensor
// and the tensor itself only where an operator that computes in 16 bits needs it. Attention in 8 bits keeps copies of
// its operands and result in the same way (kept_attention_bytes).
#pragma once

#include <vector>

#include "split/local_layer.h"
#include "split/sizes.h"

namespace nest::split {

// Where the layer's tensors live, once all its operators were visited.
struct SavedSituation {
  const LocalSizes& sizes;
  const Split& split;
  const model::Implementation& implementation;
  const std::vector<Place>& place;    // by tensor
  const std::vector<bool>& gathered;  // by tensor: all tokens are gathered for its readers
};

// Fills in saved_tensors and saved. Operators are there, and marked where they are recomputed.
void count_saved(const SavedSituation& situation, const RecomputePolicy& policy, LocalLayer& local);

}  // namespace nest::split
