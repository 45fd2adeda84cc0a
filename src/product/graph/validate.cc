// What a graph must satisfy before anything is derived from it.
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "graph/flow.h"
#include "graph/lists.h"
#include "graph/raw_graph.h"

namespace nest::graph {
namespace {

constexpr double kLargestTensor = 0x1p56;  // of one tensor, as traced
constexpr double kLargestModel = 0x1p50;   // elements of all of them
constexpr std::size_t kMostOperators = 200'000;
constexpr std::size_t kLongestPath = 1024;

class Validator {
 public:
  Validator(const RawGraph& graph, const std::string& source)
      : graph_(graph), source_(source), maker_(graph.tensors.size(), kNobody) {}

  void run() {
    check_limits();
    check_sizes();
    for (const int id : graph_.inputs) maker_[at(id)] = kGiven;
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) check_order(i);
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) check_shapes(i);
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      if (maker_[at(graph_.outputs[i])] == kNobody) {
        fail(fmt::format("outputs[{}]: no operator makes tensor {}", i, graph_.outputs[i]));
      }
    }
  }

 private:
  static constexpr int kNobody = -1;
  static constexpr int kGiven = -2;

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(fmt::format("{}: {}", source_, message));
  }
  [[noreturn]] void fail_at(std::size_t i, const std::string& message) const {
    const RawOperator& op = graph_.operators[i];
    fail(fmt::format("operators[{}] ({} {}): {}", i, to_string(op.op), clip(op.name, 60), message));
  }

  // Whatever is done with a graph ends in time up to these.
  void check_limits() const {
    if (graph_.operators.size() > kMostOperators) {
      fail(fmt::format("operators: {} are too many; allowed are {}", graph_.operators.size(), kMostOperators));
    }
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      if (graph_.operators[i].module.size() > kLongestPath) {
        fail_at(i, fmt::format("module: a path of {} bytes is too long; allowed are {}",
                               graph_.operators[i].module.size(), kLongestPath));
      }
    }
    for (const auto& [pattern, way] : graph_.splits) {
      if (pattern.size() > kLongestPath) {
        fail(fmt::format("splits: a pattern of {} bytes is too long; allowed are {}", pattern.size(), kLongestPath));
      }
    }
  }

  void check_dimensions(std::size_t i) const {
    const RawTensor& tensor = graph_.tensors[i];
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      const double size = extent(tensor.shape[d], real(graph_.batch), real(graph_.sequence));
      if (size >= 1 - 1e-6) continue;
      fail(
          fmt::format("tensors[{}] ({}): shape[{}]: {:g} is no size at the traced batch of {} and sequence of {}; it "
                      "is at least 1",
                      i, clip(tensor.name, 60), d, size, graph_.batch, graph_.sequence));
    }
  }

  void check_sizes() const {
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      check_dimensions(i);
      const double elements = extent(product(graph_.tensors[i].shape), real(graph_.batch), real(graph_.sequence));
      if (!(elements > 0) || elements > kLargestTensor) {
        fail(fmt::format("tensors[{}] ({}): {:g} elements are out of range; allowed are 1 … 2^56", i,
                         clip(graph_.tensors[i].name, 60), elements));
      }
    }
    double all = 0;
    for (std::size_t i = 0; i < graph_.weights.size(); ++i) {
      double elements = 1;
      for (const std::int64_t size : graph_.weights[i].shape) {
        if (size < 1) fail(fmt::format("weights[{}].shape: {} is no size; it is at least 1", i, size));
        elements *= real(size);
      }
      all += elements;
      if (all > kLargestModel) {
        fail(fmt::format("weights[{}] ({}): the weights have more than 2^50 elements", i,
                         clip(graph_.weights[i].name, 60)));
      }
    }
  }

  void check_order(std::size_t i) {
    const RawOperator& op = graph_.operators[i];
    for (std::size_t k = 0; k < op.inputs.size(); ++k) check_made(i, "inputs", k, op.inputs[k]);
    for (std::size_t k = 0; k < op.outputs.size(); ++k) {
      int& maker = maker_[at(op.outputs[k])];
      if (maker != kNobody) {
        fail_at(i, fmt::format("outputs[{}]: tensor {} is made twice, first by {}", k, op.outputs[k],
                               maker == kGiven ? "the graph's inputs" : fmt::format("operators[{}]", maker)));
      }
      maker = static_cast<int>(i);
    }
    if (op.outputs.empty()) fail_at(i, "it makes no tensor");
  }

  // A tensor that nobody makes is a constant; one that is made later is a cycle, or operators out of order.
  void check_made(std::size_t i, const char* key, std::size_t k, int id) {
    if (maker_[at(id)] != kNobody) return;
    if (later_.empty()) {
      later_.assign(graph_.tensors.size(), kNobody);
      for (std::size_t j = 0; j < graph_.operators.size(); ++j) {
        for (const int made : graph_.operators[j].outputs) later_[at(made)] = static_cast<int>(j);
      }
    }
    const int by = later_[at(id)];
    if (by != kNobody && at(by) >= i) {
      fail_at(i, fmt::format("{}[{}]: tensor {} is made by operators[{}], which does not come before: operators are in "
                             "execution order, without cycles",
                             key, k, id, by));
    }
  }

  const std::vector<Dimension>& shape(int tensor) const { return graph_.tensors[at(tensor)].shape; }

  void need_inputs(std::size_t i, std::size_t count) const {
    const std::size_t has = graph_.operators[i].inputs.size();
    if (has < count) fail_at(i, fmt::format("it has {} inputs and needs {}", has, count));
  }

  double elements(int tensor) const {
    return extent(product(shape(tensor)), real(graph_.batch), real(graph_.sequence));
  }

  // The size of the dimension `back` from the end.
  double size_from_end(std::size_t i, int tensor, std::size_t back) const {
    const auto& dims = shape(tensor);
    if (dims.size() <= back) {
      fail_at(i, fmt::format("tensor {} has {} dimensions and needs {}", tensor, dims.size(), back + 1));
    }
    return extent(dims[dims.size() - 1 - back], real(graph_.batch), real(graph_.sequence));
  }

  void check_equal(std::size_t i, const char* what, double a, double b) const {
    if (std::abs(a - b) > 0.5) fail_at(i, fmt::format("{}: {:.6g} does not fit {:.6g}", what, a, b));
  }

  const RawWeight& weight(std::size_t i, std::size_t rank) const {
    const RawOperator& op = graph_.operators[i];
    if (op.weights.empty()) fail_at(i, "it has no weights");
    const RawWeight& first = graph_.weights[at(op.weights.front())];
    if (first.shape.size() < rank) {
      fail_at(i,
              fmt::format("weight {} has {} dimensions and needs {}", clip(first.name, 60), first.shape.size(), rank));
    }
    return first;
  }

  void check_shapes(std::size_t i) const {
    const RawOperator& op = graph_.operators[i];
    switch (op.op) {
      case RawOp::linear: {
        need_inputs(i, 1);
        const RawWeight& w = weight(i, 2);
        if (w.shape.size() != 2) fail_at(i, "its weight is no matrix");
        const auto in = real(w.shape[op.attributes.transposed ? 0 : 1]);
        const auto out = real(w.shape[op.attributes.transposed ? 1 : 0]);
        const double columns = size_from_end(i, op.inputs.front(), 0);
        check_equal(i, "columns of its input and of its weight", columns, in);
        check_equal(i, "elements of its output and of input times weight", elements(op.outputs.front()),
                    elements(op.inputs.front()) / columns * out);
        break;
      }
      case RawOp::embedding: {
        const RawWeight& w = weight(i, 2);
        check_equal(i, "columns of its output and of its table", size_from_end(i, op.outputs.front(), 0),
                    real(w.shape.back()));
        break;
      }
      case RawOp::matmul: check_matmul(i); break;
      case RawOp::attention: {
        need_inputs(i, 3);
        for (int k = 0; k < 3; ++k) {
          if (shape(op.inputs[at(k)]).size() < 3) fail_at(i, fmt::format("inputs[{}] has fewer than 3 dimensions", k));
        }
        check_equal(i, "columns of queries and keys", head_columns(op, 0), head_columns(op, 1));
        break;
      }
      case RawOp::conv: {
        need_inputs(i, 1);
        const RawWeight& w = weight(i, 3);
        const auto& in = shape(op.inputs.front());
        if (in.size() != w.shape.size()) {
          fail_at(i, fmt::format("its input has {} dimensions, its weight {}", in.size(), w.shape.size()));
        }
        if (op.attributes.groups < 1 || w.shape.front() % op.attributes.groups != 0) {
          fail_at(
              i, fmt::format("attributes: {} groups do not divide {} channels", op.attributes.groups, w.shape.front()));
        }
        const auto groups = real(op.attributes.groups);
        const double channels =
            real(w.shape[op.attributes.transposed ? 0 : 1]) * (op.attributes.transposed ? 1 : groups);
        check_equal(i, "channels of its input and of its weight", size_from_end(i, op.inputs.front(), in.size() - 2),
                    channels);
        break;
      }
      case RawOp::expert_matmul:
        need_inputs(i, 1);
        weight(i, 3);
        break;
      case RawOp::moe:
        need_inputs(i, 1);
        if (op.attributes.experts < 1 || op.attributes.top_k < 1 || op.attributes.top_k > op.attributes.experts ||
            op.attributes.ffn < 1) {
          fail_at(i, "attributes: experts, top_k and ffn must be given, and top_k at most experts");
        }
        break;
      case RawOp::view: need_inputs(i, 1); break;
      default: break;
    }
  }

  // Of one head of the queries (0) or keys (1).
  double head_columns(const RawOperator& op, std::size_t input) const {
    const bool own = input > 0 && op.attributes.kv_heads > 0;
    const auto apart = heads_apart(shape(op.inputs[input]), own ? op.attributes.kv_heads : op.attributes.heads);
    return extent(apart.back(), real(graph_.batch), real(graph_.sequence));
  }

  void check_matmul(std::size_t i) const {
    const RawOperator& op = graph_.operators[i];
    need_inputs(i, 2);
    const double a = size_from_end(i, op.inputs[0], op.attributes.transpose_a ? 1 : 0);
    const bool vector = shape(op.inputs[1]).size() == 1;
    const double b = size_from_end(i, op.inputs[1], op.attributes.transpose_b || vector ? 0 : 1);
    check_equal(i, "contracted sizes", a, b);
  }

  const RawGraph& graph_;
  const std::string& source_;
  std::vector<int> maker_;
  std::vector<int> later_;
};

}  // namespace

void validate(const RawGraph& graph, const std::string& source) { Validator(graph, source).run(); }

}  // namespace nest::graph
