// What failures make of a plan: how often to save its state, how much of the time trains, and how to go on with fewer
// nodes.
//
//   FailureOptions failures;
//   failures.device_mtbf_s = 50'000 * 3600.0;
//   failures.storage_bytes_per_s = 2e12;
//   const FailureAnswer answer = plan_with_failures(job, failures, options);
//   std::cout << to_text(answer);
//
// The mathematics is Daly's (questions/goodput.h): exponential failures, state that is saved every k steps, a run that
// goes back to what was saved last. What is saved are the trained weights and the optimizer's state, as the plan's job has
// them (cost::state_bytes); the devices write it together, at the rate that the storage takes.
// Smaller plans are the fastest of the same job, its global batch included, on the first nodes of the same cluster; what
// must move to get there follows from the place of every rank in both plans (door/state_layout.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nest/job.h"
#include "nest/report.h"
#include "nest/search.h"

namespace nest {

struct FailureOptions {
  double device_mtbf_s = 0;        // mean time between failures of one device
  double storage_bytes_per_s = 0;  // that all devices together write and read state at
  double restart_s = 600;          // from a failure to reading the state: noticing it, starting again
  double repair_s = 0;             // that a failed node is away; 0: spares are not asked for
  double spare_risk = 0.01;        // that more nodes are away than there are spares
  std::int64_t lost_nodes = 0;     // plans for 1 … so many nodes less
  bool best_goodput = false;       // not the fastest plan, but the one that trains most with failures counted
};

// The fastest plan with some nodes less.
struct SmallerPlan {
  std::int64_t lost_nodes = 0;
  std::int64_t devices = 0;        // that are left
  Plan plan;                       // empty stages: nothing fits
  double moved_bytes = 0;          // that devices receive, all together
  double from_storage_bytes = 0;   // of that, what only the saved state still has
  double most_received_bytes = 0;  // by one device
  double move_s = 0;               // at the rate of the network's slowest level and of the storage
};

struct FailureAnswer {
  FailureOptions options;
  Answer answer;  // the plan; without one there is nothing below
  double state_bytes = 0;
  double save_s = 0;                            // and to read it again
  double restart_s = 0;                         // with reading the state
  double system_mtbf_s = 0;                     // of the plan's devices
  std::int64_t steps = 0;                       // between savings
  double interval_s = 0;                        // of training
  double young_interval_s = 0;                  // sqrt(2 save_s system_mtbf_s), to compare
  double goodput = 0;                           // of the time, what trains
  double saving = 0, lost = 0, restarting = 0;  // and where the rest goes
  double step_s = 0;                            // all told
  double restart_for_90_s = 0;                  // the longest restart (reading included) that leaves 90 %; 0: none does
  std::int64_t nodes = 0;                       // that the plan is on; 0: the cluster has none
  std::int64_t spares = 0;
  std::int64_t searches = 1;
  std::vector<SmallerPlan> smaller = {};
};

// "50000h", "6000h/node", "50000h/device" -> of one device, where a node has so many. Throws InputError.
double parse_mtbf(std::string_view text, std::int64_t devices_per_node);

// Throws InputError.
FailureAnswer plan_with_failures(const TrainingJob& job, const FailureOptions& failures,
                                 const SearchOptions& options = {});

std::string to_text(const FailureAnswer& answer, const ReportOptions& options = {});
std::string to_json(const FailureAnswer& answer, const ReportOptions& options = {});  // the plan's, with `failures`
std::string to_html(const FailureAnswer& answer, const ReportOptions& options = {});

}  // namespace nest
