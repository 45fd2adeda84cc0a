#include "graph/flow.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "graph/lists.h"

namespace nest::graph {
namespace {

bool same_size(const Dimension& a, const Dimension& b) {
  return a.batch == b.batch && a.sequence == b.sequence &&
         std::abs(a.coefficient - b.coefficient) <= 1e-6 * std::max(a.coefficient, b.coefficient);
}

// Which memory every tensor of the graph looks into.
class Storages {
 public:
  explicit Storages(const RawGraph& graph) : graph_(graph), base_(graph.tensors.size()), slices_(graph.tensors.size()) {
    for (std::size_t t = 0; t < base_.size(); ++t) base_[t] = static_cast<int>(t);
    for (const RawOperator& op : graph.operators) {
      if (op.op == RawOp::view) look_through(op);
    }
    find_parts();
    find_wholes();
  }

  // One tensor, or all parts of one that is only read in parts.
  std::vector<int> resolve(int tensor) const {
    const int base = base_[at(tensor)];
    if (parted_[at(base)]) return slices_[at(base)];
    return {whole_[at(base)]};
  }

 private:
  static constexpr std::size_t kMostParts = 256;  // of one result

  // A slice that is no part of its memory stands for all of it. Views come after what they look into.
  void find_wholes() {
    whole_.resize(graph_.tensors.size());
    for (std::size_t t = 0; t < whole_.size(); ++t) whole_[t] = static_cast<int>(t);
    for (const RawOperator& op : graph_.operators) {
      if (op.op != RawOp::view) continue;
      for (const int out : op.outputs) {
        const int owner = owner_[at(out)];
        if (owner >= 0 && !parted_[at(owner)]) whole_[at(out)] = whole_[at(base_[at(owner)])];
      }
    }
  }

  void look_through(const RawOperator& op) {
    if (owner_.empty()) owner_.assign(graph_.tensors.size(), -1);
    const int from = base_[at(op.inputs.front())];
    const Dimension whole = product(graph_.tensors[at(from)].shape);
    for (const int out : op.outputs) {
      const Dimension part = product(graph_.tensors[at(out)].shape);
      const bool smaller = part.batch == whole.batch && part.sequence == whole.sequence &&
                           part.coefficient < whole.coefficient * (1 - 1e-6);
      if (smaller) {
        slices_[at(from)].push_back(out);
        owner_[at(out)] = from;
      } else {
        base_[at(out)] = from;
      }
    }
  }

  void find_parts() {
    parted_.assign(graph_.tensors.size(), false);
    owner_.resize(graph_.tensors.size(), -1);
    std::vector<bool> read(graph_.tensors.size(), false);  // as a whole, by something that is no view
    for (const RawOperator& op : graph_.operators) {
      if (op.op == RawOp::view) continue;
      for (const int in : op.inputs) read[at(base_[at(in)])] = true;
    }
    for (const int out : graph_.outputs) read[at(base_[at(out)])] = true;
    std::vector<bool> made(graph_.tensors.size(), false);
    for (const RawOperator& op : graph_.operators) {
      if (op.op == RawOp::view) continue;
      for (const int out : op.outputs) made[at(out)] = true;
    }
    for (std::size_t t = 0; t < slices_.size(); ++t) {
      if (slices_[t].size() < 2 || slices_[t].size() > kMostParts || read[t] || !made[t]) continue;
      Dimension sum = product(graph_.tensors[t].shape);
      const Dimension whole = sum;
      sum.coefficient = 0;
      for (const int slice : slices_[t]) sum.coefficient += product(graph_.tensors[at(slice)].shape).coefficient;
      parted_[t] = same_size(sum, whole);
    }
  }

  const RawGraph& graph_;
  std::vector<int> base_;                 // memory, or the slice of it
  std::vector<std::vector<int>> slices_;  // per memory
  std::vector<int> owner_;                // per slice: the memory
  std::vector<bool> parted_;              // per memory: only read in parts, which are all of it
  std::vector<int> whole_;                // per memory or slice: what stands for it
};

class FlowMaker {
 public:
  explicit FlowMaker(const RawGraph& graph) : graph_(graph), storages_(graph) {
    flow_.graph = &graph;
    flow_.tensors = graph.tensors;
    classify();
  }

  Flow run() {
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) add_node(static_cast<int>(i));
    flow_.index.resize(flow_.tensors.size(), false);
    flow_.find_makers();
    recognise_attention(flow_);
    flow_.find_makers();
    return std::move(flow_);
  }

 private:
  // Token ids, positions and constants, and what is computed from them without weights.
  void classify() {
    const std::size_t count = graph_.tensors.size();
    std::vector<bool> made(count, false), read(count, false);
    for (const RawOperator& op : graph_.operators) {
      for (const int out : op.outputs) made[at(out)] = true;
      for (const int in : op.inputs) read[at(in)] = true;
    }
    for (const int in : graph_.inputs) made[at(in)] = true;
    flow_.index.assign(count, false);
    for (std::size_t t = 0; t < count; ++t) flow_.index[t] = !made[t] && read[t];  // a constant
    for (const int in : graph_.inputs) flow_.index[at(in)] = !is_floating(graph_.tensors[at(in)].type);
    for (const RawOperator& op : graph_.operators) {
      const bool index = op.weights.empty() && op.op != RawOp::moe &&
                         std::all_of(op.inputs.begin(), op.inputs.end(), [&](int in) { return flow_.index[at(in)]; });
      for (const int out : op.outputs) flow_.index[at(out)] = index;
    }
  }

  bool index_work(const RawOperator& op) const {
    return std::all_of(op.outputs.begin(), op.outputs.end(), [&](int out) { return flow_.index[at(out)]; });
  }

  void add_node(int raw) {
    const RawOperator& op = graph_.operators[at(raw)];
    if (op.op == RawOp::view || index_work(op)) return;
    Node node;
    node.op = op.op;
    node.name = op.name;
    node.module = op.module;
    node.weights = op.weights;
    node.attributes = op.attributes;
    node.raw = raw;
    once_.begin();
    for (const int in : op.inputs) {
      for (const int memory : storages_.resolve(in)) {
        if (!flow_.index[at(memory)] && once_.first(memory)) node.inputs.push_back(memory);
      }
    }
    const bool product =
        op.op == RawOp::linear || op.op == RawOp::conv || op.op == RawOp::expert_matmul || op.op == RawOp::moe;
    if (product && node.inputs.empty()) node.inputs = {storages_.resolve(op.inputs.front()).front()};
    once_.begin();
    for (const int out : op.outputs) {
      for (const int memory : storages_.resolve(out)) {
        if (once_.first(memory)) node.outputs.push_back(memory);
      }
    }
    if (op.op == RawOp::attention) add_attention(op, node);
    once_.begin();
    if (op.saves) {
      for (const int saved : *op.saves) {
        for (const int memory : storages_.resolve(saved)) save(node, memory);
      }
    } else {
      save_by_rule(node, op);
    }
    flow_.nodes.push_back(std::move(node));
  }

  void add_attention(const RawOperator& op, Node& node) {
    // Queries, keys and values first, also where they are one tensor.
    std::vector<int> inputs;
    for (std::size_t i = 0; i < 3; ++i) inputs.push_back(storages_.resolve(op.inputs[i]).front());
    once_.begin();
    for (const int in : inputs) once_.first(in);
    for (const int in : node.inputs) {
      if (once_.first(in)) inputs.push_back(in);
    }
    node.inputs = std::move(inputs);
    const std::int64_t heads = op.attributes.heads;
    const std::int64_t kv_heads = op.attributes.kv_heads > 0 ? op.attributes.kv_heads : heads;
    const auto keys = heads_apart(shape(op.inputs[1]), kv_heads);
    node.attention = attention_shape(graph_, heads_apart(shape(op.inputs[0]), heads), keys,
                                     heads_apart(shape(op.inputs[2]), kv_heads));
    node.attention.causal = op.attributes.causal;
    node.attention.flash = op.attributes.flash;
    unrepeat_keys(flow_, keys, node);
  }

  const std::vector<Dimension>& shape(int tensor) const { return graph_.tensors[at(tensor)].shape; }

  void save(Node& node, int memory) {
    if (at(memory) < flow_.index.size() && flow_.index[at(memory)]) {
      if (index_once_.first(memory)) flow_.index_saves.push_back(memory);
    } else if (once_.first(memory)) {
      node.saves.push_back(memory);
    }
  }

  // A tensor that the graph does not list.
  int made_up(const Node& node, const char* what, std::vector<Dimension> dimensions, DataType type) {
    flow_.tensors.push_back({node.name + " " + what, std::move(dimensions), type});
    return static_cast<int>(flow_.tensors.size()) - 1;
  }

  // What autograd keeps for operators of these kinds.
  void save_by_rule(Node& node, const RawOperator& op) {
    const auto all_inputs = [&] {
      for (const int in : node.inputs) save(node, in);
    };
    std::vector<Dimension> rows = op.outputs.empty() ? std::vector<Dimension>{} : shape(op.outputs.front());
    switch (op.op) {
      case RawOp::linear:
      case RawOp::conv:
      case RawOp::expert_matmul:
        if (!node.inputs.empty()) save(node, node.inputs.front());
        break;
      case RawOp::matmul:
      case RawOp::elementwise:
      case RawOp::pool:
      case RawOp::unknown: all_inputs(); break;
      case RawOp::attention:
        for (const int in : node.inputs) save(node, in);
        for (const int out : node.outputs) save(node, out);
        if (!rows.empty()) rows.pop_back();
        node.saves.push_back(made_up(node, "log-sum-exp", rows, DataType::float32));
        break;
      case RawOp::norm:
        all_inputs();
        if (!rows.empty()) rows.back() = {op.attributes.kind == "rms" ? 1.0 : 2.0, 0, 0};
        node.saves.push_back(made_up(node, "statistics", rows, DataType::float32));
        break;
      case RawOp::softmax:
        for (const int out : node.outputs) save(node, out);
        break;
      case RawOp::dropout: node.saves.push_back(made_up(node, "mask", rows, DataType::boolean)); break;
      case RawOp::loss:
        if (!op.inputs.empty()) {
          node.saves.push_back(made_up(node, "softmax", shape(op.inputs.front()), DataType::float32));
        }
        break;
      case RawOp::embedding:
      case RawOp::add:
      case RawOp::reduce:
      case RawOp::copy:
      case RawOp::view:
      case RawOp::gather:
      case RawOp::scatter:
      case RawOp::topk:
      case RawOp::resize:
      case RawOp::moe: break;
    }
  }

  const RawGraph& graph_;
  Storages storages_;
  Flow flow_;
  Once once_;        // of the list that is being filled
  Once index_once_;  // of index_saves
};

}  // namespace

std::vector<std::vector<int>> Flow::readers() const {
  std::vector<std::vector<int>> lists(tensors.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (const int in : nodes[n].inputs) lists[at(in)].push_back(static_cast<int>(n));
  }
  return lists;
}

double Flow::elements(int tensor) const { return extent(size(tensor), real(graph->batch), real(graph->sequence)); }

double Flow::bytes(int tensor) const { return elements(tensor) * bytes_of(tensors[at(tensor)].type); }

void Flow::find_makers() {
  maker.assign(tensors.size(), -1);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (const int out : nodes[n].outputs) maker[at(out)] = static_cast<int>(n);
  }
}

Flow make_flow(const RawGraph& graph) { return FlowMaker(graph).run(); }

}  // namespace nest::graph
