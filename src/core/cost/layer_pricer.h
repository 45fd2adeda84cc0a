// Prices one layer: its operators one by one and their exchanges (layer_operators.cc), and what they make together beside
// the host (layer_price.cc). Internal to those two.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cost/attention_size.h"
#include "cost/eager_time.h"
#include "cost/layer_price.h"
#include "cost/operator_time.h"

namespace nest::cost {

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

class LayerPricer {
 public:
  // `layer` is of the fused graph, `written` the same as the stack's modules have it.
  LayerPricer(const Job& job, const model::Layer& layer, const model::Layer& written, const Split& split,
              std::int64_t micro_batch, const PricingContext& context);

  void fill(LayerPrice& price);

 private:
  split::LocalLayer localise(const model::Layer& layer, const PricingContext& context) const;
  // Whose operators are timed; what is exchanged is that of the fused graph.
  const split::LocalLayer& computed() const { return written_ ? *written_ : local_; }
  double stream_tokens() const { return split::stream_tokens(micro_batch_, sequence_, split_); }
  // Rows that one device routes. Without sp all tensor-parallel ranks hold the same tokens.
  double routed_rows() const { return stream_tokens() * real(layer_.top_k); }
  bool narrow() const { return rates_.element_bytes < 2; }

  // Frozen matrices of blocks may be stored in fewer bits; products read them in 16.
  bool is_unpacked(const split::LocalOperator& op) const;

  void add_frozen(LayerPrice& price) const;

  bool is_router(std::size_t i) const;

  // Whether a product runs in 16 bits whatever the job's precision is.
  bool is_sixteen(std::size_t i) const;

  Passes price_matrix(const split::LocalOperator& op, GemmFormat format);

  AttentionSize attention_size(const split::LocalOperator& op) const;

  // Bytes that a row-wise operator moves forward.
  double rowwise_bytes(const split::LocalOperator& op) const;

  double elementwise_bytes(const split::LocalOperator& op) const;

  Passes price_loss() const;

  void price_operator(std::size_t i, Part part);

  void add_to_sets(const split::LocalOperator& op, double seconds);

  // Dispatchers that forward copies permute rows in the same call.
  bool moved_by_dispatcher(const split::LocalOperator& op) const;

  void override_operator(const split::LocalOperator& op, Passes& passes);

  Passes cast_passes(const split::LocalOperator& op) const;

  static bool is_last_of_experts(const split::LocalOperator& op) { return op.source->name.ends_with(" down"); }

  // Biases of experts: inside the products but for the last one's, which is added by itself unless all of it is fused.
  // Their gradients are sums over rows.
  Passes bias_passes(const split::LocalOperator& op) const;

  void price_exchange(const split::LayerCollective& exchange);

  // What of the experts' exchanges is exposed where they run beside something.
  Passes exposed_exchanges(const Passes& compute) const;

  // The ring exchange hides behind the attention that waits for it; attention waits for all others.
  void finish_context();

  // Launches that the host makes for the layer, as its modules are written.
  Passes written_launches() const;

  Passes host_s() const;

  double host_forward_s() const;

  // Seconds that selective recomputation adds to backward, and of host time.
  Passes selective() const;

  // Host time of modules once more.
  double modules_host(const std::vector<model::Module>& modules, std::optional<std::size_t> set) const;

  // Nothing in the layer or before it is trained: it has a forward pass, and nothing runs again.
  void compose_forward(LayerPrice& price, double travelling, const Passes& exposed, const Passes& whole,
                       double alone_s) const;

  void compose(LayerPrice& price) const;

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

}  // namespace nest::cost
