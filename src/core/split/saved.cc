// What autograd keeps of a layer on one device, tensor by tensor.
#include "split/saved.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/index.h"
#include "split/gradients.h"
#include "split/offload_modules.h"

namespace nest::split {
namespace {

// What is recomputed and gone again after use: whoever reads it waits for the recomputed copy.
bool drops_output(model::Module module) {
  return module == model::Module::norm || module == model::Module::activation ||
         module == model::Module::moe_activation || module == model::Module::shared_activation ||
         module == model::Module::latent_up;
}

class SavedTensors {
 public:
  SavedTensors(const SavedSituation& situation, LocalLayer& local)
      : layer_(*local.source), situation_(situation), local_(local) {
    const Gradients gradients(layer_);
    saves_.reserve(layer_.operators.size());
    for (const model::Operator& op : layer_.operators) saves_.push_back(gradients.saves(op));
  }

  void collect(const RecomputePolicy& policy) {
    if (!local_.backward) {  // nothing waits for it
      local_.saved.sets.assign(policy.sets.size(), 0);
      local_.saved.sets_host.resize(policy.sets.size());
      return;
    }
    const KeptSet all = kept_by_operators([](std::size_t) { return false; });
    const auto chosen = [this](std::size_t i) { return local_.operators[i].recomputed; };
    const KeptSet some = layer_.kind != model::LayerKind::block ? all
                         : policy.every_second_matmul           ? kept_by_matmul_policy()
                                                                : kept_selectively(chosen);
    for (const Kept& kept : all) {
      local_.saved_tensors.push_back({kept_name(kept), kept_bytes(kept), some.contains(kept), false, kept.tensor});
    }
    for (const Kept& kept : some) {
      if (!all.contains(kept)) {
        local_.saved_tensors.push_back({kept_name(kept), kept_bytes(kept), true, true, kept.tensor});
      }
    }
    if (layer_.kind == model::LayerKind::block) {
      for (SavedTensor& copy : copies(policy)) local_.saved_tensors.push_back(std::move(copy));
    }
    for (const SavedTensor& saved : local_.saved_tensors) {
      if (!saved.only_selective) local_.saved.none += saved.bytes;
      if (saved.selective) local_.saved.selective += saved.bytes;
    }
    if (layer_.kind != model::LayerKind::block) {
      local_.saved.full = local_.saved.none;
      local_.saved.sets.assign(policy.sets.size(), local_.saved.none);
      local_.saved.sets_host.resize(policy.sets.size());
      return;
    }
    for (std::size_t i = 0; i < policy.sets.size(); ++i) local_.saved.sets.push_back(set_bytes(policy.sets[i], i));
    if (situation_.split.offload != 0 && !policy.every_second_matmul) {
      local_.saved.none_host = host_bytes(all, [](std::size_t) { return false; });
      local_.saved.selective_host = host_bytes(some, chosen);
    }
    for (std::size_t i = 0; i < policy.sets.size(); ++i) {
      const auto again = [&](std::size_t op) { return runs_again(op, i); };
      local_.saved.sets_host.push_back(situation_.split.offload == 0 ? HostBytes{}
                                                                     : host_bytes(kept_selectively(again), again));
    }
    if (layer_.input >= 0) local_.saved.full = bytes(layer_.input);
    for (const model::TensorId id : layer_.side_inputs) local_.saved.full += bytes(id);
  }

 private:
  const model::Tensor& tensor(model::TensorId id) const { return layer_.tensors[at(id)]; }
  double bytes(model::TensorId id) const { return situation_.sizes.bytes(tensor(id), situation_.place[at(id)]); }
  double whole_bytes(model::TensorId id) const { return situation_.sizes.bytes(tensor(id), Place::sharded); }

  // A tensor as it is kept: as it is, or as the copy of fewer bits that one operator made for itself.
  struct Kept {
    model::TensorId tensor;
    int copy = -1;  // the operator whose copy it is; -1: the tensor itself
    bool operator<(const Kept& other) const { return std::tie(tensor, copy) < std::tie(other.tensor, other.copy); }
  };
  using KeptSet = std::set<Kept>;

  // Bytes of an element of what the operator keeps of a tensor; 0: of the tensor itself.
  double copy_bytes(const model::Operator& op, model::TensorId id) const {
    const auto among = [id](const std::vector<model::TensorId>& ids) {
      return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    if (op.kind == model::OperatorKind::attention) {
      return among(op.inputs) || among(op.outputs) ? situation_.implementation.kept_attention_bytes : 0;
    }
    const bool linear = (op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul) &&
                        op.product.batches == 0 && layer_.kind == model::LayerKind::block;
    return linear && !op.keeps_original && among(op.inputs) ? situation_.implementation.kept_input_bytes : 0;
  }
  Kept kept_by(std::size_t op, model::TensorId id) const {
    return {id, copy_bytes(layer_.operators[op], id) > 0 ? static_cast<int>(op) : -1};
  }
  double kept_bytes(const Kept& kept) const {
    const double all = bytes(kept.tensor);
    if (kept.copy < 0) return all;
    return all / tensor(kept.tensor).element_bytes * copy_bytes(layer_.operators[at(kept.copy)], kept.tensor);
  }
  std::string kept_name(const Kept& kept) const {
    const std::string& name = tensor(kept.tensor).name;
    return kept.copy < 0 ? name : name + ", quantised for " + layer_.operators[at(kept.copy)].name;
  }
  static void erase_all(KeptSet& kept, model::TensorId id) {
    std::erase_if(kept, [id](const Kept& one) { return one.tensor == id; });
  }

  // Of operators that are not recomputed.
  template <class IsRecomputed>
  KeptSet kept_by_operators(const IsRecomputed& recomputed) const {
    KeptSet kept;
    for (std::size_t i = 0; i < layer_.operators.size(); ++i) {
      if (recomputed(i)) continue;
      for (const model::TensorId id : saves_[i]) kept.insert(kept_by(i, id));
    }
    erase_all(kept, layer_.memory);
    return kept;
  }

  // Under selective recomputation: what recomputed operators produced and drop, and what they must start from.
  template <class IsRecomputed>
  KeptSet kept_selectively(const IsRecomputed& recomputed) const {
    KeptSet kept = kept_by_operators(recomputed);
    std::set<model::TensorId> regenerated;
    std::vector<bool> read_by_others(layer_.tensors.size(), false);  // by something that is not recomputed
    for (std::size_t i = 0; i < layer_.operators.size(); ++i) {
      if (recomputed(i)) continue;
      for (const model::TensorId id : layer_.operators[i].inputs) read_by_others[at(id)] = true;
    }
    for (std::size_t i = 0; i < layer_.operators.size(); ++i) {
      if (!recomputed(i)) continue;
      const model::Operator& op = layer_.operators[i];
      const bool inner = op.module == model::Module::feed_forward || op.module == model::Module::moe ||
                         op.module == model::Module::shared_experts || op.module == model::Module::core_attention ||
                         op.module == model::Module::other;
      for (const model::TensorId id : op.outputs) {
        // Inside a recomputed part every intermediate is regenerated; what leaves it is regenerated only if it is
        // dropped.
        if (drops_output(op.module) || (inner && !read_by_others[at(id)])) regenerated.insert(id);
      }
    }
    for (std::size_t i = 0; i < layer_.operators.size(); ++i) {
      if (!recomputed(i)) continue;
      for (const model::TensorId id : layer_.operators[i].inputs) {
        if (!regenerated.contains(id)) kept.insert({id});
      }
    }
    for (const model::TensorId id : regenerated) erase_all(kept, id);
    erase_all(kept, layer_.memory);
    return kept;
  }

  KeptSet kept_by_matmul_policy() const {
    KeptSet kept;
    if (layer_.input >= 0) kept.insert({layer_.input});
    for (std::size_t i = 0; i < layer_.operators.size(); ++i) {
      if (local_.operators[i].recomputed) continue;
      const model::Operator& op = layer_.operators[i];
      for (const model::TensorId id : op.outputs) kept.insert({id});
      if (op.kind != model::OperatorKind::attention) continue;
      for (const model::TensorId id : saves_[i]) {
        if (std::find(op.inputs.begin(), op.inputs.end(), id) == op.inputs.end()) kept.insert({id});
      }
    }
    return kept;
  }

  bool runs_again(std::size_t op, std::size_t set) const {
    return (local_.operators[op].recomputed_sets >> set & 1) != 0;
  }

  double set_bytes(RecomputeSet set, std::size_t index) const {
    double sum = 0;
    const auto again = [&](std::size_t op) { return runs_again(op, index); };
    for (const Kept& kept : kept_selectively(again)) sum += kept_bytes(kept);
    for (const SavedTensor& copy : copies({.modules = modules_of(set)})) sum += copy.selective ? copy.bytes : 0;
    return sum;
  }

  // What of it waits on the host. What a recomputed norm or activation starts from moves as well; other modules are
  // checkpoints, which keep their inputs themselves.
  template <class IsRecomputed>
  HostBytes host_bytes(const KeptSet& kept, const IsRecomputed& recomputed) const {
    struct Keepers {
      OffloadSet named = 0;  // modules that keep it
      bool others = false;
    };
    std::map<Kept, Keepers> keepers;
    const std::vector<OffloadSet> modules = offload_modules(layer_);
    for (std::size_t i = 0; i < layer_.operators.size(); ++i) {
      const model::Operator& op = layer_.operators[i];
      const bool again = recomputed(i);
      const auto named = static_cast<OffloadSet>(modules[i] & situation_.split.offload);
      for (const model::TensorId id : again ? op.inputs : saves_[i]) {
        const auto found = kept.find(again ? Kept{id} : kept_by(i, id));
        if (found == kept.end()) continue;
        Keepers& of = keepers[*found];
        const bool moves = named != 0 && (!again || drops_output(op.module));
        if (moves) of.named |= named;
        of.others = of.others || !moves;
      }
    }
    HostBytes host;
    std::array<double, kOffloadModuleWords.size()> groups{};
    for (const auto& [one, of] : keepers) {
      const double elements = bytes(one.tensor) / tensor(one.tensor).element_bytes;
      if (of.named == 0 || elements < kLeastOffloaded) continue;
      host.moved += kept_bytes(one);
      if (of.others) continue;
      host.freed += kept_bytes(one);
      for (const auto& word : kOffloadModuleWords) {
        if ((of.named & set_of(word.value)) != 0) groups[at(word.value)] += kept_bytes(one);
      }
    }
    host.group = *std::max_element(groups.begin(), groups.end());
    return host;
  }

  // Copies that exist because of the split or of what is recomputed, not because an operator of the graph asks for
  // them.
  std::vector<SavedTensor> copies(const RecomputePolicy& policy) const {
    std::vector<SavedTensor> made;
    for (const model::Operator& op : layer_.operators) {
      if (op.kind == model::OperatorKind::attention && situation_.split.cp_comm == ContextExchange::a2a) {
        made.push_back({"attention out, before the all-to-all", bytes(op.outputs.front()), true});
      }
      // Transformer Engine attends with two chunks after the gathering, and keeps each one's result besides.
      if (op.kind == model::OperatorKind::attention && situation_.split.cp_comm == ContextExchange::all_gather &&
          situation_.implementation.stack == model::Stack::megatron) {
        made.push_back({"attention out, by chunk", bytes(op.outputs.front()), true});
      }
      const bool shared_input = op.kind == model::OperatorKind::matmul && op.module == model::Module::shared_experts &&
                                situation_.gathered[at(op.inputs.front())];
      if (shared_input && situation_.split.sp && situation_.implementation.shared_expert_overlap) {
        made.push_back({"shared experts' input, gathered", whole_bytes(op.inputs.front()), !policy.covers(op.module)});
      }
      // Megatron keeps one more tensor of the stream's width per layer when it recomputes the experts' activations.
      const bool activation_only = policy.covers(model::Module::moe_activation) && !policy.covers(model::Module::moe);
      if (op.kind == model::OperatorKind::dispatch && situation_.implementation.stack == model::Stack::megatron &&
          activation_only) {
        made.push_back({"input of recomputed experts", whole_bytes(op.inputs.front()), true, true});
      }
    }
    return made;
  }

  const model::Layer& layer_;
  const SavedSituation& situation_;
  LocalLayer& local_;
  std::vector<std::vector<model::TensorId>> saves_;  // by operator: what its backward needs
};

}  // namespace

void count_saved(const SavedSituation& situation, const RecomputePolicy& policy, LocalLayer& local) {
  SavedTensors(situation, local).collect(policy);
}

}  // namespace nest::split
