// nanotron: bf16 gradients per micro-batch beside an fp32 accumulator, whole logits in fp32, weights gathered after the
// step.
#include <algorithm>

#include "base/index.h"
#include "cost/memory.h"
#include "cost/memory_parts.h"

namespace nest::cost {

void price_nanotron(const LayerView& view, LayerPrice& price) {
  const double e = view.element_bytes;
  if (view.head()) {
    const double logits = view.logits();
    const double loss = 8 * logits + view.head_kept_bytes();  // fp32 logits and softmax, in the forward pass
    const double backward = e * logits + view.head_kept_bytes() + view.whole_bytes + e * view.head_weight();
    price.working_bytes.assign(price.working_bytes.size(), std::max(loss, backward));
    price.largest_block_bytes = 4 * logits;
    return;
  }
  if (!view.block()) return;
  const double gradients = view.wide_bytes() + view.stream_bytes + (view.tensor_parallel() ? view.whole_bytes : 0) +
                           e * view.feed_forward_parameters();
  for (std::size_t mode = 0; mode < price.kept_bytes.size(); ++mode) {
    price.working_bytes[mode] = gradients + view.local.saved.none - price.kept_bytes[mode];
  }
  price.largest_block_bytes = view.wide_bytes();
}

Account account_nanotron(const StageFacts& facts) {
  Account account;
  const double e = facts.element_bytes;
  const bool replicas = facts.degrees.dense > 1;
  account.buffer_bytes = kWorkspaceBytes + facts.blocks * facts.rotary_bytes;
  if (facts.strategy->split.sp) account.buffer_bytes += 2 * facts.whole_bytes;  // global gather buffers, never freed
  if (replicas && facts.zero == 0) account.parameter_bytes = e;                 // DDP buckets
  account.spare = block_spare();
  account.moments = {
      {.name = "first layer backward", .working = Working::block, .fixed_bytes = e * facts.head_parameters},
      {.name = "last layer backward",
       .working = Working::block,
       .parameter_bytes = e,
       .kept_offset = -1,
       .fixed_bytes = facts.largest_kept - e * facts.freed_parameters},
      {.name = "end of backward", .parameter_bytes = e, .kept_offset = -1, .fixed_bytes = facts.stream_bytes},
      {.name = "loss", .working = Working::head}};
  if (replicas && facts.zero > 0) {
    const double shard = e / real(facts.degrees.dense);
    account.moments.push_back(
        {.name = "weights gathered", .parameter_bytes = 2 * e + shard, .activations = false, .cached_only = true});
  }
  return account;
}

}  // namespace nest::cost
