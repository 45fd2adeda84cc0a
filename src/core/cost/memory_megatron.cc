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

double head_backward(const LayerView& view, const Job& job) {
  const double gathered = view.split.sp ? view.whole_bytes : 0;
  // The logits' gradient, the gathered input, the input's gradient and the weight's.
  const double linear =
      view.logits() * view.element_bytes + view.whole_bytes + gathered + view.head_weight() * view.element_bytes;
  if (job.stack.loss == LossKernel::fused) return view.head_kept_bytes() + linear;
  const double softmax = view.logits() * (4 + view.element_bytes);  // fp32, and the gradient
  return view.head_kept_bytes() + std::max(softmax, linear);
}

double widest_gradient(const LayerView& view) {
  double widest = std::max(view.projected_bytes(), view.attention_bytes());
  if (const split::LocalOperator* experts = view.first_grouped()) {
    const auto n = real(experts->n);
    const auto k = real(experts->k);
    widest = std::max(widest, experts->m * std::max(kRowBuffers * k, n + k) * view.element_bytes);
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
  if (view.head()) {
    price.working_bytes.fill(head_backward(view, job));
    const double logit_bytes = job.stack.loss == LossKernel::fused ? view.element_bytes : 4;
    price.largest_block_bytes = std::max(view.head_weight() * view.element_bytes, view.logits() * logit_bytes);
    return;
  }
  if (!view.block()) return;
  const double gradients = widest_gradient(view) + view.stream_bytes;
  for (std::size_t mode = 0; mode < 3; ++mode) {
    price.working_bytes[mode] = gradients + view.local.saved.none - price.kept_bytes[mode];
  }
  price.largest_block_bytes = view.wide_bytes();
}

Account account_megatron(const StageFacts& facts) {
  Account account;
  account.buffer_bytes = facts.weight_buffers + 2 * facts.stream_bytes + kWorkspaceBytes;
  account.spare = block_spare();
  if (facts.experts) {
    account.buffer_bytes += kExpertWorkspaceBytes;
    account.spare.dynamic_factor = 0.45;
  } else if (facts.strategy->pp > 1) {
    account.spare.kept_factor = 0.6;
  }
  account.moments = {{.name = "layer backward", .working = Working::block}, {.name = "head", .working = Working::head}};
  return account;
}

}  // namespace nest::cost
