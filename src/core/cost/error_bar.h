// The spread of a predicted step time (nest/interval.h): s² = Σ (coefficient · share)² over the terms below. Shares of
// the step come from its breakdown; the others are 1 where they hold, and 0 elsewhere. Coefficients were fitted to
// published runs (maximum likelihood, `make accuracy`, which prints how many runs the intervals cover when their source
// is left out of the fit) and rounded.
#pragma once

#include <array>
#include <string>

#include "cost/job.h"
#include "nest/plan.h"

namespace nest::cost {

struct ErrorTerm {
  const char* key;
  const char* says;
  double coefficient;
  bool of_the_site;  // the same for every plan of a job: two plans' difference does not have it
};

inline constexpr std::array kErrorTerms = {
    ErrorTerm{"always", "every prediction", 0.036, true},
    ErrorTerm{"tp", "share of exposed tensor-parallel collectives", 0.20, false},
    ErrorTerm{"ep", "share of exposed expert-parallel collectives", 0.10, false},
    ErrorTerm{"data", "share of exposed gradient and weight collectives", 0.20, false},
    ErrorTerm{"pipeline", "share of the pipeline's bubble and messages", 0.08, false},
    ErrorTerm{"scale", "doublings of the devices from 512 on", 0.01, true},
    ErrorTerm{"experts", "mixtures of experts", 0.08, true},
    ErrorTerm{"assumed", "published runs that do not say recomputation, micro-batch or ZeRO", 0.10, true},
    ErrorTerm{"unmeasured", "a device or a stack that no measured run was compared with", 0.15, true}};
using ErrorShares = std::array<double, kErrorTerms.size()>;

struct Circumstances {
  double devices = 1;
  bool experts = false;
  bool assumed = false;
  bool unmeasured = false;
};

ErrorShares error_shares(const Prediction& prediction, const Circumstances& circumstances);
double spread_of(const ErrorShares& shares);

// What two predictions have in common. An error that both have cancels in their ratio as far as their shares are equal:
//     variance of log(b / a) = 0.035² + Σ coefficient² · d,   d = (a - b)² of shares whose error is common, a² + b² of others.
// Terms of the site are common where devices and software are the same; the others where the network is, too.
struct Common {
  bool machine = true;  // kind of device, and stack
  bool network = true;
};

// That a step by `a` is the faster one, where b takes `times` as long.
double probability_faster(const ErrorShares& a, const ErrorShares& b, double times, const Common& common);

// Why the job has the term `unmeasured`, for the first lines of an answer; empty where it has not.
std::string not_calibrated(const Job& job);
double spread_of(const Job& job, const Strategy& strategy, const Prediction& prediction);
// The shares of a step that is no published run.
ErrorShares error_shares(const Job& job, const Strategy& strategy, const Prediction& prediction);

}  // namespace nest::cost
