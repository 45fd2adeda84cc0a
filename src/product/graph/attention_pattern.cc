// Attention that is written out as products and a softmax.
#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "graph/flow.h"
#include "graph/lists.h"

namespace nest::graph {
namespace {

bool pointwise(RawOp op) {
  return op == RawOp::elementwise || op == RawOp::add || op == RawOp::dropout || op == RawOp::copy;
}

std::vector<Dimension> transposed(std::vector<Dimension> shape) {
  if (shape.size() >= 2) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return shape;
}

class AttentionFinder {
 public:
  explicit AttentionFinder(Flow& flow) : flow_(flow), readers_(flow.readers()), gone_(flow.nodes.size(), false) {}

  void run() {
    for (std::size_t n = 0; n < flow_.nodes.size(); ++n) {
      if (flow_.nodes[n].op == RawOp::softmax && !gone_[n]) try_softmax(static_cast<int>(n));
    }
    std::vector<Node> kept;
    for (std::size_t n = 0; n < flow_.nodes.size(); ++n) {
      if (!gone_[n]) kept.push_back(std::move(flow_.nodes[n]));
    }
    flow_.nodes = std::move(kept);
  }

 private:
  static constexpr int kLongestChain = 12;
  static constexpr int kMostLooks = 256;

  // The product whose result, after pointwise work, is `tensor`; the nodes from it on are added to `chain`.
  int product_above(int tensor, int depth, std::vector<int>& chain) const {
    const int n = flow_.maker[at(tensor)];
    if (n < 0 || depth > kLongestChain || gone_[at(n)] || --looks_ < 0) return -1;
    const Node& node = flow_.nodes[at(n)];
    if (node.op == RawOp::matmul && node.inputs.size() <= 2) {
      chain.push_back(n);
      return n;
    }
    if (!pointwise(node.op) || node.outputs.size() != 1) return -1;
    for (const int in : node.inputs) {
      if (--looks_ < 0) return -1;
      if (std::abs(flow_.elements(in) - flow_.elements(tensor)) > 0.5) continue;
      const int found = product_above(in, depth + 1, chain);
      if (found >= 0) {
        chain.push_back(n);
        return found;
      }
    }
    return -1;
  }

  int product_below(int softmax, std::vector<int>& chain) const {
    int n = softmax;
    for (int depth = 0; depth < kLongestChain; ++depth) {
      const Node& node = flow_.nodes[at(n)];
      if (node.outputs.empty()) return -1;
      const auto& next = readers_[at(node.outputs.front())];
      if (next.size() != 1 || gone_[at(next.front())]) return -1;
      n = next.front();
      chain.push_back(n);
      if (flow_.nodes[at(n)].op == RawOp::matmul) return n;
      if (!pointwise(flow_.nodes[at(n)].op)) return -1;
    }
    return -1;
  }

  bool private_to(const std::vector<int>& chain, int last) const {
    for (const int n : chain) {
      if (n == last) continue;
      for (const int out : flow_.nodes[at(n)].outputs) {
        for (const int reader : readers_[at(out)]) {
          if (std::find(chain.begin(), chain.end(), reader) == chain.end()) return false;
        }
      }
    }
    return true;
  }

  void try_softmax(int softmax) {
    const Node& node = flow_.nodes[at(softmax)];
    if (node.inputs.size() != 1) return;
    std::vector<int> chain;
    looks_ = kMostLooks;
    const int scores = product_above(node.inputs.front(), 0, chain);
    if (scores < 0) return;
    chain.push_back(softmax);
    const int context = product_below(softmax, chain);
    if (context < 0 || !private_to(chain, context)) return;
    replace(scores, softmax, context, chain);
  }

  const RawOperator& raw(int node) const { return flow_.graph->operators[at(flow_.nodes[at(node)].raw)]; }
  const std::vector<Dimension>& shape(int tensor) const { return flow_.graph->tensors[at(tensor)].shape; }

  void replace(int scores, int softmax, int context, const std::vector<int>& chain) {
    const RawOperator& first = raw(scores);
    const RawOperator& second = raw(context);
    if (first.inputs.size() < 2 || second.inputs.size() < 2) return;
    const auto q = first.attributes.transpose_a ? transposed(shape(first.inputs[0])) : shape(first.inputs[0]);
    const auto k = first.attributes.transpose_b ? shape(first.inputs[1]) : transposed(shape(first.inputs[1]));
    const auto v = second.attributes.transpose_b ? transposed(shape(second.inputs[1])) : shape(second.inputs[1]);
    if (q.size() < 3 || k.size() < 3 || v.size() < 3) return;

    Node fused = flow_.nodes[at(context)];
    fused.op = RawOp::attention;
    fused.attention = attention_shape(*flow_.graph, q, k, v);
    split_heads(softmax, fused.attention);
    fused.attention.flash = false;
    fused.attention.causal = masked_causally(chain);
    const Node& product_node = flow_.nodes[at(scores)];
    fused.inputs = product_node.inputs;
    if (fused.inputs.size() == 1) fused.inputs.push_back(fused.inputs.front());  // queries are keys
    std::vector<int> saves, others;
    std::vector<int> made;
    for (const int n : chain)
      made.insert(made.end(), flow_.nodes[at(n)].outputs.begin(), flow_.nodes[at(n)].outputs.end());
    const auto is_made = [&](int tensor) { return std::find(made.begin(), made.end(), tensor) != made.end(); };
    for (const int n : chain) {
      const Node& each = flow_.nodes[at(n)];
      for (const int saved : each.saves) {
        if (std::find(saves.begin(), saves.end(), saved) == saves.end()) saves.push_back(saved);
      }
      if (n == scores) continue;
      for (const int in : each.inputs) {
        if (!is_made(in)) others.push_back(in);
      }
      if (n != context) fused.weights.insert(fused.weights.end(), each.weights.begin(), each.weights.end());
    }
    // The values are what the second product reads beside the probabilities.
    int values = -1;
    for (const int in : flow_.nodes[at(context)].inputs) {
      if (!is_made(in)) values = in;
    }
    fused.inputs.push_back(values >= 0 ? values : fused.inputs.back());
    for (const int other : others) {
      if (std::find(fused.inputs.begin(), fused.inputs.end(), other) == fused.inputs.end())
        fused.inputs.push_back(other);
    }
    fused.saves = std::move(saves);
    unrepeat_keys(flow_, k, fused);
    for (const int n : chain) gone_[at(n)] = n != context;
    flow_.nodes[at(context)] = std::move(fused);
  }

  // Products over [batch * heads, …] do not say what of the first dimension is heads; the softmax often does.
  void split_heads(int softmax, model::AttentionShape& attention) const {
    const RawOperator& op = raw(softmax);
    if (op.inputs.empty()) return;
    const auto& dims = shape(op.inputs.front());
    if (dims.size() < 4 || !dims[dims.size() - 3].constant()) return;
    const auto heads = std::llround(dims[dims.size() - 3].coefficient);
    const double all = real(attention.heads.size) * attention.batches;
    if (heads < 1 || attention.heads.size == heads || std::fmod(all, real(heads)) != 0) return;
    if (attention.kv_heads == attention.heads) attention.kv_heads.size = heads;
    attention.heads.size = heads;
    attention.batches = all / real(heads);
  }

  // A mask that compares positions with positions has been sequence x sequence, without the batch, at some point.
  bool masked_causally(const std::vector<int>& chain) {
    if (squared_.empty()) find_squared();
    return std::any_of(chain.begin(), chain.end(), [&](int n) {
      if (flow_.nodes[at(n)].op == RawOp::matmul) return false;
      const auto& inputs = raw(n).inputs;
      return flow_.nodes[at(n)].attributes.causal ||
             std::any_of(inputs.begin(), inputs.end(), [&](int in) { return flow_.index[at(in)] && squared_[at(in)]; });
    });
  }

  void find_squared() {
    squared_.assign(flow_.graph->tensors.size(), false);
    for (std::size_t t = 0; t < squared_.size(); ++t) {
      const Dimension size = product(flow_.graph->tensors[t].shape);
      squared_[t] = size.batch == 0 && size.sequence == 2;
    }
    for (const RawOperator& op : flow_.graph->operators) {
      const bool from = std::any_of(op.inputs.begin(), op.inputs.end(), [&](int in) { return squared_[at(in)]; });
      for (const int out : op.outputs) squared_[at(out)] = squared_[at(out)] || from;
    }
  }

  Flow& flow_;
  std::vector<std::vector<int>> readers_;
  std::vector<bool> gone_;
  std::vector<bool> squared_;  // per tensor: made of something that is sequence x sequence
  mutable int looks_ = 0;      // left for one softmax
};

}  // namespace

model::Length length_of(const RawGraph& graph, const Dimension& dimension) {
  if (dimension.batch == 0 && dimension.sequence <= 1) return {dimension.coefficient, dimension.sequence == 1};
  return {extent(dimension, real(graph.batch), real(graph.sequence)), false};
}

double more_at_traced_size(const RawGraph& graph, const Dimension& lead) {
  return std::pow(real(graph.batch), std::max(0, lead.batch - 1)) * std::pow(real(graph.sequence), lead.sequence);
}

std::vector<Dimension> heads_apart(const std::vector<Dimension>& shape, std::int64_t heads) {
  if (heads < 2 || shape.size() != 3 || shape[0] != Dimension{1, 1, 0} || !shape[2].constant()) return shape;
  const double dim = shape[2].coefficient / real(heads);
  if (dim != std::floor(dim)) return shape;
  return {shape[0], {real(heads), 0, 0}, shape[1], {dim, 0, 0}};
}

model::AttentionShape attention_shape(const RawGraph& graph, const std::vector<Dimension>& q,
                                      const std::vector<Dimension>& k, const std::vector<Dimension>& v) {
  // Of the leading dimensions the last constant one is the heads; [batch * heads, …] has them in its coefficient.
  const auto lead = [](const std::vector<Dimension>& shape) {
    Dimension all = product({shape.begin(), shape.end() - 2});
    double heads = 1;
    if (shape.size() >= 4 && shape[shape.size() - 3].constant()) {
      heads = shape[shape.size() - 3].coefficient;
    } else if (shape.size() == 3) {
      heads = all.coefficient;
    }
    return std::pair(heads, all.coefficient / heads);
  };
  model::AttentionShape shape;
  const auto [heads, batches] = lead(q);
  shape.heads.size = std::max<std::int64_t>(1, std::llround(heads));
  shape.kv_heads.size = std::max<std::int64_t>(1, std::llround(lead(k).first));
  shape.batches = batches * more_at_traced_size(graph, product({q.begin(), q.end() - 2}));
  shape.qk_dim = std::max<std::int64_t>(1, std::llround(extent(q.back(), real(graph.batch), real(graph.sequence))));
  shape.value_dim = std::max<std::int64_t>(1, std::llround(extent(v.back(), real(graph.batch), real(graph.sequence))));
  shape.queries = length_of(graph, q[q.size() - 2]);
  shape.keys = length_of(graph, k[k.size() - 2]);
  shape.causal = false;
  return shape;
}

void unrepeat_keys(const Flow& flow, const std::vector<Dimension>& keys, Node& attention) {
  const double times = product(keys).coefficient / flow.size(attention.inputs[1]).coefficient;
  const double whole = std::round(times);
  model::Extent& kv_heads = attention.attention.kv_heads;
  if (whole < 2 || whole > real(kv_heads.size) || std::abs(times - whole) > 1e-6 * times) return;
  if (kv_heads.size % static_cast<std::int64_t>(whole) == 0) kv_heads.size /= static_cast<std::int64_t>(whole);
}

void recognise_attention(Flow& flow) { AttentionFinder(flow).run(); }

}  // namespace nest::graph
