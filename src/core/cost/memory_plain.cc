// PyTorch modules with an optimizer that keeps fp32 masters, as one GPU or DistributedDataParallel runs them.
#include <algorithm>

#include "cost/memory.h"
#include "cost/memory_parts.h"

namespace nest::cost {
namespace {

constexpr double kBaseBytes = 68 * kMebibyte;  // workspace and rotary tables
constexpr double kStepBytes = 4;               // of a gradient as the step reads it

}  // namespace

void price_plain(const LayerView& view, const Job& job, LayerPrice& price) {
  const double e = view.element_bytes;
  if (view.head()) {
    const bool whole_loss = job.stack.loss != LossKernel::fused && job.stack.loss != LossKernel::compiled;
    const double logits = view.logits();
    // Logits, their fp32 copy, softmax and gradient; labels and losses.
    price.working_bytes.assign(price.working_bytes.size(),
                               logits * (whole_loss ? 12 : 6) * e / 2 + view.head_kept_bytes() + 8 * view.logit_rows());
    price.largest_block_bytes = logits * 4;
    return;
  }
  if (!view.block()) return;
  const double gradients = view.wide_bytes() + view.stream_bytes;
  price.working_bytes[kNothing] = gradients;
  for (std::size_t mode = kSelective; mode < price.kept_bytes.size(); ++mode) {
    price.working_bytes[mode] = gradients + view.local.saved.none - (mode == kEverything ? 0 : price.kept_bytes[mode]);
  }
  price.largest_block_bytes = view.wide_bytes();
}

Account account_plain(const StageFacts& facts) {
  Account account;
  account.buffer_bytes = kBaseBytes;
  account.spare = block_spare();
  const double e = facts.element_bytes;
  const double gradient = state_bytes(*facts.job).gradient;
  const std::int64_t count = micro_batches(*facts.strategy, facts.job->run.global_batch);
  // Gradients are freed after the step and appear in backward, unless several micro-batches add them up.
  const double absent = count == 1 && facts.zero < 2 ? -gradient : 0;
  if (facts.degrees.dense > 1 && facts.zero < 2) account.parameter_bytes = e;  // buckets
  // The step reads gradients in fp32. Where it updates everything, each gradient is gone once it is copied; of a shard
  // the copies come besides.
  Moment step{.name = "optimizer step", .activations = false};
  if (facts.zero == 0) {
    step.parameter_bytes = e;
    step.fixed_bytes = e * std::max(facts.embedding_parameters, facts.head_parameters);
  } else if (gradient < kStepBytes) {
    step.fixed_bytes = kStepBytes * facts.updated_parameters;
  }
  account.moments = {
      {.name = "head", .working = Working::head, .parameter_bytes = absent, .fixed_bytes = facts.rotary_bytes},
      {.name = "first layer backward", .working = Working::block, .parameter_bytes = absent},
      {.name = "last layer backward",
       .working = Working::block,
       .kept_offset = -1,
       .fixed_bytes = facts.input_only ? 0 : facts.largest_kept},
      step};
  return account;
}

}  // namespace nest::cost
