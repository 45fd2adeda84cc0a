#include "cost/tables.h"

#include <algorithm>
#include <cmath>

#include "cost/activation_offload.h"
#include "cost/constants.h"
#include "cost/eager_time.h"
#include "cost/facts.h"
#include "cost/memory.h"
#include "cost/rates.h"
#include "model/training.h"
#include "schedule/rules.h"

namespace nest::cost {
namespace {

using namespace constants;

std::int64_t count_weights(const model::Layer& layer) {
  std::int64_t tensors = 0;
  for (const model::Operator& op : layer.operators) {
    tensors +=
        std::count_if(op.weights.begin(), op.weights.end(), [](const model::Weight& weight) { return !weight.frozen; });
  }
  return tensors;
}

// Elements on one device of the token table. Prices without it cannot be told apart here, so that its size is counted as
// the kernels pad it.
std::int64_t table_parameters(const Job& job, const Split& split) {
  const model::Architecture& architecture = job.model.architecture;
  const std::int64_t width = architecture.embedding_width > 0 ? architecture.embedding_width : architecture.hidden;
  const std::int64_t multiple = job.stack.kernels == model::Stack::megatron ? 128 * split.tp : split.tp;
  const std::int64_t rows = (architecture.vocabulary + multiple - 1) / multiple * multiple / split.tp;
  return rows * width;
}

CostLine folded(const CostLine& line, double bytes_per_call) {
  if (line.latency_s <= 0 || bytes_per_call <= 0) return line;
  return {line.latency_s, line.s_per_byte + line.latency_s / bytes_per_call};
}

// Their mean: a scatter and two gathers, or one.
CallBytes bytes_of_calls(const Job& job, const SyncRule& rule, const PriceTable& table, int zero,
                         const groups::ZeroDegrees& degrees) {
  const double gathers = std::max(1.0, rule.traffic(zero).micro_gathers());
  const double bytes = (rule.gradient_bytes + gathers * rule.weight_bytes) / (1 + gathers);
  return {bytes * parameters_per_call(job, table, zero, degrees.dense),
          bytes * parameters_per_call(job, table, zero, degrees.expert)};
}

}  // namespace

PriceTable price_table(const Job& job, const Split& split, std::int64_t micro_batch, Treatments treatments) {
  PriceTable table;
  table.treatments = std::move(treatments);
  const int kinds = static_cast<int>(job.model.kinds.size());
  const PricingContext context(job, split, table.treatments);
  for (int kind = 0; kind < kinds; ++kind) {
    table.kinds.push_back(time_layer(job, kind, split, micro_batch, context));
    table.tensors.push_back(count_weights(job.model.kinds[at(kind)]));
  }
  if (sync_rule(job, 1).hides_what_it_can) {
    const PricingContext formula(job, split, table.treatments, schedule::Law::formula);
    for (int kind = 0; kind < kinds; ++kind) {
      LayerPrice price = table.kinds[at(kind)];
      if (job.model.kinds[at(kind)].experts > 0) price = time_layer(job, kind, split, micro_batch, formula);
      table.expected.push_back({price.forward_s, price.backward_s, 0});
    }
  }
  if (job.stack.offloaded_layers > 0) table.layers_way_s = layers_way_s(job, split, micro_batch, table.kinds);
  const split::RunShape shape{micro_batch, job.run.sequence, job.run.encoder_sequence, 1.0};
  table.cut_bytes = cut_bytes(job.fused_model, shape, split);
  // Where every tensor-parallel rank holds the whole tensor, each may send its share only.
  if (job.stack.scatter_messages && !split.sp) {
    for (double& bytes : table.cut_bytes) bytes /= real(split.tp);
  }
  // Chunks hand over what blocks hand over: the stream of the last tower.
  if (table.cut_bytes.size() > 1) table.wrap_bytes = table.cut_bytes[table.cut_bytes.size() - 2];
  const bool shares_trained = !model::shares_frozen(job.model);
  if (job.model.architecture.tied_embeddings && shares_trained) {
    const std::int64_t head = table.kinds[at(job.model.layers.back())].dense_parameters;
    table.tied_parameters = std::min(head, table_parameters(job, split));
  }
  if (job.run.mtp_layers > 0 && shares_trained) table.copied_parameters = table_parameters(job, split);
  if (facts_of(job.run.optimizer).orthogonalises) table.matrices = std::make_shared<const MatrixTable>(job, split);
  return table;
}

SyncRule sync_rule(const Job& job, std::int64_t stages) {
  const SoftwareStack& stack = job.stack;
  SyncRule rule;
  rule.gradient_bytes = stack.gradient_traffic_bytes;
  rule.weight_bytes = stack.weight_traffic_bytes;
  rule.often = sharding_traffic(stack.all_reduce_zero1 || stack.data_overlap == DataOverlap::per_tensor,
                                stages > 1 && stack.memory == MemoryModel::fsdp);
  rule.weights_shared_from = state_bytes(job).weights_shared_from;
  rule.update = update_bytes(job);
  if (runs_as_written(stack)) rule.tensor_s = 2 * (kWrittenGap_s + kWrittenCast_s);
  rule.offload = offload_rule(job);
  rule.update.matrices *= 1 - rule.offload.share;
  rule.update.rest *= 1 - rule.offload.share;
  rule.memory_bytes_per_s = sustained_rates(job.cluster.device, job.run.precision, job.stack).memory_bytes_per_s;
  rule.least = job.law == schedule::Law::least;
  rule.hides_what_it_can = rule.least && std::any_of(job.model.kinds.begin(), job.model.kinds.end(),
                                                     [](const model::Layer& kind) { return kind.experts > 0; });
  if (stack.data_overlap == DataOverlap::none) return rule;
  rule.step_hide = kSyncHide;
  rule.step_exposed = kSyncExposed;
  rule.aligned = stack.aligned_gradients;
  // Without multiprocessors to share (TPU), transfers take nothing from compute.
  rule.micro_exposed = job.cluster.device.multiprocessors > 0 ? kShardExposed : 0;
  rule.micro_hide = 1 - rule.micro_exposed;
  rule.per_tensor = stack.data_overlap == DataOverlap::per_tensor;
  rule.hides_backward_only = rule.per_tensor;
  return rule;
}

double parameters_per_call(const Job& job, const PriceTable& table, int zero, std::int64_t replicas) {
  if (zero < 3) return std::max(kBucketParameters, kBucketParametersPerRank * real(replicas));
  double largest = 0;
  for (std::size_t kind = 0; kind < table.kinds.size(); ++kind) {
    if (job.model.kinds[kind].kind != model::LayerKind::block) continue;
    const LayerPrice& price = table.kinds[kind];
    largest = std::max(
        largest, real(price.dense_parameters + price.expert_parameters + price.frozen_dense + price.frozen_expert));
  }
  return largest;
}

ShardLines sync_lines(const Job& job, const Strategy& strategy, const PriceTable& table, int zero,
                      std::int64_t degree) {
  return sync_lines(job, sync_rule(job, strategy.pp), table, zero,
                    shard_groups(job.cluster, strategy, degree, job.law));
}

ShardLines sync_lines(const Job& job, const SyncRule& rule, const PriceTable& table, int zero,
                      const ShardGroups& groups) {
  return shard_lines(job.cluster, groups,
                     bytes_of_calls(job, rule, table, zero, {groups.dense_degree, groups.expert_degree}), job.law);
}

ShardLines fold_calls(const Job& job, const SyncRule& rule, const PriceTable& table, int zero, const ShardLines& bare) {
  ShardLines lines = bare;
  lines.calls = bytes_of_calls(job, rule, table, zero, {lines.dense_degree, lines.expert_degree});
  lines.dense_shard = folded(lines.dense_shard, lines.calls.dense);
  lines.expert_shard = folded(lines.expert_shard, lines.calls.expert);
  return lines;
}

namespace {

// Adds up layers; what several of them share is counted once.
class StageAdder {
 public:
  StageAdder(const Job& job, const PriceTable& table, std::int64_t stages)
      : job_(job), table_(table), defers_(job.stack.defer_head_gradient && stages > 1) {}

  void add(int first, int last) {
    for (int i = first; i <= last; ++i) add(i);
    if (table_.matrices != nullptr) sums_.rest_parameters += table_.matrices->rest_parameters(first, last);
  }

  StageSums finish() {
    const double repeated = real(table_.repeated_parameters(embeds_, predicts_, heads_));
    sums_.dense_parameters -= repeated;
    if (table_.matrices == nullptr) return sums_;
    sums_.matrices = table_.matrices.get();
    sums_.rest_parameters -= repeated;
    return sums_;
  }

 private:
  void add(int layer) {
    const auto kind = at(job_.model.layers[at(layer)]);
    const LayerPrice& price = table_.kinds[kind];
    const double deferred = defers_ ? price.deferrable_s : 0;
    sums_.forward_s += price.forward_s;
    sums_.backward_s += price.backward_s - deferred;
    sums_.deferred_s += deferred;
    sums_.weight_s += std::max(0.0, price.weight_s - deferred);
    sums_.tp_s += price.tp_s;
    sums_.cp_s += price.cp_s;
    sums_.ep_s += price.ep_s;
    sums_.alone_forward_s += price.alone_forward_s;
    sums_.alone_backward_s += price.alone_backward_s;
    sums_.alone_ep_s += price.alone_ep_s;
    sums_.dense_parameters += real(price.dense_parameters);
    sums_.expert_parameters += real(price.expert_parameters);
    sums_.frozen_dense_bytes += price.frozen_dense_bytes;
    sums_.frozen_expert_bytes += price.frozen_expert_bytes;
    sums_.tensors += real(table_.tensors[kind]);
    const model::Layer& what = job_.model.kinds[kind];
    if (what.kind == model::LayerKind::block) {
      const bool apart = !table_.expected.empty();
      sums_.hide_forward_s += apart ? table_.expected[kind].forward_s : price.forward_s;
      sums_.hide_backward_s += apart ? table_.expected[kind].input_s : price.backward_s;
    }
    embeds_ = embeds_ || what.kind == model::LayerKind::embedding;
    heads_ = heads_ || what.kind == model::LayerKind::head;
    predicts_ = predicts_ || what.mtp;
  }

  const Job& job_;
  const PriceTable& table_;
  bool defers_;
  bool embeds_ = false, heads_ = false, predicts_ = false;
  StageSums sums_;
};

}  // namespace

StageSums sum_stage(const Job& job, const PriceTable& table, int first, int last, std::int64_t stages) {
  StageAdder adder(job, table, stages);
  adder.add(first, last);
  StageSums sums = adder.finish();
  sums.first = first;
  sums.last = last;
  return sums;
}

StageSums sum_stage(const Job& job, const PriceTable& table, const StagePlan& stage, std::int64_t stages) {
  if (stage.chunks.empty()) return sum_stage(job, table, stage.first, stage.last, stages);
  StageAdder adder(job, table, stages);
  for (const ChunkPlan& chunk : stage.chunks) adder.add(chunk.first, chunk.last);
  StageSums sums = adder.finish();
  sums.chunks = &stage.chunks;
  return sums;
}

double least_back_share(const Job& job, const PriceTable& table) {
  double least = 1;
  const auto look_at = [&](double forward_s, double backward_s) {
    if (forward_s + backward_s > 0) least = std::min(least, backward_s / (forward_s + backward_s));
  };
  for (std::size_t i = 0; i + 1 < job.model.layers.size(); ++i) {
    const LayerPrice& layer = table.kinds[at(job.model.layers[i])];
    const double backward_s = layer.backward_s - layer.deferrable_s;
    look_at(layer.forward_s, backward_s);
    look_at(layer.forward_s + layer.alone_forward_s, backward_s + layer.alone_backward_s);
  }
  return least;
}

double least_back_share(const ShardingTraffic& often) {
  const double gathers = often.micro_gathers();
  return gathers + often.backward_scatters > 0 ? 1 - often.forward_share() : 1;
}

// Terms that occur 0 times are not worked out: the search asks for little else than this.
StageTraffic stage_traffic(const SyncRule& rule, const StageSums& sums, const ShardLines& lines, int zero) {
  const ShardingTraffic& often = rule.traffic(zero);
  const double dense = sums.dense_parameters, expert = sums.expert_parameters;
  StageTraffic traffic;
  if (often.backward_scatters + often.step_scatters > 0) {
    const double scatter_s =
        lines.dense_shard.at(rule.gradient_bytes * dense) + lines.expert_shard.at(rule.gradient_bytes * expert);
    traffic.micro_s = often.backward_scatters * scatter_s;
    traffic.reduce_s = often.step_scatters * scatter_s;
  }
  if (often.micro_gathers() + often.step_gathers > 0) {
    const bool whole = zero < rule.weights_shared_from;
    double gather_s = lines.dense_shard.at(rule.weight_bytes * dense + (whole ? 0 : sums.frozen_dense_bytes)) +
                      lines.expert_shard.at(rule.weight_bytes * expert + (whole ? 0 : sums.frozen_expert_bytes));
    if (rule.per_tensor && zero < 3) gather_s += lines.dense_shard.latency_s * sums.tensors;
    traffic.micro_s += often.micro_gathers() * gather_s;
    traffic.gather_s = often.step_gathers * gather_s;
  }
  if (often.across > 0) {
    traffic.gather_s += often.across * (lines.dense_replicate.at(rule.weight_bytes * dense) +
                                        lines.expert_replicate.at(rule.weight_bytes * expert));
  }
  traffic.reduce_s += often.between * (lines.dense_replicate.at(rule.gradient_bytes * dense) +
                                       lines.expert_replicate.at(rule.gradient_bytes * expert));
  return traffic;
}

StateCost state_cost(const SyncRule& rule, const Strategy& strategy, const StageSums& sums, const ShardLines& lines,
                     int zero) {
  const double dense = sums.dense_parameters, expert = sums.expert_parameters;
  const StageTraffic traffic = stage_traffic(rule, sums, lines, zero);
  const double compute_s = sums.hide_forward_s + sums.hide_backward_s;
  const double chunks = strategy.virtual_stages > 1 ? real(strategy.pp) : 1;
  const double hide_s = rule.step_hide * chunks * (rule.hides_backward_only ? sums.hide_backward_s : compute_s);

  // Whatever hides, the bucket that is filled last cannot.
  const double bucket = std::max(kBucketParameters, kBucketParametersPerRank * real(lines.dense_degree));
  const double last_bucket = rule.step_hide > 0 && dense + expert > 0 ? std::min(1.0, bucket / (dense + expert)) : 0;
  const double fraction =
      std::max(rule.step_fraction(strategy.virtual_stages), rule.hides_backward_only ? 0 : last_bucket);

  StateCost cost;
  cost.micro_s = traffic.micro_s;
  const bool gathers_hide = zero != 1 || !rule.hides_backward_only;
  const double may_hide_s = traffic.reduce_s + (gathers_hide ? traffic.gather_s : 0);
  const double exposed = exposed_s(may_hide_s, hide_s, fraction);
  if (rule.least && strategy.pp > 1 && may_hide_s > 0) {
    cost.exposed_share = exposed / may_hide_s;
    cost.reduce_s = cost.exposed_share * traffic.reduce_s;
  }
  cost.sync_exposed_s = exposed - cost.reduce_s + (gathers_hide ? 0 : traffic.gather_s);
  const groups::ZeroDegrees ranks = lines.updated(zero);
  const double updated = dense / real(ranks.dense) + expert / real(ranks.expert);
  const double more = (rule.update.rest - rule.update.matrices) * sums.rest_parameters / real(ranks.dense);
  const double update_s = (rule.update.matrices * updated + more) / rule.memory_bytes_per_s;
  cost.optimizer_s = update_s + kNormBytes * (zero >= 3 ? updated : dense + expert) / rule.memory_bytes_per_s;
  cost.optimizer_s += rule.tensor_s * sums.tensors;
  // Beside it the host updates its share.
  if (rule.offload.share > 0) {
    cost.optimizer_s += std::max(0.0, rule.offload.seconds(updated, sums.tensors) - update_s);
  }
  if (sums.matrices != nullptr) {
    cost.optimizer_s += sums.chunks == nullptr
                            ? sums.matrices->seconds(sums.first, sums.last, ranks.dense, ranks.expert)
                            : sums.matrices->seconds(*sums.chunks, ranks.dense, ranks.expert);
  }
  return cost;
}

namespace {

// Micro-batches, and those of them whose head gradient waits.
struct HeadCounts {
  double all, waiting;
};
HeadCounts head_counts(const Job& job, const Strategy& strategy) {
  const auto m = real(micro_batches(strategy, job.run.global_batch));
  return {m, defers_head(job.stack, strategy) ? std::min(m, real(kDeferredMicroBatches)) : 0};
}

}  // namespace

double head_short_s(const Job& job, const Strategy& strategy, double deferred_s) {
  const auto [m, waiting] = head_counts(job, strategy);
  return waiting > 0 ? deferred_s * std::max(0.0, 2 * (m - waiting) / m - 1) : 0;
}

double head_first_short_s(const Job& job, const Strategy& strategy, double deferred_s) {
  const auto [m, waiting] = head_counts(job, strategy);
  return waiting > 0 ? deferred_s * (m - waiting) / m : 0;
}

HeadCost head_cost(const Job& job, const Strategy& strategy, const StageSums& sums, double drain_again_s) {
  if (sums.deferred_s <= 0) return {};
  const auto [m, waiting] = head_counts(job, strategy);
  HeadCost head{sums.deferred_s * (m - waiting) / m, 0};
  if (job.law == schedule::Law::least) return head;
  const double drain_s = real(strategy.pp - 1) / real(strategy.virtual_stages) * (sums.backward_s + drain_again_s);
  head.step_s = std::max(0.0, waiting * sums.deferred_s - drain_s);
  return head;
}

StageCost stage_cost(const Job& job, const SyncRule& rule, const Strategy& strategy, const StageSums& sums,
                     const ShardLines& lines, int zero, const StageAgain& again) {
  const StateCost state = state_cost(rule, strategy, sums, lines, zero);
  StageCost cost;
  cost.micro_exposed_s = micro_exposed_s(rule, sums, state, zero, again.seconds);
  cost.sync_exposed_s = state.sync_exposed_s;
  cost.optimizer_s = state.optimizer_s;
  cost.head = head_cost(job, strategy, sums, again.drain_s);
  cost.reduce_s = state.reduce_s;
  cost.exposed_share = state.exposed_share;
  return cost;
}

Treatments treatments_of(const std::vector<StagePlan>& stages) {
  Treatments treatments;
  for (const StagePlan& stage : stages) {
    if (stage.recompute.kind != Recompute::modules) continue;
    const auto& known = treatments.sets;
    if (std::find(known.begin(), known.end(), stage.recompute.modules) == known.end()) {
      treatments.sets.push_back(stage.recompute.modules);
    }
  }
  return treatments;
}

StageAgain stage_again(const Job& job, const PriceTable& table, const StagePlan& stage, std::int64_t chunks) {
  const StageTreatment treatment =
      stage_treatment(table.treatments, stage.recompute, plan::chunks_per_run(stage, chunks));
  StageAgain again;
  bool whole = false;
  for (const ChunkPlan& run : plan::runs_of(stage)) {
    std::int64_t block = 0;
    whole = run.first == 0 && run.last + 1 == static_cast<int>(job.model.layers.size());
    for (int i = run.first; i <= run.last; ++i) {
      const auto kind = at(job.model.layers[at(i)]);
      if (job.model.kinds[kind].kind != model::LayerKind::block) continue;
      const LayerPrice& price = table.kinds[kind];
      const std::size_t how = at(treatment.of_block(block++));
      again.seconds += price.recompute_s[how];
      if (!price.way_s.empty()) again.way_s += price.way_s[how];
    }
  }
  if (whole && stage.recompute == Recompute::none) {
    again.seconds += table.layers_way_s;
    again.way_s += table.layers_way_s;
  }
  if (stage.recompute.kind != Recompute::block) again.drain_s = again.seconds;
  return again;
}

schedule::PassSeconds mean_stage(const StageSums& model, std::int64_t stages) {
  const double share = 1 / real(stages);
  return {share * model.forward_s, share * std::max(0.0, model.backward_s - model.weight_s), share * model.weight_s};
}

}  // namespace nest::cost
