// One layer on one device: the operators of a layer rewritten for a split and a micro-batch, in numbers.
//
// The rewriting follows where each tensor lives. With tensor parallelism a tensor is one of
//   stream    the residual stream: whole on every rank, or with sp divided along the sequence
//   sharded   divided along a labelled extent (heads, feed-forward, vocabulary)
//   partial   a sum of which every rank holds one term
// A matmul with divided columns wants its input whole (all-gather under sp; its backward reduces) and yields a sharded
// tensor; one with a divided contraction yields a partial one; the first operator on it that is no addition forces the
// reduction (all-reduce, or reduce-scatter under sp), and so does the end of a block. Sums of partial tensors stay
// partial, so parallel blocks pay one reduction, not two.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/build.h"
#include "model/graph.h"
#include "split/split.h"

namespace nest::split {

struct LocalOperator {
  const model::Operator* source = nullptr;
  model::OperatorKind kind = model::OperatorKind::elementwise;
  model::Module module = model::Module::other;
  double m = 0;             // rows (grouped: rows over all local experts)
  std::int64_t n = 0;       // local columns
  std::int64_t k = 0;       // local contraction
  std::int64_t groups = 1;  // local experts of a grouped matmul; products of two activations
  double heads = 0;         // attention: on this device
  double flops_forward = 0;
  double flops_backward = 0;  // twice the forward; a kernel that recomputes inside (flash attention) does more
  double bytes_forward = 0;   // read and written once, weights included
  double bytes_backward = 0;
  std::int64_t parameters = 0;         // of this operator on this device
  std::int64_t frozen_parameters = 0;  // of them, not trained
  // What backward computes (split/gradients.h): anything at all; the gradients of the inputs; of a product, those of its
  // weights, as the share of their elements that is trained.
  bool backward = true;
  bool input_gradient = true;
  double weight_gradient = 1;
  bool expert_weights = false;
  bool recomputed = false;            // under selective recomputation
  std::uint64_t recomputed_sets = 0;  // bit i: under the i-th of RecomputePolicy::sets
};

enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, ring_exchange };
enum class Group : std::uint8_t { tensor, context, expert, expert_tensor };  // as groups::Kind
enum class Phase : std::uint8_t { forward, backward };

// `bytes` is the size of the whole tensor for all-reduce, all-gather and reduce-scatter (what a rank holds before or
// after gathering), what one rank sends in all for all-to-all, and what one rank passes on per step for ring-exchange.
struct LayerCollective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Group group = Group::tensor;
  Phase phase = Phase::forward;
  std::int64_t ranks = 1;
  double bytes = 0;
  std::string tensor;      // what is exchanged
  int operator_index = 0;  // the operator that waits for it
};

// Which modules selective recomputation recomputes. The attention core, feed_forward and moe are recomputed from their
// inputs and their outputs stay; norms, activations and latent projections also drop their outputs, because whoever
// reads those in backward can wait for the recomputed copy.
struct RecomputePolicy {
  std::vector<model::Module> modules;
  // torchtitan's per-operator policy instead of modules: keep the layer's input, the attention output and the output of
  // every second matmul.
  bool every_second_matmul = false;
  bool count_saved = true;  // false: what is kept for backward is of no interest, and left empty
  // Sets of modules beside those, at most 64: what would be recomputed and kept under each of them.
  std::vector<RecomputeSet> sets = {};

  bool covers(model::Module module) const;
};

// The module of a layer's operators that a word of Megatron-Core means.
model::Module module_of(RecomputeModule word);
std::vector<model::Module> modules_of(RecomputeSet set);

// What each stack's "selective" does when nobody names modules.
RecomputePolicy default_policy(const model::Implementation& implementation);

// Of what a layer keeps, what waits on the host for its backward pass (Split::offload): tensors that a named module
// keeps. Of those that something else keeps as well a copy stays here.
struct HostBytes {
  double moved = 0;  // to the host and back
  double freed = 0;  // of them, gone from the device meanwhile
  double group = 0;  // of these, what one module has at most
};
// Tensors of fewer elements stay (Megatron's --min-offloaded-tensor-size).
inline constexpr double kLeastOffloaded = 1 << 20;

struct SavedBytes {
  double none = 0;
  double selective = 0;
  double full = 0;
  std::vector<double> sets = {};  // by RecomputePolicy::sets
  // Of each of them, all still counted above. Layers that are recomputed as a whole have nothing in modules.
  HostBytes none_host = {}, selective_host = {};
  std::vector<HostBytes> sets_host = {};
};

struct SavedTensor {
  std::string name;
  double bytes = 0;
  bool selective = true;        // kept under selective recomputation
  bool only_selective = false;  // kept only then, as the input of something recomputed
  model::TensorId tensor = -1;  // in the layer; -1: a copy that only the split makes
};

struct LocalLayer {
  const model::Layer* source = nullptr;
  std::vector<LocalOperator> operators;
  std::vector<LayerCollective> collectives;
  std::vector<SavedTensor> saved_tensors;
  SavedBytes saved;
  std::int64_t dense_parameters = 0;  // trained ones, on this device
  std::int64_t expert_parameters = 0;
  std::int64_t frozen_dense = 0;  // parameters that are not trained
  std::int64_t frozen_expert = 0;
  bool backward = true;     // false: nothing in it and nothing before it is trained
  double output_bytes = 0;  // what a pipeline boundary after this layer sends from this device
  double flops_forward() const;
  double flops_backward() const;
};

// The split must be legal (refuse_split). The result refers to `layer`, which must outlive it.
LocalLayer localise(const model::Layer& layer, const RunShape& shape, const Split& split,
                    const model::Implementation& implementation);
LocalLayer localise(const model::Layer& layer, const RunShape& shape, const Split& split,
                    const model::Implementation& implementation, const RecomputePolicy& policy);

// Bytes that one device sends when the chain of layers is cut after position i, for every i: all tensors that cross.
std::vector<double> cut_bytes(const model::Model& model, const RunShape& shape, const Split& split);

const char* to_string(CollectiveKind kind);
const char* to_string(Group group);

}  // namespace nest::split
