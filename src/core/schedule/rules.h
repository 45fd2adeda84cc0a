// The schedules there are. A schedule is a rule by which every stage orders its operations; all else follows from the
// orders (pipeline.h) or is a closed form of what would follow (held here, step_time.h).
//
// With p stages, v chunks per stage, m micro-batches, s a stage and w the forwards before its first backward:
//
//     1f1b          w = min(p-1-s, m):                  F^w, then F B in turn, then B^w
//     interleaved   w = min(2(p-1-s) + (v-1) g, m v):   the same; groups of g micro-batches pass chunk 0, then chunk 1, …,
//                                                       backward chunk v-1 first
//     gpipe         w = m:                              F^m B^m
//     zb-h1         as 1f1b with I for B; stage s lets s of its W wait, then runs one after every I (Qi et al. 2023)
//     zbv           two chunks in a V, I and W apart, a third of 1f1b's bubble (Qi et al. 2023, in PyTorch's order)
//     v-half        the same V within p + 2 chunks, about half of what 1f1b holds; built step by step (Qi et al. 2024)
//     v-min         within 2 ceil(p/3) + 1 chunks
//     dualpipev     the same V, forwards and backwards in pairs; m >= 2p (DeepSeek 2025)
//
// Without a pipeline (p = 1, v = 1) micro-batches follow each other under any of them: F B F B …
//
// A last group of fewer than p micro-batches is ordered as if it had p, and what is not there is left out. Counted as it
// is, stages would wait for each other in turn (p = 4, v = 3, m = 5 is the smallest such case). Megatron-LM refuses such
// batches ("0 < m mod g < p introduces dependency bubbles"); every other last group is ordered as there.
//
// A group may have more micro-batches than there are stages (Megatron's --microbatch-group-size-per-virtual-pipeline-
// stage). The bubble is the same, and a stage holds (v-1)(g-p) chunks more, so that no search offers it: under this cost
// model the same plan with g = p takes as long and needs less. What it buys is time for the messages from the last stage
// to the first, which then wait for their turn; no price here knows that.
//
// A new schedule is a function in a file of its own, its line in generators.h, and a row in rules.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nest/strategy.h"
#include "schedule/operation.h"

namespace nest::schedule {

struct Rule {
  Schedule kind;
  std::int64_t fewest_chunks, most_chunks;  // of a stage
  Order (*order)(const Shape& shape, std::int64_t stage);
  std::vector<Order> (*orders)(const Shape& shape);  // of all stages, where one alone has none; then order is null
  std::int64_t (*position)(const Shape& shape, std::int64_t stage, std::int64_t chunk);
  // Chunks whose activations a stage holds at most, as a closed form: what most_held() of its order says wherever the
  // last group has p micro-batches or more, and no less elsewhere. Null: there is none, and the order is asked.
  std::int64_t (*held)(const Shape& shape, std::int64_t stage);
  std::int64_t fewest;  // micro-batches that it needs, in units of p
  // Micro-batches, in units of p, from which on one more adds the time of a stage to an equal pipeline, whatever F, I
  // and W take. 0: the closed form of step_time.h is exact for it; kUnsettled: every number has its own time.
  std::int64_t settled;

  bool interleaves() const { return most_chunks > 1; }
  // Messages from the last stage to the first, per micro-batch and direction. A V turns inside the last stage.
  std::int64_t wraps(std::int64_t chunks) const { return is_v() ? 0 : chunks - 1; }
  bool is_v() const { return fewest_chunks == 2 && most_chunks == 2; }
  // Gradients of weights are computed apart, which its frameworks must be able to.
  bool is_split() const { return settled != 0; }
};
inline constexpr std::int64_t kUnsettled = -1;

std::span<const Rule> rules();
const Rule& rule_of(Schedule kind);

std::vector<Order> orders_of(const Rule& rule, const Shape& shape);
Order order_of(const Rule& rule, const Shape& shape, std::int64_t stage);

// Why a pipeline of this shape cannot run; empty if it can.
std::string refuse(const Rule& rule, const Shape& shape);

// Chunks whose activations are held at the worst moment of an order: from F to B, or to W where gradients are apart.
std::int64_t most_held(const Order& order);

// The same where chunks differ: the largest sum of kept[chunk] over what is held. `ahead`: one forward more runs before
// every backward than the order has (cost/memory.h).
double most_kept(const Order& order, const std::vector<double>& kept, bool ahead = false);

// Micro-batches in flight on a stage, in units of its whole activations: chunks held / v. Never less than the orders
// need.
//     1f1b min(p-s, m)    interleaved min(2(p-s-1) + (v-1) g + 1, m v) / v    gpipe m    without a pipeline 1
//     zb-h1 min(p, m)     zbv min(2p, 2m, m+s+1) / 2    dualpipev (2p+1) / 2    v-half min(p+2, 2m) / 2
double in_flight(const Rule& rule, const Shape& shape, std::int64_t stage);
double in_flight(Schedule kind, const Shape& shape, std::int64_t stage);

}  // namespace nest::schedule
