// What every rival ends with: its choice, admitted by the request, priced on the job's own network and judged.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/index.h"
#include "rivals/rival.h"
#include "search/space.h"

namespace nest::rivals {

// Seconds since it was made, and whether they are more than were granted.
class Deadline {
 public:
  explicit Deadline(const RivalRequest& request)
      : limit_s_(request.time_limit_s), stop_(request.stop), start_(Clock::now()) {}

  double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool is_over() const {
    return (limit_s_ > 0 && elapsed_s() > limit_s_) || (stop_ != nullptr && stop_->load(std::memory_order_relaxed));
  }

 private:
  using Clock = std::chrono::steady_clock;
  double limit_s_;  // 0: none
  const std::atomic<bool>* stop_;
  Clock::time_point start_;
};

// Devices of a node; the usual 8 where the network has none.
std::int64_t usual_node(const cluster::Cluster& cluster);

// Devices that the request admits.
// What the request admits of what rivals know: they recompute layers as a whole, by the stack's habit, or not.
inline plan::PlanLimits published_limits(const RivalRequest& request) {
  plan::PlanLimits limits = request.limits;
  for (const Recompute later : {Recompute::modules, Recompute::block, Recompute::uniform}) {
    limits.recompute[at(later)] = false;
  }
  return limits;
}

inline std::int64_t device_limit(const RivalRequest& request) {
  return search::device_limit(*request.job, request.most_devices);
}

inline constexpr const char* kStopped = "stopped by the time limit";

// The strategy as a key of the space; nothing when the limits, the batch or the devices do not admit it. With one stage
// every tight grouping of the replicas is the same placement, and stands for the one that the space knows.
std::optional<search::Key> key_of(const search::PlanSpace& space, const Strategy& strategy);

// Whether the space holds these stages of an admitted strategy: cuts that chunks can realise, options that the limits
// admit.
bool admits_stages(const search::PlanSpace& space, const Strategy& strategy, const std::vector<StagePlan>& stages);

// The fastest of what it was offered.
class BestPlan {
 public:
  explicit BestPlan(const search::PlanSpace& space) : space_(&space) {}

  // True when the plan is sound, admitted, fits, and was faster than all before.
  bool offer(Strategy strategy, const std::vector<StagePlan>& stages);
  // Everything that another one of the same space was offered.
  void take(const BestPlan& other);

  bool is_empty() const { return !plan_; }
  double time_s() const { return plan_->prediction.iteration_s; }  // of a plan that is there
  // The plan, judged (search/judge.h). A judge that does not accept it throws. A search that was stopped says so
  // instead of the note.
  RivalAnswer answer(const RivalRequest& request, std::int64_t considered, double wall_s, bool stopped,
                     std::string note = {}) const;

 private:
  const search::PlanSpace* space_;
  std::optional<Plan> plan_;
  std::string misfit_;             // of what was offered and did not fit, what came closest lacks
  std::int64_t needed_bytes_ = 0;  // by that
};

}  // namespace nest::rivals
