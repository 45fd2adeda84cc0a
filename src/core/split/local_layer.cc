#include "split/local_layer.h"

#include <algorithm>

#include "base/index.h"
#include "split/attention_work.h"
#include "split/gradients.h"
#include "split/saved.h"
#include "split/sizes.h"

namespace nest::split {
namespace {

std::size_t index(model::TensorId tensor) { return at(tensor); }

// Whether an operator of that module is recomputed with the modules that are named.
template <class IsNamed>
bool covered(model::Module module, const IsNamed& has) {
  if (module == model::Module::other) return false;
  if (has(module)) return true;
  switch (module) {
    case model::Module::activation: return has(model::Module::feed_forward);
    case model::Module::moe_activation:
    case model::Module::shared_experts: return has(model::Module::moe);
    case model::Module::shared_activation:
      return has(model::Module::activation) || has(model::Module::shared_experts) || has(model::Module::moe);
    default: return false;
  }
}

bool covers(RecomputeSet set, model::Module module) {
  return covered(module, [set](model::Module wanted) {
    return std::any_of(kRecomputeModuleWords.begin(), kRecomputeModuleWords.end(), [&](const auto& word) {
      return (set & set_of(word.value)) != 0 && module_of(word.value) == wanted;
    });
  });
}

// Rewrites one layer, operator by operator, following where every tensor lives.
class Localiser {
 public:
  Localiser(const model::Layer& layer, const RunShape& shape, const Split& split,
            const model::Implementation& implementation)
      : layer_(layer),
        split_(split),
        implementation_(implementation),
        sizes_(layer, shape, split, implementation),
        gradients_(layer),
        place_(layer.tensors.size(), Place::stream),
        gathered_(layer.tensors.size(), false) {
    local_.source = &layer;
    local_.backward = gradients_.any();
  }

  LocalLayer run(const RecomputePolicy& policy) {
    local_.operators.reserve(layer_.operators.size());
    for (const model::Operator& op : layer_.operators) {
      visit(op);
      local_.operators.push_back(localise_operator(op));
      mark_recomputed(op, policy);
      const LocalOperator& local = local_.operators.back();
      (local.expert_weights ? local_.expert_parameters : local_.dense_parameters) +=
          local.parameters - local.frozen_parameters;
      (local.expert_weights ? local_.frozen_expert : local_.frozen_dense) += local.frozen_parameters;
    }
    reduce_what_leaves();
    mark_fused_norms();
    if (policy.every_second_matmul) mark_every_second_matmul();
    if (policy.count_saved) count_saved({sizes_, split_, implementation_, place_, gathered_}, policy, local_);
    if (layer_.output >= 0) local_.output_bytes = bytes(layer_.output);
    return std::move(local_);
  }

 private:
  const model::Tensor& tensor(model::TensorId id) const { return layer_.tensors[index(id)]; }
  double bytes(model::TensorId id) const { return sizes_.bytes(tensor(id), place_[index(id)]); }
  double whole_bytes(model::TensorId id) const { return sizes_.bytes(tensor(id), Place::sharded); }

  bool divided(const model::Extent& extent) const {
    if (sizes_.whole()) return false;
    switch (extent.axis) {
      case model::Axis::heads:
      case model::Axis::kv_heads:
      case model::Axis::ffn:
      case model::Axis::vocabulary: return split_.tp > 1;
      case model::Axis::expert_ffn: return split_.expert_tp() > 1;
      case model::Axis::none:
      case model::Axis::experts: return false;
    }
    return false;
  }
  bool divided(model::TensorId id) const {
    const auto& width = tensor(id).width;
    return std::any_of(width.begin(), width.end(), [this](const model::Extent& e) { return divided(e); });
  }

  void exchange(CollectiveKind kind, Group group, Phase phase, std::int64_t ranks, double size, model::TensorId what) {
    if (phase == Phase::backward && !gradients_.of(what)) return;  // there is nothing to exchange
    // What follows the last operator counts as its.
    const std::size_t waiting = std::min(local_.operators.size(), layer_.operators.size() - 1);
    local_.collectives.push_back({kind, group, phase, ranks, size, tensor(what).name, static_cast<int>(waiting)});
  }

  // A column-parallel reader needs all tokens; its backward sums the input's gradient over the ranks. Readers of one
  // tensor share the gathering and the sum.
  void need_whole(model::TensorId id) {
    if (split_.tp == 1 || place_[index(id)] != Place::stream || gathered_[index(id)]) return;
    gathered_[index(id)] = true;
    const double size = whole_bytes(id);
    if (split_.sp) {
      exchange(CollectiveKind::all_gather, Group::tensor, Phase::forward, split_.tp, size, id);
      // Only this rank's part was kept, so the weight gradient needs the tokens gathered once more.
      if (is_kept_for_weights(id)) {
        exchange(CollectiveKind::all_gather, Group::tensor, Phase::backward, split_.tp, size, id);
      }
      exchange(CollectiveKind::reduce_scatter, Group::tensor, Phase::backward, split_.tp, size, id);
    } else {
      exchange(CollectiveKind::all_reduce, Group::tensor, Phase::backward, split_.tp, size, id);
    }
  }

  // A product that divides its columns trains weights on the tensor, or something else than a product reads it.
  bool is_kept_for_weights(model::TensorId id) const {
    return std::any_of(layer_.operators.begin(), layer_.operators.end(), [&](const model::Operator& op) {
      const bool reads = std::find(op.inputs.begin(), op.inputs.end(), id) != op.inputs.end();
      const bool matmul = op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul;
      return reads && (!matmul || (divided(op.outputs.front()) && gradients_.trained_share(op) > 0));
    });
  }

  // Turns sums of which every rank holds a term into the stream. Several terms of one addition are summed first.
  void reduce(const std::vector<model::TensorId>& terms) {
    if (terms.empty()) return;
    const double size = whole_bytes(terms.front());
    if (split_.sp) {
      exchange(CollectiveKind::reduce_scatter, Group::tensor, Phase::forward, split_.tp, size, terms.front());
      exchange(CollectiveKind::all_gather, Group::tensor, Phase::backward, split_.tp, size, terms.front());
    } else {
      exchange(CollectiveKind::all_reduce, Group::tensor, Phase::forward, split_.tp, size, terms.front());
    }
    for (const model::TensorId id : terms) place_[index(id)] = Place::stream;
  }

  std::vector<model::TensorId> partial_inputs(const model::Operator& op) const {
    std::vector<model::TensorId> partial;
    for (const model::TensorId id : op.inputs) {
      if (place_[index(id)] == Place::partial) partial.push_back(id);
    }
    return partial;
  }

  // An operator that is not linear in its inputs needs every one of them summed.
  void reduce_inputs(const model::Operator& op) {
    for (const model::TensorId id : op.inputs) {
      if (place_[index(id)] == Place::partial) reduce({id});
    }
  }

  // The next layer starts from the stream: what a block leaves as terms of a sum is summed at its end. A table of
  // tokens hands on its terms.
  void reduce_what_leaves() {
    if (layer_.kind != model::LayerKind::block || split_.tp == 1) return;
    std::vector<bool> read(layer_.tensors.size(), false);
    for (const model::Operator& op : layer_.operators) {
      for (const model::TensorId id : op.inputs) read[index(id)] = true;
    }
    for (std::size_t t = 0; t < place_.size(); ++t) {
      const auto id = static_cast<model::TensorId>(t);
      if (place_[t] == Place::partial && (id == layer_.output || !read[t])) reduce({id});
    }
  }

  // Decides where the operator's outputs live and inserts the exchanges that this takes.
  void visit(const model::Operator& op) {
    Place out = Place::stream;
    // Additions keep sums as they are; a combine sums over the experts' ranks.
    if (op.kind != model::OperatorKind::add && op.kind != model::OperatorKind::combine) reduce_inputs(op);
    switch (op.kind) {
      case model::OperatorKind::matmul:
      case model::OperatorKind::grouped_matmul: out = visit_matmul(op); break;
      case model::OperatorKind::attention: out = visit_attention(op); break;
      case model::OperatorKind::scan: out = visit_scan(op); break;
      case model::OperatorKind::embedding:
        out = split_.tp > 1 && divided(op.weights.front().shape.front()) ? Place::partial : Place::stream;
        break;
      case model::OperatorKind::add: {
        const auto partial = partial_inputs(op);
        if (!partial.empty() && partial.size() == op.inputs.size()) {
          out = Place::partial;
        } else {
          reduce(partial);
        }
        break;
      }
      case model::OperatorKind::dispatch: out = visit_dispatch(op); break;
      case model::OperatorKind::combine: visit_combine(op); break;
      case model::OperatorKind::loss:
        if (divided(op.inputs.front())) {
          // Maximum, sum of exponentials and the target's logit of every token, in fp32.
          exchange(CollectiveKind::all_reduce, Group::tensor, Phase::forward, split_.tp, 3 * 4 * sizes_.tokens(),
                   op.inputs.front());
        }
        break;
      case model::OperatorKind::norm:
      case model::OperatorKind::elementwise:
      case model::OperatorKind::copy:
      case model::OperatorKind::router: out = visit_rowwise(op); break;
    }
    for (const model::TensorId id : op.outputs) place_[index(id)] = out;
    // What an operator keeps beside its inputs and outputs lives where it works.
    const bool sharded_work =
        out == Place::sharded || (!op.inputs.empty() && place_[index(op.inputs.front())] == Place::sharded);
    for (const model::TensorId id : op.saves) {
      const auto is = [id](model::TensorId other) { return other == id; };
      if (std::none_of(op.inputs.begin(), op.inputs.end(), is) &&
          std::none_of(op.outputs.begin(), op.outputs.end(), is)) {
        place_[index(id)] = sharded_work ? Place::sharded : Place::stream;
      }
    }
  }

  Place visit_matmul(const model::Operator& op) {
    const model::TensorId x = op.inputs.front();
    if (divided(op.outputs.front())) {
      if (tensor(x).rows != model::Rows::routed) need_whole(x);  // routed tokens were gathered by the dispatch
      return Place::sharded;
    }
    return place_[index(x)] == Place::sharded ? Place::partial : Place::stream;
  }

  Place visit_attention(const model::Operator& op) {
    const Place out = divided(op.attention.heads) ? Place::sharded : Place::stream;
    if (split_.cp == 1) return out;
    const double kv_bytes = bytes(op.inputs[1]) + bytes(op.inputs[2]);
    if (split_.cp_comm == ContextExchange::all_gather) {
      const double whole = real(split_.cp) * kv_bytes;
      exchange(CollectiveKind::all_gather, Group::context, Phase::forward, split_.cp, whole, op.inputs[1]);
      // Only this rank's part was kept.
      exchange(CollectiveKind::all_gather, Group::context, Phase::backward, split_.cp, whole, op.inputs[1]);
      exchange(CollectiveKind::reduce_scatter, Group::context, Phase::backward, split_.cp, whole, op.inputs[1]);
    }
    if (split_.context_heads() > 1) trade_heads(op, out);
    if (const std::int64_t ring = split_.context_ring(); ring > 1) {
      exchange(CollectiveKind::ring_exchange, Group::context, Phase::forward, ring, kv_bytes, op.inputs[1]);
      // Backward passes on keys, values and their gradients.
      exchange(CollectiveKind::ring_exchange, Group::context, Phase::backward, ring, 2 * kv_bytes, op.inputs[1]);
    }
    return out;
  }

  // One call per tensor. Queries, keys and values before attention, its result after it; backward the result, which was
  // kept as tokens, and its gradient before, the gradients of the three after.
  void trade_heads(const model::Operator& op, Place out) {
    const model::TensorId result = op.outputs.front();
    const double result_bytes = sizes_.bytes(tensor(result), out);
    const auto trade = [&](Phase phase, double size, model::TensorId what) {
      exchange(CollectiveKind::all_to_all, Group::context, phase, split_.context_heads(), size, what);
    };
    for (std::size_t k = 0; k < 3; ++k) trade(Phase::forward, bytes(op.inputs[k]), op.inputs[k]);
    trade(Phase::forward, result_bytes, result);
    for (int copy = 0; copy < 2; ++copy) trade(Phase::backward, result_bytes, result);
    for (std::size_t k = 0; k < 3; ++k) trade(Phase::backward, bytes(op.inputs[k]), op.inputs[k]);
  }

  // A state crosses all positions: ranks that hold parts of the sequence trade them for heads before it, and back.
  Place visit_scan(const model::Operator& op) {
    const Place out = visit_rowwise(op);
    if (split_.cp == 1 || !op.scan.state) return out;
    const auto trade = [&](double size, model::TensorId what) {
      for (const Phase phase : {Phase::forward, Phase::backward})
        exchange(CollectiveKind::all_to_all, Group::context, phase, split_.cp, size, what);
    };
    for (const model::TensorId id : op.inputs) trade(bytes(id), id);
    trade(sizes_.bytes(tensor(op.outputs.front()), out), op.outputs.front());
    return out;
  }

  Place visit_rowwise(const model::Operator& op) {
    const bool sharded = std::any_of(op.inputs.begin(), op.inputs.end(),
                                     [this](model::TensorId id) { return place_[index(id)] == Place::sharded; });
    if (!sharded) return Place::stream;
    for (const model::TensorId id : op.inputs) need_whole(id);
    if (op.kind == model::OperatorKind::norm && !op.weights.empty() && divided(op.weights.front().shape.front())) {
      // A norm over all heads needs the sum of squares of every rank.
      for (const Phase phase : {Phase::forward, Phase::backward}) {
        exchange(CollectiveKind::all_reduce, Group::tensor, phase, split_.tp, 4 * sizes_.tokens(), op.inputs.front());
      }
    }
    return Place::sharded;
  }

  void all_to_all(model::TensorId routed) {
    if (split_.ep == 1) return;
    // What one rank sends: its own routed tokens, before experts' tensor-parallel ranks gather each other's.
    const double own = whole_bytes(routed) / real(split_.expert_tp());
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      exchange(CollectiveKind::all_to_all, Group::expert, phase, split_.ep, own, routed);
    }
  }

  Place visit_dispatch(const model::Operator& op) {
    const model::TensorId routed = op.outputs.front();
    all_to_all(routed);
    if (const std::int64_t ranks = split_.expert_tp(); ranks > 1) {
      const double size = whole_bytes(routed);
      exchange(CollectiveKind::all_gather, Group::expert_tensor, Phase::forward, ranks, size, routed);
      exchange(CollectiveKind::reduce_scatter, Group::expert_tensor, Phase::backward, ranks, size, routed);
    }
    return Place::stream;
  }

  void visit_combine(const model::Operator& op) {
    const model::TensorId routed = op.inputs.front();
    if (place_[index(routed)] == Place::partial) {
      const std::int64_t ranks = split_.expert_tp();
      const double size = whole_bytes(routed);
      exchange(CollectiveKind::reduce_scatter, Group::expert_tensor, Phase::forward, ranks, size, routed);
      exchange(CollectiveKind::all_gather, Group::expert_tensor, Phase::backward, ranks, size, routed);
      place_[index(routed)] = Place::stream;
    }
    all_to_all(routed);
  }

  // Numbers of one operator; places of its tensors are settled.
  LocalOperator localise_operator(const model::Operator& op) const {
    LocalOperator local;
    local.source = &op;
    local.kind = op.kind;
    local.module = op.module;
    for (const model::Weight& weight : op.weights) {
      const std::int64_t own = sizes_.weight_elements(weight);
      local.parameters += own;
      if (weight.frozen) local.frozen_parameters += own;
      local.expert_weights |= weight.shape.front().axis == model::Axis::experts;
    }
    double in_bytes = 0;
    for (const model::TensorId id : op.inputs) in_bytes += gathered_[index(id)] ? whole_bytes(id) : bytes(id);
    double out_bytes = 0;
    for (const model::TensorId id : op.outputs) out_bytes += bytes(id);
    double kept_bytes = 0;
    for (const model::TensorId id : op.saves) kept_bytes += bytes(id);

    switch (op.kind) {
      case model::OperatorKind::matmul:
      case model::OperatorKind::grouped_matmul: {
        if (op.product.batches > 0) {
          localise_product(op.product, local);
          local.bytes_forward = in_bytes + out_bytes;
          local.bytes_backward = 2 * local.bytes_forward;
          break;
        }
        const model::Tensor& out = tensor(op.outputs.front());
        // Of this rank: what every rank keeps whole is gathered after it was computed.
        local.m = sizes_.rows(out.rows, place_[index(op.outputs.front())]) * out.rows_per_unit;
        local.k = whole_number(sizes_.row_elements(tensor(op.inputs.front())) * op.taps);
        double columns = 0;
        for (const model::TensorId id : op.outputs) columns += sizes_.row_elements(tensor(id));
        local.n = whole_number(columns);
        if (op.kind == model::OperatorKind::grouped_matmul)
          local.groups = sizes_.extent({layer_.experts, model::Axis::experts});
        local.flops_forward = 2 * local.m * real(local.n) * real(local.k);
        local.input_gradient = gradients_.of(op.inputs.front());
        local.weight_gradient = gradients_.trained_share(op);
        const double products = (local.input_gradient ? 1 : 0) + local.weight_gradient;
        local.flops_backward = products * local.flops_forward;
        const double weight_bytes = real(local.parameters) * implementation_.activation_bytes;
        local.bytes_forward = in_bytes + out_bytes + weight_bytes;
        local.bytes_backward = products * local.bytes_forward;  // one for the input's gradient, one for the weights'
        break;
      }
      case model::OperatorKind::attention: {
        const AttentionWork work = attention_work(op.attention, sizes_);
        local.flops_forward = work.flops;
        local.flops_backward = 2 * work.flops;
        local.m = sizes_.tokens();
        local.heads = real(sizes_.extent(op.attention.heads));
        local.bytes_forward = in_bytes + out_bytes + work.score_elements * implementation_.activation_bytes;
        local.bytes_backward =
            in_bytes + out_bytes + kept_bytes + work.score_elements * implementation_.activation_bytes;
        break;
      }
      case model::OperatorKind::scan: {
        const model::Tensor& out = tensor(op.outputs.front());
        local.m = sizes_.rows(out, place_[index(op.outputs.front())]);
        local.flops_forward = op.scan.flops * local.m * sizes_.row_elements(out);
        local.flops_backward = 2 * local.flops_forward;
        local.bytes_forward = op.scan.passes * (in_bytes + out_bytes);
        local.bytes_backward = 2 * local.bytes_forward;
        break;
      }
      case model::OperatorKind::embedding:
        local.bytes_forward = 2 * out_bytes;
        local.bytes_backward = 2 * out_bytes;
        break;
      default: local.bytes_forward = in_bytes + out_bytes; local.bytes_backward = in_bytes + out_bytes + kept_bytes;
    }
    local.backward = gradients_.runs_backward(op);
    if (!local.backward) local.flops_backward = local.bytes_backward = 0;
    return local;
  }

  void localise_product(const model::Product& product, LocalOperator& local) const {
    const double each = product.batches * real(sizes_.extent(product.heads));
    local.groups = std::max<std::int64_t>(1, whole_number(real(sizes_.micro_batch()) * each));
    local.m = sizes_.length(product.m) / real(split_.cp);
    local.n = whole_number(sizes_.length(product.n));
    local.k = whole_number(sizes_.length(product.k));
    local.flops_forward = 2 * local.m * real(local.n) * real(local.k) * real(local.groups);
    local.flops_backward = 2 * local.flops_forward;
  }

  void mark_recomputed(const model::Operator& op, const RecomputePolicy& policy) {
    LocalOperator& local = local_.operators.back();
    local.recomputed = policy.every_second_matmul ? false : policy.covers(op.module);
    for (std::size_t i = 0; i < policy.sets.size(); ++i) {
      if (covers(policy.sets[i], op.module)) local.recomputed_sets |= std::uint64_t{1} << i;
    }
  }

  // A norm inside the matmul that reads it is computed again with the feed-forward that starts there.
  void mark_fused_norms() {
    for (std::size_t i = 0; i < layer_.operators.size(); ++i) {
      const model::Operator& op = layer_.operators[i];
      if (op.kind != model::OperatorKind::norm || op.module != model::Module::other) continue;
      bool read = false, again = true;
      std::uint64_t sets = ~std::uint64_t{0};
      for (std::size_t j = i + 1; j < layer_.operators.size(); ++j) {
        const auto& inputs = layer_.operators[j].inputs;
        if (std::find(inputs.begin(), inputs.end(), op.outputs.front()) == inputs.end()) continue;
        read = true;
        const bool starts = local_.operators[j].module == model::Module::feed_forward;
        again &= local_.operators[j].recomputed && starts;
        sets &= starts ? local_.operators[j].recomputed_sets : 0;
      }
      local_.operators[i].recomputed = read && again;
      local_.operators[i].recomputed_sets = read ? sets : 0;
    }
  }

  // torchtitan's policy: what is not kept is computed again.
  void mark_every_second_matmul() {
    int matmuls = 0;
    for (LocalOperator& local : local_.operators) {
      const bool matmul =
          local.kind == model::OperatorKind::matmul || local.kind == model::OperatorKind::grouped_matmul;
      const bool kept = local.kind == model::OperatorKind::attention || (matmul && matmuls++ % 2 == 0);
      local.recomputed = !kept;
    }
  }

  const model::Layer& layer_;
  const Split& split_;
  const model::Implementation& implementation_;
  LocalSizes sizes_;
  Gradients gradients_;
  std::vector<Place> place_;
  std::vector<bool> gathered_;
  LocalLayer local_;
};

}  // namespace

double LocalLayer::flops_forward() const {
  double sum = 0;
  for (const LocalOperator& op : operators) sum += op.flops_forward;
  return sum;
}

double LocalLayer::flops_backward() const {
  double sum = 0;
  for (const LocalOperator& op : operators) sum += op.flops_backward;
  return sum;
}

bool RecomputePolicy::covers(model::Module module) const {
  return covered(module, [this](model::Module wanted) {
    return std::find(modules.begin(), modules.end(), wanted) != modules.end();
  });
}

model::Module module_of(RecomputeModule word) {
  switch (word) {
    case RecomputeModule::core_attn: return model::Module::core_attention;
    case RecomputeModule::layernorm: return model::Module::norm;
    case RecomputeModule::mla_up_proj: return model::Module::latent_up;
    case RecomputeModule::moe_act: return model::Module::moe_activation;
    case RecomputeModule::mlp: return model::Module::feed_forward;
    case RecomputeModule::moe: return model::Module::moe;
    case RecomputeModule::shared_experts: break;
  }
  return model::Module::shared_experts;
}

std::vector<model::Module> modules_of(RecomputeSet set) {
  std::vector<model::Module> modules;
  for (const auto& word : kRecomputeModuleWords) {
    if ((set & set_of(word.value)) != 0) modules.push_back(module_of(word.value));
  }
  return modules;
}

RecomputePolicy default_policy(const model::Implementation& implementation) {
  switch (implementation.stack) {
    case model::Stack::megatron:
      return {
          {model::Module::core_attention, model::Module::norm, model::Module::moe_activation, model::Module::latent_up},
          false};
    case model::Stack::torchtitan: return {{}, true};
    case model::Stack::plain:
    case model::Stack::huggingface: break;
  }
  return {
      {model::Module::core_attention, model::Module::norm, model::Module::activation, model::Module::moe_activation},
      false};
}

LocalLayer localise(const model::Layer& layer, const RunShape& shape, const Split& split,
                    const model::Implementation& implementation) {
  return localise(layer, shape, split, implementation, default_policy(implementation));
}

LocalLayer localise(const model::Layer& layer, const RunShape& shape, const Split& split,
                    const model::Implementation& implementation, const RecomputePolicy& policy) {
  return Localiser(layer, shape, split, implementation).run(policy);
}

}  // namespace nest::split
