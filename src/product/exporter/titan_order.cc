#include "exporter/titan_order.h"

#include <fmt/format.h>

#include <vector>

#include "plan/pipeline_shape.h"
#include "schedule/pipeline.h"

namespace nest::exporter {

std::string titan_order(const Strategy& strategy, std::int64_t global_batch) {
  const schedule::Pipeline pipeline(strategy.schedule, plan::pipeline_shape(strategy, global_batch));
  std::string text;
  for (std::int64_t rank = 0; rank < strategy.pp; ++rank) {
    std::vector<std::string> actions;
    actions.reserve(pipeline.order(rank).size());
    for (const schedule::Operation& operation : pipeline.order(rank)) {
      actions.push_back(fmt::format("{}{}{}", pipeline.position(rank, operation.chunk),
                                    schedule::letter(operation.pass), operation.micro_batch));
    }
    text += fmt::format("{}\n", fmt::join(actions, ","));
  }
  return text;
}

}  // namespace nest::exporter
