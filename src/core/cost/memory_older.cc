// Stacks known from nvidia-smi alone: Megatron-DeepSpeed of 2022 and InternEvo. Their constants are fitted.
#include <algorithm>

#include "base/index.h"
#include "cost/memory.h"
#include "cost/memory_parts.h"

namespace nest::cost {
namespace {

constexpr double kFragmentation = 1.04;
constexpr double kInternEvoReserve = 1.5e9;
constexpr double kInternEvoLogitBytes = 14;
constexpr double kInternEvoWhole = 10;  // fitted, per parameter on the device,
constexpr double kInternEvoStep = 20;   // and per parameter that it updates
constexpr double kInternEvoSharded = 28;

// Dropout ran in these stacks whatever its rate: two masks on the stream, and mask and dropped copy of the scores.
double dropout_bytes(const LayerView& view, const Job& job) {
  const model::Architecture& arch = job.model.architecture;
  const model::Implementation implementation = implementation_of(job);
  double bytes = 0;
  if (!implementation.dropout || arch.dropout <= 0) bytes += 2 * view.stream_bytes / view.element_bytes;
  if (implementation.dropout && arch.attention_dropout > 0) return bytes;
  for (const model::Operator& op : view.layer->operators) {
    if (op.kind != model::OperatorKind::attention || op.attention.flash) continue;
    const bool divided = op.attention.heads.axis != model::Axis::none && !split::stays_whole(*view.layer, view.split);
    const std::int64_t heads = op.attention.heads.size / (divided ? view.split.tp : 1);
    bytes += view.tokens * (real(job.run.sequence) * real(heads)) * (1 + view.element_bytes);
  }
  return bytes;
}

}  // namespace

void price_megatron_deepspeed(const LayerView& view, const Job& job, LayerPrice& price) {
  const double e = view.element_bytes;
  if (view.head()) {
    const double logits = view.logits();
    price.working_bytes.assign(price.working_bytes.size(),
                               logits * (4 + e) + 2 * view.whole_bytes + e * view.head_weight());
    price.largest_block_bytes = 4 * logits;
    return;
  }
  if (!view.block()) {
    price.kept_bytes.assign(price.kept_bytes.size(), 0);  // the stream that account_megatron_deepspeed adds covers it
    return;
  }
  const double gradients = view.projected_bytes() + 2 * view.whole_bytes;
  const double dropped = dropout_bytes(view, job);
  const double all = view.local.saved.none + dropped;
  price.kept_bytes[0] = all;
  price.kept_bytes[1] += std::min(dropped, 2 * view.stream_bytes / e);
  price.working_bytes[kNothing] = gradients;
  for (std::size_t mode = kSelective; mode < price.kept_bytes.size(); ++mode) {
    price.working_bytes[mode] = gradients + all - (mode == kEverything ? 0 : price.kept_bytes[mode]);
  }
  price.largest_block_bytes = view.wide_bytes();
}

Account account_megatron_deepspeed(const StageFacts& facts) {
  Account account;
  account.flight_bytes = facts.stream_bytes;
  account.spare = {.scale = kFragmentation};
  account.moments = {{.name = "layer backward", .working = Working::block}, {.name = "head", .working = Working::head}};
  return account;
}

void price_internevo(const LayerView& view, LayerPrice& price) { price.largest_block_bytes = view.wide_bytes(); }

Account account_internevo(const StageFacts& facts) {
  Account account;
  account.buffer_bytes = kInternEvoReserve + kInternEvoLogitBytes * facts.logits;
  // nvidia-smi saw 10 n + 20 bytes per updated parameter (28 in all where weights are sharded), but 17 published runs
  // leave room for the recipe's 4 n + 12 only: the rest was cache.
  const double seen = facts.zero >= 3 ? kInternEvoSharded * facts.updated_parameters
                                      : kInternEvoWhole * facts.parameters + kInternEvoStep * facts.updated_parameters;
  const StateBytes recipe = state_bytes(*facts.job);
  const double whole = recipe.weight + recipe.gradient;
  const double state = facts.zero >= 3 ? (whole + recipe.optimizer) * facts.updated_parameters
                                       : whole * facts.parameters + recipe.optimizer * facts.updated_parameters;
  account.cached_bytes = std::max(0.0, seen - state);
  account.moments = {{.name = "backward"}};
  return account;
}

}  // namespace nest::cost
