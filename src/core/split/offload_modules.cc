#include "split/offload_modules.h"

#include <algorithm>

#include "base/index.h"

namespace nest::split {
namespace {

class ModuleFinder {
 public:
  explicit ModuleFinder(const model::Layer& layer)
      : layer_(layer), maker_(layer.tensors.size(), -1), found_(layer.operators.size(), 0) {
    for (std::size_t i = 0; i < layer.operators.size(); ++i) {
      for (const model::TensorId id : layer.operators[i].outputs) maker_[at(id)] = static_cast<int>(i);
      latent_ = latent_ || layer.operators[i].module == model::Module::latent_up;
    }
  }

  std::vector<OffloadSet> run() {
    for (std::size_t i = 0; i < layer_.operators.size(); ++i) {
      const model::Operator& op = layer_.operators[i];
      if (op.kind == model::OperatorKind::attention) {
        mark(i, OffloadModule::core_attn);
        for (const model::TensorId id : op.inputs) follow(id, false);
      } else if (op.kind == model::OperatorKind::grouped_matmul) {
        mark(i, OffloadModule::fused_group_mlp);
        if (reads(op, model::OperatorKind::dispatch)) mark(i, OffloadModule::expert_fc1);
      } else if (op.kind == model::OperatorKind::matmul && reads(op, model::OperatorKind::attention)) {
        mark(i, OffloadModule::attn_proj);
      } else if (op.module == model::Module::moe_activation) {
        mark(i, OffloadModule::moe_act);
        mark(i, OffloadModule::fused_group_mlp);
      } else if (op.module == model::Module::norm && is_before_router(op)) {
        mark(i, OffloadModule::mlp_norm);
      }
    }
    return std::move(found_);
  }

 private:
  void mark(std::size_t i, OffloadModule module) { found_[i] |= set_of(module); }

  const model::Operator* maker(model::TensorId id) const {
    return maker_[at(id)] < 0 ? nullptr : &layer_.operators[at(maker_[at(id)])];
  }
  bool reads(const model::Operator& op, model::OperatorKind kind) const {
    const model::Operator* before = op.inputs.empty() ? nullptr : maker(op.inputs.front());
    return before != nullptr && before->kind == kind;
  }
  bool is_before_router(const model::Operator& norm) const {
    return std::any_of(layer_.operators.begin(), layer_.operators.end(), [&](const model::Operator& op) {
      return op.module == model::Module::moe && !op.inputs.empty() && op.inputs.front() == norm.outputs.front();
    });
  }

  // Back from what attention reads to the stream. `projected`: a product lies between.
  void follow(model::TensorId id, bool projected) {
    if (maker_[at(id)] < 0) return;
    const auto i = at(maker_[at(id)]);
    const model::Operator& op = layer_.operators[i];
    if (op.kind == model::OperatorKind::add || op.kind == model::OperatorKind::attention) return;  // the stream
    if (op.module == model::Module::norm) return mark(i, OffloadModule::attn_norm);
    const bool product = op.kind == model::OperatorKind::matmul;
    if (latent_ || product || projected) mark(i, OffloadModule::qkv_linear);
    if (op.kind == model::OperatorKind::norm && projected && !latent_)
      return;  // inside the product; before it, the stream
    for (const model::TensorId input : op.inputs) follow(input, projected || product);
  }

  const model::Layer& layer_;
  std::vector<int> maker_;  // by tensor
  std::vector<OffloadSet> found_;
  bool latent_ = false;
};

}  // namespace

std::vector<OffloadSet> offload_modules(const model::Layer& layer) { return ModuleFinder(layer).run(); }

}  // namespace nest::split
