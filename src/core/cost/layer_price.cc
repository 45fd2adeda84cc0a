#include "cost/layer_price.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/index.h"
#include "cost/activation_offload.h"
#include "cost/constants.h"
#include "cost/layer_pricer.h"
#include "cost/measured_layer.h"
#include "cost/overlap.h"
#include "cost/recomputed_launches.h"

namespace nest::cost {

using namespace constants;

Passes LayerPricer::exposed_exchanges(const Passes& compute) const {
  const Passes whole = times_.exchanges();
  const double both_s = whole.forward_s + whole.backward_s;
  if (both_s <= 0) return whole;
  const SoftwareStack& stack = job_.stack;
  const double share = dispatcher_share(stack.dispatch, rates_.multiprocessors);
  if (stack.shared_expert_overlap && !stack.expert_overlap) {
    return {beside_s(whole.forward_s, times_.shared.forward_s, share),
            beside_s(whole.backward_s, times_.shared.backward_s, share)};
  }
  // Megatron-Core hides exchanges of experts that are spread, not of those that are divided alone
  // (transformer_config.py: overlap_moe_expert_parallel_comm asserts expert_model_parallel_size > 1).
  const bool spread = split_.ep > 1;
  if (!stack.expert_overlap || !spread || stack.dispatch.dispatcher == Dispatcher::allgather) return whole;
  PairedLayer layer;
  layer.experts_s = times_.experts.forward_s;
  layer.experts_weight_s = times_.expert_weights_s;
  layer.experts_input_s = std::max(0.0, times_.experts.backward_s - times_.expert_weights_s);
  layer.attention_s = compute.forward_s - times_.experts.forward_s;
  layer.attention_back_s = compute.backward_s - layer.experts_input_s - layer.experts_weight_s;
  layer.dispatch_s = times_.dispatch.forward_s;
  layer.combine_s = times_.combine.forward_s;
  layer.dispatch_back_s = times_.dispatch.backward_s;
  layer.combine_back_s = times_.combine.backward_s;
  const double loss = overlap_loss(stack.dispatch, rates_.multiprocessors, groups_.dispatch_crosses());
  const double exposed_s = std::clamp(pair_s(layer, loss, stack.delay_wgrad) - layer.compute_s(), 0.0, both_s);
  return {exposed_s * whole.forward_s / both_s, exposed_s * whole.backward_s / both_s};
}

Passes LayerPricer::written_launches() const {
  Passes launches;
  for (const EagerWork& work : works_) {
    launches.forward_s += work.forward_launches;
    launches.backward_s += work.backward_launches;
  }
  return launches;
}

Passes LayerPricer::host_s() const {
  if (written_) {
    const Passes launches = written_launches();
    const double python = layer_.kind == model::LayerKind::block ? kWrittenBlock : 0;
    return {job_.stack.host_kernel_s * (python + kWrittenLaunch * launches.forward_s),
            job_.stack.host_kernel_s * launches.backward_s};
  }
  const double forward_s = host_forward_s();
  return {forward_s, kHostBackward * forward_s};
}

double LayerPricer::host_forward_s() const {
  if (layer_.kind != model::LayerKind::block) return 0;
  HostWork work;
  for (const split::LocalOperator& op : local_.operators) {
    work.latent = work.latent || op.module == model::Module::latent_up;
    work.shared = work.shared || op.module == model::Module::shared_experts;
  }
  if (job_.model.traced) work.own = kHostPerOperator * real(local_.operators.size());
  work.tensor = split_.tp > 1;
  work.experts = layer_.experts > 0;
  work.fused_router = job_.stack.fused_router;
  work.cross = std::max(0, times_.attentions - 1);
  return job_.stack.host_kernel_s * host_launches(work, job_.stack.graph_scopes);
}

Passes LayerPricer::selective() const {
  switch (job_.stack.selective) {
    case SelectiveKind::every_second_matmul:
      return {0.5 * times_.matrix.forward_s + times_.rowwise.forward_s + times_.casts.forward_s +
                  0.5 * times_.tensor.forward_s,
              0};
    case SelectiveKind::minimal:
      return {times_.rowwise.forward_s + times_.casts.forward_s + times_.attention.forward_s, 0};
    case SelectiveKind::modules: break;
  }
  return {times_.recomputed_s + times_.exchanged_again_s, modules_host(job_.stack.selective_modules, std::nullopt)};
}

double LayerPricer::modules_host(const std::vector<model::Module>& modules, std::optional<std::size_t> set) const {
  return job_.stack.host_kernel_s * recomputed_launches(local_, modules, set, job_.stack);
}

void LayerPricer::compose_forward(LayerPrice& price, double travelling, const Passes& exposed, const Passes& whole,
                                  double alone_s) const {
  price.backward_s = 0;
  price.recompute_s.assign(kFirstSet + sets_.size(), 0);
  if (job_.stack.expert_overlap) {
    price.alone_forward_s = alone_s - price.forward_s;
    price.alone_ep_s = travelling * (whole.forward_s - exposed.forward_s);
  }
  price.tp_s = times_.tensor.forward_s;
  price.cp_s = times_.context.forward_s;
  price.ep_s = travelling * exposed.forward_s;
}

void LayerPricer::compose(LayerPrice& price) const {
  const bool block = layer_.kind == model::LayerKind::block;
  const int traced = static_cast<int>(local_.operators.size()) + 1;
  const int kernels = job_.model.traced
                          ? traced
                          : times_.matrices + kOtherKernels + kAttentionKernels * std::max(0, times_.attentions - 1);
  const double gaps_s = block ? kernels * kGap_s : 0;
  const Passes launches = written_launches();
  const Passes gaps = written_ ? Passes{rates_.gap_s * launches.forward_s, rates_.gap_s * launches.backward_s}
                               : Passes{gaps_s, 2 * gaps_s};
  const double compute_forward_s = times_.forward_s() + gaps.forward_s;
  double compute_backward_s = times_.backward_s() + gaps.backward_s;
  if (job_.stack.unfused_accumulation) {
    const auto parameters = real(local_.dense_parameters + local_.expert_parameters);
    const double bytes = rates_.activation_bytes + 2 * job_.stack.gradient_bytes;  // read one, read and write the sum
    if (block) compute_backward_s += bytes * parameters / rates_.memory_bytes_per_s;
  }
  const Passes own{compute_forward_s + times_.exposed_forward_s(), compute_backward_s + times_.exposed_backward_s()};
  const Passes exposed = exposed_exchanges(own), whole = times_.exchanges();
  // What rows wait for on the device is no traffic.
  const double both_s = whole.forward_s + whole.backward_s;
  const double travelling = both_s > 0 ? 1 - times_.permuted_s / both_s : 1;
  const Passes host = host_s();
  const auto joined = [&](double stream_s, double host_time_s) {
    return job_.stack.blocking_launches ? stream_s + host_time_s : std::max(stream_s, host_time_s);
  };
  price.forward_s = joined(own.forward_s + exposed.forward_s, host.forward_s);
  price.backward_s = joined(own.backward_s + exposed.backward_s, host.backward_s);
  if (!local_.backward) {
    compose_forward(price, travelling, exposed, whole, joined(own.forward_s + whole.forward_s, host.forward_s));
    return;
  }
  const bool pairs = job_.stack.expert_overlap;
  if (pairs) {
    price.alone_forward_s = joined(own.forward_s + whole.forward_s, host.forward_s) - price.forward_s;
    price.alone_backward_s = joined(own.backward_s + whole.backward_s, host.backward_s) - price.backward_s;
    price.alone_ep_s = travelling * (whole.forward_s + whole.backward_s - exposed.forward_s - exposed.backward_s);
  }
  if (block) {
    const Passes some = selective();
    // Beside whole exchanges where passes pair: a pass that runs alone has them exposed, and one that is recomputed as a
    // whole, which cannot pair, pays them again.
    const Passes& beside = pairs ? whole : exposed;
    const double stream_s = own.backward_s + beside.backward_s;
    const auto with = [&](double again_s, double host_again_s) {
      return joined(stream_s + again_s, host.backward_s + host_again_s) - joined(stream_s, host.backward_s);
    };
    // Under torch's checkpoint every tensor that is kept passes hooks in Python, both times that forward runs.
    const double hooked_s = (written_ ? kWrittenCheckpoint : 1) * host.forward_s;
    const double slower_s = joined(own.forward_s + exposed.forward_s, hooked_s) - price.forward_s;
    price.recompute_s = {0, with(some.forward_s, some.backward_s),
                         slower_s + with(own.forward_s + beside.forward_s - times_.unrepeated_s, hooked_s)};
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      price.recompute_s.push_back(with(times_.set_s[i], modules_host(split::modules_of(sets_[i]), i)));
    }
  } else {
    price.recompute_s.assign(kFirstSet + sets_.size(), 0);
  }
  price.tp_s = times_.tensor.forward_s + times_.tensor.backward_s;
  price.cp_s = times_.context.forward_s + times_.context.backward_s;
  price.ep_s = travelling * (exposed.forward_s + exposed.backward_s);
  price.deferrable_s = times_.head_gradient_s;
  price.weight_s = std::min(times_.weights_s, price.backward_s);
}

PricingContext::PricingContext(const Job& job, const Split& split, const Treatments& treatments, schedule::Law law)
    : rates(sustained_rates(job.cluster.device, job.run.precision, job.stack)),
      groups(job.cluster, split, job.stack.dispatch, law),
      implementation(timed_implementation(job)),
      policy{.modules = job.stack.selective_modules, .count_saved = false, .sets = treatments.sets} {}

LayerPrice time_layer(const Job& job, int layer, const Split& split, std::int64_t micro_batch,
                      const PricingContext& context) {
  LayerPrice price;
  const model::Layer& fused = fused_layer(job, layer);
  LayerPricer(job, fused, job.model.kinds[at(layer)], split, micro_batch, context).fill(price);
  override_layer(job, fused, split, micro_batch, price);
  if (split.offload != 0) add_way_to_host(job, layer, split, micro_batch, context.policy.sets, price);
  return price;
}

LayerPrice price_layer(const Job& job, int layer, const Split& split, std::int64_t micro_batch,
                       const Treatments& treatments) {
  LayerPrice price = time_layer(job, layer, split, micro_batch, PricingContext(job, split, treatments));
  price_layer_memory(job, layer, split, micro_batch, price, treatments);
  if (const auto measured = measured_saved_bytes(job, layer, split, micro_batch)) keep_measured(*measured, price);
  return price;
}

}  // namespace nest::cost
