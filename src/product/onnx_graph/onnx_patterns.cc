#include "onnx_graph/onnx_patterns.h"

#include <algorithm>

#include "graph/lists.h"

namespace nest::onnx_graph {
namespace {

class Joiner {
 public:
  explicit Joiner(graph::RawGraph& graph) : graph_(graph), gone_(graph.operators.size(), false) {
    maker_.assign(graph.tensors.size(), -1);
    readers_.resize(graph.tensors.size());
    for (std::size_t i = 0; i < graph.operators.size(); ++i) {
      for (const int out : graph.operators[i].outputs) maker_[at(out)] = static_cast<int>(i);
      for (const int in : graph.operators[i].inputs) readers_[at(in)].push_back(static_cast<int>(i));
    }
  }

  void run() {
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      join_bias(static_cast<int>(i));
      join_layer_norm(static_cast<int>(i));
      join_rms_norm(static_cast<int>(i));
      lighten_silu(static_cast<int>(i));
      lighten_gelu(static_cast<int>(i));
    }
    std::vector<graph::RawOperator> kept;
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      if (!gone_[i]) kept.push_back(std::move(graph_.operators[i]));
    }
    graph_.operators = std::move(kept);
  }

 private:
  graph::RawOperator& op(int index) { return graph_.operators[at(index)]; }
  bool is(int index, const char* kind) const {
    return index >= 0 && !gone_[at(index)] && graph_.operators[at(index)].attributes.kind == kind;
  }
  int only_reader(int tensor) const { return readers_[at(tensor)].size() == 1 ? readers_[at(tensor)].front() : -1; }
  // The reader of that kind, where there is one.
  int reader(int tensor, const char* kind) const {
    for (const int each : readers_[at(tensor)]) {
      if (is(each, kind)) return each;
    }
    return -1;
  }

  void join_bias(int index) {
    graph::RawOperator& add = op(index);
    if (!is(index, "add") || add.inputs.size() != 1 || add.weights.size() != 1) return;
    const int product = maker_[at(add.inputs.front())];
    if (product < 0 || gone_[at(product)] || op(product).op != graph::RawOp::linear || op(product).weights.size() != 1)
      return;
    if (only_reader(add.inputs.front()) != index || graph_.weights[at(add.weights.front())].shape.size() != 1) return;
    op(product).weights.push_back(add.weights.front());
    op(product).outputs = add.outputs;
    maker_[at(add.outputs.front())] = product;
    gone_[at(index)] = true;
  }

  // mean, difference, square, mean, + epsilon, root, quotient, scale, shift.
  void join_layer_norm(int index) {
    if (!is(index, "mean") || op(index).inputs.size() != 1) return;
    const int x = op(index).inputs.front();
    const int difference = reader(op(index).outputs.front(), "sub");
    if (difference < 0 || !graph::has(op(difference).inputs, x)) return;
    const int d = op(difference).outputs.front();
    const int square = reader(d, "pow");
    const int variance = square < 0 ? -1 : reader(op(square).outputs.front(), "mean");
    const int epsilon = variance < 0 ? -1 : reader(op(variance).outputs.front(), "add");
    const int root = epsilon < 0 ? -1 : reader(op(epsilon).outputs.front(), "sqrt");
    const int quotient = root < 0 ? -1 : reader(op(root).outputs.front(), "div");
    if (quotient < 0 || !graph::has(op(quotient).inputs, d)) return;
    std::vector<int> chain = {index, difference, square, variance, epsilon, root, quotient};
    finish_norm(x, std::move(chain), {"mul", "add"}, "layer");
  }

  // square, mean, + epsilon, root, and x by that, scale; casts may lie between.
  void join_rms_norm(int index) {
    if (!is(index, "pow") || op(index).inputs.size() != 1) return;
    const int x = op(index).inputs.front();
    const int mean = reader(op(index).outputs.front(), "mean");
    const int epsilon = mean < 0 ? -1 : reader(op(mean).outputs.front(), "add");
    const int root = epsilon < 0 ? -1 : reader(op(epsilon).outputs.front(), "sqrt");
    if (root < 0) return;
    std::vector<int> chain = {index, mean, epsilon, root};
    int by = reader(op(root).outputs.front(), "div");
    if (by >= 0 && op(by).inputs.size() == 1) {  // one over the root
      chain.push_back(by);
      by = reader(op(by).outputs.front(), "mul");
    } else if (const int reciprocal = reader(op(root).outputs.front(), "reciprocal"); by < 0 && reciprocal >= 0) {
      chain.push_back(reciprocal);
      by = reader(op(reciprocal).outputs.front(), "mul");
    }
    if (by < 0 || !graph::has(op(by).inputs, x)) return;
    chain.push_back(by);
    finish_norm(x, std::move(chain), {"mul"}, "rms");
  }

  // Scale and shift follow; the last operator becomes the norm.
  void finish_norm(int x, std::vector<int> chain, std::initializer_list<const char*> kinds, const char* name) {
    std::vector<int> weights;
    int last = chain.back();
    for (const char* kind : kinds) {
      const int next = only_reader(op(last).outputs.front());
      if (!is(next, kind) || op(next).inputs.size() != 1 || op(next).weights.size() != 1) break;
      weights.push_back(op(next).weights.front());
      chain.push_back(next);
      last = next;
    }
    for (const int each : chain) {
      for (const int out : op(each).outputs) {
        const bool escapes = each != last && std::any_of(readers_[at(out)].begin(), readers_[at(out)].end(),
                                                         [&](int r) { return !graph::has(chain, r); });
        if (escapes) return;
      }
    }
    graph::RawOperator norm = op(last);
    norm.op = graph::RawOp::norm;
    norm.inputs = {x};
    norm.weights = weights;
    norm.saves.reset();
    norm.attributes = {};
    norm.attributes.kind = name;
    for (const int each : chain) gone_[at(each)] = true;
    gone_[at(last)] = false;
    op(last) = std::move(norm);
  }

  // x * sigmoid(x) is one kernel that keeps x.
  void lighten_silu(int index) {
    if (!is(index, "sigmoid")) return;
    const int x = op(index).inputs.empty() ? -1 : op(index).inputs.front();
    const int product = only_reader(op(index).outputs.front());
    if (x < 0 || !is(product, "mul") || !graph::has(op(product).inputs, x)) return;
    op(index).saves = std::vector<int>{};
    op(product).saves = std::vector<int>{x};
  }

  // x / sqrt(2), erf, + 1, times x, times a half: one kernel that keeps x.
  void lighten_gelu(int index) {
    if (!is(index, "erf") || op(index).inputs.empty()) return;
    const int scaled = maker_[at(op(index).inputs.front())];
    if (scaled < 0 || op(scaled).inputs.size() != 1) return;
    const int x = op(scaled).inputs.front();
    const int plus = only_reader(op(index).outputs.front());
    const int product = is(plus, "add") ? only_reader(op(plus).outputs.front()) : -1;
    if (!is(product, "mul") || !graph::has(op(product).inputs, x)) return;
    op(scaled).saves = op(index).saves = op(plus).saves = std::vector<int>{};
    op(product).saves = std::vector<int>{x};
  }

  graph::RawGraph& graph_;
  std::vector<bool> gone_;
  std::vector<int> maker_;
  std::vector<std::vector<int>> readers_;
};

}  // namespace

void join_patterns(graph::RawGraph& graph) { Joiner(graph).run(); }

}  // namespace nest::onnx_graph
