#include "graph/label_splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/index.h"
#include "graph/lists.h"

namespace nest::graph {
namespace {

class Labeller {
 public:
  Labeller(DraftLayer& draft, const std::string& source)
      : draft_(draft),
        layer_(draft.layer),
        source_(source),
        maker_(layer_.tensors.size(), -1),
        readers_(layer_.tensors.size()) {
    for (std::size_t i = 0; i < layer_.operators.size(); ++i) {
      for (const model::TensorId out : layer_.operators[i].outputs) maker_[at(out)] = static_cast<int>(i);
      for (const model::TensorId in : layer_.operators[i].inputs) readers_[at(in)].push_back(static_cast<int>(i));
    }
  }

  void run() {
    if (layer_.kind == model::LayerKind::embedding) label_table();
    if (layer_.kind == model::LayerKind::head) label_logits();
    if (layer_.kind == model::LayerKind::block) {
      for (std::size_t i = 0; i < layer_.operators.size(); ++i) {
        if (layer_.operators[i].kind == model::OperatorKind::attention) label_heads(static_cast<int>(i));
      }
      for (std::size_t i = 0; i < layer_.operators.size(); ++i) {
        if (draft_.linear[i]) label_columns(static_cast<int>(i));
      }
    }
    finish_sums();
    check_annotations();
  }

 private:
  using Labels = std::map<model::TensorId, std::vector<model::Extent>>;

  std::int64_t row(model::TensorId id) const { return model::row_elements(layer_.tensors[at(id)]); }
  bool labelled(model::TensorId id) const {
    const auto& width = layer_.tensors[at(id)].width;
    return std::any_of(width.begin(), width.end(), [](const model::Extent& e) { return e.axis != model::Axis::none; });
  }

  // Puts a label on a tensor and, through what does not mix columns, on its neighbours. False: this is no region.
  class Region {
   public:
    Region(const Labeller& owner) : owner_(owner) {}

    bool put(model::TensorId id, std::vector<model::Extent> width) {
      const auto known = labels.find(id);
      if (known != labels.end()) return known->second == width;
      const model::Layer& layer = owner_.layer_;
      const std::int64_t row = owner_.row(id);
      std::int64_t product = 1;
      for (const model::Extent& extent : width) {
        if (extent.size > row / product) return false;
        product *= extent.size;
      }
      if (product != row || owner_.labelled(id)) return false;
      if (id == layer.input || has(layer.side_inputs, id) || has(owner_.draft_.leaving, id)) return false;
      if (owner_.maker_[at(id)] < 0) return false;
      labels.emplace(id, std::move(width));
      waiting.push_back(id);
      return true;
    }

    bool grow() {
      while (!waiting.empty()) {
        const model::TensorId id = waiting.back();
        waiting.pop_back();
        if (!pass(owner_.maker_[at(id)], id, true)) return false;
        for (const int reader : owner_.readers_[at(id)]) {
          if (!pass(reader, id, false)) return false;
        }
      }
      return true;
    }

    Labels labels;
    std::vector<int> columns;  // products whose results are divided
    std::vector<int> rows;     // products that contract what is divided
    std::vector<int> inside;   // work in between

   private:
    bool pass(int index, model::TensorId id, bool made) {
      const model::Operator& op = owner_.layer_.operators[at(index)];
      if (owner_.draft_.annotations[at(index)] == "whole") return false;
      if (owner_.draft_.linear[at(index)]) {
        // One that ends another region begins none, and the other way round.
        const auto& far = made ? op.inputs : op.outputs;
        if (std::any_of(far.begin(), far.end(), [&](model::TensorId each) { return owner_.labelled(each); }))
          return false;
        auto& list = made ? columns : rows;
        if (!has(list, index)) list.push_back(index);
        if (!made) return op.inputs.front() == id;
        // Parts of one result are divided alike.
        return op.outputs.size() == 1 || heads() ||
               std::all_of(op.outputs.begin(), op.outputs.end(), [&](model::TensorId out) {
                 return put(out, {{owner_.row(out), labels.at(id).front().axis}});
               });
      }
      if (op.kind == model::OperatorKind::attention) {
        if (!has(inside, index)) inside.push_back(index);
        return heads();
      }
      const bool norm = op.kind == model::OperatorKind::norm;
      if (!owner_.draft_.pointwise[at(index)] && !norm) return false;
      if (!has(inside, index)) inside.push_back(index);
      const std::vector<model::Extent> width = labels.at(id);
      for (const auto* side : {&op.inputs, &op.outputs}) {
        for (const model::TensorId other : *side) {
          if (other != id && !put_beside(op, id, other, width)) return false;
        }
      }
      return true;
    }

    bool heads() const { return !labels.empty() && labels.begin()->second.size() == 2; }

    bool put_beside(const model::Operator& op, model::TensorId id, model::TensorId other,
                    const std::vector<model::Extent>& width) {
      const std::int64_t here = owner_.row(id), there = owner_.row(other);
      if (there == here) return put(other, width);
      if (width.size() != 2) return false;
      const std::int64_t n = width.front().size;
      // Keys and values repeated for every query head.
      const bool copies = op.kind == model::OperatorKind::copy && op.inputs.size() == 1;
      if (copies && op.outputs.front() == id && here % there == 0 && n % (here / there) == 0) {
        return put(other, {{n / (here / there), model::Axis::kv_heads}, width.back()});
      }
      if (copies && op.inputs.front() == id && there % here == 0 && width.front().axis == model::Axis::kv_heads) {
        return put(other, {{n * (there / here), model::Axis::heads}, width.back()});
      }
      if (there % n == 0) return put(other, {width.front(), {there / n}});
      return false;
    }

    const Labeller& owner_;
    std::vector<model::TensorId> waiting;
  };

  void label_heads(int index) {
    model::Operator& op = layer_.operators[at(index)];
    model::AttentionShape& a = op.attention;
    if (op.inputs.size() < 3 || op.outputs.empty() || labelled(op.outputs.front())) return;
    const model::Extent heads{a.heads.size, model::Axis::heads};
    const model::Extent kv_heads{a.kv_heads.size, model::Axis::kv_heads};
    // A copy that repeats keys makes them as many as queries.
    const model::Extent& keys = a.kv_heads.size == a.heads.size ? heads : kv_heads;
    Region region(*this);
    const bool legal = region.put(op.inputs[0], {heads, {a.qk_dim}}) && region.put(op.inputs[1], {keys, {a.qk_dim}}) &&
                       region.put(op.inputs[2], {keys, {a.value_dim}}) &&
                       region.put(op.outputs[0], {heads, {a.value_dim}}) && region.grow() && complete(region);
    if (!legal) return;
    apply(region);
    a.heads.axis = model::Axis::heads;
    a.kv_heads.axis = model::Axis::kv_heads;
    for (const model::TensorId id : op.saves) label_kept(id, heads);
  }

  void label_columns(int index) {
    const model::TensorId out = layer_.operators[at(index)].outputs.front();
    if (labelled(out) || draft_.annotations[at(index)] == "row") return;
    Region region(*this);
    if (!region.put(out, {{row(out), model::Axis::ffn}}) || !region.grow() || !complete(region)) return;
    apply(region);
    for (const auto* list : {&region.columns, &region.rows}) {
      for (const int each : *list) layer_.operators[at(each)].module = model::Module::feed_forward;
    }
    for (const int each : region.inside) {
      if (layer_.operators[at(each)].kind != model::OperatorKind::norm)
        layer_.operators[at(each)].module = model::Module::activation;
      for (const model::TensorId id : layer_.operators[at(each)].saves) label_kept(id, {row(out), model::Axis::ffn});
    }
  }

  // A region begins and ends at products; each product is on one side only.
  static bool complete(const Region& region) {
    const auto both = [&](int index) { return has(region.rows, index); };
    return !region.columns.empty() && !region.rows.empty() &&
           std::none_of(region.columns.begin(), region.columns.end(), both);
  }

  void apply(const Region& region) {
    for (const auto& [id, width] : region.labels) layer_.tensors[at(id)].width = width;
    for (const int index : region.columns) label_column_weights(layer_.operators[at(index)]);
    for (const int index : region.rows) {
      model::Operator& op = layer_.operators[at(index)];
      const auto& width = layer_.tensors[at(op.inputs.front())].width;
      model::Weight& weight = op.weights.front();
      weight.shape.erase(weight.shape.begin() + 1, weight.shape.end());
      weight.shape.insert(weight.shape.end(), width.begin(), width.end());
    }
    for (const int index : region.inside) {
      model::Operator& op = layer_.operators[at(index)];
      if (op.kind == model::OperatorKind::attention || op.outputs.empty()) continue;
      const auto& width = layer_.tensors[at(op.outputs.front())].width;
      for (model::Weight& weight : op.weights) {
        if (elements(weight) == row(op.outputs.front())) weight.shape = width;
      }
    }
  }

  // Weights of a column product have its results' rows; one matrix for several results is divided like each of them.
  void label_column_weights(model::Operator& op) {
    const auto& first = layer_.tensors[at(op.outputs.front())].width;
    for (std::size_t i = 0; i < op.weights.size(); ++i) {
      model::Weight& weight = op.weights[i];
      std::vector<model::Extent> shape = first;
      if (op.outputs.size() > 1) {
        // Division by tp is the same for all parts: the first extent carries it.
        shape = {{weight.shape.front().size, divided_axis(op)}};
      }
      shape.insert(shape.end(), weight.shape.begin() + 1, weight.shape.end());
      weight.shape = std::move(shape);
    }
  }

  // Of a matrix for queries, keys and values together: heads, as queries are the most.
  model::Axis divided_axis(const model::Operator& op) const {
    return layer_.tensors[at(op.outputs.front())].width.front().axis;
  }

  // What an operator of a divided region keeps besides: scores, statistics per head, masks.
  void label_kept(model::TensorId id, const model::Extent& axis) {
    model::Tensor& tensor = layer_.tensors[at(id)];
    if (labelled(id) || maker_[at(id)] >= 0 || !readers_[at(id)].empty() || id == layer_.input) return;
    const double all = real(model::row_elements(tensor)) * tensor.rows_per_unit;
    const double each = all / real(axis.size);
    if (each != real(static_cast<std::int64_t>(each))) return;
    if (tensor.rows == model::Rows::single || tensor.rows == model::Rows::squared ||
        tensor.rows == model::Rows::positions)
      return;
    tensor.width = {axis};
    tensor.rows_per_unit = each;
  }

  void label_table() {
    model::Operator& first = layer_.operators.front();
    if (first.kind != model::OperatorKind::embedding || first.weights.empty() || draft_.annotations.front() == "whole")
      return;
    const model::Tensor& out = layer_.tensors[at(first.outputs.front())];
    if (out.rows != model::Rows::tokens && out.rows != model::Rows::samples) return;
    first.weights.front().shape.front().axis = model::Axis::vocabulary;
  }

  void label_logits() {
    if (draft_.annotations[at(draft_.logits)] == "whole") return;
    model::Operator& op = layer_.operators[at(draft_.logits)];
    const std::int64_t columns = row(op.outputs.front());
    const model::Extent vocabulary{columns, model::Axis::vocabulary};
    for (model::Weight& weight : op.weights) weight.shape.front().axis = model::Axis::vocabulary;
    std::vector<model::TensorId> waiting = {op.outputs.front()};
    std::vector<bool> seen(layer_.tensors.size(), false);
    while (!waiting.empty()) {
      const model::TensorId id = waiting.back();
      waiting.pop_back();
      if (seen[at(id)] || !as_columns(id, columns)) continue;
      seen[at(id)] = true;
      layer_.tensors[at(id)].width = {vocabulary};
      for (const int reader : readers_[at(id)]) {
        const model::Operator& next = layer_.operators[at(reader)];
        waiting.insert(waiting.end(), next.outputs.begin(), next.outputs.end());
        waiting.insert(waiting.end(), next.saves.begin(), next.saves.end());
      }
    }
  }

  // Whether the tensor has rows of so many columns; makes them its rows.
  bool as_columns(model::TensorId id, std::int64_t columns) {
    model::Tensor& tensor = layer_.tensors[at(id)];
    if (row(id) == columns) return true;
    const double rows = real(row(id)) * tensor.rows_per_unit / real(columns);
    if (rows < 0.5 || labelled(id)) return false;
    tensor.width = {{columns}};
    tensor.rows_per_unit = rows;
    return true;
  }

  // Sums of divided tensors are no sums of partial results.
  void finish_sums() {
    for (model::Operator& op : layer_.operators) {
      if (op.kind == model::OperatorKind::add && labelled(op.outputs.front()))
        op.kind = model::OperatorKind::elementwise;
    }
  }

  void check_annotations() const {
    for (std::size_t i = 0; i < layer_.operators.size(); ++i) {
      const std::string& wanted = draft_.annotations[i];
      if (!draft_.linear[i] || wanted.empty() || wanted == "whole") continue;
      const model::Operator& op = layer_.operators[i];
      const bool column = labelled(op.outputs.front()), contracts = labelled(op.inputs.front());
      const auto& out = layer_.tensors[at(op.outputs.front())].width.front();
      const bool met = wanted == "row"      ? contracts
                       : wanted == "column" ? column
                       : wanted == "vocabulary"
                           ? out.axis == model::Axis::vocabulary
                           : out.axis == model::Axis::heads || out.axis == model::Axis::kv_heads || contracts;
      if (met) continue;
      throw InputError(fmt::format("{}: splits: {} cannot be divided as \"{}\": no such region begins or ends there",
                                   source_, op.name, wanted));
    }
  }

  DraftLayer& draft_;
  model::Layer& layer_;
  const std::string& source_;
  std::vector<int> maker_;
  std::vector<std::vector<int>> readers_;
};

}  // namespace

void label_splits(DraftLayer& draft, const std::string& source) { Labeller(draft, source).run(); }

}  // namespace nest::graph
