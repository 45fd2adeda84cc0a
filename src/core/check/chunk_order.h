// What the judge says of the order of passes: where chunks are in the chain, what is held, how long it takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace nest::check {

bool is_v(Schedule schedule);

struct PlacedRun {
  std::size_t stage = 0;
  ChunkPlan run;
};

// The runs of layers of all stages, in the order of the model if all is well: chunk c of stage s is at c p + s, in a V
// at s and 2p - 1 - s.
std::vector<PlacedRun> runs_in_order(const Plan& plan);

// Micro-batches that a stage holds at once, in units of its whole activations.
double in_flight(const Plan& plan, std::int64_t stage);

// Of what the runs of a stage keep per micro-batch, bytes that are held at once. Listed chunks: when the first backward
// begins, the forwards before it have passed in groups of g, chunk by chunk; of a V, all chunks of one micro-batch.
double held_bytes(const Plan& plan, std::int64_t stage, const std::vector<double>& kept);

// Until the last pass ends, the chunks' times as claimed.
double played_s(const Plan& plan);

}  // namespace nest::check
