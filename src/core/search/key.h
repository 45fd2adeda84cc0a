// A key: everything of a plan but where the layers are cut and what each stage does about memory.
#pragma once

#include <compare>
#include <cstdint>

namespace nest::search {

// Totally ordered; plans that take equally long are ranked by this order.
struct Key {
  int split = 0;        // index into PlanSpace::splits
  int micro_batch = 0;  // index into PlanSpace::micro_batches
  std::int64_t stages = 0;
  int schedule = 0;                 // index into PlanSpace::schedules
  std::int64_t replicas = 0;        // teams of replicas (Split::team): dp / team
  std::int64_t inner_replicas = 0;  // dp_inner / team
  std::int64_t pitch = 0;           // devices; stages * A when there is one pipeline only

  auto operator<=>(const Key&) const = default;
};

}  // namespace nest::search
