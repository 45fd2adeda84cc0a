// The software that runs the training, as facts: which kernels, what overlaps with what, what is kept in which
// precision. It moves predictions more than any formula does, so it is an explicit input, printed with every answer.
//
// Stacks ship as data (data/stacks/*.yaml, one file per stack, each with its source); a user's own file has the same
// keys, any of which may be left out (`like: megatron-core` takes the rest from a stack that ships).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/shelf.h"
#include "cost/dispatch.h"
#include "cost/imbalance.h"
#include "doc/value.h"
#include "model/build.h"
#include "split/local_layer.h"

namespace nest::cost {

// Generation of the attention kernel: scores written out (until 2022), Triton's first flash kernels, FlashAttention-2,
// and kernels written for the device (cuDNN, FlashAttention-3).
enum class AttentionKernel : std::uint8_t { unfused, triton, flash2, native };

// How gradients (and sharded weights) travel while the device computes.
//   none        everything after the backward pass
//   buckets     behind the backward pass of the last micro-batch, in buckets
//   fsdp        layer by layer, prefetched, forward and backward
//   per_tensor  gradients behind backward, then weights gathered tensor by tensor
enum class DataOverlap : std::uint8_t { none, buckets, fsdp, per_tensor };

// What "selective" recomputes: named modules, every second matmul with everything cheap (torchtitan), or all but matmul
// outputs (XLA).
enum class SelectiveKind : std::uint8_t { modules, every_second_matmul, minimal };

// How logits become a loss, which decides what is alive at that moment.
enum class LossKernel : std::uint8_t { fused, unfused, eager_fp32, loss_parallel, compiled };

// Parts of a step that are captured in CUDA graphs, so that the host launches them at once: attention with its norms and
// projections, dense feed-forwards, the router with shared experts, what prepares the dispatch, or the whole step.
enum class GraphScope : std::uint8_t { attention, feed_forward, router, preprocess, full };

// In what format matrix products of 8 or 4 bits find their operands, and what is kept of these for backward: 16 bits
// (counted as if nothing were quantised), 8 bits with one scale per tensor or per 128 elements, MXFP8 (one per 32),
// NVFP4 (one per 16). Facts of each: cost/facts.h.
enum class Storage : std::uint8_t { bf16, fp8_tensor, fp8_block, mxfp8, nvfp4 };

// Which accounting of transient memory applies.
enum class MemoryModel : std::uint8_t { megatron, fsdp, plain, megatron_deepspeed, nanotron, internevo };

// Whose rules plans keep where nobody names others: the framework whose accounting of memory it is ("usual"), one of those
// that nest writes plans for, or none of them.
enum class Runner : std::uint8_t { usual, none, megatron, deepspeed, torchtitan, fsdp };

struct SoftwareStack {
  std::string name = "megatron-core";
  std::string description;
  std::string source;
  Runner framework = Runner::usual;

  // Kernels.
  model::Stack kernels = model::Stack::megatron;
  AttentionKernel attention = AttentionKernel::native;
  bool fp8_attention = false;  // queries, keys, values and scores in 8 bits
  bool fp8_head = false;       // the projection to logits as the blocks' products, in the job's precision
  bool fused_experts = false;  // experts' activations, biases and casts between products run inside these
  bool fused_router = false;   // scores, choice and load-balancing loss are one kernel each
  bool fused_rowwise = true;   // norms, activations and residuals run as fused kernels
  bool dropout = false;
  bool deterministic = false;
  bool eager_loss = false;            // the loss makes additional passes over the logits
  bool padded_vocabulary = true;      // Megatron's kernels: rounded up so that every rank has a multiple of 128 rows
  bool unfused_accumulation = false;  // every micro-batch a kernel of its own adds gradients into an fp32 buffer

  // Host.
  double host_kernel_s = 32.2e-6;        // host time to launch one kernel's worth of framework code
  std::vector<GraphScope> graph_scopes;  // captured in CUDA graphs: nearly all of that time is gone there
  bool blocking_launches = false;        // host and device take turns

  // Overlap.
  DataOverlap data_overlap = DataOverlap::buckets;
  bool tensor_overlap = true;        // tensor-parallel collectives behind matmuls; needs sp
  bool pipeline_overlap = true;      // stage-to-stage messages of interleaved schedules behind compute
  bool forward_sends_block = false;  // with it: after a forward pass a stage waits until its output has gone
  bool flush_overlap = false;        // with it: messages of warm-up and cool-down behind compute too
  bool aligned_gradients = false;    // stages begin their gradient exchange together (Megatron's align_grad_reduce)
  bool expert_overlap = false;       // routed tokens travel behind another micro-batch (cost/overlap.h)
  bool delay_wgrad = false;          // with it: weight gradients wait until the exchange of input gradients has begun
  DispatchRule dispatch;             // how routed tokens reach their experts
  Routing routing;                   // and how evenly
  bool scatter_messages = true;      // tensor-parallel ranks send 1/tp of a boundary tensor each
  bool defer_head_gradient = true;   // the head's weight gradient moves into the pipeline's drain
  bool all_reduce_zero1 = false;     // ZeRO-1 all-reduces gradients instead of scattering them (DeepSpeed)

  // Schedules that the framework runs besides 1F1B, interleaved and GPipe: those with weight gradients apart.
  std::vector<Schedule> schedules;

  // Recomputation.
  SelectiveKind selective = SelectiveKind::modules;
  std::vector<model::Module> selective_modules = {model::Module::core_attention};
  bool recompute_modules = false;  // the framework can be told any set of modules
  bool recompute_layers = false;   // and how many layers: the first n of every chunk, or one input for n of them
  bool offload_modules = false;    // and of which modules the saved tensors wait on the host

  // State, bytes per parameter, with 16-bit compute.
  Storage storage =
      Storage::bf16;        // of what products of fewer bits read; without such products nothing follows from it
  double weight_bytes = 2;  // where `storage` is narrow: of the weights of those products, all copies together
  double gradient_bytes = 4;
  double master_bytes = 4;            // the optimizer's own copy of the weights; 0: they are their own masters
  double moments_bytes = 8;           // Adam's two together; SGD with momentum keeps half
  double update_bytes = 0;            // read and written when a parameter is updated; 0: what the bytes above make
  double gradient_traffic_bytes = 4;  // through the network
  double weight_traffic_bytes = 2;
  bool offload_overlap = true;  // where optimizer state waits on the host, gradients and weights travel beside updates
  int default_zero = 1;
  bool hybrid_sharding = false;  // weights sharded inside groups of replicas, optimizer state over all (HFSDP)

  // Memory.
  MemoryModel memory = MemoryModel::megatron;
  LossKernel loss = LossKernel::unfused;
  bool weight_gradient_buffers = true;  // one cached buffer per distinct weight shape (Transformer Engine)
  bool shared_expert_overlap = false;   // routed tokens travel behind shared experts, which keep a gathered input
  bool expandable_segments = false;     // the caching allocator maps pages instead of whole blocks
  double routing_imbalance = 1.25;      // rows on the fullest expert rank over the mean, where `routing` is forced
  double rank_capacity = 0;             // rows that an expert rank has room for, over the mean; 0: what comes
  double paged_stash = 0;               // of the mean rows, kept on the device for backward; 0: all there is room for
  int offloaded_layers = 0;             // whose activations wait on the host, without a pipeline and recomputation
  double memory_margin = 0.05;          // of the reserved memory, before a plan is said to fit
  double memory_spread = 0.015;         // of log(used / predicted) (nest/interval.h)

  bool calibrated = false;  // predictions were compared with measured runs of this stack

  // Of context parallelism, what the framework runs and a search chooses from; the first where nobody says.
  std::vector<ContextExchange> context_exchange = {ContextExchange::p2p};

  double optimizer_bytes() const { return master_bytes + moments_bytes; }

  bool operator==(const SoftwareStack&) const = default;
};

// Throws InputError that names file, key, value and what is allowed; unknown keys are refused.
SoftwareStack read_stack(const Document& document, std::string_view name);
// Every fact of the stack as a document that read_stack() reads back as the same stack, with nothing left to presets.
Document write_stack(const SoftwareStack& stack);
const Shelf<SoftwareStack>& stack_presets();  // the default first, then sorted by name
std::optional<SoftwareStack> find_stack(std::string_view name);

// Of a split with context ranks of which nobody says how they exchange: the stack's first, p2p where that needs more to
// be said (cp_inner).
void use_stack_exchange(const SoftwareStack& stack, Split& split);

const char* to_string(AttentionKernel kernel);
const char* to_string(DataOverlap overlap);
const char* to_string(GraphScope scope);
const char* to_string(Storage storage);
// Why the framework does not recompute this set of modules; empty where it does.
std::string refuse_modules(const SoftwareStack& stack, RecomputeSet modules);
std::optional<Dispatcher> find_dispatcher(std::string_view name);

// What can be captured where shapes differ only in the rows of experts.
std::vector<GraphScope> static_scopes();

}  // namespace nest::cost
