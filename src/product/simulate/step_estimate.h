// What a step of a plan takes, without executing it: in one pass over its operations.
//
// Exchanges are priced by the links that they use (exchanges.h), alone on the network. A pass of c seconds of compute with
// state of which s_e is waited for and s_h travels beside it (ZeRO 2 and 3: every pass has its own), and tokens likewise, takes
//     s_e + max(t_e + max(c, t_h), s_h)
// and schedule/pipeline.h says when every pass runs. Stage s ends its passes at e_s; at h_s it has as much compute left as
// the hidden part of its gradients takes. So stages exchange one after the other, as their pipeline drains:
//     norm = max( max_s [ max(e_s, h_s + hidden) + exposed ],  busy periods of all links )
//     T    = max( max_s [ norm + optimizer_s + exposed gather ],  busy periods of the gathers ) + overhead
// with busy_period.h. Two estimates follow:
//     least_s     every class of replicas for itself, of its messages the fastest. No execution takes less: sharing makes
//                 nothing faster. (0 where operations run in pairs, which execution does not force.)
//     seconds     messages of all replicas at once, as they are sent in lockstep. An overlapped one that is longer than
//                 the pass it hides behind meets those of the other direction on the links that they share: with o / w
//                 of their work there over its own, it takes x + min(1, o / w) max(0, x - f).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cost/job.h"
#include "nest/plan.h"
#include "simulate/exchanges.h"

namespace nest::simulate {

struct StepEstimate {
  double seconds = 0;
  double least_s = 0;
};

class StepEstimator {
 public:
  // Of a sound plan. Throws InputError where it has more ranks than are looked at (lower.h). `known`: exchanges of other
  // plans of the job's cluster, to take and to leave them.
  StepEstimator(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
                ExchangeCache& known);
  ~StepEstimator();
  StepEstimator(const StepEstimator&) = delete;
  StepEstimator& operator=(const StepEstimator&) = delete;

  // With so many micro-batches per replica. Throws InputError where these are too many.
  StepEstimate of(std::int64_t micro_batches) const;

 private:
  class Parts;
  std::unique_ptr<const Parts> parts_;
};

}  // namespace nest::simulate
