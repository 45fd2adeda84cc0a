#include "cost/memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "cost/memory_parts.h"

namespace nest {
namespace {

constexpr double kContextBytes = 804'061'184;           // of one process on one device, measured
constexpr double kCommunicatorBytes = 256 * kMebibyte;  // of one NCCL communicator
constexpr double kDeepSpeedContextBytes = 7.9e9;        // all that nvidia-smi sees beside the allocator, fitted
// InternEvo, fitted: weights, gradients and optimizer per parameter; with ZeRO 3 there is less of gradients.
constexpr StateBytes kInternEvoState = {2, 8, 20};
constexpr double kInternEvoShardedGradient = 6;

struct Priced {
  LayerView view;
  LayerPrice price;
};

// The layers of a stage (or, to bound any stage, of the whole model), each kind priced once.
class StageLayers {
 public:
  StageLayers(const Job& job, const Strategy& strategy) : job_(job), strategy_(strategy) {}

  void add(int kind) {
    auto found = priced_.find(kind);
    if (found == priced_.end()) {
      Priced priced{view_layer(job_, kind, strategy_.split, strategy_.micro_batch), {}};
      price_layer_memory(job_, kind, strategy_.split, strategy_.micro_batch, priced.price);
      found = priced_.emplace(kind, std::move(priced)).first;
    }
    const Priced& priced = found->second;
    order_.push_back(&priced);
    dense_ += static_cast<double>(priced.price.dense_parameters - shared_with_others(priced.view));
    expert_ += static_cast<double>(priced.price.expert_parameters);
  }

  double dense() const { return dense_; }
  double expert() const { return expert_; }
  double parameters() const { return dense_ + expert_; }
  const std::vector<const Priced*>& layers() const { return order_; }

  StageFacts facts(Recompute mode, int zero, std::int64_t degree) const;
  double kept(Recompute mode) const {
    double sum = 0;
    for (const Priced* layer : order_) sum += layer->price.kept_bytes[static_cast<std::size_t>(mode)];
    return sum;
  }
  double working(Recompute mode, double gather_share, bool head) const {
    double largest = 0;
    for (const Priced* layer : order_) {
      if (layer->view.head() != head) continue;
      largest = std::max(largest, layer->price.working_bytes[static_cast<std::size_t>(mode)] +
                                      gather_share * layer->price.gather_bytes);
    }
    return largest;
  }

 private:
  // Elements of tied weights that an earlier layer of the stage already holds.
  std::int64_t shared_with_others(const LayerView& view) {
    std::int64_t shared = 0;
    for (const LocalOperator& op : view.local.operators) {
      for (const Weight& weight : op.source->weights) {
        if (weight.tied_to.empty() || tied_.insert(weight.tied_to).second) continue;
        shared += op.kind == OperatorKind::embedding ? op.parameters : op.n * op.k;
      }
    }
    return shared;
  }

  const Job& job_;
  const Strategy& strategy_;
  std::map<int, Priced> priced_;
  std::vector<const Priced*> order_;
  std::set<std::string> tied_;
  double dense_ = 0;
  double expert_ = 0;
};

// Transformer Engine keeps one weight-gradient buffer per distinct shape of its linears; the router is none of them.
double weight_buffers(const std::vector<const Priced*>& layers, double element_bytes) {
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const Priced* layer : layers) {
    if (!layer->view.block()) continue;
    for (const LocalOperator& op : layer->view.local.operators) {
      const bool linear =
          op.kind == OperatorKind::grouped_matmul || (op.kind == OperatorKind::matmul && op.module != Module::moe);
      if (linear) shapes.emplace(op.n, op.k);
    }
  }
  double elements = 0;
  for (const auto& [rows, columns] : shapes) elements += static_cast<double>(rows) * static_cast<double>(columns);
  return elements * element_bytes;
}

double rotary_table(const Job& job, const LayerView& view) {
  if (job.model.architecture.position != PositionKind::rotary) return 0;
  for (const Operator& op : view.layer->operators) {
    if (op.kind == OperatorKind::attention) return 4.0 * static_cast<double>(job.run.sequence * op.attention.qk_dim);
  }
  return 0;
}

StageFacts StageLayers::facts(Recompute mode, int zero, std::int64_t degree) const {
  StageFacts facts;
  facts.job = &job_;
  facts.strategy = &strategy_;
  facts.zero = zero;
  facts.degrees = zero_degrees(strategy_, degree);
  facts.input_only = mode == Recompute::full;
  double feed_forward = 0;
  for (const Priced* layer : order_) {
    const LayerView& view = layer->view;
    facts.element_bytes = view.element_bytes;
    facts.stream_bytes = std::max(facts.stream_bytes, view.stream_bytes);
    facts.whole_bytes = std::max(facts.whole_bytes, view.whole_bytes);
    facts.largest_kept = std::max(facts.largest_kept, layer->price.kept_bytes[static_cast<std::size_t>(mode)]);
    facts.largest_block = std::max(facts.largest_block, layer->price.largest_block_bytes);
    facts.head_parameters = std::max(facts.head_parameters, view.head_weight());
    facts.rotary_bytes = std::max(facts.rotary_bytes, rotary_table(job_, view));
    facts.blocks += view.block() ? 1 : 0;
    facts.experts |= view.first_grouped() != nullptr;
    feed_forward = std::max(feed_forward, view.feed_forward_parameters());
    if (view.layer->kind == LayerKind::embedding) {
      facts.embedding_parameters =
          std::max(facts.embedding_parameters, static_cast<double>(view.local.operators.front().parameters));
    }
    if (view.layer->memory >= 0) {
      const double tokens =
          static_cast<double>(strategy_.micro_batch) / static_cast<double>(strategy_.split.cp) *
          static_cast<double>(job_.run.encoder_sequence > 0 ? job_.run.encoder_sequence : job_.run.sequence);
      facts.encoder_bytes = view.stream_bytes / view.tokens * tokens;
    }
  }
  facts.freed_parameters = feed_forward + facts.embedding_parameters;
  if (job_.stack.weight_gradient_buffers) facts.weight_buffers = weight_buffers(order_, facts.element_bytes);
  const int head = job_.model.layers.back();
  const LayerView last = view_layer(job_, head, strategy_.split, strategy_.micro_batch);
  facts.logits = last.tokens * last.logit_columns();
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
    account.gather_share = facts.zero >= 3 ? 1.0 : facts.zero == 2 ? 1.0 / 3 : 0.0;
  }
  return account;
}

struct State {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double total() const { return weights + gradients + optimizer; }
};

State state_of(const Job& job, int zero, const ZeroDegrees& degrees, double dense, double expert) {
  const auto held = [&](double bytes_each, int sharded_from) {
    if (zero < sharded_from) return bytes_each * (dense + expert);
    return bytes_each * (dense / static_cast<double>(degrees.dense) + expert / static_cast<double>(degrees.expert));
  };
  StateBytes bytes = state_bytes(job);
  if (job.stack.memory == MemoryModel::internevo && zero >= 3) bytes.gradient = kInternEvoShardedGradient;
  return {held(bytes.weight, 3), held(bytes.gradient, 2), held(bytes.optimizer, 1)};
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
bool happens(const Moment& moment, const StageFacts& facts) {
  return moment.working != Working::head || facts.head_parameters > 0;
}

double with_spare(const Spare& spare, double allocated, double state, double flight, double kept, double block) {
  const double dynamic = allocated - state - (flight - 1) * kept;
  return spare.scale * allocated + spare.constant_bytes +
         std::max({spare.block_factor * block, spare.kept_factor * kept, spare.dynamic_factor * dynamic});
}

// nanotron gathers weights through flat copies after the step; those that fit into no cached block are fresh memory.
double flat_copies(const StageFacts& facts, double parameters) {
  const double whole = facts.element_bytes * parameters;
  const double shard = whole / static_cast<double>(facts.degrees.dense);
  return (whole > facts.largest_block ? whole : 0) + (shard > facts.largest_block ? whole : 0);
}

std::int64_t rounded(double bytes) { return static_cast<std::int64_t>(std::llround(bytes)); }

}  // namespace

double in_flight(Schedule schedule, std::int64_t stages, std::int64_t virtual_stages, std::int64_t stage,
                 std::int64_t micro_batches) {
  if (stages == 1) return 1;
  switch (schedule) {
    case Schedule::gpipe: return static_cast<double>(micro_batches);
    case Schedule::one_f_one_b: return static_cast<double>(std::min(stages - stage, micro_batches));
    case Schedule::interleaved: break;
  }
  const std::int64_t chunks =
      std::min(2 * (stages - stage - 1) + (virtual_stages - 1) * stages + 1, micro_batches * virtual_stages);
  return static_cast<double>(chunks) / static_cast<double>(virtual_stages);
}

StateBytes state_bytes(const Job& job) {
  if (job.stack.memory == MemoryModel::internevo) return kInternEvoState;
  StateBytes bytes{job.stack.weight_bytes, job.stack.gradient_bytes, job.stack.optimizer_bytes};
  constexpr double kSingle = 4;
  const bool has_master = bytes.weight < kSingle;
  double moments = bytes.optimizer - (has_master ? std::min(kSingle, bytes.optimizer) : 0);
  double master = bytes.optimizer - moments;
  if (job.precision == ComputePrecision::fp32 && has_master) {
    bytes.weight = kSingle;  // the weights are their own masters
    bytes.gradient = std::max(bytes.gradient, kSingle);
    master = 0;
  }
  if (job.optimizer == Optimizer::sgd) moments /= 2;
  bytes.optimizer = master + moments;
  return bytes;
}

ZeroDegrees zero_degrees(const Strategy& strategy, std::int64_t degree) {
  const Split& split = strategy.split;
  const std::int64_t dense = strategy.dp * split.ep * split.cp;
  const std::int64_t expert = strategy.dp * split.cp;
  if (degree <= 0 || degree >= dense) return {dense, expert};
  return {degree, std::max<std::int64_t>(1, expert * degree / dense)};
}

MemoryEstimate stage_memory(const Job& job, const Strategy& strategy, const StagePlan& stage,
                            std::int64_t stage_index) {
  StageLayers layers(job, strategy);
  for (int i = stage.first; i <= stage.last; ++i) layers.add(job.model.layers[static_cast<std::size_t>(i)]);
  const StageFacts facts = layers.facts(stage.recompute, stage.zero, stage.zero_degree);
  const Account account = account_of(facts);
  const State state = state_of(job, stage.zero, facts.degrees, layers.dense(), layers.expert());

  StageQuantities q;
  q.parameters = layers.parameters();
  q.kept = layers.kept(stage.recompute);
  q.flight = in_flight(strategy.schedule, strategy.pp, strategy.virtual_stages, stage_index,
                       micro_batches(strategy, job.run.global_batch));
  q.block_working = layers.working(stage.recompute, account.gather_share, false);
  q.head_working = layers.working(stage.recompute, account.gather_share, true);

  Peak peak;
  double backward = 0;
  for (const Moment& moment : account.moments) {
    if (!happens(moment, facts)) continue;
    const Peak here = measure(account, moment, q);
    if (peak.moment == nullptr || here.sum() > peak.sum()) peak = here;
    if (!moment.cached_only) backward = std::max(backward, here.sum());
  }
  const double buffers = account.buffer_bytes + account.parameter_bytes * q.parameters;
  const double base = state.total() + buffers;
  const double allocated = base + peak.sum();
  const auto spared = [&](double bytes) {
    return with_spare(account.spare, bytes, state.total(), q.flight, q.kept, facts.largest_block);
  };
  double reserved = spared(base + backward);
  const bool flat = std::any_of(account.moments.begin(), account.moments.end(),
                                [](const Moment& moment) { return moment.cached_only; });
  if (flat) reserved = std::max({reserved, base + backward + flat_copies(facts, q.parameters), allocated});

  MemoryEstimate estimate;
  estimate.allocated = rounded(allocated);
  estimate.reserved = rounded(reserved);
  estimate.moment = peak.moment->name;
  StageMemory& parts = estimate.parts;
  const double absent = std::min(0.0, peak.moment->parameter_bytes * q.parameters);  // gradients not there yet
  parts.weights = rounded(state.weights);
  parts.gradients = rounded(std::max(0.0, state.gradients + absent));
  parts.optimizer = rounded(state.optimizer);
  parts.activations = rounded(peak.activations);
  parts.working = rounded(peak.transient - absent);
  parts.total = estimate.reserved;
  parts.buffers = parts.total - parts.weights - parts.gradients - parts.optimizer - parts.activations - parts.working;
  parts.in_flight = q.flight;
  // Cached flat copies are given back before the allocator fails: they need not fit.
  const double demand = flat ? spared(allocated) : reserved;
  estimate.needed =
      static_cast<std::int64_t>(std::ceil(demand * (1 + job.stack.memory_margin))) + context_bytes(job, strategy);
  return estimate;
}

std::int64_t context_bytes(const Job& job, const Strategy& strategy) {
  if (job.stack.memory == MemoryModel::megatron_deepspeed) return rounded(kDeepSpeedContextBytes);
  if (job.stack.memory == MemoryModel::internevo) return 0;  // part of its reserve
  const ZeroDegrees groups = zero_degrees(strategy, 0);
  const Split& split = strategy.split;
  int communicators = 0;
  for (const std::int64_t ranks : {split.tp, split.cp, split.expert_ranks(), strategy.pp, groups.dense})
    communicators += ranks > 1;
  communicators += split.expert_ranks() > 1 && groups.expert > 1;
  return rounded(kContextBytes + communicators * kCommunicatorBytes);
}

std::vector<MemoryRule> memory_rules(const Job& job, const Strategy& strategy, int zero, std::int64_t zero_degree) {
  StageLayers all(job, strategy);
  std::set<int> kinds(job.model.layers.begin(), job.model.layers.end());
  for (const int kind : kinds) all.add(kind);
  StageFacts facts = all.facts(Recompute::none, zero, zero_degree);
  facts.freed_parameters = 0;
  facts.blocks = static_cast<double>(job.model.architecture.layers());
  const Account account = account_of(facts);

  double gather = 0;  // which the caller does not add
  if (zero < 3) {
    for (const Priced* layer : all.layers())
      gather = std::max(gather, account.gather_share * layer->price.gather_bytes);
  }
  std::vector<MemoryRule> rules;
  for (const Moment& moment : account.moments) {
    MemoryRule rule;
    rule.scale = account.spare.scale;
    rule.parameter_bytes = moment.parameter_bytes + account.parameter_bytes;
    rule.flight_bytes = moment.activations ? account.flight_bytes : 0;
    rule.kept_factor = moment.activations ? moment.kept_offset : 0;
    rule.working_factor = moment.working == Working::none ? 0 : 1;
    const double fixed = account.buffer_bytes + moment.fixed_bytes + gather;
    rule.fixed_bytes = rule.scale * fixed + account.spare.constant_bytes;
    rule.activations = moment.activations;

    MemoryRule block = rule;
    block.fixed_bytes += account.spare.block_factor * facts.largest_block;
    rules.push_back(block);
    if (account.spare.kept_factor > 0) {
      rules.push_back(rule);
      rules.back().kept_factor += account.spare.kept_factor;
    }
    if (account.spare.dynamic_factor > 0) {
      const double factor = account.spare.dynamic_factor;
      rules.push_back(rule);
      rules.back().kept_factor += factor;
      rules.back().working_factor *= 1 + factor;
      rules.back().fixed_bytes += factor * fixed;
    }
  }
  return rules;
}

}  // namespace nest
