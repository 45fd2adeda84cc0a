// What failures cost a long training run, and how often to save its state.
//
// Devices fail independently, each after an exponential time of mean `device_mtbf_s`: of n devices one fails every
// M = device_mtbf_s / n seconds in the mean, and the run then goes back to the last state that was saved. Saving takes d
// seconds during which nothing is trained, coming back takes R (noticing, starting again, reading the state). To get tau
// seconds of training and save them takes, in the mean (Daly 2006, equation 13: failures may strike while state is saved
// and while the run comes back),
//
//   E(tau) = M e^(R/M) (e^((tau+d)/M) - 1)
//
// Goodput is tau / E(tau): of the time on the clock, the share that trains. It is largest at the tau with
//
//   tau/M = 1 - e^(-(tau+d)/M)        Young's sqrt(2 d M) where d is much smaller than M
//
// State is saved between steps: tau = k t, with the k = 1, 2, … that is best (E(k t) / k falls and then rises).
// The seconds that a step takes all told, E(k t) / k, grow with t and with n: of two plans one that is no slower on no more
// devices has no less goodput, and no more seconds.
//
// Not counted: failures that come together, silent errors, evaluation runs, and time that is planned.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "questions/fewest.h"

namespace nest::questions {

struct Reliability {
  double device_mtbf_s = 0;  // of one device
  double save_s = 0;         // that training stands still for every time the state is saved
  double restart_s = 0;      // from a failure to the first new step
};

struct SavingPlan {
  double system_mtbf_s = 0;     // of all devices together
  std::int64_t steps = 0;       // between two savings
  double interval_s = 0;        // of training between them
  double step_s = 0;            // all told
  double goodput = 0;           // 0 … 1
  double young_interval_s = 0;  // sqrt(2 d M), to compare
  // Of the time on the clock, the shares that go to saving, to what was trained and lost, and to coming back; with
  // goodput they add up to 1.
  double saving = 0, lost = 0, restarting = 0;
};

// tau that makes E(tau) / tau least, seconds. All must be positive.
double best_interval_s(double mtbf_s, double save_s);

// E(tau) above.
double expected_s(double mtbf_s, double save_s, double restart_s, double interval_s);

SavingPlan save_best(const Reliability& reliability, std::int64_t devices, double step_s);

// The longest restart_s with which goodput is still `goodput`; nothing where even none is too long.
std::optional<double> longest_restart_s(Reliability reliability, std::int64_t devices, double step_s, double goodput);

// The plan with the fewest seconds per step all told. `fastest(n, below_s)`: the fastest plan of at most n devices, where it
// takes less than that. Going down from `high`: what is not tried spans as many devices as a plan that was and is no
// faster, or takes longer than the best does all told.
std::optional<Corner> best_goodput(const Reliability& reliability, std::int64_t high,
                                   const std::function<std::optional<Corner>(std::int64_t, double)>& fastest);

// Spare nodes with which the chance that more are away at once is at most `risk`: nodes fail every node_mtbf_s, each is
// away for repair_s, so that the number away is Poisson of mean nodes · repair_s / node_mtbf_s.
std::int64_t spares_needed(std::int64_t nodes, double node_mtbf_s, double repair_s, double risk);

}  // namespace nest::questions
