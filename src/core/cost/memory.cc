#include "cost/memory.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "cost/facts.h"
#include "cost/memory_kinds.h"
#include "cost/memory_parts.h"
#include "cost/offload.h"
#include "cost/tables.h"
#include "plan/pipeline_shape.h"

namespace nest::cost {
namespace {

constexpr double kContextBytes = 804'061'184;           // of one process on one device, measured
constexpr double kCommunicatorBytes = 256 * kMebibyte;  // of one NCCL communicator
constexpr double kDeepSpeedContextBytes = 7.9e9;        // all that nvidia-smi sees beside the allocator, fitted

// Sums over the layers of a stage; maxima are in its facts.
struct StageTotals {
  double dense = 0;
  double expert = 0;
  double plain = 0;         // of the dense ones, those that no product of 8 or 4 bits reads
  double rest = 0;          // of the dense ones, those that are no matrices of blocks
  double outside = 0;       // of the dense ones, trained or not, those of no block
  double frozen_dense = 0;  // not trained, and so in none of the above
  double frozen_expert = 0;
  double frozen_plain = 0;  // of the frozen dense ones, as plain
  double kept = 0;
  double moving = 0;  // of one layer that is on its way to the host or back
  double away = 0;    // on the host, per micro-batch
  double parameters() const { return dense + expert; }
  double frozen() const { return frozen_dense + frozen_expert; }
};

// Calls visit(kind, block, how) for every layer of a stage: `block` counts the blocks before it in its run, `how` is
// what happens to it.
template <class Visit>
void for_each_layer(const MemoryKinds& kinds, const StagePlan& stage, const StageTreatment& treatment,
                    const Visit& visit) {
  for (const ChunkPlan& run : plan::runs_of(stage)) {
    std::int64_t block = 0;
    for (int i = run.first; i <= run.last; ++i) {
      const KindMemory& kind = kinds.of_layer(i);
      visit(kind, block, treatment.of_block(block));
      block += kind.block ? 1 : 0;
    }
  }
}

StageTotals add_up(const MemoryKinds& kinds, const StagePlan& stage, const StageTreatment& treatment,
                   std::int64_t offloaded) {
  StageTotals totals;
  std::vector<bool> held(kinds.tied_weights(), false);
  double of_group = 0;  // kept of the blocks of a group so far
  for_each_layer(kinds, stage, treatment, [&](const KindMemory& kind, std::int64_t block, int how) {
    std::int64_t shared = 0, shared_frozen = 0;  // with an earlier layer of the stage
    for (const KindMemory::Tied& tied : kind.tied) {
      if (held[tied.weight]) (tied.frozen ? shared_frozen : shared) += tied.elements;
      held[tied.weight] = true;
    }
    totals.dense += real(kind.price.dense_parameters - shared);
    totals.frozen_dense += real(kind.price.frozen_dense - shared_frozen);
    totals.frozen_plain += std::max(0.0, kind.frozen_plain - real(shared_frozen));
    totals.frozen_expert += real(kind.price.frozen_expert);
    if (!kind.block) {
      totals.outside += real(kind.price.dense_parameters - shared + kind.price.frozen_dense - shared_frozen);
    }
    totals.plain += std::max(0.0, kind.plain_parameters - real(shared));
    totals.rest += std::max(0.0, kind.rest_parameters - real(shared));
    totals.expert += real(kind.price.expert_parameters);
    // One input is kept of every group of blocks: that of frozen blocks in front, which need none, too.
    double kept = kind.price.kept_bytes[at(how)];
    if (kind.block && treatment.group > 1) {
      if (block % treatment.group == 0) of_group = 0;
      const double more = std::max(0.0, kept - of_group);
      of_group += more;
      kept = more;
    }
    if (!kind.price.host.empty()) totals.away += kind.price.host[at(how)].moved;
    if (kind.block && offloaded-- > 0) {
      totals.moving = std::max(totals.moving, kept);
      totals.away += kept;
    } else {
      totals.kept += kept;
    }
  });
  return totals;
}

double largest_working(const MemoryKinds& kinds, const StagePlan& stage, const StageTreatment& treatment,
                       const Account& account, bool head) {
  double largest = 0;
  for_each_layer(kinds, stage, treatment, [&](const KindMemory& kind, std::int64_t /*block*/, int how) {
    if (kind.head != head) return;
    const double group = kind.block ? real(treatment.group - 1) * kind.price.kept_bytes[kNothing] : 0;
    const double state =
        account.gather_share * kind.price.gather_bytes + account.scatter_share * kind.price.scatter_bytes;
    largest = std::max(largest, kind.price.working_bytes[at(how)] + group + state);
  });
  return largest;
}

StageFacts facts_of(const Job& job, const Strategy& strategy, const MemoryKinds& kinds, const StagePlan& stage,
                    const StageTreatment& treatment, const groups::ZeroDegrees& degrees) {
  StageFacts facts;
  facts.job = &job;
  facts.strategy = &strategy;
  facts.zero = stage.zero;
  facts.degrees = degrees;
  facts.input_only = stage.recompute.every_layer();
  facts.logits = kinds.logits();
  double feed_forward = 0;
  const KindMemory* before = nullptr;
  int how_before = -1;
  for_each_layer(kinds, stage, treatment, [&](const KindMemory& kind, std::int64_t /*block*/, int how) {
    facts.blocks += kind.block ? 1 : 0;
    if (&kind == before && how == how_before) return;  // a maximum gains nothing from the same again
    before = &kind;
    how_before = how;
    facts.element_bytes = kind.element_bytes;
    facts.stream_bytes = std::max(facts.stream_bytes, kind.stream_bytes);
    facts.whole_bytes = std::max(facts.whole_bytes, kind.whole_bytes);
    facts.largest_kept = std::max(facts.largest_kept, kind.price.kept_bytes[at(how)]);
    facts.largest_block = std::max(facts.largest_block, kind.price.largest_block_bytes);
    facts.head |= kind.head;
    facts.head_parameters = std::max(facts.head_parameters, kind.head_parameters);
    facts.embedding_parameters = std::max(facts.embedding_parameters, kind.embedding_parameters);
    facts.rotary_bytes = std::max(facts.rotary_bytes, kind.rotary_bytes);
    facts.encoder_bytes = std::max(facts.encoder_bytes, kind.encoder_bytes);
    facts.experts |= kind.experts;
    if (kind.block) {
      const auto all = real(kind.price.dense_parameters + kind.price.expert_parameters);
      const auto frozen = real(kind.price.frozen_dense + kind.price.frozen_expert);
      facts.block_parameters = std::max(facts.block_parameters, all);
      facts.block_weights = std::max(facts.block_weights, all + frozen);
    }
    feed_forward = std::max(feed_forward, kind.feed_forward_parameters);
  });
  facts.freed_parameters = feed_forward + facts.embedding_parameters;
  if (job.stack.weight_gradient_buffers) {
    facts.weight_buffers = kinds.weight_buffers(stage, facts.element_bytes);
  }
  return facts;
}

Account account_of(const StageFacts& facts) {
  Account account;
  switch (facts.job->stack.memory) {
    case MemoryModel::megatron: account = account_megatron(facts); break;
    case MemoryModel::fsdp: account = account_fsdp(facts); break;
    case MemoryModel::plain: account = account_plain(facts); break;
    case MemoryModel::megatron_deepspeed: account = account_megatron_deepspeed(facts); break;
    case MemoryModel::nanotron: account = account_nanotron(facts); break;
    case MemoryModel::internevo: account = account_internevo(facts); break;
  }
  account.flight_bytes += facts.encoder_bytes;
  // Elsewhere weights are gathered only where they are sharded; sharded gradients are whole until they are scattered.
  if (facts.job->stack.memory != MemoryModel::fsdp) {
    account.gather_share = facts.zero >= 3 ? 1 : 0;
    account.scatter_share = facts.zero == 2 ? 1 : 0;
  }
  return account;
}

struct State {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double total() const { return weights + gradients + optimizer; }
};

// `updated`: degrees of the optimizer's state.
State state_of(const Job& job, int zero, const groups::ZeroDegrees& degrees, const groups::ZeroDegrees& updated,
               const StageTotals& totals) {
  const auto held = [&](double bytes_each, int sharded_from, double dense, double expert) {
    if (zero < sharded_from) return bytes_each * (dense + expert);
    const groups::ZeroDegrees& ranks = sharded_from == 1 ? updated : degrees;
    return bytes_each * (dense / real(ranks.dense) + expert / real(ranks.expert));
  };
  const auto all = [&](double bytes_each, int from) { return held(bytes_each, from, totals.dense, totals.expert); };
  const StateBytes bytes = state_bytes(job);
  const int from = bytes.weights_shared_from;
  const double trained = all(bytes.weight, from) + held(bytes.plain_weight - bytes.weight, from, totals.plain, 0);
  const double frozen = held(bytes.frozen_weight, from, totals.frozen_dense, totals.frozen_expert) +
                        held(bytes.plain_weight - bytes.frozen_weight, from, totals.frozen_plain, 0);
  const double optimizer = all(bytes.optimizer, 1) + held(bytes.rest_optimizer - bytes.optimizer, 1, totals.rest, 0);
  return {trained + frozen, all(bytes.gradient, 2), optimizer};
}

// One moment of the step in numbers.
struct Peak {
  const Moment* moment = nullptr;
  double activations = 0;
  double transient = 0;  // short-lived, with what comes and goes per parameter
  double sum() const { return activations + transient; }
};

struct StageQuantities {
  double parameters = 0;
  double kept = 0;
  double flight = 1;
  double block_working = 0;
  double head_working = 0;
};

Peak measure(const Account& account, const Moment& moment, const StageQuantities& q) {
  Peak peak;
  peak.moment = &moment;
  if (moment.activations) {
    peak.activations = std::max(0.0, q.flight + moment.kept_offset) * q.kept + q.flight * account.flight_bytes;
  }
  const double working = moment.working == Working::block  ? q.block_working
                         : moment.working == Working::head ? q.head_working
                                                           : 0;
  peak.transient = working + moment.fixed_bytes + moment.parameter_bytes * q.parameters;
  return peak;
}

// A stage without the head never sees its moment.
bool happens(const Moment& moment, const StageFacts& facts) { return moment.working != Working::head || facts.head; }

double with_spare(const Spare& spare, double allocated, double state, double flight, double kept, double block) {
  const double dynamic = allocated - state - (flight - 1) * kept;
  return spare.scale * allocated + spare.constant_bytes +
         std::max({spare.block_factor * block, spare.kept_factor * kept, spare.dynamic_factor * dynamic});
}

// nanotron gathers weights through flat copies after the step; those that fit into no cached block are fresh memory.
double flat_copies(const StageFacts& facts, double parameters) {
  const double whole = facts.element_bytes * parameters;
  const double shard = whole / real(facts.degrees.dense);
  return (whole > facts.largest_block ? whole : 0) + (shard > facts.largest_block ? whole : 0);
}

// With groups of more micro-batches than stages, the first stage gets what the last one hands on before the group has
// passed its chunk, and the last one gradients: Megatron keeps g - p messages there for their turn.
std::int64_t waiting_messages(const schedule::Shape& shape, std::int64_t stage) {
  const bool at_an_end = stage == 0 || stage + 1 == shape.stages;
  return shape.chunks > 1 && at_an_end ? shape.grouped() - shape.stages : 0;
}

std::int64_t rounded(double bytes) { return static_cast<std::int64_t>(std::llround(bytes)); }

}  // namespace

StateBytes state_bytes(const Job& job) {
  constexpr double kSingle = 4, kHalf = 2;
  StateBytes bytes;
  bytes.weight = bytes.plain_weight = job.stack.weight_bytes;
  bytes.gradient = job.stack.gradient_bytes;
  if (storage_of(job) != Storage::bf16) bytes.plain_weight = kHalf;
  double master = job.stack.master_bytes;
  if (job.run.precision == Precision::fp32 && bytes.weight < kSingle) {
    bytes.weight = bytes.plain_weight = kSingle;  // the weights are their own masters
    bytes.gradient = std::max(bytes.gradient, kSingle);
    master = 0;
  }
  bytes.frozen_weight = job.model.frozen_matrix_bytes > 0 ? job.model.frozen_matrix_bytes : bytes.weight;
  const OptimizerFacts& facts = facts_of(job.run.optimizer);
  bytes.optimizer = master + facts.moments(job.stack.moments_bytes);
  bytes.rest_optimizer = master + facts.rest_moments(job.stack.moments_bytes);
  const double here = 1 - real(job.run.optimizer_offload) / 100;
  bytes.optimizer *= here;
  bytes.rest_optimizer *= here;
  if (job.stack.memory == MemoryModel::fsdp) bytes.weights_shared_from = 2;
  return bytes;
}

bool reads_narrow_gradients(const Job& job) {
  constexpr double kTwoSingles = 8;
  const bool adam = job.run.optimizer == Optimizer::adam || job.run.optimizer == Optimizer::adam8bit;
  const bool narrow = facts_of(job.run.optimizer).moments(job.stack.moments_bytes) < kTwoSingles;
  return adam && (narrow || job.run.optimizer_offload > 0);
}

std::int64_t offloaded_layers(const Job& job, const Strategy& strategy, const Recomputation& recompute) {
  return strategy.pp == 1 && recompute == Recompute::none ? job.stack.offloaded_layers : 0;
}

UpdateBytes update_bytes(const Job& job) {
  constexpr double kOrthogonalised = 4;  // written and read in 16 bits
  const SoftwareStack& stack = job.stack;
  const OptimizerFacts& facts = facts_of(job.run.optimizer);
  const double recipe = 2 * stack.optimizer_bytes() + stack.gradient_bytes + stack.weight_bytes;
  const double of_adam = stack.update_bytes > 0 ? stack.update_bytes : recipe;
  const auto with = [&](double moments) { return std::max(0.0, of_adam - 2 * (stack.moments_bytes - moments)); };
  return {with(facts.moments(stack.moments_bytes)) + (facts.orthogonalises ? kOrthogonalised : 0),
          with(facts.rest_moments(stack.moments_bytes))};
}

bool overlaps_experts(const Job& job, const Split& split) {
  return job.stack.expert_overlap && split.ep > 1 &&
         std::any_of(job.model.kinds.begin(), job.model.kinds.end(),
                     [](const model::Layer& layer) { return layer.top_k > 0; });
}

double in_flight(const Job& job, const Split& split, Schedule kind, const schedule::Shape& shape, std::int64_t stage) {
  const double held = schedule::in_flight(kind, shape, stage);
  if (shape.chunks == 1 || !overlaps_experts(job, split)) return held;
  return std::min(held + 1 / real(shape.chunks), real(shape.micro_batches));
}

StageMemoryModel::StageMemoryModel(const Job& job, const Split& split, std::int64_t micro_batch, Treatments treatments)
    : job_(&job), kinds_(std::make_shared<const MemoryKinds>(job, split, micro_batch, std::move(treatments))) {}

double StageMemoryModel::shared_parameters() const { return kinds_->shared_parameters(); }
double StageMemoryModel::shared_frozen() const { return kinds_->shared_frozen(); }

double StageMemoryModel::kept_bytes(int layer, int treatment) const {
  return kinds_->of_layer(layer).price.kept_bytes[at(treatment)];
}

double StageMemoryModel::working_bytes(int layer, int treatment) const {
  return kinds_->of_layer(layer).price.working_bytes[at(treatment)];
}

StageMemory stage_memory(const Job& job, const Strategy& strategy, const StagePlan& stage, std::int64_t stage_index) {
  return StageMemoryModel(job, strategy.split, strategy.micro_batch, treatments_of({stage}))
      .estimate(strategy, stage, stage_index);
}

StageMemory StageMemoryModel::estimate(const Strategy& strategy, const StagePlan& stage,
                                       std::int64_t stage_index) const {
  const schedule::Shape shape = plan::pipeline_shape(strategy, job_->run.global_batch);
  return estimate(
      strategy, stage,
      StageSetting{groups::zero_degrees(strategy, stage.zero == 0 ? 0 : stage.zero_degree),
                   groups::zero_degrees(strategy, 0),
                   stage.chunks.empty() ? in_flight(*job_, strategy.split, strategy.schedule, shape, stage_index)
                                        : listed_in_flight(strategy, stage, stage_index),
                   context_bytes(*job_, strategy), waiting_messages(shape, stage_index)});
}

// What the order of the stage holds of its chunks at most, in units of all of them.
double StageMemoryModel::listed_in_flight(const Strategy& strategy, const StagePlan& stage,
                                          std::int64_t stage_index) const {
  const schedule::Shape shape = plan::pipeline_shape(strategy, job_->run.global_batch);
  const StageTreatment treatment = stage_treatment(kinds_->treatments(), stage.recompute, 1);
  std::vector<double> kept;
  double all = 0;
  for (const ChunkPlan& chunk : stage.chunks) {
    StagePlan alone = stage;
    alone.chunks = {chunk};
    kept.push_back(add_up(*kinds_, alone, treatment, 0).kept);
    all += kept.back();
  }
  const bool ahead = shape.chunks > 1 && overlaps_experts(*job_, strategy.split);
  const schedule::Order order = schedule::order_of(schedule::rule_of(strategy.schedule), shape, stage_index);
  if (all <= 0) return real(schedule::most_held(order)) / real(shape.chunks);
  return schedule::most_kept(order, kept, ahead) / all;
}

// Both ends of the model sit on one stage of a V: beside the head, what comes before the blocks, unless they share it.
StageMemoryModel::Folded StageMemoryModel::folded_parameters(const Strategy& strategy, const StagePlan& stage) const {
  const model::Model& model = job_->model;
  const bool is_v = schedule::rule_of(strategy.schedule).is_v();
  if (!is_v || !stage.chunks.empty() || stage.last + 1 < model.layer_count()) return {};
  Folded folded{-kinds_->shared_parameters(), -kinds_->shared_frozen()};
  for (int i = 0; i < stage.first && model.layer(i).kind != model::LayerKind::block; ++i) {
    folded.trained += real(kinds_->of_layer(i).price.dense_parameters);
    folded.frozen += real(kinds_->of_layer(i).price.frozen_dense);
  }
  return {std::max(0.0, folded.trained), std::max(0.0, folded.frozen)};
}

StageMemory StageMemoryModel::estimate(const Strategy& strategy, const StagePlan& stage,
                                       const StageSetting& setting) const {
  const Job& job = *job_;
  const StageTreatment treatment =
      stage_treatment(kinds_->treatments(), stage.recompute, plan::chunks_per_run(stage, strategy.virtual_stages));
  StageTotals totals = add_up(*kinds_, stage, treatment, offloaded_layers(job, strategy, stage.recompute));
  const Folded folded = folded_parameters(strategy, stage);
  totals.dense += folded.trained;
  totals.frozen_dense += folded.frozen;
  totals.frozen_plain += folded.frozen;
  StageFacts facts = facts_of(job, strategy, *kinds_, stage, treatment, setting.degrees);
  facts.parameters = totals.parameters();
  facts.outside_weights = totals.outside;
  const groups::ZeroDegrees& updated = stage.zero_outer ? setting.replicas : setting.degrees;
  facts.updated_parameters =
      stage.zero == 0 ? totals.parameters() : totals.dense / real(updated.dense) + totals.expert / real(updated.expert);
  const Account account = account_of(facts);
  const State state = state_of(job, stage.zero, facts.degrees, updated, totals);

  StageQuantities q;
  q.parameters = totals.parameters();
  q.kept = totals.kept;
  q.flight = setting.in_flight;
  q.block_working = largest_working(*kinds_, stage, treatment, account, false);
  q.head_working = largest_working(*kinds_, stage, treatment, account, true);

  Peak peak;
  double backward = 0, step = 0;
  for (const Moment& moment : account.moments) {
    if (!happens(moment, facts)) continue;
    const Peak here = measure(account, moment, q);
    if (peak.moment == nullptr || here.sum() > peak.sum()) peak = here;
    if (moment.reuses) {
      step = std::max(step, here.sum());
    } else if (!moment.cached_only) {
      backward = std::max(backward, here.sum());
    }
  }
  const double buffers = account.buffer_bytes + account.parameter_bytes * q.parameters +
                         account.frozen_bytes * totals.frozen() + totals.moving +
                         real(setting.waiting) * facts.stream_bytes;
  const double base = state.total() + buffers;
  const double allocated = base + peak.sum();
  const auto spared = [&](const Spare& spare, double bytes) {
    return with_spare(spare, bytes, state.total(), q.flight, q.kept, facts.largest_block);
  };
  const auto held = [&](const Spare& spare) {
    return std::max(spared(spare, base + backward), base + step + spare.constant_bytes);
  };
  double reserved = held(account.spare) + account.cached_bytes;
  const bool flat = std::any_of(account.moments.begin(), account.moments.end(),
                                [](const Moment& moment) { return moment.cached_only; });
  if (flat) reserved = std::max({reserved, base + backward + flat_copies(facts, q.parameters), allocated});

  StageMemory parts;
  parts.allocated = rounded(allocated + account.cached_bytes);
  parts.total = rounded(reserved);
  parts.moment = peak.moment->name;
  const double absent = std::min(0.0, peak.moment->parameter_bytes * q.parameters);  // gradients not there yet
  parts.weights = rounded(state.weights);
  parts.gradients = rounded(std::max(0.0, state.gradients + absent));
  parts.optimizer = rounded(state.optimizer);
  parts.host = rounded(pinned_bytes(job, facts.updated_parameters) + q.flight * totals.away);
  parts.activations = rounded(peak.activations);
  parts.working = rounded(peak.transient - absent);
  parts.buffers = parts.total - parts.weights - parts.gradients - parts.optimizer - parts.activations - parts.working;
  parts.in_flight = q.flight;
  // Cached flat copies are given back before the allocator fails: they need not fit.
  const double demand = flat ? spared(account.spare, allocated) : held(account.firm.value_or(account.spare));
  parts.needed = static_cast<std::int64_t>(std::ceil(demand * (1 + job.stack.memory_margin))) + setting.context_bytes;
  return parts;
}

std::int64_t context_bytes(const Job& job, const Strategy& strategy) {
  if (job.stack.memory == MemoryModel::megatron_deepspeed) return rounded(kDeepSpeedContextBytes);
  if (job.stack.memory == MemoryModel::internevo) return 0;  // part of its reserve
  const groups::ZeroDegrees groups = groups::zero_degrees(strategy, 0);
  const Split& split = strategy.split;
  int communicators = 0;
  for (const std::int64_t ranks : {split.tp, split.cp, split.ep, strategy.pp, groups.dense}) communicators += ranks > 1;
  // Experts' groups are communicators of their own where they are not those of everything else.
  const bool divided_otherwise = split.expert_tp() != split.tp;
  communicators += divided_otherwise && split.expert_tp() > 1;
  communicators += (split.ep > 1 || divided_otherwise) && groups.expert > 1;
  return rounded(kContextBytes + communicators * kCommunicatorBytes);
}

}  // namespace nest::cost
