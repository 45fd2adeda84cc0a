#include "simulate/schedule.h"

#include <algorithm>

#include "base/checked.h"

namespace nest {
namespace {

std::int64_t forwards_ahead(const Strategy& strategy, std::int64_t total, std::int64_t stage) {
  if (strategy.schedule == Schedule::gpipe) return total;
  const std::int64_t behind = strategy.pp - 1 - stage;
  if (strategy.virtual_stages == 1) return std::min(behind, total);
  return std::min(2 * behind + (strategy.virtual_stages - 1) * strategy.pp, total);
}

}  // namespace

std::vector<PipelineStep> stage_order(const Strategy& strategy, std::int64_t micro_batches, std::int64_t stage) {
  const std::int64_t chunks = strategy.virtual_stages;
  // Groups are counted as full: an order in which stages wait for each other in turn could result otherwise. Steps of
  // micro-batches that are not there are left out, which keeps the order of all others.
  const std::int64_t counted = chunks > 1 ? round_up(micro_batches, strategy.pp) : micro_batches;
  std::vector<PipelineStep> forwards;
  std::vector<PipelineStep> backwards;
  for (std::int64_t first = 0; first < counted; first += strategy.pp) {
    const std::int64_t end = std::min(first + strategy.pp, counted);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (std::int64_t i = first; i < end; ++i) {
        forwards.push_back({false, static_cast<std::int32_t>(i), static_cast<std::int32_t>(chunk)});
        backwards.push_back({true, static_cast<std::int32_t>(i), static_cast<std::int32_t>(chunks - 1 - chunk)});
      }
    }
  }
  const auto total = static_cast<std::int64_t>(forwards.size());
  const std::int64_t ahead = forwards_ahead(strategy, total, stage);
  std::vector<PipelineStep> order(forwards.begin(), forwards.begin() + ahead);
  for (std::int64_t i = 0; i < total; ++i) {
    if (ahead + i < total) order.push_back(forwards[static_cast<std::size_t>(ahead + i)]);
    order.push_back(backwards[static_cast<std::size_t>(i)]);
  }
  std::erase_if(order, [&](const PipelineStep& step) { return step.micro_batch >= micro_batches; });
  return order;
}

}  // namespace nest
