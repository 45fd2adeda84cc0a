#include "exporter/chakra_layer.h"

#include <algorithm>

namespace nest::exporter {
namespace {

// What one rank puts in. LayerCollective counts whole tensors for all-gather; a ring that passes keys and values on is
// an all-gather of what every rank holds.
double input_bytes(const split::LayerCollective& exchange) {
  return exchange.kind == split::CollectiveKind::all_gather ? exchange.bytes / static_cast<double>(exchange.ranks)
                                                            : exchange.bytes;
}

class LayerTracer {
 public:
  LayerTracer(const cost::Job& job, const model::Layer& layer, const Split& split, std::int64_t micro_batch,
              const cost::PricingContext& context, const cost::LayerPrice& price)
      : job_(job),
        layer_(layer),
        split_(split),
        context_(context),
        price_(price),
        local_(split::localise(layer, {micro_batch, job.run.sequence, job.run.encoder_sequence, 1.0}, split,
                               context.implementation, context.policy)) {
    expose();
  }

  TracedLayer run(int treatment, bool defers) {
    TracedLayer traced;
    traced.dense_parameters = static_cast<double>(price_.dense_parameters);
    traced.expert_parameters = static_cast<double>(price_.expert_parameters);
    if (defers) put_off(traced);
    const double both_s = std::max(
        0.0, price_.forward_s + price_.backward_s - traced.deferred_s - price_.tp_s - price_.cp_s - price_.ep_s);
    const double forward_s = std::clamp(price_.forward_s - exposed_forward_s_, 0.0, both_s);
    traced.forward = steps(split::Phase::forward, forward_s, cost::kEverything);
    traced.backward = steps(split::Phase::backward, both_s - forward_s, cost::kEverything);
    for (LayerStep& step : traced.backward) step.flops *= 1 - deferred_share_;
    const double again_s = price_.recompute_s[static_cast<std::size_t>(treatment)];
    if (again_s > 0) {
      const double exposed_s =
          treatment == cost::kEverything ? exposed_forward_s_ : exposed_again_s_[static_cast<std::size_t>(treatment)];
      traced.again = steps(split::Phase::forward, std::max(0.0, again_s - exposed_s), treatment);
    }
    return traced;
  }

 private:
  // Of the context's exchanges, all but rings.
  static bool is_waited_for(const split::LayerCollective& exchange) {
    return exchange.group == split::Group::context && exchange.kind != split::CollectiveKind::ring_exchange;
  }

  Wait wait_of(const split::LayerCollective& exchange) const {
    if (exchange.group == split::Group::context) return is_waited_for(exchange) ? Wait::at_once : Wait::beside;
    if (cost::is_regather(local_, exchange)) return Wait::beside;
    if (cost::is_of_experts(local_, exchange)) {
      return job_.stack.expert_overlap && split_.ep > 1 ? Wait::layer_end : Wait::at_once;
    }
    return cost::overlaps_tensor(job_, split_) ? Wait::beside : Wait::at_once;
  }

  // The exposed seconds of the price, divided over forward and backward as the cost model weighs collectives.
  void expose() {
    struct Sum {
      double forward_s = 0, all_s = 0;
    } of_tensor, of_context, of_expert;
    exposed_again_s_.assign(price_.recompute_s.size(), 0);
    std::vector<double> context_again_s = exposed_again_s_;
    for (const split::LayerCollective& exchange : local_.collectives) {
      const double seconds =
          cost::exposed_share(job_, split_, local_, exchange) * context_.groups.seconds(local_, exchange);
      const bool experts = cost::is_of_experts(local_, exchange), context = exchange.group == split::Group::context;
      Sum& sum = context ? of_context : experts ? of_expert : of_tensor;
      sum.all_s += seconds;
      if (exchange.phase == split::Phase::backward) continue;
      sum.forward_s += seconds;
      const split::LocalOperator& op = local_.operators[static_cast<std::size_t>(exchange.operator_index)];
      for (std::size_t t = 0; t < exposed_again_s_.size() && (experts || is_waited_for(exchange)); ++t) {
        if (cost::runs_again(op, static_cast<int>(t))) (experts ? exposed_again_s_ : context_again_s)[t] += seconds;
      }
    }
    const auto part = [](double seconds, double of, double whole) { return whole > 0 ? seconds * of / whole : 0; };
    exposed_forward_s_ = part(price_.tp_s, of_tensor.forward_s, of_tensor.all_s) +
                         part(price_.cp_s, of_context.forward_s, of_context.all_s) +
                         part(price_.ep_s, of_expert.forward_s, of_expert.all_s);
    for (std::size_t t = 0; t < exposed_again_s_.size(); ++t) {
      exposed_again_s_[t] = part(price_.ep_s, exposed_again_s_[t], of_expert.all_s) +
                            part(price_.cp_s, context_again_s[t], of_context.all_s);
    }
  }

  void put_off(TracedLayer& traced) {
    traced.deferred_s = price_.deferrable_s;
    if (traced.deferred_s <= 0) return;
    for (const split::LocalOperator& op : local_.operators) {
      if (op.kind == model::OperatorKind::matmul) traced.deferred_flops = op.flops_forward;
    }
    if (local_.flops_backward() > 0) deferred_share_ = traced.deferred_flops / local_.flops_backward();
  }

  // --- pieces of compute

  struct Piece {
    double weight = 0, flops = 0, bytes = 0;
  };

  Piece piece_of(const split::LocalOperator& op, split::Phase phase) const {
    Piece piece;
    piece.flops = phase == split::Phase::forward ? op.flops_forward : op.flops_backward;
    piece.bytes = phase == split::Phase::forward ? op.bytes_forward : op.bytes_backward;
    const cost::DeviceRates& rates = context_.rates;
    piece.weight = std::max(rates.matrix_flops_per_s > 0 ? piece.flops / rates.matrix_flops_per_s : 0,
                            rates.memory_bytes_per_s > 0 ? piece.bytes / rates.memory_bytes_per_s : 0);
    return piece;
  }

  void flush(Piece& piece, std::vector<LayerStep>& steps) {
    if (piece.weight > 0) {
      LayerStep step;
      step.seconds = piece.weight;
      step.flops = piece.flops;
      step.bytes = piece.bytes;
      steps.push_back(std::move(step));
    }
    piece = {};
  }

  // Routed tokens as the dispatcher sends them (cost/dispatch.h): a copy per expert, the rows of all ranks gathered and
  // scattered, or a copy per unit and, while those arrive, one per rank inside it.
  void push_tokens(LayerStep step, const cost::RoutedTraffic& traffic, std::vector<LayerStep>& steps) const {
    const bool spans = context_.groups.routed_kind() == groups::Kind::tensor_expert;
    if (traffic.gathered_bytes > 0) {
      step.routed = spans ? Routed::whole_set : Routed::as_group;
      step.collective = traffic.home ? split::CollectiveKind::reduce_scatter : split::CollectiveKind::all_gather;
      step.bytes = traffic.gathered_bytes / (traffic.home ? 1 : traffic.ranks_inside * traffic.units);
      steps.push_back(std::move(step));
      return;
    }
    if (traffic.units > 1) {
      step.routed = Routed::across_units;
      step.bytes = traffic.unit_bytes * traffic.units;
      steps.push_back(step);
    }
    if (traffic.ranks_inside < 2) return;
    step.with_last = traffic.units > 1;
    step.routed = Routed::inside_unit;
    step.bytes = traffic.inside_bytes * traffic.ranks_inside / (traffic.ranks_inside - 1);
    steps.push_back(std::move(step));
  }

  void push(const split::LayerCollective& exchange, Wait wait, std::vector<LayerStep>& steps) const {
    LayerStep step;
    step.kind = LayerStep::Kind::exchange;
    step.bytes = input_bytes(exchange);
    step.collective = exchange.kind;
    step.group = exchange.group;
    step.wait = wait;
    step.tensor = exchange.tensor;
    step.part_of_context = exchange.group == split::Group::context && exchange.ranks < split_.cp;
    if (cost::is_of_experts(local_, exchange)) {
      if (context_.groups.seconds(local_, exchange) <= 0) return;  // part of another exchange
      const bool routes = exchange.kind == split::CollectiveKind::all_to_all;
      const auto traffic = routes ? context_.groups.routed_traffic(local_, exchange) : std::nullopt;
      if (traffic && (traffic->forwards || traffic->gathered_bytes > 0)) {
        push_tokens(std::move(step), *traffic, steps);
        return;
      }
    }
    steps.push_back(std::move(step));
  }

  // Exchanges at one operator, in the order in which they happen: backward undoes forward.
  std::vector<const split::LayerCollective*> exchanges_at(std::size_t op, split::Phase phase, int treatment) const {
    std::vector<const split::LayerCollective*> found;
    for (const split::LayerCollective& exchange : local_.collectives) {
      if (exchange.phase != phase || static_cast<std::size_t>(exchange.operator_index) != op || exchange.ranks < 2) {
        continue;
      }
      const bool again = cost::is_of_experts(local_, exchange) || is_waited_for(exchange);
      if (treatment != cost::kEverything && !again) continue;
      found.push_back(&exchange);
    }
    if (phase == split::Phase::backward) std::reverse(found.begin(), found.end());
    return found;
  }

  // A pass over the layer, or over what a treatment recomputes of it. Forward, an operator comes after its
  // exchanges; backward, before them.
  std::vector<LayerStep> steps(split::Phase phase, double seconds, int treatment) {
    std::vector<LayerStep> steps;
    Piece piece;
    const std::size_t count = local_.operators.size();
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = phase == split::Phase::forward ? k : count - 1 - k;
      const split::LocalOperator& op = local_.operators[i];
      if (!cost::runs_again(op, treatment)) continue;
      const auto exchanges = exchanges_at(i, phase, treatment);
      const auto first = [&](const split::LayerCollective& exchange) {
        return phase == split::Phase::forward || wait_of(exchange) == Wait::beside;
      };
      bool alone = false;
      for (const split::LayerCollective* exchange : exchanges) {
        if (!first(*exchange)) continue;
        flush(piece, steps);
        push(*exchange, wait_of(*exchange), steps);
        alone = alone || wait_of(*exchange) == Wait::beside;
      }
      const Piece own = piece_of(op, phase);
      piece.weight += own.weight;
      piece.flops += own.flops;
      piece.bytes += own.bytes;
      if (alone) flush(piece, steps);
      for (const split::LayerCollective* exchange : exchanges) {
        if (first(*exchange)) continue;
        flush(piece, steps);
        push(*exchange, wait_of(*exchange), steps);
      }
    }
    flush(piece, steps);
    scale(seconds, steps);
    return steps;
  }

  static void scale(double seconds, std::vector<LayerStep>& steps) {
    double weight = 0;
    for (const LayerStep& step : steps) weight += step.seconds;
    if (weight <= 0 && seconds > 0) {
      LayerStep step;
      step.seconds = weight = 1;
      steps.push_back(std::move(step));
    }
    for (LayerStep& step : steps) step.seconds *= weight > 0 ? seconds / weight : 0;
  }

  const cost::Job& job_;
  const model::Layer& layer_;
  const Split& split_;
  const cost::PricingContext& context_;
  const cost::LayerPrice& price_;
  split::LocalLayer local_;
  double exposed_forward_s_ = 0;
  std::vector<double> exposed_again_s_;  // of what recomputation exchanges again, by treatment
  double deferred_share_ = 0;            // of the FLOPs of backward
};

}  // namespace

TracedLayer trace_layer(const cost::Job& job, int layer, const Split& split, std::int64_t micro_batch,
                        const cost::PricingContext& context, const cost::LayerPrice& price, int treatment,
                        bool defers) {
  const auto kind = static_cast<std::size_t>(job.fused_model.layers[static_cast<std::size_t>(layer)]);
  return LayerTracer(job, job.fused_model.kinds[kind], split, micro_batch, context, price).run(treatment, defers);
}

}  // namespace nest::exporter
