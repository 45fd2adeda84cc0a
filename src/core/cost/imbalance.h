// How many more rows than the mean the busiest rank of an expert group gets.
//
// Dispatch and combine wait for the slowest rank of every layer. Of E experts, K of which a token chooses, each of EP
// ranks holds E_l = E/EP; T tokens of the group are routed. Hits of a rank scatter for two reasons:
//
//     sampling     s² = (EP-1)(E-K) / ((E-1) K T)          choices are random, even where the router is balanced
//     popularity   p² = v² (E-E_l) / ((E-1) E_l)           loads of experts have a coefficient of variation v, and experts
//                                                          are placed without regard to it
//     busiest / mean = 1 + z(EP) √(s² + p²),   z the expected maximum of EP normals
//
// A stack's `routing` says which of it there is: `forced` balance (benchmarks: 1, sampling is far below a percent at the
// tokens that ranks route), {cv: v}, or {overload: x} where the ratio was measured.
//
// Capacity. With a factor c an expert takes ⌈T_r K c / E⌉ rows of every rank's T_r tokens and drops the rest, so that the
// busiest rank computes no more than c times the mean; padded, every rank computes exactly that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cost/dispatch.h"
#include "nest/strategy.h"

namespace nest::cost {

enum class RoutingKind : std::uint8_t { forced, variation, overload };

struct Routing {
  RoutingKind kind = RoutingKind::forced;
  double value = 0;     // v, or the ratio itself
  double capacity = 0;  // c; 0: nothing is dropped
  bool padded = false;  // to the capacity
  int rows = 128;       // to a multiple of which each expert's rows are padded

  bool operator==(const Routing&) const = default;
};

// z.
double expected_maximum(double ranks);

// In one layer, before capacity. `tokens`: T.
double layer_imbalance(const Routing& routing, const Choice& choice, double ranks, double tokens);

// Rows of an expert that one rank's `tokens` may fill.
double capacity_rows(const Choice& choice, double tokens, double capacity);

// Rows that the busiest rank computes over the mean. `tokens`: that one rank routes.
double time_imbalance(const Routing& routing, const Choice& choice, const Split& split, double tokens);

// "forced balance", "cv 0.18".
std::string to_text(const Routing& routing);

// Ranges of v and of the ratio, in files and as an option.
inline constexpr double kMostVariation = 100, kMostOverload = 1000;

// Kind and value from the option of a run, "forced", "cv=0.3" or "overload=1.2"; the rest stays. Throws InputError.
void set_routing(std::string_view text, Routing& routing);

}  // namespace nest::cost
