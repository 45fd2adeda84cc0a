// How sure a prediction is.
//
// log(measured / predicted) is taken as s·T, where T follows Student's t with four degrees of freedom (its tails are
// those of published runs: a few are far off) and s, the spread, follows from what the prediction is made of
// (cost/error_bar.h). The x % interval of a predicted value is value · exp(± t(x) s).
#pragma once

#include <string>

#include "nest/plan.h"

namespace nest {

struct Interval {
  double low = 0;
  double high = 0;
};

inline constexpr double kToldShare = 0.8;  // of the outcomes, inside the intervals that nest tells

double student4_probability(double t);         // P(T <= t)
double student4_quantile(double probability);  // its inverse; 0 < probability < 1

Interval interval(double value, double spread, double share = kToldShare);
// The upper end over the value, less 1: the "6 %" of "7.43 s ± 6 %".
double half_width(double spread, double share = kToldShare);
// "± 6 %"; empty where nothing is known of the spread.
std::string sureness(double spread);

// That a step by `a` is the faster one, both for the same job on the same site: what makes both slow or fast alike
// cancels.
double probability_faster(const Prediction& a, const Prediction& b);
// The same where steps by b take `times` those by a when they are executed.
double probability_faster(const Prediction& a, const Prediction& b, double times);

// "86 %", "> 99 %": nothing is certain.
std::string sure_text(double probability);

// That what is predicted to take `bytes` takes more than `room`.
double probability_out_of_memory(double bytes, double room, double spread);
// The margin that leaves a stage this probability of running out of memory.
double margin_for_risk(double probability, double spread);

}  // namespace nest
