// The time of stages that list their chunks, chunk by chunk, and of the step that follows from the order in which they
// run (schedule/pipeline.h): chunks of any sizes and kinds, empty ones too.
//
// Position g of the chain of chunks takes for one micro-batch
//     forward    its layers' forward time + the message from position g - 1
//     backward   its layers' backward time + what it recomputes + the message from position g + 1
// and a share of what its stage waits for sharded weights, by parameters. A message counts as far as the stack exposes
// it; none travels between two chunks of one stage. With these times
//     T = longest path through the orders + max y_s
// which is m max t_s + (sum t_s - max t_s) / v + max y_s where all chunks take the same time (step_time.h).
#pragma once

#include <vector>

#include "cost/messages.h"
#include "cost/tables.h"

namespace nest::cost {

class ChunkTimes {
 public:
  // The stages list their chunks. All must outlive it.
  ChunkTimes(const Job& job, const Strategy& strategy, const PriceTable& table, const std::vector<StagePlan>& stages);

  // By link between positions k and k + 1: bytes that every device sends, in one message.
  const std::vector<double>& link_bytes() const { return link_bytes_; }
  // What a stage waits for per micro-batch.
  double waits_s(std::int64_t stage) const;
  // Of the layers of each chunk of a stage alone.
  std::vector<schedule::PassSeconds> compute(std::int64_t stage, double alone) const;
  // Of the parameters of a stage, what each chunk has.
  std::vector<double> parameter_shares(std::int64_t stage) const;
  // The chunks of a stage with their times. `alone` as alone_share(), `sharding_s` what it waits for sharded weights.
  std::vector<ChunkPlan> price(std::int64_t stage, double alone, double sharding_s) const;

 private:
  double wait_s(std::int64_t position, bool forward) const;
  double head_s(std::int64_t stage, std::size_t chunk) const;  // of its head gradients, what does not wait

  const Job& job_;
  const Strategy& strategy_;
  const PriceTable& table_;
  const std::vector<StagePlan>& stages_;
  schedule::Chain chain_;
  SyncRule rule_;
  std::vector<double> link_bytes_, link_s_;
};

// Until the last pass of priced stages ends.
double played_s(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages);

}  // namespace nest::cost
