// The other way round: not "how fast is it on these devices" but "what does it take to be done by then, for that much".
//
//   Demand demand;
//   demand.tokens = 15e12;
//   demand.deadline_s = 30 * 86400.0;
//   const DemandAnswer answer = meet_demand(question, demand);
//   std::cout << to_text(answer);                   // the fewest devices and their plan, or what could be had instead
//
// Every plan (of s devices, from the first to the last one used, t seconds per step) is looked at as the search does it, and
// with n = ceil(tokens / tokens per step) steps
//
//   aim      is made least     among plans with
//   devices  s                 n t <= deadline, n t s <= budget / price
//   cost     s t               the same
//   time     t                 the same
//
// exactly, by the formula of the search. A plan that uses s devices is a plan for every larger part of the same cluster,
// at the same price (idle devices cost no time): the time of the fastest plan on at most s devices does not increase with
// s, and the fewest devices are found by bisection (questions/fewest.h); the other two are one search each, under a
// ceiling (search/best_first.h). Where the plan that is told takes longer when it is executed (nest/simulate.h), and so
// misses the demand, the formula is held to so much less until what is told meets it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nest/job.h"
#include "nest/report.h"
#include "nest/search.h"

namespace nest {

enum class DemandAim : std::uint8_t { devices, cost, time };
inline constexpr std::array kAimWords = {Word<DemandAim>{DemandAim::devices, "devices"},
                                         Word<DemandAim>{DemandAim::cost, "cost"},
                                         Word<DemandAim>{DemandAim::time, "time"}};

const char* to_string(DemandAim aim);

struct Demand {
  double tokens = 0;                 // to train on in all
  double deadline_s = 0;             // by when; 0: none
  double budget = 0;                 // for how much; 0: none
  double price_per_device_hour = 0;  // 0: what the cluster's file says
  DemandAim aim = DemandAim::devices;

  bool is_made() const { return deadline_s != 0 || budget != 0; }
};

// One search over all plans of at most so many devices.
struct DemandTry {
  std::int64_t devices = 0;
  std::int64_t used = 0;  // by its plan; 0: there is none that meets the demand
  double step_s = 0;
};

struct DemandAnswer {
  Demand demand;                   // with the price that counts
  TrainingJob job;                 // on the whole of the cluster that was allowed
  double steps = 0;                // of the optimizer, for all tokens
  std::int64_t most_devices = 0;   // that were allowed
  std::int64_t least_devices = 1;  // fewer cannot meet it at the peak of their arithmetic, or hold the model's state
  // optimal: proven; limit: stopped early; no_plan: it cannot be met; the last where formula_devices is 0, else it was not found
  PlanOutcome outcome = PlanOutcome::limit;
  std::int64_t devices = 0;          // that it takes
  std::optional<Answer> answer;      // the plan of at most so many
  std::vector<DemandTry> tries;      // in their order; every one is a search
  std::int64_t formula_devices = 0;  // by the formula alone, where execution asks for others; 0: the same
  // Where it cannot be met:
  std::optional<Answer> nearest;  // the fastest plan of all, or the cheapest where the budget alone is too small
  std::optional<Plan> larger;     // on more devices, that meets it; where that was found in time
};

// "30d" of deadlines is a duration (nest/text.h). "$1M", "1.5e6", "250K" -> an amount of money. Throws InputError.
double parse_money(std::string_view text);

// `question.devices` is the most that may be used; 0: all of the cluster, and where that is a preset as many times as
// many (2, 4 …) as it takes. Of `options`, objective and step limits are the demand's own. Throws InputError.
DemandAnswer meet_demand(const Question& question, const Demand& demand, const SearchOptions& options = {});

std::string to_text(const DemandAnswer& answer, const ReportOptions& options = {});
// The plan's file with evaluation, why_not and `demand`; or nest.no-plan/1 with `demand`.
std::string to_json(const DemandAnswer& answer, const ReportOptions& options = {});
// The plan's page with a section of its own. There must be a plan.
std::string to_html(const DemandAnswer& answer, const ReportOptions& options = {});

}  // namespace nest
