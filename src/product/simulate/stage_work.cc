#include "simulate/stage_work.h"

#include <algorithm>
#include <optional>

#include "cost/chunk_times.h"
#include "cost/constants.h"
#include "cost/imbalance.h"
#include "cost/tables.h"

namespace nest::simulate {
namespace {

// The exchanges of one stage, priced as in cost/tables.h.
class StateCalls {
 public:
  StateCalls(const cost::Job& job, const Strategy& strategy, const cost::PriceTable& table, const cost::StageSums& sums,
             const StagePlan& stage)
      : rule_(cost::sync_rule(job, strategy.pp)), sums_(sums) {
    const std::int64_t degree = stage.zero == 0 ? 0 : stage.zero_degree;
    lines_ = cost::sync_lines(job, strategy, table, cost::sharding_row(stage), degree);
  }

  const cost::SyncRule& rule() const { return rule_; }
  const cost::ShardLines& lines() const { return lines_; }

  std::vector<StateCall> scatter(double passes) const { return shard(rule_.gradient_bytes, passes); }

  std::vector<StateCall> gather(double passes, int zero) const {
    std::vector<StateCall> calls = shard(rule_.weight_bytes, passes, zero >= rule_.weights_shared_from);
    if (passes > 0 && rule_.per_tensor && zero < 3) {
      if (calls.empty()) calls.push_back({groups::Weights::dense, false, 0, 0, 0, lines_.calls.dense});
      calls.front().calls += passes * sums_.tensors;
      calls.front().predicted_s += passes * lines_.dense_shard.latency_s * sums_.tensors;
    }
    return calls;
  }

  // Gradients, or weights.
  std::vector<StateCall> between(double passes) const { return between(rule_.gradient_bytes, passes); }
  std::vector<StateCall> across(double passes) const { return between(rule_.weight_bytes, passes); }

 private:
  std::vector<StateCall> between(double bytes_each, double passes) const {
    std::vector<StateCall> calls;
    const auto add = [&](groups::Weights weights, const cost::CostLine& line, double parameters, std::int64_t degree) {
      const double bytes = bytes_each * parameters;
      if (passes <= 0 || bytes <= 0 || line.at(bytes) <= 0) return;
      calls.push_back({weights, true, passes * bytes / static_cast<double>(degree), passes, passes * line.at(bytes),
                       cost::kLargeCallBytes});
    };
    add(groups::Weights::dense, lines_.dense_replicate, sums_.dense_parameters, lines_.dense_degree);
    add(groups::Weights::expert, lines_.expert_replicate, sums_.expert_parameters, lines_.expert_degree);
    return calls;
  }

  // `all`: of frozen weights too.
  std::vector<StateCall> shard(double bytes_each, double passes, bool all = false) const {
    std::vector<StateCall> calls;
    const auto add = [&](groups::Weights weights, const cost::CostLine& line, double call_bytes, double parameters,
                         double frozen_bytes) {
      const double bytes = bytes_each * parameters + (all ? frozen_bytes : 0);
      const double seconds = line.at(bytes);
      if (passes <= 0 || seconds <= 0) return;
      calls.push_back(
          {weights, false, passes * bytes, passes * (1 + bytes / call_bytes), passes * seconds, call_bytes});
    };
    add(groups::Weights::dense, lines_.dense_shard, lines_.calls.dense, sums_.dense_parameters,
        sums_.frozen_dense_bytes);
    add(groups::Weights::expert, lines_.expert_shard, lines_.calls.expert, sums_.expert_parameters,
        sums_.frozen_expert_bytes);
    return calls;
  }

  cost::SyncRule rule_;
  const cost::StageSums& sums_;
  cost::ShardLines lines_;
};

std::vector<StateCall> joined(std::vector<StateCall> first, const std::vector<StateCall>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

double share_of(double part, double whole) { return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 1; }

void add_traffic(const StateCalls& calls, const cost::StageCost& cost, int zero, StageWork& work) {
  const cost::SyncRule& rule = calls.rule();
  const cost::ShardingTraffic often = rule.traffic(zero);
  work.in_forward.calls = calls.gather(often.forward_gathers, zero);
  work.in_backward.calls = joined(calls.gather(often.backward_gathers, zero), calls.scatter(often.backward_scatters));
  const double micro_s = work.in_forward.predicted_s() + work.in_backward.predicted_s();
  work.in_forward.exposed = work.in_backward.exposed = share_of(cost.micro_exposed_s, micro_s);
  work.reduce.calls = joined(calls.scatter(often.step_scatters), calls.between(often.between));
  work.gather.calls = joined(calls.gather(often.step_gathers, zero), calls.across(often.across));
  if (zero == 1 && rule.hides_backward_only) {  // gathers hide behind nothing
    work.reduce.exposed = share_of(cost.sync_exposed_s - work.gather.predicted_s(), work.reduce.predicted_s());
  } else {
    work.reduce.exposed = work.gather.exposed =
        share_of(cost.sync_exposed_s, work.reduce.predicted_s() + work.gather.predicted_s());
  }
}

// Routed tokens of a layer, one pass each.
struct LayerTokens {
  TokenTraffic forward, backward;
  std::vector<TokenTraffic> again;  // of the forward pass, what recomputation sends again, by treatment
  double others_s = 0;              // exchanges of experts that are not played: among the ranks of one expert
  bool played = true;               // nothing is known but times where not
};

void add_exchange(const cost::RoutedTraffic& traffic, double seconds, TokenTraffic& sum) {
  sum.inside_bytes += traffic.inside_bytes / traffic.inside_share;
  sum.unit_bytes += traffic.unit_bytes / traffic.beyond_share;
  sum.gathered_bytes += traffic.gathered_bytes;
  sum.calls += 1;
  sum.latency_s += traffic.latency_s;
  sum.predicted_s += seconds;
}

void add_traffic(const TokenTraffic& more, TokenTraffic& sum) {
  sum.inside_bytes += more.inside_bytes;
  sum.unit_bytes += more.unit_bytes;
  sum.gathered_bytes += more.gathered_bytes;
  sum.calls += more.calls;
  sum.latency_s += more.latency_s;
  sum.predicted_s += more.predicted_s;
}

LayerTokens tokens_of(const cost::Job& job, const model::Layer& layer, const Strategy& strategy,
                      const cost::PricingContext& context) {
  LayerTokens tokens;
  tokens.again.resize(cost::kFirstSet + context.policy.sets.size());
  const Split& split = strategy.split;
  if (layer.experts == 0 || split.ep * split.expert_tp() < 2) return tokens;
  const double stream = split::stream_tokens(strategy.micro_batch, job.run.sequence, split);
  const double busiest = cost::time_imbalance(job.stack.routing, cost::choice_of(layer), split, stream);
  const split::LocalLayer local =
      split::localise(layer, {strategy.micro_batch, job.run.sequence, job.run.encoder_sequence, busiest}, split,
                      context.implementation, context.policy);
  for (const split::LayerCollective& exchange : local.collectives) {
    if (!cost::is_of_experts(local, exchange)) continue;
    const double seconds = context.groups.seconds(local, exchange);
    if (exchange.kind != split::CollectiveKind::all_to_all) {
      tokens.others_s += seconds;
      continue;
    }
    const auto traffic = context.groups.routed_traffic(local, exchange);
    if (!traffic) tokens.played = false;
    const bool back = exchange.phase == split::Phase::backward;
    add_exchange(traffic.value_or(cost::RoutedTraffic{}), seconds, back ? tokens.backward : tokens.forward);
    const split::LocalOperator& op = local.operators[static_cast<std::size_t>(exchange.operator_index)];
    for (std::size_t t = 0; t < tokens.again.size() && !back; ++t) {
      if (!cost::runs_again(op, static_cast<int>(t))) continue;
      add_exchange(traffic.value_or(cost::RoutedTraffic{}), seconds, tokens.again[t]);
    }
  }
  return tokens;
}

// Takes the exposed part of tokens, whose seconds are given by chunk, out of the shares of passes of `whole_s`.
void take_out(double whole_s, double exposed, const std::vector<double>& tokens_s, double ChunkShare::*pass,
              double ChunkShare::*tokens, std::vector<ChunkShare>& chunks) {
  double passes_s = 0, all_s = 0;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    chunks[c].*pass = std::max(0.0, whole_s * chunks[c].*pass - exposed * tokens_s[c]);
    passes_s += chunks[c].*pass;
    all_s += tokens_s[c];
  }
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    chunks[c].*pass = passes_s > 0 ? chunks[c].*pass / passes_s : 0;
    chunks[c].*tokens = all_s > 0 ? tokens_s[c] / all_s : 0;
  }
}

// Takes what a stage waits for on the way to experts and back out of its passes: it is played.
void add_tokens(const cost::Job& job, const std::vector<LayerTokens>& kinds, const StagePlan& stage,
                const cost::StageTreatment& treatment, StageWork& work) {
  double whole_s = 0;
  TokenTraffic again;
  std::vector<double> to_experts_s, from_experts_s;  // by run
  for (const ChunkPlan& run : plan::runs_of(stage)) {
    std::int64_t block = 0;
    double& to_s = to_experts_s.emplace_back(0);
    double& from_s = from_experts_s.emplace_back(0);
    for (int i = run.first; i <= run.last; ++i) {
      const auto kind = static_cast<std::size_t>(job.model.layers[static_cast<std::size_t>(i)]);
      const LayerTokens& layer = kinds[kind];
      const TokenTraffic& repeated = layer.again[static_cast<std::size_t>(treatment.of_block(block))];
      block += job.model.kinds[kind].kind == model::LayerKind::block ? 1 : 0;
      if (!layer.played) return;
      add_traffic(layer.forward, work.to_experts);
      add_traffic(layer.backward, work.from_experts);
      add_traffic(repeated, again);
      to_s += layer.forward.predicted_s;
      from_s += layer.backward.predicted_s + repeated.predicted_s;
      whole_s += layer.forward.predicted_s + layer.backward.predicted_s + layer.others_s;
    }
  }
  add_traffic(again, work.from_experts);
  const double exposed = share_of(work.time.ep, whole_s);
  work.to_experts.exposed = work.from_experts.exposed = exposed;
  work.tokens_again_s = exposed * again.predicted_s;
  if (!stage.chunks.empty()) {
    take_out(work.forward_s, exposed, to_experts_s, &ChunkShare::forward, &ChunkShare::to_experts, work.chunks);
    const double input_s = work.backward_s - std::min(work.weight_s, work.backward_s);
    take_out(input_s, exposed, from_experts_s, &ChunkShare::backward, &ChunkShare::from_experts, work.chunks);
  }
  work.forward_s = std::max(0.0, work.forward_s - work.to_experts.exposed_s());
  work.backward_s = std::max(0.0, work.backward_s - work.from_experts.exposed_s());
}

// Equal parts of a run, or what listed chunks have.
std::vector<ChunkShare> chunk_shares(const cost::Job& job, const Strategy& strategy, const StagePlan& stage,
                                     std::int64_t index, const cost::ChunkTimes* listed) {
  const double part = 1 / static_cast<double>(strategy.virtual_stages);
  std::vector<ChunkShare> chunks(static_cast<std::size_t>(strategy.virtual_stages),
                                 {part, part, part, part, part, part});
  if (listed == nullptr) return chunks;
  const auto m = static_cast<double>(micro_batches(strategy, job.run.global_batch));
  const std::vector<schedule::PassSeconds> seconds =
      listed->compute(index, cost::alone_share(job, strategy, m, stage.recompute));
  const std::vector<double> parameters = listed->parameter_shares(index);
  schedule::PassSeconds all;
  for (const schedule::PassSeconds& one : seconds) {
    all.forward_s += one.forward_s;
    all.input_s += one.input_s;
    all.weight_s += one.weight_s;
  }
  const auto of = [](double own, double whole) { return whole > 0 ? own / whole : 0; };
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    chunks[c] = {of(seconds[c].forward_s, all.forward_s),
                 of(seconds[c].input_s, all.input_s),
                 of(seconds[c].weight_s, all.weight_s),
                 0,
                 0,
                 parameters[c]};
  }
  return chunks;
}

}  // namespace

double StateTraffic::predicted_s() const {
  double seconds = 0;
  for (const StateCall& call : calls) seconds += call.predicted_s;
  return seconds;
}

PlanWork plan_work(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages) {
  PlanWork plan;
  const cost::PriceTable table =
      cost::price_table(job, strategy.split, strategy.micro_batch, cost::treatments_of(stages));
  const Plan evaluation = cost::evaluate(job, strategy, stages);
  plan.micro_batches = micro_batches(strategy, job.run.global_batch);
  if (cost::defers_head(job.stack, strategy)) {
    plan.put_off = std::min(plan.micro_batches, cost::constants::kDeferredMicroBatches);
  }
  plan.step_s = cost::constants::kStep_s;
  plan.sends = cost::sends_of(job.stack, strategy);
  plan.aligned_gradients = job.stack.aligned_gradients && strategy.virtual_stages == 1;
  plan.wrap_bytes = table.wrap_bytes;
  const cost::PricingContext context(job, strategy.split, table.treatments);
  plan.routed = context.groups.routed_kind();
  plan.forwards = !job.cluster.torus && cost::facts_of(job.stack.dispatch.dispatcher).forwards;
  plan.pairs_passes = job.stack.expert_overlap && strategy.split.ep > 1;
  std::vector<LayerTokens> kinds(job.model.kinds.size());
  for (std::size_t i = 0; i < job.model.layers.size(); ++i) {
    const auto fused = static_cast<std::size_t>(job.fused_model.layers[i]);
    LayerTokens& tokens = kinds[static_cast<std::size_t>(job.model.layers[i])];
    if (tokens.forward.empty()) tokens = tokens_of(job, job.fused_model.kinds[fused], strategy, context);
  }
  std::optional<cost::ChunkTimes> listed;
  if (plan::lists_chunks(stages)) {
    listed.emplace(job, strategy, table, stages);
    plan.link_bytes = listed->link_bytes();
  }
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StagePlan& stage = stages[s];
    if (s + 1 < stages.size() && !listed) {
      plan.boundary_bytes.push_back(table.cut_bytes[static_cast<std::size_t>(stage.last)]);
    }
    const cost::StageSums sums = cost::sum_stage(job, table, stage, strategy.pp);
    const StateCalls calls(job, strategy, table, sums, stage);
    const cost::StageCost cost =
        cost::stage_cost(job, calls.rule(), strategy, sums, calls.lines(), cost::sharding_row(stage),
                         cost::stage_again(job, table, stage, strategy.virtual_stages));
    StageWork work;
    work.time = evaluation.stages[s].time;
    work.forward_s = work.time.forward;
    work.backward_s = work.time.backward - cost.head.micro_s + work.time.recompute;
    work.weight_s = std::min(work.time.weight, work.time.backward);
    work.head_gradient_s = sums.deferred_s;
    work.optimizer_s = cost.optimizer_s;
    work.dense_degree = calls.lines().dense_degree;
    work.expert_degree = calls.lines().expert_degree;
    add_traffic(calls, cost, cost::sharding_row(stage), work);
    work.chunks = chunk_shares(job, strategy, stage, static_cast<std::int64_t>(s), listed ? &*listed : nullptr);
    add_tokens(
        job, kinds, stage,
        cost::stage_treatment(table.treatments, stage.recompute, plan::chunks_per_run(stage, strategy.virtual_stages)),
        work);
    plan.stages.push_back(std::move(work));
  }
  return plan;
}

}  // namespace nest::simulate
