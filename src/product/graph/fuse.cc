#include "graph/fuse.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "base/error.h"
#include "base/index.h"
#include "graph/lists.h"

namespace nest::graph {
namespace {

class Fuser {
 public:
  explicit Fuser(const DraftLayer& draft) : layer_(draft.layer), draft_(draft) {
    for (std::size_t i = 0; i < layer_.operators.size(); ++i)
      work_.push_back({layer_.operators[i], draft.linear[i], draft.pointwise[i], draft.reduces[i]});
  }

  FusedLayer run() {
    find_readers();
    drop_copies();
    find_readers();
    merge_products();
    find_readers();
    group_pointwise();
    find_norms();
    rebuild();
    name_norms();
    return {std::move(layer_), std::move(norms_)};
  }

 private:
  struct Work {
    model::Operator op;
    bool linear, pointwise, reduces;
    bool gone = false;
  };

  double size(model::TensorId id) const {
    const model::Tensor& tensor = layer_.tensors[at(id)];
    return real(model::row_elements(tensor)) * tensor.rows_per_unit;
  }

  const std::vector<int>& readers(model::TensorId id) const { return readers_[at(id)]; }

  // Who makes and reads every tensor, among what is left.
  void find_readers() {
    maker_.assign(layer_.tensors.size(), -1);
    readers_.assign(layer_.tensors.size(), {});
    for (std::size_t i = 0; i < work_.size(); ++i) {
      if (work_[i].gone) continue;
      for (const model::TensorId out : work_[i].op.outputs) maker_[at(out)] = static_cast<int>(i);
      for (const model::TensorId in : work_[i].op.inputs) readers_[at(in)].push_back(static_cast<int>(i));
    }
  }

  bool leaves(model::TensorId id) const { return id == layer_.output || has(draft_.leaving, id); }

  void drop_copies() {
    std::vector<model::TensorId> stands_for(layer_.tensors.size());
    std::iota(stands_for.begin(), stands_for.end(), 0);
    for (Work& work : work_) {
      const model::Operator& op = work.op;
      if (op.kind != model::OperatorKind::copy || op.inputs.size() != 1 || op.outputs.size() != 1 ||
          !op.weights.empty())
        continue;
      const model::TensorId in = op.inputs.front(), out = op.outputs.front();
      if (leaves(out)) continue;
      const double ratio = size(out) / size(in);
      const auto next = readers(out);
      const bool same_rows = layer_.tensors[at(in)].rows == layer_.tensors[at(out)].rows;
      const bool repeats = ratio > 1.5 && std::abs(ratio - std::round(ratio)) < 1e-9 && !next.empty() &&
                           std::all_of(next.begin(), next.end(),
                                       [&](int n) { return work_[at(n)].op.kind == model::OperatorKind::attention; });
      if (repeats) {
        for (const int n : next) {
          model::Extent& kv_heads = work_[at(n)].op.attention.kv_heads;
          const auto fewer = static_cast<std::int64_t>(std::round(ratio));
          const bool first = has({work_[at(n)].op.inputs[1]}, out);
          if (first && kv_heads.size % fewer == 0) kv_heads.size /= fewer;
        }
      }
      if (!repeats && (std::abs(ratio - 1) > kSameSize || !same_rows)) continue;
      work.gone = true;
      stands_for[at(out)] = stands_for[at(in)];
    }
    for (Work& work : work_) {
      for (auto* list : {&work.op.inputs, &work.op.saves}) {
        for (model::TensorId& id : *list) id = stands_for[at(id)];
      }
    }
  }

  bool mergeable(const Work& a, const Work& b) const {
    if (b.gone || !b.linear || a.op.inputs != b.op.inputs || a.op.taps != b.op.taps) return false;
    const model::Tensor& x = layer_.tensors[at(a.op.outputs.front())];
    const model::Tensor& y = layer_.tensors[at(b.op.outputs.front())];
    const auto axis = [](const model::Tensor& tensor) { return tensor.width.front().axis; };
    const auto group = [](model::Axis each) { return each == model::Axis::kv_heads ? model::Axis::heads : each; };
    return x.rows == y.rows && std::abs(x.rows_per_unit - y.rows_per_unit) < 1e-9 && group(axis(x)) == group(axis(y)) &&
           axis(x) != model::Axis::vocabulary;
  }

  // Only where both are divided, or neither: a router beside a feed-forward stays apart.
  void merge_products() {
    for (std::size_t i = 0; i < work_.size(); ++i) {
      Work& first = work_[i];
      if (first.gone || !first.linear || first.op.inputs.size() != 1) continue;
      if (layer_.tensors[at(first.op.outputs.front())].width.front().axis == model::Axis::none) continue;
      for (const int j : readers(first.op.inputs.front())) {
        Work& other = work_[at(j)];
        if (at(j) <= i || !mergeable(first, other)) continue;
        first.op.outputs.insert(first.op.outputs.end(), other.op.outputs.begin(), other.op.outputs.end());
        first.op.weights.insert(first.op.weights.end(), other.op.weights.begin(), other.op.weights.end());
        other.gone = true;
      }
    }
  }

  // Whether any of `from` is computed from something in `group`, other than directly by members.
  bool depends(const std::vector<int>& from, const std::vector<int>& group) const {
    std::vector<int> waiting = from;
    std::vector<bool> seen(work_.size(), false);
    while (!waiting.empty()) {
      const int index = waiting.back();
      waiting.pop_back();
      if (index < 0 || seen[at(index)]) continue;
      seen[at(index)] = true;
      if (has(group, index)) return true;
      // Another group runs as a whole: it waits for whatever any of its members waits for.
      if (const int other = group_of_[at(index)]; other >= 0) {
        waiting.insert(waiting.end(), groups_[at(other)].begin(), groups_[at(other)].end());
      }
      for (const model::TensorId in : work_[at(index)].op.inputs) waiting.push_back(maker_[at(in)]);
    }
    return false;
  }

  bool fusable(const Work& work) const {
    const model::OperatorKind kind = work.op.kind;
    return !work.gone && (work.pointwise || work.reduces) &&
           (kind == model::OperatorKind::elementwise || kind == model::OperatorKind::copy ||
            kind == model::OperatorKind::add);
  }

  void group_pointwise() {
    group_of_.assign(work_.size(), -1);
    for (std::size_t i = 0; i < work_.size(); ++i) {
      if (fusable(work_[i])) join(static_cast<int>(i));
    }
  }

  std::vector<model::TensorId> reads(const std::vector<int>& group) const {
    std::vector<model::TensorId> outside;
    for (const int member : group) {
      for (const model::TensorId in : work_[at(member)].op.inputs) {
        const int maker = maker_[at(in)];
        if (maker < 0 || !has(group, maker)) add_once(outside, in);
      }
    }
    return outside;
  }

  // Adds the operator to the group of what it reads, where that makes no cycle; otherwise it begins its own.
  void join(int index) {
    const model::Operator& op = work_[at(index)].op;
    int chosen = -1;
    for (const model::TensorId in : op.inputs) {
      const int maker = maker_[at(in)];
      const int group = maker < 0 ? -1 : group_of_[at(maker)];
      if (group < 0 || group == chosen) continue;
      const std::vector<int>& members = groups_[at(group)];
      if (members.size() > kMostMembers || index - *std::min_element(members.begin(), members.end()) > kLongestSpan)
        continue;
      std::vector<int> others;
      bool fresh = false;
      const std::vector<model::TensorId> known = reads(members);
      for (const model::TensorId other : op.inputs) {
        const int by = maker_[at(other)];
        if (by >= 0 && has(members, by)) continue;
        others.push_back(by);
        fresh = fresh || !has(known, other);
      }
      // A sum with something new is a residual: it stays itself.
      if (op.kind == model::OperatorKind::add && fresh) continue;
      if (layer_.tensors[at(in)].rows != layer_.tensors[at(op.outputs.front())].rows && !work_[at(index)].reduces)
        continue;
      if (depends(others, members)) continue;
      if (chosen < 0) {
        chosen = group;
        continue;
      }
      // Two groups meet in this operator.
      std::vector<int> merged = groups_[at(chosen)];
      std::vector<int> makers;
      for (const model::TensorId read : reads(members)) makers.push_back(maker_[at(read)]);
      for (const model::TensorId read : reads(merged)) makers.push_back(maker_[at(read)]);
      std::vector<int> both = merged;
      both.insert(both.end(), members.begin(), members.end());
      std::erase_if(makers, [&](int by) { return by < 0 || has(both, by); });
      if (depends(makers, both)) continue;
      for (const int member : members) group_of_[at(member)] = chosen;
      groups_[at(chosen)] = std::move(both);
      groups_[at(group)].clear();
    }
    if (op.kind == model::OperatorKind::add && chosen < 0) return;
    if (chosen < 0) {
      chosen = static_cast<int>(groups_.size());
      groups_.emplace_back();
    }
    groups_[at(chosen)].push_back(index);
    group_of_[at(index)] = chosen;
  }

  // Members of groups that are norms, and the casts around them.
  void find_norms() {
    for (std::vector<int>& group : groups_) {
      std::sort(group.begin(), group.end());
      if (group.size() < 2 || fused(group).kind != model::OperatorKind::norm) continue;
      norms_.insert(norms_.end(), group.begin(), group.end());
    }
    const auto& operators = draft_.layer.operators;
    std::vector<bool> norm(operators.size(), false), read_by_norm(layer_.tensors.size(), false),
        read_by_other = read_by_norm, made_by_norm = read_by_norm;
    for (const int index : norms_) norm[at(index)] = true;
    for (std::size_t i = 0; i < operators.size(); ++i) {
      for (const model::TensorId in : operators[i].inputs) (norm[i] ? read_by_norm : read_by_other)[at(in)] = true;
      for (const model::TensorId out : operators[i].outputs) made_by_norm[at(out)] = norm[i];
    }
    for (std::size_t i = 0; i < work_.size(); ++i) {
      if (!work_[i].gone || operators[i].kind != model::OperatorKind::copy) continue;
      const model::TensorId in = operators[i].inputs.front(), out = operators[i].outputs.front();
      if ((made_by_norm[at(in)] || read_by_norm[at(out)]) && !read_by_other[at(out)])
        norms_.push_back(static_cast<int>(i));
    }
    std::sort(norms_.begin(), norms_.end());
  }

  model::Operator fused(const std::vector<int>& group) const {
    model::Operator op;
    bool reduces = false;
    std::vector<model::TensorId> made;
    for (const int member : group) {
      const Work& work = work_[at(member)];
      reduces = reduces || work.reduces;
      made.insert(made.end(), work.op.outputs.begin(), work.op.outputs.end());
      op.weights.insert(op.weights.end(), work.op.weights.begin(), work.op.weights.end());
      if (work.op.module == model::Module::activation) op.module = model::Module::activation;
    }
    const model::Operator& last = work_[at(group.back())].op;
    op.name = group.size() == 1 ? last.name : work_[at(group.front())].op.name;
    op.kind = group.size() == 1 ? last.kind : model::OperatorKind::elementwise;
    op.inputs = reads(group);
    for (const model::TensorId out : made) {
      const auto next = readers(out);
      const bool outside =
          leaves(out) || next.empty() || std::any_of(next.begin(), next.end(), [&](int n) { return !has(group, n); });
      if (outside) op.outputs.push_back(out);
    }
    if (op.outputs.empty()) op.outputs = last.outputs;
    // Statistics that nobody reads outside leave nothing behind.
    if (op.outputs.size() > 1) {
      std::erase_if(op.outputs, [&](model::TensorId out) {
        return readers(out).empty() && !leaves(out) && !has(last.outputs, out);
      });
    }
    const bool whole_rows = !op.inputs.empty() && std::abs(size(op.outputs.back()) - size(op.inputs.front())) < 0.5;
    if (reduces && group.size() > 1 && whole_rows) {
      op.kind = model::OperatorKind::norm;
      op.module = model::Module::norm;
    }
    // Masks of dropout are written besides; other than that, kernels keep what they read.
    for (const int member : group) {
      for (const model::TensorId id : work_[at(member)].op.saves) {
        if (!has(made, id) && maker_[at(id)] < 0 && readers(id).empty()) add_once(op.saves, id);
      }
    }
    if (op.saves.empty()) op.saves = op.inputs;
    return op;
  }

  // Operators in an order in which everything is made before it is read; the given one where that is possible.
  void rebuild() {
    std::vector<model::Operator> all;
    for (std::size_t i = 0; i < work_.size(); ++i) {
      if (work_[i].gone) continue;
      const int group = group_of_[i];
      if (group < 0) {
        all.push_back(std::move(work_[i].op));
      } else if (!groups_[at(group)].empty() &&
                 *std::max_element(groups_[at(group)].begin(), groups_[at(group)].end()) == static_cast<int>(i)) {
        std::vector<int> members = groups_[at(group)];
        std::sort(members.begin(), members.end());
        all.push_back(fused(members));
      }
    }
    std::vector<int> made_by(layer_.tensors.size(), -1);
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (const model::TensorId out : all[i].outputs) made_by[at(out)] = static_cast<int>(i);
    }
    std::vector<int> missing(all.size(), 0);
    std::vector<std::vector<int>> next(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (const model::TensorId in : all[i].inputs) {
        const int by = made_by[at(in)];
        if (by < 0 || by == static_cast<int>(i)) continue;
        ++missing[i];
        next[at(by)].push_back(static_cast<int>(i));
      }
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (missing[i] == 0) ready.push(static_cast<int>(i));
    }
    layer_.operators.clear();
    while (!ready.empty()) {
      const int index = ready.top();
      ready.pop();
      layer_.operators.push_back(std::move(all[at(index)]));
      for (const int each : next[at(index)]) {
        if (--missing[at(each)] == 0) ready.push(each);
      }
    }
    NEST_CHECK(layer_.operators.size() == all.size(), "fusing makes no cycle");
  }

  // A norm that runs inside the kernel of the products after it is no unit of recomputation.
  void name_norms() {
    for (model::Operator& op : layer_.operators) {
      if (op.kind != model::OperatorKind::norm || op.outputs.empty()) continue;
      bool products = false, others = false;
      for (const model::Operator& reader : layer_.operators) {
        if (!has(reader.inputs, op.outputs.back())) continue;
        (reader.kind == model::OperatorKind::matmul ? products : others) = true;
      }
      op.module = products && !others ? model::Module::other : model::Module::norm;
    }
  }

  static constexpr std::size_t kMostMembers = 64;  // of one group
  static constexpr int kLongestSpan = 512;         // operators from its first to its last
  static constexpr double kSameSize = 0.02;        // a shifted copy of the logits is still a copy

  model::Layer layer_;
  const DraftLayer& draft_;
  std::vector<Work> work_;
  std::vector<int> maker_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> group_of_;
  std::vector<std::vector<int>> groups_;
  std::vector<int> norms_;
};

}  // namespace

FusedLayer fuse(const DraftLayer& draft) { return Fuser(draft).run(); }

}  // namespace nest::graph
