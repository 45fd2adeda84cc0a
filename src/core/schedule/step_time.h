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
//
// What an execution takes at least is another law, by which no plan is priced and every plan is bounded. With t_s made of
// exchanges that are alone on the network:
//     any order                         T >= m tau                           the slowest stage works so long
//     gradients in one pass             T >= S + D                           one micro-batch, there and back
//     ... v = 1, m > p                  T >= (m - p - 1) tau + 2 S
//     ... in turns of p, or v = 1       T >= (m - (1 + r (1 - g)) / v) tau + (S - r g W) / v + E
// The third: with F_u and B_u the passes of stage u and k the slowest stage, the path to stage k, one micro-batch from there
// to the last stage and back in the place of as many forwards of k, another one in the place of as many backwards, and m
// slots of k takes  sum_{u<k} t_u + m t_k + sum_{u>k} (t_u - F_k) + sum_{u>k} (t_u - B_k)  >=  (m - p - 1) tau + 2 S.
// The last: only the first one, its last chunk where there are several; instead of r forwards of one chunk, 2 (p - 1 - k) of
// them where m >= 2p and p divides m, m - 1 or p - 1 at most where m <= p. Backwards take g of t_k, W of it apart, at least.
// D and E: messages on these ways that t_s does not count (cost/messages.h). All but the first end on the first stage, which
// then exchanges its gradients: r_0 more. Where the gradients of the first k stages leave through one uplink, v = 1, they are
// all on their way once stage k - 1 has ended, and the uplink works for their sum R:
//     T >= (m - p - 1) tau + 2 sum_{s >= k - 1} t_s + sum_{s < k - 1} t_s + R,       T >= sum_{s >= k - 1} t_s + R + D
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace nest::schedule {

// By which times are priced: as what is expected, or as what an execution (simulate/engine.h) takes at least.
enum class Law : std::uint8_t { formula, least };

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

// What m micro-batches in a pipeline of p stages take by a law, Y apart.
struct StepForm {
  Law law = Law::formula;
  double micro_batches = 1, chunks = 1, stages = 1;
  bool split = false;   // gradients of weights are computed apart
  double filled_s = 0;  // E of the formula
  // All that follows is the least law's. Of 2 S, what the first and the last micro-batch take less than two mean ones; of S,
  // the first alone.
  double short_s = 0, first_short_s = 0;
  bool in_turns = false;               // several chunks, in turns of p micro-batches, and p divides m
  double way_s = 0, end_s = 0;         // D, E
  double back_share = 0, waits_s = 0;  // g, W
  double together = 1;                 // k

  // T, and T without the maximum with m tau: both rise with tau and with S.
  double value(double slowest_s, double sum_s) const {
    const double low = this->low(slowest_s, sum_s);
    return filled_s == 0 ? low : std::max(micro_batches * slowest_s, low);
  }
  double low(double slowest_s, double sum_s) const {
    if (law == Law::formula) return step_time(micro_batches, chunks, slowest_s, sum_s) - filled_s;
    const double busy_s = micro_batches * slowest_s;
    if (split) return busy_s;
    if (fills()) return std::max(busy_s, filling() * slowest_s + ends_of(sum_s));
    const double first_s = turns() ? half_filling() * slowest_s + end_of(sum_s) : 0;
    return std::max({busy_s, first_s, is_long() ? 0 : sum_s + way_s});  // which is less there
  }
  // The largest tau with low(tau, S) within a limit, widened by a relative slack; negative where there is none.
  double slowest_within(double sum_s, double limit_s, double slack) const {
    if (law == Law::formula) {
      return schedule::slowest_within(micro_batches, chunks, sum_s, limit_s + filled_s, slack);
    }
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (limit_s == kInfinity) return kInfinity;
    const double most_s = limit_s * (1 + slack);
    const double slowest_s = most_s / micro_batches;
    if (split) return slowest_s;
    if (!fills() && !is_long() && sum_s + way_s > most_s) return -1;
    if (!fills() && !turns()) return slowest_s;
    const double left_s = most_s - (fills() ? ends_of(sum_s) : end_of(sum_s));
    const double times = fills() ? filling() : half_filling();
    if (times <= 0) return left_s < 0 ? -1 : slowest_s;
    return std::min(slowest_s, left_s / times);
  }

  // S is made of so much of t_s and of what stage s does after its passes.
  double share_of_passes(double stage) const { return stage >= together - 1 ? 1 : fills() ? 0.5 : 0; }
  double share_of_rest(double stage) const {
    if (law == Law::formula || split || stage >= together) return 0;
    return fills() ? 0.5 : is_long() ? chunks : 1;
  }

 private:
  bool fills() const { return chunks == 1 && micro_batches > stages; }
  // Backwards of stage k that follow are not on the way to the end of a later stage.
  bool turns() const { return chunks == 1 ? together == 1 : in_turns; }
  bool is_long() const { return in_turns && micro_batches >= 2 * stages; }
  double filling() const { return micro_batches - stages - 1; }
  double ends_of(double sum_s) const { return 2 * sum_s - short_s; }
  double replaced() const { return is_long() ? 2 * (stages - 1) : std::min(stages, micro_batches) - 1; }
  double half_filling() const { return micro_batches - (1 + replaced() * (1 - back_share)) / chunks; }
  double end_of(double sum_s) const {
    return (sum_s - first_short_s - replaced() * back_share * waits_s) / chunks + end_s;
  }
};

}  // namespace nest::schedule
