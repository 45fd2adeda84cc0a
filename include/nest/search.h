// The fastest plan that fits, the proof, and why not another way.
//
//   SearchOptions options;
//   options.set = {"tp=1..8", "zero=1"};
//   const Answer answer = find_plan(job, options);
//   std::cout << to_text(answer);                   // the plan, or what would make one fit
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "nest/job.h"
#include "nest/plan.h"
#include "nest/report.h"
#include "nest/sensitivity.h"

namespace nest {

enum class PlanObjective : std::uint8_t { time, device_hours };

// Whether state of the optimizer (in quarters) and what modules keep for backward may wait on the host, where the
// question says nothing of it:
//   needed  where nothing fits without
//   any     the fastest of all: it costs time, and what it frees may save more elsewhere
//   never
enum class OffloadSearch : std::uint8_t { needed, any, never };
inline constexpr std::array kOffloadWords = {Word<OffloadSearch>{OffloadSearch::needed, "needed"},
                                             Word<OffloadSearch>{OffloadSearch::any, "any"},
                                             Word<OffloadSearch>{OffloadSearch::never, "never"}};

struct PlanProgress {
  std::int64_t opened = 0;
  double best = std::numeric_limits<double>::infinity();  // seconds, or device-seconds
  double lower_bound = 0;                                 // in the same unit
  double elapsed_s = 0;
};

enum class PlanOutcome : std::uint8_t {
  optimal,  // proven
  limit,    // stopped early; plans, if any, are the best so far
  no_plan,  // proven that nothing fits
};

struct SearchOptions {
  std::vector<std::string> set = {};  // admits only some values: "tp=8", "pp=1..16", "zero=0,1", "recompute=none"
  std::string micro_batch = "auto";   // or sizes such as "1,2,4"
  std::string target = {};            // plans that a framework can run, one of plan_targets(); empty: that of the stack
  PlanObjective objective = PlanObjective::time;
  OffloadSearch offload = OffloadSearch::needed;
  PlanJudge judge = PlanJudge::simulation;
  std::int64_t max_devices = 0;             // 0: all of the cluster
  double most_step_s = 0;                   // plans that take longer are none; 0: all are
  double most_device_s = 0;                 // the same for seconds times devices spanned, of a step
  std::int64_t top = 1;                     // how many plans, each of another kind: tp, cp, ep, etp, pp or schedule
  double tie_percent = 0.5;                 // within so much of the proven optimum the simplest plan is taken
  std::int64_t threads = 0;                 // 0: one per core
  double time_limit_s = 0;                  // after which the best plan so far is taken; 0: none
  bool why = true;                          // search for what overruling each decision costs
  bool explain = true;                      // where nothing fits, search for what would
  bool larger = true;                       // of that, on more devices too, for some seconds
  const std::atomic<bool>* stop = nullptr;  // becomes true, from any thread or a signal handler: the search ends early
  std::function<void(const PlanProgress&)> progress = {};  // called by the searching thread
  // Likewise, with a plan that fits as soon as there is one, then whenever there is a better one or the bound has come
  // closer: a few times a second at most while it is searched. Its record says how far that has come: `lower_bound_s`
  // holds for every plan that is searched for, by the formula; `optimal` that the formula's search has ended;
  // `execution` that plans are being executed and this one was. What find_plan() returns does not depend on it, unless a
  // time limit ends the search: looking for plans to tell takes some of it.
  std::function<void(const Plan&)> incumbent = {};
};

// "any": all plans there are; "megatron", …: those that it runs.
std::vector<std::string> plan_targets();

// The question for plans of a target: priced with the target's usual stack, unless the question names one or its default
// is the target's own.
Question for_target(Question question, const std::string& target);

enum class WhyOutcome : std::uint8_t {
  slower,     // by `excess`
  no_plan,    // nothing fits
  unknown,    // not settled within the time limit: at least `excess`
  not_worse,  // an equally good plan exists
};

// The best plan when one decision of the chosen plan is overruled.
struct WhyNot {
  std::string name;  // "tensor 4", "no sequence parallelism", …
  WhyOutcome outcome = WhyOutcome::unknown;
  double excess = 0;         // of the objective, relative
  std::optional<Plan> plan;  // the best such plan, where one was found
  std::string reason;        // what else changes with it and where the time goes, or what does not fit
  double slower = 0;         // probability that a step by it takes longer; 0: there is no such plan
};

// What binds where nothing fits, and what would make it fit.
struct NoFit {
  double state_bytes = 0;  // weights, gradients and optimizer of the whole model
  struct Closest {
    Plan plan;                      // every option at its most frugal
    std::int64_t stage = 0;         // that lacks most
    std::int64_t needed_bytes = 0;  // there
  };
  std::optional<Closest> closest;  // nothing when not even one stage can be placed
  std::optional<Plan> larger;      // on more devices of the same kind, where that was found in time
  bool fewest = false;             // and it is known that on fewer hosts none fits
  struct Change {
    std::string name;  // "--optimizer adam8bit", "without limits"
    Plan plan;         // that fits then
  };
  std::vector<Change> changes;  // each alone admits a plan on the devices that there are
};

struct Answer {
  TrainingJob job;
  PlanOutcome outcome = PlanOutcome::limit;
  // The simplest of those within the tie, then the best of every other kind, each whole. Empty: none fits, or none was
  // found in time.
  std::vector<Plan> plans;
  std::vector<WhyNot> why_not;
  std::optional<NoFit> no_fit;
  std::optional<Sensitivity> sensitivity = {};  // where it was asked for (find_sensitivity)
};

// Throws InputError where the limits admit no plan at all, whatever its memory. "No plan fits" is an answer.
Answer find_plan(const TrainingJob& job, const SearchOptions& options = {});

// What more of every resource would buy (nest/sensitivity.h), by searches with these options; `percent` in 0.1 … 100. Nothing
// where no plan fits or none was found in time. Throws InputError.
std::optional<Sensitivity> find_sensitivity(const TrainingJob& job, const SearchOptions& options = {},
                                            double percent = 10);

// The plan, where it sits, the next best, why not another way, and the proof; or what would make one fit.
std::string to_text(const Answer& answer, const ReportOptions& options = {});
// The plan's file with evaluation, why_not and alternatives; or nest.no-plan/1.
std::string to_json(const Answer& answer, const ReportOptions& options = {});
// One page that needs nothing else: the plan with drawings, or what would make one fit.
std::string to_html(const Answer& answer, const ReportOptions& options = {});

}  // namespace nest
