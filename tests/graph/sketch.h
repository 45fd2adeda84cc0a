// Operator graphs written by hand, as a tracer would see the models.
#pragma once

#include <string>
#include <vector>

#include "graph/raw_graph.h"

namespace nest::graph {

inline const Dimension kB{1, 1, 0};
inline const Dimension kS{1, 0, 1};
inline Dimension fixed(double size) { return {size, 0, 0}; }

class Sketch {
 public:
  Sketch(std::string name, std::int64_t batch, std::int64_t sequence) {
    graph.name = std::move(name);
    graph.batch = batch;
    graph.sequence = sequence;
  }

  int tensor(std::vector<Dimension> shape, DataType type = DataType::bfloat16) {
    graph.tensors.push_back({"t" + std::to_string(graph.tensors.size()), std::move(shape), type});
    return static_cast<int>(graph.tensors.size()) - 1;
  }
  int weight(const std::string& name, std::vector<std::int64_t> shape) {
    graph.weights.push_back({name, std::move(shape), DataType::bfloat16, true});
    return static_cast<int>(graph.weights.size()) - 1;
  }
  int input(std::vector<Dimension> shape, DataType type = DataType::bfloat16) {
    graph.inputs.push_back(tensor(std::move(shape), type));
    return graph.inputs.back();
  }
  // Returns the result.
  int add(RawOp op, const std::string& module, std::vector<int> inputs, std::vector<Dimension> shape,
          std::vector<int> weights = {}, std::vector<int> saves = {}, DataType type = DataType::bfloat16) {
    RawOperator made;
    made.op = op;
    made.module = module;
    made.name = module + "." + to_string(op) + "#" + std::to_string(graph.operators.size());
    made.inputs = std::move(inputs);
    made.outputs = {tensor(std::move(shape), type)};
    made.weights = std::move(weights);
    made.saves = std::move(saves);
    graph.operators.push_back(std::move(made));
    return graph.operators.back().outputs.front();
  }
  RawOperator& last() { return graph.operators.back(); }
  void keeps_result() { last().saves->push_back(last().outputs.front()); }

  int view(int of, std::vector<Dimension> shape) {
    const DataType type = graph.tensors[static_cast<std::size_t>(of)].type;
    return add(RawOp::view, last().module, {of}, std::move(shape), {}, {}, type);
  }
  int linear(const std::string& module, int x, std::int64_t out, std::int64_t in, bool bias = false) {
    std::vector<int> weights = {weight(module + ".weight", {out, in})};
    if (bias) weights.push_back(weight(module + ".bias", {out}));
    std::vector<Dimension> shape = graph.tensors[static_cast<std::size_t>(x)].shape;
    shape.back() = fixed(static_cast<double>(out));
    return add(RawOp::linear, module, {x}, shape, weights, {x});
  }

  RawGraph graph;
};

struct Sizes {
  std::int64_t layers = 2, hidden = 64, heads = 4, kv_heads = 4, ffn = 128, vocabulary = 512, sequence = 128;
};

RawGraph sketch_llama(const Sizes& sizes);  // eager RMSNorm in fp32, rotary written out, fused attention, gated
RawGraph sketch_gpt2(const Sizes& sizes);   // fused projection, LayerNorm, GELU, tied embeddings, learned positions
// Two levels down, two up, each joined with what the way down made.
RawGraph sketch_unet();

}  // namespace nest::graph
