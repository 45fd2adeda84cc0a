// A raw graph without what costs nothing: views are resolved to the memory they look into, work on positions and token
// ids alone (masks, rotation angles) is left out, rules fill in what an operator keeps where the graph does not say.
// Internal to graph.
#pragma once

#include <string>
#include <vector>

#include "base/index.h"
#include "graph/raw_graph.h"
#include "model/graph.h"

namespace nest::graph {

struct Node {
  RawOp op = RawOp::unknown;
  std::string name;
  std::string module;
  std::vector<int> inputs;   // memory that it reads: tensors of the flow
  std::vector<int> outputs;  // several where the result is only read in parts
  std::vector<int> saves;
  std::vector<int> weights;
  RawAttributes attributes;
  int raw = -1;                     // operator of the graph
  model::AttentionShape attention;  // op == attention
};

struct Flow {
  const RawGraph* graph = nullptr;
  std::vector<RawTensor> tensors;  // the graph's; then those that rules add
  std::vector<Node> nodes;         // in execution order
  std::vector<bool> index;         // per tensor: depends on positions and token ids alone
  std::vector<int> maker;          // per tensor: node, or -1
  std::vector<int> index_saves;    // tensors of that kind that something keeps: once for the model
  std::vector<std::string> notes;

  std::vector<std::vector<int>> readers() const;  // per tensor: nodes, in order
  Dimension size(int tensor) const { return product(tensors[at(tensor)].shape); }
  double elements(int tensor) const;  // at the traced sizes
  double bytes(int tensor) const;
  void find_makers();
};

Flow make_flow(const RawGraph& graph);

// Turns scores written out (product, scaling and mask, softmax, product) into attention operators that are not fused.
void recognise_attention(Flow& flow);

// Shape of an attention of queries [..., rows, dim], keys and values.
model::AttentionShape attention_shape(const RawGraph& graph, const std::vector<Dimension>& q,
                                      const std::vector<Dimension>& k, const std::vector<Dimension>& v);
// How many there are per sequence of a batch because of leading dimensions that grow with the sequence, or with the
// batch once more, at the sizes of the trace: what is counted has one length to grow with.
double more_at_traced_size(const RawGraph& graph, const Dimension& lead);
// [batch, rows, heads * dim] as [batch, heads, rows, dim]; other shapes as they are.
std::vector<Dimension> heads_apart(const std::vector<Dimension>& shape, std::int64_t heads);
// Keys that are looked at once per query head, and lie in memory fewer times, are of fewer heads.
void unrepeat_keys(const Flow& flow, const std::vector<Dimension>& keys, Node& attention);
model::Length length_of(const RawGraph& graph, const Dimension& dimension);

}  // namespace nest::graph
