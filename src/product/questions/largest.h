// The largest number with which some plan fits: of tokens per sequence, of layers, of sequences in one pass.
//
// One number v, a multiple of `step`. Let F(v) be "some plan fits in memory". A plan that fits with v fits with less of
// it too, where it is one there: what it keeps does not grow when v shrinks. It need not be one there: tp and cp divide
// sequences, stages divide layers. So F is not monotone, but it has a monotone bound G, and that is asked first:
//
//   G(v)  is asked at multiples of `round`;  F(v) => G(w) for every multiple w <= v of round;  G(w) => G(w') for w' < w
//
// Of sequences G is F itself and `round` a multiple of everything that may divide a sequence: every plan of any length is
// a plan of all shorter multiples of round. Of layers G is F without limits, where layers can always be left out.
// Bisection finds the last w with G(w); no value from w + round on fits. Values below are tried one by one, from above,
// until one fits: fewer than round / step of them where G is F.
//
// Two numbers whose product counts: replicas r and sequences k of each, in one pass. With r given, whether a plan fits is
// monotone in k: it changes nothing but the size of what is kept. Every r is asked once for the first k with which r k is
// more than the largest so far, and further only where that fits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace nest::questions {

struct ValueGrid {
  std::int64_t step = 1;   // values are step, 2 step, …
  std::int64_t round = 1;  // a multiple of step
  std::int64_t high = 1;   // none above
};

struct Largest {
  std::optional<std::int64_t> best;  // nothing: no value fits, or it was stopped before one did
  bool proven = false;               // no larger one does
};

using TryValue = std::function<bool(std::int64_t value)>;
using IsOver = std::function<bool()>;

// `start` is where a search for G begins. `is_over` ends it: what was found stays, unproven; a try that came back false
// while time ran out says nothing.
Largest largest_value(
    const ValueGrid& grid, std::int64_t start, const TryValue& bound, const TryValue& fits,
    const IsOver& is_over = [] { return false; });

struct LargestProduct {
  std::int64_t count = 0, each = 0;  // 0: none
  bool proven = false;

  std::int64_t product() const { return count * each; }
};

// Over all counts and each = 1, 2, … with a product of at most `high`.
LargestProduct largest_product(
    const std::vector<std::int64_t>& counts, std::int64_t high,
    const std::function<bool(std::int64_t count, std::int64_t each)>& fits,
    const IsOver& is_over = [] { return false; });

}  // namespace nest::questions
