#include "graph/layer_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/index.h"
#include "graph/lists.h"
#include "graph/mixture.h"
#include "graph/naming.h"
#include "graph/rows.h"

namespace nest::graph {
namespace {

model::OperatorKind kind_of(RawOp op) {
  switch (op) {
    case RawOp::linear:
    case RawOp::matmul:
    case RawOp::expert_matmul:
    case RawOp::conv: return model::OperatorKind::matmul;
    case RawOp::attention: return model::OperatorKind::attention;
    case RawOp::embedding: return model::OperatorKind::embedding;
    case RawOp::norm: return model::OperatorKind::norm;
    case RawOp::add: return model::OperatorKind::add;
    case RawOp::copy:
    case RawOp::gather:
    case RawOp::scatter: return model::OperatorKind::copy;
    case RawOp::loss: return model::OperatorKind::loss;
    default: return model::OperatorKind::elementwise;
  }
}

// What all layers share.
struct Context {
  const Flow& flow;
  const RowSizes& rows;
  const model::Implementation& implementation;
  std::vector<int> layer_of;              // per node
  std::vector<std::vector<int>> readers;  // per tensor: nodes
  std::vector<int> weight_uses;
  const Annotations& annotations;
  std::vector<int> last_keeper = {};   // per tensor: the last layer with a reader that keeps it; -1: none
  std::vector<int> first_keeper = {};  // the first one that did not make it itself
  bool has_loss = false;

  void find_keepers() {
    last_keeper.assign(flow.tensors.size(), -1);
    first_keeper.assign(flow.tensors.size(), static_cast<int>(flow.nodes.size()));
    for (std::size_t n = 0; n < flow.nodes.size(); ++n) {
      std::set<int> saves(flow.nodes[n].saves.begin(), flow.nodes[n].saves.end());
      for (const int in : flow.nodes[n].inputs) {
        if (!saves.contains(in)) continue;
        const int maker = flow.maker[at(in)];
        last_keeper[at(in)] = std::max(last_keeper[at(in)], layer_of[n]);
        if (maker >= 0 && layer_of[at(maker)] == layer_of[n]) continue;
        first_keeper[at(in)] = std::min(first_keeper[at(in)], layer_of[n]);
      }
    }
  }
};

class LayerMaker {
 public:
  LayerMaker(const Context& context, const Segment& segment, int position, int positions)
      : context_(context),
        segment_(segment),
        position_(position),
        positions_(positions),
        names_(segment.prefix, segment.repeated) {}

  DraftLayer run(std::vector<std::string>& notes) {
    for (const int n : order()) add(context_.flow.nodes[at(n)]);
    keep_index_saves();
    set_boundary();
    set_kind(notes);
    return std::move(draft_);
  }

 private:
  model::Layer& layer() { return draft_.layer; }

  // The table of the tokens first, where others look for it.
  std::vector<int> order() const {
    std::vector<int> nodes;
    for (int n = segment_.first; n <= segment_.last; ++n) nodes.push_back(n);
    const auto rows = [&](int n) {
      const Node& node = context_.flow.nodes[at(n)];
      const bool table = node.op == RawOp::embedding && node.inputs.empty() && !node.weights.empty();
      return table ? context_.flow.graph->weights[at(node.weights.front())].shape.front() : 0;
    };
    const auto largest = std::max_element(nodes.begin(), nodes.end(), [&](int a, int b) { return rows(a) < rows(b); });
    if (largest != nodes.end() && rows(*largest) > 0) std::rotate(nodes.begin(), largest, largest + 1);
    return nodes;
  }

  model::TensorId local(int tensor, const std::string& name) {
    const auto [place, fresh] = ids_.try_emplace(tensor, static_cast<model::TensorId>(layer().tensors.size()));
    if (fresh) layer().tensors.push_back(context_.rows.tensor(tensor, name));
    return place->second;
  }
  model::TensorId input(int tensor) { return local(tensor, fmt::format("input {}", ids_.size())); }

  std::vector<model::Weight> weights_of(const Node& node, const std::string& name) {
    std::vector<model::Weight> weights;
    for (std::size_t i = 0; i < node.weights.size(); ++i) {
      const RawWeight& raw = context_.flow.graph->weights[at(node.weights[i])];
      const bool counted = raw.trainable || node.op == RawOp::linear || node.op == RawOp::conv ||
                           node.op == RawOp::embedding || node.op == RawOp::expert_matmul;
      if (!counted) continue;  // a buffer
      model::Weight weight;
      weight.frozen = !raw.trainable;
      weight.name = names_.weight(raw.name, name);
      for (const std::int64_t size : raw.shape) weight.shape.push_back({size});
      if (weight.shape.empty()) weight.shape.push_back({1});
      if (node.op == RawOp::linear && i == 0 && node.attributes.transposed) std::swap(weight.shape[0], weight.shape[1]);
      if (context_.weight_uses[at(node.weights[i])] > 1)
        weight.tied_to = fmt::format("{} ({})", raw.name, node.weights[i]);
      weights.push_back(std::move(weight));
    }
    return weights;
  }

  void add(const Node& node) {
    const std::string name = names_.op(node.name, to_string(node.op));
    if (node.op == RawOp::moe) {
      add_mixture(node, name);
      return;
    }
    model::Operator op;
    op.name = name;
    op.kind = kind_of(node.op);
    for (const int in : node.inputs) op.inputs.push_back(input(in));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      op.outputs.push_back(
          local(node.outputs[i], node.outputs.size() == 1 ? name + " out" : fmt::format("{} out {}", name, i)));
    }
    for (std::size_t i = 0; i < node.saves.size(); ++i) {
      const int saved = node.saves[i];
      if (kept_later(saved) || kept_before(saved)) continue;
      op.saves.push_back(local(saved, fmt::format("{} kept {}", name, i)));
    }
    op.weights = weights_of(node, name);
    shape_operator(node, op);
    if (op.kind == model::OperatorKind::add && op.inputs.size() < 2) op.kind = model::OperatorKind::elementwise;
    const bool needs_input = op.kind == model::OperatorKind::loss || op.kind == model::OperatorKind::matmul;
    if (needs_input && op.inputs.empty()) op.kind = model::OperatorKind::elementwise;
    const bool linear = node.op == RawOp::linear && !node.weights.empty();
    const bool pointwise =
        node.op == RawOp::elementwise || node.op == RawOp::add || node.op == RawOp::dropout || node.op == RawOp::copy;
    push(std::move(op), node, linear, pointwise);
  }

  void push(model::Operator op, const Node& node, bool linear, bool pointwise) {
    const std::string wanted = context_.annotations.of(node.module);
    if (!wanted.empty()) op.name += " (" + wanted + ")";
    draft_.annotations.push_back(wanted);
    draft_.linear.push_back(linear);
    draft_.pointwise.push_back(pointwise);
    draft_.reduces.push_back(node.op == RawOp::reduce);
    layer().operators.push_back(std::move(op));
  }

  void shape_operator(const Node& node, model::Operator& op) {
    if (node.op == RawOp::attention) {
      op.attention = node.attention;
      op.module = model::Module::core_attention;
      return;
    }
    if (node.op == RawOp::norm) op.module = model::Module::norm;
    if (op.kind != model::OperatorKind::matmul) return;
    if (node.op == RawOp::matmul) {
      op.product = product_of(node);
      return;
    }
    // The contraction in units of the input's row.
    const LinearSize size = linear_size(*context_.flow.graph, node);
    double contracted = real(size.in);
    if (node.op == RawOp::conv && node.attributes.transposed) {
      double out = 0;
      for (const int each : node.outputs) out += context_.flow.elements(each);
      const auto& shape = context_.flow.graph->weights[at(node.weights.front())].shape;
      double each_input = 1;
      for (std::size_t i = 1; i < shape.size(); ++i) each_input *= real(shape[i]);
      contracted = context_.flow.elements(node.inputs.front()) * each_input / out;
    }
    op.taps = contracted / real(context_.rows.row(node.inputs.front()));
  }

  model::Product product_of(const Node& node) const {
    const RawGraph& graph = *context_.flow.graph;
    const RawOperator& raw = graph.operators[at(node.raw)];
    const auto& a = graph.tensors[at(raw.inputs[0])].shape;
    const auto& out = graph.tensors[at(raw.outputs[0])].shape;
    const bool flat = a.size() < 2;
    Dimension k = raw.attributes.transpose_a && !flat ? a[a.size() - 2] : a.back();
    Dimension n = out.empty() ? Dimension{} : out.back();
    Dimension m = out.size() < 2 ? Dimension{} : out[out.size() - 2];
    Dimension lead = out.size() < 3 ? Dimension{} : graph::product({out.begin(), out.end() - 2});
    if (lead.batch == 0 && m.batch > 0) m.batch -= 1;
    if (lead.sequence > 0 && m.sequence == 0) {
      m = {m.coefficient * lead.coefficient, m.batch, 1};
      lead.coefficient = 1;
      lead.sequence -= 1;
    }
    model::Product product;
    product.batches = lead.coefficient * more_at_traced_size(graph, lead);
    product.m = length_of(graph, m);
    product.n = length_of(graph, n);
    product.k = length_of(graph, k);
    return product;
  }

  void add_mixture(const Node& node, const std::string& name) {
    MixtureParts parts;
    parts.name = name;
    parts.input = input(node.inputs.front());
    parts.output = local(node.outputs.front(), name + " out");
    parts.weights = weights_of(node, name);
    parts.experts = node.attributes.experts;
    parts.top_k = node.attributes.top_k;
    parts.ffn = node.attributes.ffn;
    parts.gated = node.attributes.gated;
    parts.activation = node.attributes.activation;
    for (model::Operator& op : write_mixture(parts, context_.implementation, layer()))
      push(std::move(op), node, false, false);
  }

  // What crosses and is kept by the layer that reads it is counted there; by several readers, in the first.
  bool kept_later(int tensor) const {
    const int maker = context_.flow.maker[at(tensor)];
    if (maker < 0 || context_.layer_of[at(maker)] != position_) return false;
    return context_.last_keeper[at(tensor)] > position_;
  }

  bool kept_before(int tensor) const { return context_.first_keeper[at(tensor)] < position_; }

  // Masks and angles that layers keep are one copy for the model: here, in the first layer.
  void keep_index_saves() {
    if (position_ != 0 || layer().operators.empty()) return;
    for (const int tensor : context_.flow.index_saves) {
      layer().operators.front().saves.push_back(local(tensor, fmt::format("kept {}", tensor)));
    }
  }

  double local_elements(model::TensorId id) const {
    const model::Tensor& tensor = draft_.layer.tensors[at(id)];
    return real(model::row_elements(tensor)) * tensor.rows_per_unit;
  }

  void set_boundary() {
    std::vector<std::pair<int, model::TensorId>> entering;  // maker's layer, tensor
    std::vector<model::TensorId> leaving;
    for (const auto& [tensor, id] : ids_) {
      if (context_.flow.index[at(tensor)]) continue;
      const int maker = context_.flow.maker[at(tensor)];
      const int made_in = maker < 0 ? -1 : context_.layer_of[at(maker)];
      const auto& readers = context_.readers[at(tensor)];
      const bool read_here =
          std::any_of(readers.begin(), readers.end(), [&](int n) { return context_.layer_of[at(n)] == position_; });
      if (made_in != position_ && read_here) entering.emplace_back(made_in, id);
      const bool read_later =
          std::any_of(readers.begin(), readers.end(), [&](int n) { return context_.layer_of[at(n)] > position_; });
      if (made_in == position_ && read_later) leaving.push_back(id);
    }
    // The stream is what the layer before hands over; the largest where there are several.
    const auto stream = std::max_element(entering.begin(), entering.end(), [&](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : local_elements(a.second) < local_elements(b.second);
    });
    if (stream != entering.end()) layer().input = stream->second;
    for (const auto& [made_in, id] : entering) {
      if (id != layer().input) layer().side_inputs.push_back(id);
    }
    std::sort(layer().side_inputs.begin(), layer().side_inputs.end());
    const auto largest = std::max_element(leaving.begin(), leaving.end(), [&](model::TensorId a, model::TensorId b) {
      return local_elements(a) < local_elements(b);
    });
    if (largest != leaving.end()) layer().output = *largest;
    std::sort(leaving.begin(), leaving.end());
    draft_.leaving = std::move(leaving);
  }

  void set_kind(std::vector<std::string>& notes) {
    bool table = false, only_norms = true;
    int last_linear = -1;
    int weighted = 0;
    for (std::size_t i = 0; i < layer().operators.size(); ++i) {
      const model::Operator& op = layer().operators[i];
      table = table || op.kind == model::OperatorKind::embedding;
      weighted += op.weights.empty() ? 0 : 1;
      if (!op.weights.empty())
        only_norms =
            only_norms && (op.kind == model::OperatorKind::norm || op.kind == model::OperatorKind::elementwise);
      if (draft_.linear[i]) last_linear = static_cast<int>(i);
    }
    const bool last = position_ + 1 == positions_;
    constexpr int kFewWeights = 6;
    const bool ends = last && last_linear >= 0 && positions_ > 1 && (!segment_.repeated || weighted <= kFewWeights) &&
                      projects_out(last_linear);
    layer().kind = ends                                        ? model::LayerKind::head
                   : segment_.repeated                         ? model::LayerKind::block
                   : table                                     ? model::LayerKind::embedding
                   : only_norms && !last && layer().input >= 0 ? model::LayerKind::norm
                                                               : model::LayerKind::block;
    layer().name = to_string(layer().kind);
    layer().may_stay_whole = true;
    if (!ends) return;
    draft_.logits = last_linear;
    if (!context_.has_loss) add_loss(notes);
  }

  // Nothing is multiplied after it.
  bool projects_out(int linear) const {
    for (std::size_t i = at(linear) + 1; i < draft_.layer.operators.size(); ++i) {
      const model::OperatorKind kind = draft_.layer.operators[i].kind;
      if (kind == model::OperatorKind::matmul || kind == model::OperatorKind::attention ||
          kind == model::OperatorKind::norm)
        return false;
    }
    return true;
  }

  void add_loss(std::vector<std::string>& notes) {
    const model::TensorId logits = layer().operators[at(draft_.logits)].outputs.front();
    model::Tensor probabilities = layer().tensors[at(logits)];
    probabilities.name = "softmax fp32";
    probabilities.element_bytes = 4;
    model::Tensor loss = probabilities;
    loss.name = "loss";
    loss.width = {{1}};
    const auto id = static_cast<model::TensorId>(layer().tensors.size());
    layer().tensors.push_back(std::move(probabilities));
    layer().tensors.push_back(std::move(loss));
    model::Operator op;
    op.name = "cross entropy";
    op.kind = model::OperatorKind::loss;
    op.inputs = {logits};
    op.outputs = {id + 1};
    op.saves = {id};
    push(std::move(op), Node{}, false, false);
    notes.emplace_back("the graph has no loss: a cross entropy over its last projection is assumed");
  }

  const Context& context_;
  const Segment& segment_;
  int position_;
  int positions_;
  LocalNames names_;
  std::map<int, model::TensorId> ids_;
  DraftLayer draft_;
};

// Work that mixes the positions of a sequence, other than attention.
bool mixes_positions(const Flow& flow, const Node& node) {
  const auto over_sequence = [&](const std::vector<int>& tensors) {
    return std::any_of(tensors.begin(), tensors.end(), [&](int t) { return flow.size(t).sequence > 0; });
  };
  if (!over_sequence(node.inputs)) return false;
  switch (node.op) {
    case RawOp::conv:
    case RawOp::pool:
    case RawOp::resize:
    case RawOp::unknown:
    case RawOp::matmul: return true;
    case RawOp::norm: return node.attributes.kind == "batch" || node.attributes.kind == "group";
    case RawOp::reduce: {
      // A loss, at the end, is a sum over ranks anyway.
      const bool gone = !over_sequence(node.outputs);
      return gone && !node.outputs.empty() && flow.size(node.outputs.front()).batch > 0;
    }
    default: return false;
  }
}

// Whether an attention or a product of activations is done more often than one length can say.
bool counted_at_traced_size(const Flow& flow, const Node& node) {
  if (node.op != RawOp::attention && node.op != RawOp::matmul) return false;
  const auto& outputs = flow.graph->operators[at(node.raw)].outputs;
  const auto& out = flow.graph->tensors[at(outputs.front())].shape;
  if (out.size() < 3) return false;
  Dimension lead = product({out.begin(), out.end() - 2});
  if (node.op == RawOp::matmul && lead.sequence > 0 && out[out.size() - 2].sequence == 0) lead.sequence -= 1;
  return lead.sequence > 0 || lead.batch > 1;
}

void add_edges(const Context& context, Draft& draft) {
  const Flow& flow = context.flow;
  for (std::size_t t = 0; t < flow.tensors.size(); ++t) {
    const int maker = flow.maker[t];
    if (maker < 0 || flow.index[t]) continue;
    const int from = context.layer_of[at(maker)];
    std::set<int> to;
    for (const int reader : context.readers[t]) {
      if (context.layer_of[at(reader)] > from) to.insert(context.layer_of[at(reader)]);
    }
    if (to.empty()) continue;
    const model::Tensor tensor = context.rows.tensor(static_cast<int>(t), {});
    model::Edge edge;
    edge.from = from;
    edge.to.assign(to.begin(), to.end());
    edge.width = model::row_elements(tensor);
    edge.element_bytes = tensor.element_bytes;
    edge.rows = tensor.rows;
    edge.rows_per_unit = tensor.rows_per_unit;
    draft.edges.push_back(std::move(edge));
  }
}

}  // namespace

Draft make_draft(const Flow& flow, const std::vector<Segment>& segments, const model::Implementation& implementation) {
  const RowSizes rows(flow, implementation.activation_bytes);
  const Annotations annotations(*flow.graph);
  Context context{flow,           rows,
                  implementation, std::vector<int>(flow.nodes.size(), 0),
                  flow.readers(), std::vector<int>(flow.graph->weights.size(), 0),
                  annotations};
  for (std::size_t s = 0; s < segments.size(); ++s) {
    for (int n = segments[s].first; n <= segments[s].last; ++n) context.layer_of[at(n)] = static_cast<int>(s);
  }
  context.find_keepers();
  Draft draft;
  draft.has_sequence = rows.has_sequence();
  draft.divisible_sequence = rows.has_sequence();
  int as_traced = 0;
  for (const Node& node : flow.nodes) {
    as_traced += counted_at_traced_size(flow, node) ? 1 : 0;
    for (const int w : node.weights) ++context.weight_uses[at(w)];
    context.has_loss = context.has_loss || node.op == RawOp::loss;
    if (mixes_positions(flow, node)) draft.divisible_sequence = false;
  }
  draft.notes = flow.notes;
  if (as_traced > 0) {
    draft.notes.push_back(fmt::format(
        "{} attention{} or product{} of activations are done for every position or sample again: their "
        "number is that at the traced batch of {} and sequence of {}",
        as_traced, as_traced == 1 ? "" : "s", as_traced == 1 ? "" : "s", flow.graph->batch, flow.graph->sequence));
  }
  for (std::size_t s = 0; s < segments.size(); ++s) {
    DraftLayer layer =
        LayerMaker(context, segments[s], static_cast<int>(s), static_cast<int>(segments.size())).run(draft.notes);
    auto same = std::find(draft.kinds.begin(), draft.kinds.end(), layer);
    if (same == draft.kinds.end()) same = draft.kinds.insert(same, std::move(layer));
    draft.layers.push_back(static_cast<int>(same - draft.kinds.begin()));
  }
  add_edges(context, draft);
  return draft;
}

}  // namespace nest::graph
