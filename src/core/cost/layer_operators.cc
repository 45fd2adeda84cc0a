#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "cost/constants.h"
#include "cost/group_time.h"
#include "cost/layer_pricer.h"
#include "cost/overlap.h"
#include "cost/profile.h"
#include "split/local_layer.h"

namespace nest::cost {

using namespace constants;

namespace {

void add(Passes& sum, const Passes& passes) {
  sum.forward_s += passes.forward_s;
  sum.backward_s += passes.backward_s;
}

// Share of queries and keys that position embeddings rotate: latent attention rotates a part of each head.
double rotated_share(const model::Architecture& architecture) {
  for (const model::Tower& tower : architecture.towers) {
    for (const model::Block& block : tower.kinds) {
      if (!block.attention.latent) continue;
      const auto rotated = real(block.attention.latent->rope_dim);
      return rotated / (rotated + real(block.attention.latent->nope_dim));
    }
  }
  return 1;
}

}  // namespace

LayerPricer::LayerPricer(const Job& job, const model::Layer& layer, const model::Layer& written, const Split& split,
                         std::int64_t micro_batch, const PricingContext& context)
    : job_(job),
      layer_(layer),
      split_(split),
      micro_batch_(micro_batch),
      sequence_(layer.encoder && job.run.encoder_sequence > 0 ? job.run.encoder_sequence : job.run.sequence),
      rates_(context.rates),
      groups_(context.groups),
      busiest_(layer.experts > 0 ? time_imbalance(job.stack.routing, choice_of(layer), split, stream_tokens()) : 1),
      sets_(context.policy.sets),
      local_(localise(layer, context)) {
  times_.set_s.assign(sets_.size(), 0);
  if (!runs_as_written(job.stack)) return;
  written_ = localise(written, context);
  const double width = real(job.fused_model.architecture.hidden);
  works_ = eager_work(*written_, {.activation_bytes = rates_.activation_bytes,
                                  .routed_elements = layer.experts > 0 ? busiest_ * routed_rows() * width : 0,
                                  .rotated = rotated_share(job.fused_model.architecture)});
  needed_ = repeated_operators(*written_->source);
}

void LayerPricer::fill(LayerPrice& price) {
  bool routed = false;
  for (std::size_t i = 0; i < computed().operators.size(); ++i) {
    const split::LocalOperator& op = computed().operators[i];
    const bool shared = op.module == model::Module::shared_experts || op.module == model::Module::shared_activation;
    routed = routed || op.kind == model::OperatorKind::dispatch;
    price_operator(i, shared ? Part::shared : routed ? Part::experts : Part::attention);
    routed = routed && op.kind != model::OperatorKind::combine;
  }
  for (const split::LayerCollective& exchange : local_.collectives) price_exchange(exchange);
  finish_context();
  compose(price);
  price.flops = local_.flops_forward() + local_.flops_backward();
  price.dense_parameters = local_.dense_parameters;
  price.expert_parameters = local_.expert_parameters;
  add_frozen(price);
  price.measured = price.measured || measured_;
}

split::LocalLayer LayerPricer::localise(const model::Layer& layer, const PricingContext& context) const {
  return split::localise(layer, {micro_batch_, job_.run.sequence, job_.run.encoder_sequence, busiest_}, split_,
                         context.implementation, context.policy);
}

bool LayerPricer::is_unpacked(const split::LocalOperator& op) const {
  return job_.model.frozen_matrix_bytes > 0 && layer_.kind == model::LayerKind::block && op.frozen_parameters > 0 &&
         (op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul);
}

void LayerPricer::add_frozen(LayerPrice& price) const {
  price.frozen_dense = local_.frozen_dense;
  price.frozen_expert = local_.frozen_expert;
  for (const split::LocalOperator& op : local_.operators) {
    const double each = is_unpacked(op) ? job_.model.frozen_matrix_bytes : job_.stack.weight_traffic_bytes;
    (op.expert_weights ? price.frozen_expert_bytes : price.frozen_dense_bytes) += each * real(op.frozen_parameters);
  }
}

bool LayerPricer::is_router(std::size_t i) const {
  const auto& operators = computed().operators;
  return i + 1 < operators.size() && operators[i + 1].kind == model::OperatorKind::router;
}

bool LayerPricer::is_sixteen(std::size_t i) const {
  if (layer_.kind == model::LayerKind::block) return is_router(i);
  return layer_.kind != model::LayerKind::head || !job_.stack.fp8_head;
}

Passes LayerPricer::price_matrix(const split::LocalOperator& op, GemmFormat format) {
  const bool grouped = op.kind == model::OperatorKind::grouped_matmul;
  const auto n = real(op.n), k = real(op.k), batch = real(op.groups);
  const double padded = job_.stack.routing.rows;
  const double m = grouped ? std::ceil(std::max(1.0, op.m / batch) / padded) * padded : std::round(op.m);
  const double factor = grouped ? kGrouped : 1;
  const double weight_s = op.weight_gradient * factor * gemm_s(rates_, {n, k, m, batch}, format);
  if (layer_.kind == model::LayerKind::head) {
    // The last one is the projection to logits, and what has no weights of its own runs it once more.
    times_.head_gradient_s = op.source->weights.empty() ? times_.head_gradient_s + weight_s : weight_s;
  }
  if (op.source->product.batches == 0) logits_ = op.m * n;
  weight_s_ = weight_s;
  ++times_.matrices;
  Passes passes{factor * gemm_s(rates_, {m, n, k, batch}, format), weight_s};
  if (op.input_gradient) passes.backward_s += factor * gemm_s(rates_, {m, k, n, batch}, format);
  if (is_unpacked(op)) {
    const double unpack_s = (job_.model.frozen_matrix_bytes + rates_.activation_bytes) * real(op.frozen_parameters) /
                            rates_.memory_bytes_per_s;
    passes.forward_s += unpack_s;
    if (op.input_gradient) passes.backward_s += unpack_s;
  }
  return passes;
}

AttentionSize LayerPricer::attention_size(const split::LocalOperator& op) const {
  const split::RunShape run{micro_batch_, job_.run.sequence, job_.run.encoder_sequence, 1.0};
  AttentionSize size = cost::attention_size(op, layer_, run, split_.cp);
  if (written_) {
    const auto& saves = op.source->saves;
    size.masked = size.fused && std::any_of(saves.begin(), saves.end(), [&](model::TensorId id) {
                    const model::Rows rows = written_->source->tensors[at(id)].rows;
                    return rows == model::Rows::squared || rows == model::Rows::pairs;
                  });
  }
  size.dropout = job_.stack.dropout && job_.fused_model.architecture.attention_dropout > 0;
  return size;
}

double LayerPricer::rowwise_bytes(const split::LocalOperator& op) const {
  const double width = real(job_.fused_model.architecture.hidden) * rates_.activation_bytes;
  const auto experts = real(layer_.experts);
  switch (op.kind) {
    case model::OperatorKind::dispatch:
    case model::OperatorKind::combine: return kPermute * busiest_ * routed_rows() * width;
    case model::OperatorKind::router: return kRouter * stream_tokens() * experts * rates_.activation_bytes;
    case model::OperatorKind::elementwise: return elementwise_bytes(op);
    default: return op.bytes_forward;
  }
}

double LayerPricer::elementwise_bytes(const split::LocalOperator& op) const {
  const model::Operator& source = *op.source;
  const bool activation = op.module == model::Module::shared_activation || op.module == model::Module::moe_activation;
  // gate x up: three tensors of one size are moved; with routed experts the measured kernels move less.
  if (activation && source.inputs.size() == 2) return op.bytes_forward * kExpertActivation / 3;
  if (source.name.starts_with("rotary"))
    return op.bytes_forward * rotated_share(job_.fused_model.architecture);  // rotary
  const auto among = [](const std::vector<model::TensorId>& ids, model::TensorId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  const bool writes_besides = std::all_of(source.saves.begin(), source.saves.end(), [&](model::TensorId id) {
    return !among(source.inputs, id) && !among(source.outputs, id);
  });
  // Dropout writes its mask as well.
  return writes_besides ? op.bytes_backward : op.bytes_forward;
}

Passes LayerPricer::price_loss() const {
  if (written_)
    return {kWrittenLoss * logits_ / rates_.memory_bytes_per_s, kWrittenLossBack * logits_ / rates_.memory_bytes_per_s};
  const double extra = job_.stack.eager_loss ? 1 : 0;
  const double memory = rates_.memory_bytes_per_s;
  return {(kLossForwardBytes + extra * kEagerLossForwardBytes) * logits_ / memory,
          (kLossBackwardBytes + extra * kEagerLossBackwardBytes) * logits_ / memory};
}

void LayerPricer::price_operator(std::size_t i, Part part) {
  const split::LocalOperator& op = computed().operators[i];
  Passes passes, cast;
  weight_s_ = 0;
  Passes* sum = &times_.rowwise;
  switch (op.kind) {
    case model::OperatorKind::matmul:
    case model::OperatorKind::grouped_matmul: {
      const bool sixteen = is_sixteen(i);
      passes = price_matrix(op, sixteen ? GemmFormat::sixteen : GemmFormat::job);
      if (narrow() && !sixteen) cast = cast_passes(op);
      if (op.kind == model::OperatorKind::grouped_matmul && !written_) add(times_.rowwise, bias_passes(op));
      sum = &times_.matrix;
      break;
    }
    case model::OperatorKind::attention:
      passes = attention_s(rates_, attention_size(op), job_.stack.deterministic);
      ++times_.attentions;
      sum = &times_.attention;
      break;
    case model::OperatorKind::loss:
      passes = price_loss();
      sum = &times_.other;
      break;
    case model::OperatorKind::scan:
      passes = scan_s(rates_, op.bytes_forward, op.source->scan.state ? op.flops_forward : 0);
      break;
    default:
      if (written_ || (job_.stack.fused_experts && op.module == model::Module::moe_activation)) break;
      passes.forward_s = rowwise_s(rates_, rowwise_bytes(op), job_.stack.fused_rowwise);
      passes.backward_s = kRowwiseBackward * passes.forward_s;
  }
  if (written_) {
    passes.forward_s += works_[i].forward_bytes / rates_.memory_bytes_per_s;
    passes.backward_s += works_[i].backward_bytes / rates_.memory_bytes_per_s;
  }
  if (!op.backward) passes.backward_s = cast.backward_s = 0;
  const double modelled_s = passes.backward_s;
  override_operator(op, passes);
  if (modelled_s > 0) times_.weights_s += weight_s_ * std::min(1.0, passes.backward_s / modelled_s);
  if (moved_by_dispatcher(op)) {
    // Part of the exchange, which may run beside compute.
    add(op.kind == model::OperatorKind::combine ? times_.combine : times_.dispatch, passes);
    times_.permuted_s += passes.forward_s + passes.backward_s;
    if (op.recomputed) times_.exchanged_again_s += passes.forward_s;
    add_to_sets(op, passes.forward_s);
    return;
  }
  if (op.recomputed) times_.recomputed_s += passes.forward_s;
  add_to_sets(op, passes.forward_s);
  if (written_ && i >= needed_) times_.unrepeated_s += passes.forward_s;
  add(*sum, passes);
  add(times_.casts, cast);
  if (part == Part::attention) return;
  Passes& own = part == Part::experts ? times_.experts : times_.shared;
  add(own, passes);
  add(own, cast);
  if (part == Part::experts && modelled_s > 0) {
    times_.expert_weights_s += weight_s_ * std::min(1.0, passes.backward_s / modelled_s);
  }
}

void LayerPricer::add_to_sets(const split::LocalOperator& op, double seconds) {
  for (std::size_t i = 0; i < times_.set_s.size(); ++i) {
    if ((op.recomputed_sets >> i & 1) != 0) times_.set_s[i] += seconds;
  }
}

bool LayerPricer::moved_by_dispatcher(const split::LocalOperator& op) const {
  const bool moves = op.kind == model::OperatorKind::dispatch || op.kind == model::OperatorKind::combine;
  return moves && split_.ep > 1 && facts_of(job_.stack.dispatch.dispatcher).forwards;
}

void LayerPricer::override_operator(const split::LocalOperator& op, Passes& passes) {
  if (!job_.profile || job_.profile->operators.empty()) return;
  const bool attention = op.kind == model::OperatorKind::attention;
  const MeasuredOperator* found = job_.profile->find_operator(op, attention ? attention_size(op) : AttentionSize{});
  if (!found) return;
  passes = {found->forward_s, found->backward_s};
  if (!op.backward) passes.backward_s = 0;
  // Measured products computed both gradients.
  const bool product = op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul;
  if (product) passes.backward_s *= ((op.input_gradient ? 1 : 0) + op.weight_gradient) / 2;
  measured_ = true;
}

Passes LayerPricer::cast_passes(const split::LocalOperator& op) const {
  if (job_.stack.fused_experts && op.kind == model::OperatorKind::grouped_matmul) {
    // What comes in is quantised, and what comes back; in between products write what the next one reads.
    const double bytes_s = kCastBothBytes * op.m / rates_.memory_bytes_per_s;
    return is_last_of_experts(op) ? Passes{0, bytes_s * real(op.n)} : Passes{bytes_s * real(op.k), 0};
  }
  const double elements = op.m * real(op.k);
  return {kCastForwardBytes * elements / rates_.memory_bytes_per_s,
          kCastBackwardBytes * elements / rates_.memory_bytes_per_s};
}

Passes LayerPricer::bias_passes(const split::LocalOperator& op) const {
  if (op.source->weights.size() <= op.source->outputs.size() || op.source->adapter) return {};
  const double each_s = op.m * real(op.n) / rates_.memory_bytes_per_s;
  if (is_last_of_experts(op) && !job_.stack.fused_experts && job_.stack.kernels == model::Stack::megatron) {
    return {kBiasForwardBytes * each_s, kBiasBackwardBytes * each_s};
  }
  return {0, rates_.activation_bytes * each_s};
}

void LayerPricer::price_exchange(const split::LayerCollective& exchange) {
  const bool backward = exchange.phase == split::Phase::backward;
  const double exposed_s = exposed_share(job_, split_, local_, exchange) * groups_.seconds(local_, exchange);
  if (exchange.group == split::Group::context) {
    const bool ring = exchange.kind == split::CollectiveKind::ring_exchange;
    Passes& sum = ring ? context_ : times_.context;
    (backward ? sum.backward_s : sum.forward_s) += exposed_s;
    if (ring || backward) return;
    const split::LocalOperator& attention = local_.operators[at(exchange.operator_index)];
    if (attention.recomputed) times_.exchanged_again_s += exposed_s;
    add_to_sets(attention, exposed_s);
    return;
  }
  const bool experts = is_of_experts(local_, exchange);
  const split::LocalOperator& op = local_.operators[at(exchange.operator_index)];
  const bool home = op.kind == model::OperatorKind::combine;
  Passes& sum = !experts ? times_.tensor : home ? times_.combine : times_.dispatch;
  (backward ? sum.backward_s : sum.forward_s) += exposed_s;
  if (!experts || backward) return;
  if (op.recomputed) times_.exchanged_again_s += exposed_s;
  add_to_sets(op, exposed_s);
}

void LayerPricer::finish_context() {
  times_.context.forward_s += beside_s(context_.forward_s, times_.attention.forward_s, kContextExposed);
  times_.context.backward_s += beside_s(context_.backward_s, times_.attention.backward_s, kContextExposed);
}

}  // namespace nest::cost
