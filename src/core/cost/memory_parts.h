// The pieces of the memory model. Internal to memory*.cc.
//
// Each accounting (MemoryModel) has two functions: price_* fills in what one layer keeps and needs, account_* lists the
// moments of a step that can be the peak, and the buffers that are always there. memory.cc composes them.
#pragma once

#include <optional>
#include <vector>

#include "cost/job.h"
#include "cost/layer_price.h"
#include "cost/memory.h"
#include "plan/plan.h"
#include "split/local_layer.h"

namespace nest::cost {

inline constexpr double kMebibyte = 1 << 20;
inline constexpr double kWorkspaceBytes = 64 * kMebibyte;         // cuBLAS and library workspaces
inline constexpr double kExpertWorkspaceBytes = 128 * kMebibyte;  // grouped matmul: four streams of 32 MiB

// One layer on one device, with the sizes that short-lived tensors are made of.
struct LayerView {
  const model::Layer* layer = nullptr;
  split::LocalLayer local;
  Split split;
  double element_bytes = 2;  // of activations
  double tokens = 0;         // of one micro-batch on one context-parallel rank
  double sequence = 0;       // tokens of one sequence, on all ranks
  double stream_bytes = 0;   // residual stream on this rank
  double whole_bytes = 0;    // residual stream of all tokens: the same unless sp divides it
  double spread = 1;         // rows of experts that live for a short time, over those that are kept for backward
  bool stashed = false;      // what experts keep is packed, and unpacked for one layer at a time

  bool block() const { return layer->kind == model::LayerKind::block; }
  bool head() const { return layer->kind == model::LayerKind::head; }
  bool tensor_parallel() const { return split.tp > 1; }

  const split::LocalOperator* first_grouped() const;  // the experts' input projection, or null
  double projected_bytes() const;                     // all outputs of the dense feed-forward's input projections
  double wide_bytes() const;  // two tensors of the feed-forward's width (or the routed rows' equivalent)
  double feed_forward_parameters() const;
  double routed_kept_bytes() const;  // of what is kept for backward without recomputation, rows of experts
  double attention_bytes() const;    // short-lived tensors of the attention core's backward, less what is already freed

  // The head: rows of the logits, their elements on this rank, the projection's weight, and what is kept beside logits
  // and loss.
  double logit_rows() const;
  double logits() const;
  double further_logits() const;  // of layers that predict further tokens, kept while the head works
  double head_weight() const;
  double head_gradient() const;  // elements of the projection's gradient: none where it is frozen
  double head_kept_bytes() const;

 private:
  double kept_after(std::size_t operator_index) const;
};

LayerView view_layer(const Job& job, int layer, const Split& split, std::int64_t micro_batch,
                     const Treatments& treatments = {});

// What the moments of a stage depend on besides sums and maxima of layer prices.
struct StageFacts {
  const Job* job = nullptr;
  const Strategy* strategy = nullptr;
  int zero = 0;
  groups::ZeroDegrees degrees;
  double element_bytes = 2;
  double stream_bytes = 0;
  double whole_bytes = 0;
  double weight_buffers = 0;  // one per distinct weight shape
  double largest_kept = 0;    // of one layer
  double largest_block = 0;
  double freed_parameters = 0;      // whose gradients are gone or not yet there in the last layer's backward
  double embedding_parameters = 0;  // of the token table, where the stage holds it
  double head_parameters = 0;       // of its projection, where that is trained
  bool head = false;
  double logits = 0;        // of one micro-batch, wherever the head is
  double rotary_bytes = 0;  // fp32 table of one layer
  double blocks = 0;
  double encoder_bytes = 0;  // the encoder's output, read by decoder layers of this stage
  double parameters = 0;
  double outside_weights = 0;     // trained or not, in no block
  double block_parameters = 0;    // of the largest block, trained
  double block_weights = 0;       // of the largest block, trained or not
  double updated_parameters = 0;  // of them, by this device in the optimizer's step
  bool experts = false;
  bool input_only = false;  // every layer keeps its input only
};

enum class Working : std::uint8_t { none, block, head };

struct Moment {
  const char* name = "";
  Working working = Working::none;  // whose short-lived tensors are alive
  double parameter_bytes = 0;       // per parameter, beside the state
  double kept_offset = 0;           // micro-batches more or less than in flight
  double fixed_bytes = 0;
  bool activations = true;   // false: between steps, nothing in flight
  bool cached_only = false;  // does not add to what the allocator sets aside during backward
  bool reuses = false;       // lives in what was set aside during backward, as far as that goes
};

// What the caching allocator holds: scale * allocated + constant + max(block, kept, dynamic terms).
struct Spare {
  double scale = 1;
  double constant_bytes = 0;
  double block_factor = 0;    // of the largest block
  double kept_factor = 0;     // of what one micro-batch keeps
  double dynamic_factor = 0;  // of all that is not state, with one micro-batch in flight
};

struct Account {
  double buffer_bytes = 0;
  double parameter_bytes = 0;  // buffers that grow with the trained parameters
  double frozen_bytes = 0;     // and with the others
  double gather_share = 0;     // of a layer's gather_bytes: part of its working set
  double scatter_share = 0;    // of its scatter_bytes, likewise
  double flight_bytes = 0;     // per micro-batch in flight, beside what layers keep
  double cached_bytes = 0;     // held by the allocator as well, and given back before it fails: need not fit
  std::vector<Moment> moments;
  Spare spare;
  std::optional<Spare> firm;  // what of it must fit; all of it unless told
};

// price_layer_memory of a layer that was looked at already.
void price_viewed_memory(const Job& job, const LayerView& view, LayerPrice& price);

void price_megatron(const LayerView& view, const Job& job, LayerPrice& price);
void price_fsdp(const LayerView& view, const Job& job, LayerPrice& price);
void price_plain(const LayerView& view, const Job& job, LayerPrice& price);
void price_nanotron(const LayerView& view, LayerPrice& price);
void price_megatron_deepspeed(const LayerView& view, const Job& job, LayerPrice& price);
void price_internevo(const LayerView& view, LayerPrice& price);

Account account_megatron(const StageFacts& facts);
Account account_fsdp(const StageFacts& facts);
Account account_plain(const StageFacts& facts);
Account account_nanotron(const StageFacts& facts);
Account account_megatron_deepspeed(const StageFacts& facts);
Account account_internevo(const StageFacts& facts);

// The rule for the caching allocator that Megatron, nanotron and plain PyTorch share.
Spare block_spare();

// Kept bytes of a layer that is not a block, and of blocks by recompute mode.
void fill_kept(const LayerView& view, LayerPrice& price);

}  // namespace nest::cost
