// The time of a step as a closed form.
//
//     T = m tau + max(0, (S - tau) / v - E) + Y,     tau = max t_s,  S = sum t_s
//
// t_s is the time of stage s for one micro-batch, forward and backward, with what it waits for messages; m micro-batches,
// v chunks per stage, Y what happens once per step. The slowest stage sets the pace, and filling and draining the
// pipeline passes every other stage once, one chunk at a time. E is what orders fill of that which compute gradients of
// weights apart (filled.h), with the mean time of a stage's layers: 0 for all others, negative where an order that holds
// little waits more. It does not depend on the cut, so T rises with tau and with S, and T without the maximum bounds it.
//
// How it compares with the longest path T* through the orders (pipeline.h, messages part of t_s, Y = 0):
//     equal stages and chunks, v = 1 or p divides m        T* = T
//     equal stages and chunks, groups of g in p … m        T* = T, unless 0 < m mod g < p
//     1F1B whose last stage is the slowest                 T* = T
//     GPipe                                                T* = S + (m - 1)(max f_s + max b_s) >= T
//     stages of equal chunks, v = 1 or p divides m         max_k (m t_k + (t_0 + … + t_{k-1}) / v)
//                                                             <= T*, T <= (m + (p-1) / v)(max f_s + max b_s)
//     equal stages, gradients of weights apart             T* = T, if F, I and W have the shares that E was taken for
//     equal stages, a last group of fewer than p           T <= T* <= T with m rounded up to a multiple of p
// with f_s and b_s the forward and backward part of t_s.
// So it is neither a lower nor an upper bound of T* in general; the search minimises T.
#pragma once

#include <limits>

namespace nest::schedule {

// (S - tau) / v.
inline double fill_time(double chunks, double slowest_s, double sum_s) { return (sum_s - slowest_s) / chunks; }

inline double step_time(double micro_batches, double chunks, double slowest_s, double sum_s, double per_step_s = 0) {
  return micro_batches * slowest_s + fill_time(chunks, slowest_s, sum_s) + per_step_s;
}

// The largest tau for which m tau + (S - tau) / v stays within a limit, widened by a relative slack; infinite where tau
// does not matter (m = v = 1) and S is within the limit, negative where it is not.
inline double slowest_within(double micro_batches, double chunks, double sum_s, double limit_s, double slack) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (limit_s == kInfinity) return kInfinity;
  const double times = micro_batches * chunks - 1;
  if (times == 0) return sum_s <= limit_s * (1 + slack) ? kInfinity : -1;
  return (limit_s * chunks - sum_s) / times * (1 + slack);
}

}  // namespace nest::schedule
