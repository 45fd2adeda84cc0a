// Megatron-Core with Transformer Engine.
#include <algorithm>

#include "base/index.h"
#include "cost/memory.h"
#include "cost/memory_parts.h"

namespace nest::cost {
namespace {

// Buffers of routed rows that are alive at once in a mixture's backward: two exchanges, two sorts, in and out of the
// experts, permuted and back. The count was read off measurements of two models.
constexpr double kRowBuffers = 8;

// With expandable segments: pages that are mapped and not in use, of what one micro-batch needs. Set: Moonlight 16B
// reserved 1.09 times what it had allocated, and that without the flag being stated.
constexpr double kMappedPages = 0.05;

constexpr double kBetweenKept = 0.6;  // in a pipeline, of what one micro-batch keeps: free between what is in use

// Of CUDA graphs that capture parts of layers: their static inputs and outputs and what their private pools hold. Set
// between half and all of a GiB; Qwen3 30B on 16 H100 had allocated 1.6 GiB more than tensors explain.
constexpr double kGraphPoolBytes = 1024 * kMebibyte;

constexpr double kSingleBytes = 4;  // of fp32

double head_backward(const LayerView& view, const Job& job) {
  const double further = view.further_logits() * (job.stack.loss == LossKernel::fused ? view.element_bytes : 4);
  const double gathered = view.split.sp ? view.whole_bytes : 0;
  // The logits' gradient, the gathered input, the input's gradient and the weight's.
  const double linear =
      view.logits() * view.element_bytes + view.whole_bytes + gathered + view.head_gradient() * view.element_bytes;
  if (job.stack.loss == LossKernel::fused) return view.head_kept_bytes() + further + linear;
  const double softmax = view.logits() * (4 + view.element_bytes);  // fp32, and the gradient
  return view.head_kept_bytes() + further + std::max(softmax, linear);
}

// Megatron-FSDP (megatron/core/distributed/fsdp; docs/user-guide/features/megatron_fsdp.md, August 2026). A block is
// gathered while the one before it runs, and its gradients are scattered while the next ones are computed. With double
// buffers, as exports ask for, every chunk of a stage has two for weights and two for gradients of its largest block, and
// they stay: u parameters of a block, v chunks, n blocks on the stage,
//     2 v u (w + g)                        w only where weights are sharded (ZeRO 3); both as they travel
// Where exchanges of experts hide behind other micro-batches it takes no double buffers: it gathers ahead until it has
// c/2 parameters and lets more than c gradients wait for their scatters, c = max(1e9, 2u); besides, each has one block in
// use and one that goes beyond:
//     min(n u, c/2 + 2u) w + min(n u, c + 2u) g
double block_buffers(const StageFacts& facts) {
  constexpr double kBuffers = 2, kUnit = 1e9;
  const SoftwareStack& stack = facts.job->stack;
  const bool narrow = storage_of(*facts.job) != Storage::bf16;
  const double weight = narrow ? std::min(facts.element_bytes, stack.weight_traffic_bytes) : facts.element_bytes;
  const double w = facts.zero >= 3 ? weight : 0, g = stack.gradient_traffic_bytes;
  const double u = facts.block_parameters, held = facts.block_weights;  // gradients are of what is trained
  if (!overlaps_experts(*facts.job, facts.strategy->split)) {
    return kBuffers * real(facts.strategy->virtual_stages) * (held * w + u * g);
  }
  const double unit = std::max(kUnit, 2 * held);
  return std::min(facts.blocks * held, unit / 2 + 2 * held) * w + std::min(facts.blocks * u, unit + 2 * u) * g;
}

// Tables, norms and the head belong to no block: gathered once, their weights stay (StageFacts::outside_weights);
// their gradients are whole until they are scattered.
void price_outside_gradients(const LayerView& view, const Job& job, LayerPrice& price) {
  const double parameters = view.block() ? 0 : real(price.dense_parameters + price.expert_parameters);
  price.scatter_bytes = price.gather_bytes = job.stack.gradient_traffic_bytes * parameters;
}

double widest_gradient(const LayerView& view) {
  double widest = std::max(view.projected_bytes(), view.attention_bytes());
  if (const split::LocalOperator* experts = view.first_grouped()) {
    const auto n = real(experts->n);
    const auto k = real(experts->k);
    widest = std::max(widest, view.spread * experts->m * std::max(kRowBuffers * k, n + k) * view.element_bytes);
  }
  if (view.tensor_parallel()) widest = std::max(widest, 2 * view.whole_bytes);
  return widest;
}

}  // namespace

Spare block_spare() {
  constexpr double kConstant = 0.6e9;
  constexpr double kBlock = 1.2;
  return {.constant_bytes = kConstant, .block_factor = kBlock};
}

void price_megatron(const LayerView& view, const Job& job, LayerPrice& price) {
  price_outside_gradients(view, job, price);
  if (view.head()) {
    price.working_bytes.assign(price.working_bytes.size(), head_backward(view, job));
    const double logit_bytes = job.stack.loss == LossKernel::fused ? view.element_bytes : 4;
    price.largest_block_bytes = std::max(view.head_weight() * view.element_bytes, view.logits() * logit_bytes);
    return;
  }
  if (!view.block()) return;
  const double gradients = widest_gradient(view) + view.stream_bytes;
  // Pages of one layer are unpacked into a buffer with room for all rows that may come.
  const double unpacked = view.stashed ? view.spread * view.routed_kept_bytes() : 0;
  for (std::size_t mode = 0; mode < price.kept_bytes.size(); ++mode) {
    price.working_bytes[mode] = gradients + unpacked + view.local.saved.none - price.kept_bytes[mode];
  }
  price.largest_block_bytes = view.wide_bytes();
}

Account account_megatron(const StageFacts& facts) {
  const SoftwareStack& stack = facts.job->stack;
  Account account;
  account.buffer_bytes = facts.weight_buffers + 2 * facts.stream_bytes + kWorkspaceBytes;
  account.spare = block_spare();
  if (facts.experts) account.buffer_bytes += kExpertWorkspaceBytes;
  if (facts.zero >= 2) account.buffer_bytes += block_buffers(facts);
  if (facts.zero >= 3) account.buffer_bytes += facts.element_bytes * facts.outside_weights;
  // A graph of the whole step has one pool, which is the peak itself.
  const auto& scopes = stack.graph_scopes;
  const bool whole = std::find(scopes.begin(), scopes.end(), GraphScope::full) != scopes.end();
  if (!scopes.empty() && !whole) account.buffer_bytes += kGraphPoolBytes;
  if (stack.expandable_segments) {
    account.spare.dynamic_factor = account.spare.kept_factor = kMappedPages;
  } else if (facts.experts) {
    // Rows of experts differ from step to step, and so do the blocks that are cached for them. Those are free as a whole
    // and given back before the allocator fails: recipes that leave no room for them run. What lies between kept tensors
    // is not, as in dense models.
    account.firm = account.spare;
    if (facts.strategy->pp > 1) account.firm->kept_factor = kBetweenKept;
    account.spare.dynamic_factor = 0.45;
  } else if (facts.strategy->pp > 1) {
    account.spare.kept_factor = kBetweenKept;
  }
  // Without a pipeline the next forward adds layer by layer what the backward beside it frees: one layer more.
  const bool beside = facts.strategy->pp == 1 && facts.experts && overlaps_experts(*facts.job, facts.strategy->split);
  account.moments = {
      {.name = "layer backward", .working = Working::block, .fixed_bytes = beside ? facts.largest_kept : 0},
      {.name = "head", .working = Working::head}};
  // Gradients that are kept in 16 bits are copied to fp32 for the step, unless the optimizer reads them as they are.
  if (facts.zero >= 1 && stack.gradient_bytes < kSingleBytes && !reads_narrow_gradients(*facts.job)) {
    account.moments.push_back({.name = "optimizer step",
                               .fixed_bytes = kSingleBytes * facts.updated_parameters,
                               .activations = false,
                               .reuses = true});
  }
  return account;
}

}  // namespace nest::cost
