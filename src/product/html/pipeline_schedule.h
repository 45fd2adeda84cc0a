// When every stage runs which micro-batch: the schedule that a framework executes, played through with the stages'
// times.
//
// Stage s computes a micro-batch forward in f_s and backward in b_s seconds, a chunk of an interleaved stage in f_s/v
// and b_s/v; messages are part of them. The orders and who waits for whom are those of schedule/.
//
// Of many micro-batches the middle ones repeat: beyond a few rounds they are left out, and counted at the pace of the
// slowest stage.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace nest::html {

struct PassTimes {  // seconds, one micro-batch on one stage
  double forward_s = 0;
  double backward_s = 0;
  double weight_s = 0;                 // of it, weight gradients that are computed apart
  std::vector<PassTimes> chunks = {};  // where they are listed; else they are equal parts
};

struct ScheduleCell {
  double begin_s = 0;
  double end_s = 0;
  std::int64_t micro_batch = 0;
  std::int64_t chunk = 0;
  bool backward = false;
  bool weights = false;  // gradients of weights alone
};

struct PipelineSchedule {
  std::vector<std::vector<ScheduleCell>> stages;  // of the micro-batches played, in order of time
  std::int64_t micro_batches = 0;
  std::int64_t played = 0;  // of them
  double played_s = 0;      // until the last cell ends
  double skipped_s = 0;     // what the others take
  double warm_up_s = 0;     // until the first stage has its first gradient
  double drain_s = 0;       // from the first stage's last forward to the end

  double total_s() const { return played_s + skipped_s; }
};

// How one micro-batch's time on a stage divides: messages half and half, gathered weights a third forward.
PassTimes pass_times(const StagePlan& stage);

// `group`: micro-batches that pass a chunk before the next one's turn; 0: as many as stages.
PipelineSchedule play_schedule(Schedule kind, std::int64_t virtual_stages, const std::vector<PassTimes>& stages,
                               std::int64_t micro_batches, std::int64_t group = 0);

}  // namespace nest::html
