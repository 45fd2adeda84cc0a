#include "check/chunk_order.h"

#include <algorithm>
#include <numeric>

#include "plan/pipeline_shape.h"
#include "schedule/pipeline.h"

namespace nest::check {
namespace {

std::int64_t group_of(const Strategy& s) { return s.group > 0 ? s.group : s.pp; }

// Of an interleaved stage, when its first backward begins.
std::int64_t chunks_held(const Strategy& s, std::int64_t stage, std::int64_t micro_batches) {
  const std::int64_t v = s.virtual_stages;
  return std::min(2 * (s.pp - stage - 1) + (v - 1) * group_of(s) + 1, micro_batches * v);
}

}  // namespace

bool is_v(Schedule schedule) {
  return schedule == Schedule::zbv || schedule == Schedule::v_half || schedule == Schedule::v_min ||
         schedule == Schedule::dualpipev;
}

std::vector<PlacedRun> runs_in_order(const Plan& plan) {
  struct Placed {
    std::size_t position;
    PlacedRun run;
  };
  std::vector<Placed> placed;
  const std::size_t p = plan.stages.size();
  for (std::size_t s = 0; s < p; ++s) {
    std::size_t c = 0;
    for (const ChunkPlan& run : plan::runs_of(plan.stages[s])) {
      placed.push_back({is_v(plan.strategy.schedule) && c > 0 ? 2 * p - 1 - s : c * p + s, {s, run}});
      ++c;
    }
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const Placed& a, const Placed& b) { return a.position < b.position; });
  std::vector<PlacedRun> runs;
  runs.reserve(placed.size());
  for (const Placed& one : placed) runs.push_back(one.run);
  return runs;
}

double in_flight(const Plan& plan, std::int64_t stage) {
  const Strategy& s = plan.strategy;
  if (s.pp == 1) return 1;
  const std::int64_t m = micro_batches(s, plan.run.global_batch);
  if (s.schedule == Schedule::gpipe) return static_cast<double>(m);
  const auto halves = [m](std::int64_t held) { return static_cast<double>(std::min(held, 2 * m)) / 2; };
  switch (s.schedule) {
    case Schedule::zb_h1: return static_cast<double>(std::min(s.pp, m));
    case Schedule::zbv: return halves(std::min(2 * s.pp, m + stage + 1));
    // What is built step by step has a cap and no closed form: both chunks of a micro-batch are held at once.
    case Schedule::v_half:
    case Schedule::v_min: return 1;
    case Schedule::dualpipev: return halves(2 * s.pp + 1);
    default: break;
  }
  if (s.virtual_stages == 1) return static_cast<double>(std::min(s.pp - stage, m));
  return static_cast<double>(chunks_held(s, stage, m)) / static_cast<double>(s.virtual_stages);
}

double held_bytes(const Plan& plan, std::int64_t stage, const std::vector<double>& kept) {
  const Strategy& s = plan.strategy;
  if (kept.size() == 1) return in_flight(plan, stage) * kept.front();
  if (is_v(s.schedule)) return std::accumulate(kept.begin(), kept.end(), 0.0);
  const std::int64_t m = micro_batches(s, plan.run.global_batch), g = group_of(s), v = s.virtual_stages;
  const auto last = static_cast<std::int64_t>(kept.size()) - 1;
  double bytes = 0;
  for (std::int64_t k = 0; k < chunks_held(s, stage, m); ++k) {
    const std::int64_t round = k / (g * v), size = std::min(g, m - round * g);
    bytes += kept[static_cast<std::size_t>(std::min(last, (k - round * g * v) / size))];
  }
  return bytes;
}

double played_s(const Plan& plan) {
  const schedule::Pipeline pipeline(plan.strategy.schedule, plan::pipeline_shape(plan.strategy, plan.run.global_batch));
  schedule::PipelineSeconds seconds;
  for (std::int64_t g = 0; g < pipeline.shape().positions(); ++g) {
    const schedule::Place& place = pipeline.place(g);
    const StagePlan& stage = plan.stages[static_cast<std::size_t>(place.stage)];
    const ChunkPlan& chunk = stage.chunks[static_cast<std::size_t>(place.chunk)];
    seconds.chunks.push_back({chunk.forward_s, std::max(0.0, chunk.backward_s - chunk.weight_s), chunk.weight_s});
  }
  return schedule::play(pipeline, seconds).total_s;
}

}  // namespace nest::check
