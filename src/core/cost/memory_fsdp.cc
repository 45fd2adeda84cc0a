// FSDP2: weights sharded at rest, gathered layer by layer; the loss on whole logits.
#include <algorithm>

#include "base/index.h"
#include "cost/memory.h"
#include "cost/memory_parts.h"

namespace nest::cost {
namespace {

constexpr double kFragmentation = 1.04;

// Bytes per logit that are alive at the loss.
double loss_bytes(LossKernel loss) {
  switch (loss) {
    case LossKernel::eager_fp32: return 16;
    case LossKernel::unfused: return 14;
    case LossKernel::loss_parallel: return 20;
    case LossKernel::fused:
    case LossKernel::compiled: break;
  }
  return 6;
}

double largest_block_parameters(const Job& job, const LayerView& view, std::int64_t micro_batch) {
  std::int64_t largest = 0;
  for (std::size_t kind = 0; kind < job.model.kinds.size(); ++kind) {
    if (job.model.kinds[kind].kind != model::LayerKind::block) continue;
    const LayerView block = view_layer(job, static_cast<int>(kind), view.split, micro_batch);
    const split::LocalLayer& local = block.local;
    largest =
        std::max(largest, local.dense_parameters + local.expert_parameters + local.frozen_dense + local.frozen_expert);
  }
  return real(largest);
}

}  // namespace

void price_fsdp(const LayerView& view, const Job& job, LayerPrice& price) {
  const double e = view.element_bytes;
  if (view.head()) {
    const double logits = view.logits();
    const double loss =
        logits * loss_bytes(job.stack.loss) + view.head_kept_bytes() + (view.tensor_parallel() ? view.whole_bytes : 0);
    const double backward = logits * e + 2 * view.whole_bytes;
    // At the loss the projection and the last block are gathered; in its backward the projection, its gradient and the
    // fp32 copy of that.
    price.gather_bytes = e * (view.head_weight() + largest_block_parameters(job, view, 1));
    price.working_bytes.assign(
        price.working_bytes.size(),
        std::max(loss, backward + e * view.head_weight() + 3 * e * view.head_gradient() - price.gather_bytes));
    price.largest_block_bytes = logits * 4;
    return;
  }
  if (!view.block()) {
    price.gather_bytes = 0;
    return;
  }
  price.gather_bytes = 5 * e * real(price.dense_parameters + price.expert_parameters) +
                       2 * e * real(price.frozen_dense + price.frozen_expert);
  const double gradients = view.wide_bytes() + view.stream_bytes + (view.tensor_parallel() ? 2 * view.whole_bytes : 0);
  for (std::size_t mode = 0; mode < price.kept_bytes.size(); ++mode) {
    price.working_bytes[mode] = gradients + view.local.saved.none - price.kept_bytes[mode];
  }
  price.largest_block_bytes = view.wide_bytes();
}

Account account_fsdp(const StageFacts& facts) {
  Account account;
  account.buffer_bytes = kWorkspaceBytes;
  account.spare = {.scale = kFragmentation};
  // A pipeline keeps whole gradients, in fp32, from micro-batch to micro-batch, and its weights gathered unless they go
  // after every forward (ZeRO 3). Without one, ZeRO 2 keeps them from forward to backward.
  const bool pipeline = facts.strategy->pp > 1, gathers = facts.zero == 3;
  const bool whole = !gathers && (pipeline || facts.zero == 2);
  account.gather_share = !pipeline || gathers ? 1 : 0;
  account.parameter_bytes = (pipeline ? 2 * facts.element_bytes : 0) + (whole ? facts.element_bytes : 0);
  account.frozen_bytes = whole ? facts.element_bytes : 0;
  account.moments = {{.name = "layer backward", .working = Working::block}, {.name = "loss", .working = Working::head}};
  return account;
}

}  // namespace nest::cost
