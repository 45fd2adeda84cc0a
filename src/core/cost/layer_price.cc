#include "cost/layer_price.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/index.h"
#include "cost/activation_offload.h"
#include "cost/attention_size.h"
#include "cost/constants.h"
#include "cost/eager_time.h"
#include "cost/group_time.h"
#include "cost/measured_layer.h"
#include "cost/operator_time.h"
#include "cost/overlap.h"
#include "cost/profile.h"
#include "cost/recomputed_launches.h"
#include "split/local_layer.h"

namespace nest::cost {
namespace {

using namespace constants;

// Times of one layer before the host is considered.
struct LayerTimes {
  Passes matrix, attention, rowwise, casts, other;  // `other`: loss
  Passes tensor, context;                           // exposed collectives
  Passes dispatch, combine;                         // of experts, as if nothing ran beside them
  Passes experts, shared;                           // of the operators above, those of routed and of shared experts
  double expert_weights_s = 0;                      // of their backward, weight gradients
  double recomputed_s = 0;                          // forward time of the modules that selective recomputation names
  double unrepeated_s = 0;                          // forward time that recomputation of everything leaves out
  double exchanged_again_s = 0;                     // and of their exchanges
  std::vector<double> set_s;                        // both, of every set of modules that is asked for
  double permuted_s = 0;                            // of the exchanges, what the dispatcher does on the device itself
  int matrices = 0;
  int attentions = 0;
  double head_gradient_s = 0;
  double weights_s = 0;  // weight gradients, of all matrix products

  double forward_s() const {
    return matrix.forward_s + attention.forward_s + rowwise.forward_s + casts.forward_s + other.forward_s;
  }
  double backward_s() const {
    return matrix.backward_s + attention.backward_s + rowwise.backward_s + casts.backward_s + other.backward_s;
  }
  double exposed_forward_s() const { return tensor.forward_s + context.forward_s; }
  double exposed_backward_s() const { return tensor.backward_s + context.backward_s; }
  Passes exchanges() const {
    return {dispatch.forward_s + combine.forward_s, dispatch.backward_s + combine.backward_s};
  }
};

// Whose work an operator is.
enum class Part : std::uint8_t { attention, experts, shared };

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

class LayerPricer {
 public:
  // `layer` is of the fused graph, `written` the same as the stack's modules have it.
  LayerPricer(const Job& job, const model::Layer& layer, const model::Layer& written, const Split& split,
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

  void fill(LayerPrice& price) {
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

 private:
  split::LocalLayer localise(const model::Layer& layer, const PricingContext& context) const {
    return split::localise(layer, {micro_batch_, job_.run.sequence, job_.run.encoder_sequence, busiest_}, split_,
                           context.implementation, context.policy);
  }
  // Whose operators are timed; what is exchanged is that of the fused graph.
  const split::LocalLayer& computed() const { return written_ ? *written_ : local_; }
  double stream_tokens() const { return split::stream_tokens(micro_batch_, sequence_, split_); }
  // Rows that one device routes. Without sp all tensor-parallel ranks hold the same tokens.
  double routed_rows() const { return stream_tokens() * real(layer_.top_k); }
  bool narrow() const { return rates_.element_bytes < 2; }

  // Frozen matrices of blocks may be stored in fewer bits; products read them in 16.
  bool is_unpacked(const split::LocalOperator& op) const {
    return job_.model.frozen_matrix_bytes > 0 && layer_.kind == model::LayerKind::block && op.frozen_parameters > 0 &&
           (op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul);
  }

  void add_frozen(LayerPrice& price) const {
    price.frozen_dense = local_.frozen_dense;
    price.frozen_expert = local_.frozen_expert;
    for (const split::LocalOperator& op : local_.operators) {
      const double each = is_unpacked(op) ? job_.model.frozen_matrix_bytes : job_.stack.weight_traffic_bytes;
      (op.expert_weights ? price.frozen_expert_bytes : price.frozen_dense_bytes) += each * real(op.frozen_parameters);
    }
  }

  bool is_router(std::size_t i) const {
    const auto& operators = computed().operators;
    return i + 1 < operators.size() && operators[i + 1].kind == model::OperatorKind::router;
  }

  // Whether a product runs in 16 bits whatever the job's precision is.
  bool is_sixteen(std::size_t i) const {
    if (layer_.kind == model::LayerKind::block) return is_router(i);
    return layer_.kind != model::LayerKind::head || !job_.stack.fp8_head;
  }

  Passes price_matrix(const split::LocalOperator& op, GemmFormat format) {
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

  AttentionSize attention_size(const split::LocalOperator& op) const {
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

  // Bytes that a row-wise operator moves forward.
  double rowwise_bytes(const split::LocalOperator& op) const {
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

  double elementwise_bytes(const split::LocalOperator& op) const {
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

  Passes price_loss() const {
    if (written_)
      return {kWrittenLoss * logits_ / rates_.memory_bytes_per_s,
              kWrittenLossBack * logits_ / rates_.memory_bytes_per_s};
    const double extra = job_.stack.eager_loss ? 1 : 0;
    const double memory = rates_.memory_bytes_per_s;
    return {(kLossForwardBytes + extra * kEagerLossForwardBytes) * logits_ / memory,
            (kLossBackwardBytes + extra * kEagerLossBackwardBytes) * logits_ / memory};
  }

  void price_operator(std::size_t i, Part part) {
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

  void add_to_sets(const split::LocalOperator& op, double seconds) {
    for (std::size_t i = 0; i < times_.set_s.size(); ++i) {
      if ((op.recomputed_sets >> i & 1) != 0) times_.set_s[i] += seconds;
    }
  }

  // Dispatchers that forward copies permute rows in the same call.
  bool moved_by_dispatcher(const split::LocalOperator& op) const {
    const bool moves = op.kind == model::OperatorKind::dispatch || op.kind == model::OperatorKind::combine;
    return moves && split_.ep > 1 && facts_of(job_.stack.dispatch.dispatcher).forwards;
  }

  void override_operator(const split::LocalOperator& op, Passes& passes) {
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

  Passes cast_passes(const split::LocalOperator& op) const {
    if (job_.stack.fused_experts && op.kind == model::OperatorKind::grouped_matmul) {
      // What comes in is quantised, and what comes back; in between products write what the next one reads.
      const double bytes_s = kCastBothBytes * op.m / rates_.memory_bytes_per_s;
      return is_last_of_experts(op) ? Passes{0, bytes_s * real(op.n)} : Passes{bytes_s * real(op.k), 0};
    }
    const double elements = op.m * real(op.k);
    return {kCastForwardBytes * elements / rates_.memory_bytes_per_s,
            kCastBackwardBytes * elements / rates_.memory_bytes_per_s};
  }

  static bool is_last_of_experts(const split::LocalOperator& op) { return op.source->name.ends_with(" down"); }

  // Biases of experts: inside the products but for the last one's, which is added by itself unless all of it is fused.
  // Their gradients are sums over rows.
  Passes bias_passes(const split::LocalOperator& op) const {
    if (op.source->weights.size() <= op.source->outputs.size() || op.source->adapter) return {};
    const double each_s = op.m * real(op.n) / rates_.memory_bytes_per_s;
    if (is_last_of_experts(op) && !job_.stack.fused_experts && job_.stack.kernels == model::Stack::megatron) {
      return {kBiasForwardBytes * each_s, kBiasBackwardBytes * each_s};
    }
    return {0, rates_.activation_bytes * each_s};
  }

  void price_exchange(const split::LayerCollective& exchange) {
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

  // What of the experts' exchanges is exposed where they run beside something.
  Passes exposed_exchanges(const Passes& compute) const {
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

  // The ring exchange hides behind the attention that waits for it; attention waits for all others.
  void finish_context() {
    times_.context.forward_s += beside_s(context_.forward_s, times_.attention.forward_s, kContextExposed);
    times_.context.backward_s += beside_s(context_.backward_s, times_.attention.backward_s, kContextExposed);
  }

  // Launches that the host makes for the layer, as its modules are written.
  Passes written_launches() const {
    Passes launches;
    for (const EagerWork& work : works_) {
      launches.forward_s += work.forward_launches;
      launches.backward_s += work.backward_launches;
    }
    return launches;
  }

  Passes host_s() const {
    if (written_) {
      const Passes launches = written_launches();
      return {job_.stack.host_kernel_s * launches.forward_s, job_.stack.host_kernel_s * launches.backward_s};
    }
    const double forward_s = host_forward_s();
    return {forward_s, kHostBackward * forward_s};
  }

  double host_forward_s() const {
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

  // Seconds that selective recomputation adds to backward, and of host time.
  Passes selective() const {
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

  // Host time of modules once more.
  double modules_host(const std::vector<model::Module>& modules, std::optional<std::size_t> set) const {
    return job_.stack.host_kernel_s * recomputed_launches(local_, modules, set, job_.stack);
  }

  // Nothing in the layer or before it is trained: it has a forward pass, and nothing runs again.
  void compose_forward(LayerPrice& price, double travelling, const Passes& exposed, const Passes& whole,
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

  void compose(LayerPrice& price) const {
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
      price.recompute_s = {0, with(some.forward_s, some.backward_s),
                           with(own.forward_s + beside.forward_s - times_.unrepeated_s, host.forward_s)};
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

  const Job& job_;
  const model::Layer& layer_;
  Split split_;
  std::int64_t micro_batch_;
  std::int64_t sequence_;
  const DeviceRates& rates_;
  const StageGroups& groups_;
  double busiest_;  // rows of the busiest expert rank over the mean: the others wait for it
  const std::vector<RecomputeSet>& sets_;
  split::LocalLayer local_;
  std::optional<split::LocalLayer> written_;  // where modules run as written: the operators that run
  std::vector<EagerWork> works_;              // and what each of them moves and launches
  std::size_t needed_ = 0;                    // of them, those that recomputation of everything repeats
  LayerTimes times_;
  Passes context_;       // of the ring exchange, before it hides
  double logits_ = 0;    // elements of the last matrix product's result
  double weight_s_ = 0;  // weight gradient of the operator at hand
  bool measured_ = false;
};

}  // namespace

PricingContext::PricingContext(const Job& job, const Split& split, const Treatments& treatments)
    : rates(sustained_rates(job.cluster.device, job.run.precision, job.stack)),
      groups(job.cluster, split, job.stack.dispatch, job.law),
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
