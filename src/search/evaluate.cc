#include "search/evaluate.h"

#include "base/error.h"
#include "search/stage_cost.h"

namespace nest::search {
namespace {

IntervalSums sum_layers(const Problem& problem, const LayerTable& table, std::int64_t begin, std::int64_t end) {
  IntervalSums sums;
  for (std::int64_t i = begin; i < end; ++i) {
    const LayerCost& layer =
        table.layers[static_cast<std::size_t>(problem.chain.layer_type[static_cast<std::size_t>(i)])];
    sums.time_ps += layer.time_ps;
    sums.recompute_ps[1] += layer.selective_ps;
    sums.recompute_ps[2] += layer.full_ps;
    sums.hide_ps += layer.hide_ps;
    for (std::size_t r = 0; r < 3; ++r) {
      sums.kept_bytes[r] += layer.kept_bytes[r];
      sums.working_bytes[r] = std::max(sums.working_bytes[r], layer.working_bytes[r]);
    }
    sums.gather_bytes = std::max(sums.gather_bytes, layer.gather_bytes);
    sums.dense_parameters += layer.dense_parameters;
    sums.expert_parameters += layer.expert_parameters;
  }
  return sums;
}

}  // namespace

std::int64_t micro_batches_of(const Problem& problem, const Key& key) {
  const std::int64_t per_round = problem.micro_batches[static_cast<std::size_t>(key.micro_batch)] * key.replicas *
                                 problem.splits[static_cast<std::size_t>(key.split)].expert;
  return ceil_div(problem.global_batch, per_round);
}

std::int64_t devices_of(const Problem& problem, const Key& key) {
  const std::int64_t a = problem.splits[static_cast<std::size_t>(key.split)].devices();
  return (key.replicas / key.inner_replicas - 1) * key.pitch + key.stages * key.inner_replicas * a;
}

Evaluation evaluate(const Problem& problem, const Plan& plan) {
  const Key& key = plan.key;
  const LayerTable table = problem.pricer->price(key.split, key.micro_batch);
  const Schedule schedule = problem.schedules[static_cast<std::size_t>(key.schedule)];
  const std::int64_t v = schedule.chunks;
  const PlacementClass placed = problem.network->place(
      {problem.splits[static_cast<std::size_t>(key.split)], key.stages, key.replicas, key.inner_replicas, key.pitch});
  Evaluation result;
  result.micro_batches = micro_batches_of(problem, key);
  result.devices = devices_of(problem, key);
  result.fits = result.devices <= problem.devices;
  NEST_CHECK(static_cast<std::int64_t>(plan.cuts.size()) == key.stages + 1, "a plan has one cut more than stages");
  std::int64_t slowest = 0, sum = 0, per_iteration = 0;
  for (std::int64_t s = 0; s < key.stages; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t begin = plan.cuts[at], end = plan.cuts[at + 1];
    const StageOption& option = plan.options[at];
    const auto recompute = static_cast<std::size_t>(option.recompute);
    const IntervalSums sums = sum_layers(problem, table, begin, end);
    const ShardGroup& group = placed.sync.group[static_cast<std::size_t>(option.group)];
    const ZeroCost zero = zero_cost(problem.state, option.zero, {problem.state, group, sums}, sums);
    const auto cut_bytes = [&](std::int64_t boundary) {
      return table.cut_bytes[static_cast<std::size_t>(problem.chain.cut_kind[static_cast<std::size_t>(boundary)])];
    };
    StageReport report;
    report.compute_ps = sums.time_ps;
    report.recompute_ps = sums.recompute_ps[recompute];
    report.zero_ps = zero.per_micro_batch_ps;
    if (s > 0) report.hop_ps += v * placed.hop[at - 1].at(cut_bytes(begin));
    if (s + 1 < key.stages) report.hop_ps += v * placed.hop[at].at(cut_bytes(end));
    if (key.stages > 1 && (s == 0 || s + 1 == key.stages)) report.hop_ps += (v - 1) * placed.wrap.at(table.wrap_bytes);
    report.time_ps = report.compute_ps + report.recompute_ps + report.hop_ps + report.zero_ps;
    report.per_iteration_ps = zero.per_iteration_ps;
    report.in_flight = in_flight(schedule, key.stages, result.micro_batches, s);
    report.state_bytes = zero.state_bytes;
    report.working_bytes = sums.working_bytes[recompute];
    report.activation_bytes = ceil_div(report.in_flight * sums.kept_bytes[recompute], v);
    result.fits = result.fits && report.memory_bytes() <= problem.memory_bytes && end - begin >= v;
    slowest = std::max(slowest, report.time_ps);
    sum += report.time_ps;
    per_iteration = std::max(per_iteration, report.per_iteration_ps);
    result.stages.push_back(report);
  }
  result.time_ps = iteration_time(result.micro_batches, v, slowest, sum, per_iteration);
  return result;
}

}  // namespace nest::search
