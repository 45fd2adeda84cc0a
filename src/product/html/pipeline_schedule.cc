#include "html/pipeline_schedule.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "cost/sharding_traffic.h"
#include "schedule/pipeline.h"

namespace nest::html {
namespace {

constexpr std::int64_t kRounds = 4;  // of p micro-batches that are always played
constexpr std::int64_t kFewestPlayed = 12;

std::vector<std::vector<ScheduleCell>> play_cells(const schedule::Pipeline& pipeline,
                                                  const std::vector<PassTimes>& stages) {
  const auto chunks = static_cast<double>(pipeline.shape().chunks);
  schedule::PipelineSeconds seconds;
  for (std::int64_t g = 0; g < pipeline.shape().positions(); ++g) {
    const schedule::Place& place = pipeline.place(g);
    const PassTimes& stage = stages[static_cast<std::size_t>(place.stage)];
    const PassTimes& time = stage.chunks.empty() ? stage : stage.chunks[static_cast<std::size_t>(place.chunk)];
    const double part = stage.chunks.empty() ? chunks : 1;
    seconds.chunks.push_back({time.forward_s / part, (time.backward_s - time.weight_s) / part, time.weight_s / part});
  }
  const schedule::PlayedPipeline played = schedule::play(pipeline, seconds);
  std::vector<std::vector<ScheduleCell>> cells(stages.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const schedule::Order& order = pipeline.orders()[s];
    for (std::size_t k = 0; k < order.size(); ++k) {
      const schedule::Span& span = played.stages[s][k];
      cells[s].push_back({span.begin_s, span.end_s, order[k].micro_batch, order[k].chunk, !order[k].is_forward(),
                          order[k].pass == schedule::Pass::weight_gradient});
    }
  }
  return cells;
}

}  // namespace

PassTimes pass_times(const StagePlan& stage) {
  const StageTime& time = stage.time;
  PassTimes pass;
  const double gathered_s = time.zero * cost::sharding_traffic(false)[at(cost::sharding_row(stage))].forward_share();
  pass.forward_s = time.forward + time.p2p / 2 + gathered_s;
  pass.backward_s = time.total - pass.forward_s;
  pass.weight_s = std::min(time.weight, pass.backward_s);
  for (const ChunkPlan& chunk : stage.chunks) {
    pass.chunks.push_back({chunk.forward_s, chunk.backward_s, chunk.weight_s, {}});
  }
  return pass;
}

PipelineSchedule play_schedule(Schedule kind, std::int64_t virtual_stages, const std::vector<PassTimes>& stages,
                               std::int64_t micro_batches, std::int64_t group) {
  NEST_CHECK(!stages.empty() && micro_batches > 0 && virtual_stages > 0, "there is something to schedule");
  const auto p = static_cast<std::int64_t>(stages.size());
  PipelineSchedule result;
  result.micro_batches = micro_batches;
  // Whole rounds are left out, so that the last one is as full as it is in truth.
  schedule::Shape shape{p, virtual_stages, micro_batches, group};
  const std::int64_t round = shape.grouped(), fewest = std::max(kRounds * round, kFewestPlayed);
  result.played = micro_batches;
  if (micro_batches > fewest + round) result.played = fewest + (micro_batches - fewest) % round;
  shape.micro_batches = result.played;
  double slowest_s = 0;
  for (const PassTimes& stage : stages) slowest_s = std::max(slowest_s, stage.forward_s + stage.backward_s);
  result.skipped_s = static_cast<double>(micro_batches - result.played) * slowest_s;
  result.stages = play_cells({kind, shape}, stages);
  for (const auto& stage : result.stages) result.played_s = std::max(result.played_s, stage.back().end_s);
  const auto& first = result.stages.front();
  const auto begins = std::find_if(first.begin(), first.end(), [](const ScheduleCell& cell) { return cell.backward; });
  const auto last = std::find_if(first.rbegin(), first.rend(), [](const ScheduleCell& cell) { return !cell.backward; });
  result.warm_up_s = begins->begin_s;
  result.drain_s = result.played_s - last->end_s;
  return result;
}

}  // namespace nest::html
