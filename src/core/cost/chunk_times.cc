#include "cost/chunk_times.h"

#include <algorithm>

#include "plan/pipeline_shape.h"

namespace nest::cost {
ChunkTimes::ChunkTimes(const Job& job, const Strategy& strategy, const PriceTable& table,
                       const std::vector<StagePlan>& stages)
    : job_(job),
      strategy_(strategy),
      table_(table),
      stages_(stages),
      chain_(schedule::rule_of(strategy.schedule), plan::pipeline_shape(strategy, job.run.global_batch)),
      rule_(sync_rule(job, strategy.pp)) {
  const MessageRule rule = message_rule(job, strategy, table);
  for (std::int64_t k = 0; k + 1 < chain_.shape().positions(); ++k) {
    const schedule::Place &from = chain_.place(k), &to = chain_.place(k + 1);
    // Whether it is empty or not, a chunk hands on what has come so far.
    const int last = stages[at(from.stage)].chunks[at(from.chunk)].last;
    const bool travels = from.stage != to.stage;
    link_bytes_.push_back(travels ? table.cut_bytes[at(last)] : 0);
    link_s_.push_back(
        travels
            ? rule.exposed_s(message_line(job.cluster, strategy, from.stage, to.stage, job.law).at(link_bytes_.back()))
            : 0);
  }
}

double ChunkTimes::wait_s(std::int64_t position, bool forward) const {
  const std::int64_t link = forward ? position - 1 : position;
  return link < 0 || link >= static_cast<std::int64_t>(link_s_.size()) ? 0 : link_s_[at(link)];
}

double ChunkTimes::waits_s(std::int64_t stage) const {
  double seconds = 0;
  for (std::int64_t c = 0; c < strategy_.virtual_stages; ++c) {
    const std::int64_t position = chain_.position(stage, c);
    seconds += wait_s(position, true) + wait_s(position, false);
  }
  return seconds;
}

std::vector<schedule::PassSeconds> ChunkTimes::compute(std::int64_t stage, double alone) const {
  const bool apart = strategy_.pp > 1 && schedule::rule_of(strategy_.schedule).is_split();
  std::vector<schedule::PassSeconds> chunks;
  for (const ChunkPlan& chunk : stages_[at(stage)].chunks) {
    StagePlan one = stages_[at(stage)];
    one.chunks = {chunk};
    const StageSums sums = sum_stage(job_, table_, one, strategy_.pp);
    const double backward_s = sums.backward_s + alone * sums.alone_backward_s +
                              stage_again(job_, table_, one, strategy_.virtual_stages).seconds;
    const double weight_s = apart ? std::min(sums.weight_s, backward_s) : 0;
    chunks.push_back({sums.forward_s + alone * sums.alone_forward_s, backward_s - weight_s, weight_s});
  }
  return chunks;
}

std::vector<double> ChunkTimes::parameter_shares(std::int64_t stage) const {
  std::vector<double> shares;
  double all = 0;
  for (const ChunkPlan& chunk : stages_[at(stage)].chunks) {
    const StageSums sums = sum_stage(job_, table_, chunk.first, chunk.last, strategy_.pp);
    shares.push_back(sums.dense_parameters + sums.expert_parameters);
    all += shares.back();
  }
  for (double& share : shares) share = all > 0 ? share / all : 0;
  return shares;
}

double ChunkTimes::head_s(std::int64_t stage, std::size_t chunk) const {
  const ChunkPlan& one = stages_[at(stage)].chunks[chunk];
  return head_cost(job_, strategy_, sum_stage(job_, table_, one.first, one.last, strategy_.pp), 0).micro_s;
}

std::vector<ChunkPlan> ChunkTimes::price(std::int64_t stage, double alone, double sharding_s) const {
  const StagePlan& plan = stages_[at(stage)];
  std::vector<ChunkPlan> chunks = plan.chunks;
  const std::vector<schedule::PassSeconds> compute_s = compute(stage, alone);
  const std::vector<double> shares = parameter_shares(stage);
  const double forward_share = rule_.traffic(plan.zero).forward_share();
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const std::int64_t position = chain_.position(stage, static_cast<std::int64_t>(c));
    const schedule::PassSeconds& own = compute_s[c];
    const double exchange_s = sharding_s * shares[c];
    chunks[c].forward_s = own.forward_s + wait_s(position, true) + forward_share * exchange_s;
    chunks[c].backward_s =
        own.input_s + own.weight_s + head_s(stage, c) + wait_s(position, false) + (1 - forward_share) * exchange_s;
    chunks[c].weight_s = own.weight_s;
  }
  return chunks;
}

double played_s(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages) {
  const schedule::Pipeline pipeline(strategy.schedule, plan::pipeline_shape(strategy, job.run.global_batch));
  schedule::PipelineSeconds seconds;
  for (std::int64_t g = 0; g < pipeline.shape().positions(); ++g) {
    const schedule::Place& place = pipeline.place(g);
    const ChunkPlan& chunk = stages[at(place.stage)].chunks[at(place.chunk)];
    seconds.chunks.push_back({chunk.forward_s, chunk.backward_s - chunk.weight_s, chunk.weight_s});
  }
  return schedule::play(pipeline, seconds).total_s;
}

}  // namespace nest::cost
