// Sizes of a flow's tensors as rows of a given width. Internal to graph.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index.h"
#include "graph/flow.h"

namespace nest::graph {

class RowSizes {
 public:
  RowSizes(const Flow& flow, int activation_bytes);

  model::Tensor tensor(int id, const std::string& name) const;
  std::int64_t row(int id) const { return row_[at(id)]; }
  int element_bytes(int id) const;
  bool has_sequence() const { return has_sequence_; }

 private:
  void hint(int id, double row);
  void hint_products();
  void fill();

  const Flow& flow_;
  int activation_bytes_;
  bool single_ = false;  // most weights are float32
  bool has_sequence_ = false;
  std::vector<std::int64_t> row_;
};

// Columns of a linear operator's result, and the contracted size, of its first weight.
struct LinearSize {
  std::int64_t out = 0;
  std::int64_t in = 0;
};
LinearSize linear_size(const RawGraph& graph, const Node& node);

}  // namespace nest::graph
