// How much of a pipeline's bubble an order fills that computes gradients of weights apart.
//
// With f, i, w what F, I and W of a whole stage take, t = f + i + w, in a pipeline of equal stages and chunks, and T* the
// longest path through its orders (pipeline.h):
//
//     filled = m t + (p - 1) t / v - T*(p, v, m; f, i, w)
//
// so that the closed form of step_time.h less `filled` is exact there. From m = 2p on it does not depend on m, but for
// v-half and v-min, whose order costs time in every round when F, I and W are not equally long. With m >= 2p
//     zb-h1                     T* = m t + (p - 1) max(f, f + i - w)
//     zbv,        f = i = w     T* = m t + (p - 1) f / 2
//     dualpipev,  f = i = w     T* = m t + (p - 1) (f + 2 i - w) / 2
// Shares are rounded to 1/512: pipelines of similar layers then share their answer.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "schedule/pipeline.h"
#include "schedule/rules.h"

namespace nest::schedule {

// Of the time of a stage, in 512ths. The gradients of inputs take the rest.
struct PassShares {
  int forward = 171, weight = 170;

  bool operator==(const PassShares&) const = default;
};
PassShares shares_of(const PassSeconds& stage);

// In units of t; 0 for schedules that compute both gradients in one, and without a pipeline. The shape must not be
// refused (rules.h).
double filled_share(Schedule kind, const Shape& shape, const PassShares& shares);

// The same, remembered. One per thread.
class FilledShares {
 public:
  double of(Schedule kind, const Shape& shape, const PassShares& shares);

 private:
  std::map<std::tuple<Schedule, std::int64_t, std::int64_t, int, int>, double> known_;
};

}  // namespace nest::schedule
