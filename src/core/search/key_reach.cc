// KeyPrices: which options of a uniform key have memory for the model at all. Most have not, so that a verdict settles as
// many of them as it can.
#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "base/index.h"
#include "cost/activation_offload.h"
#include "search/key_prices.h"

namespace nest::search {
namespace {

// The last position up to n that holds, where all up to some one after `begin` do; `begin` where none does. Found in a few
// steps where it is near the guess.
template <class Holds>
std::int64_t farthest(std::int64_t begin, std::int64_t n, std::int64_t guess, const Holds& holds) {
  std::int64_t low = begin, high = n + 1;  // low holds, or is nothing; high does not
  std::int64_t middle = std::clamp(guess, std::min(begin + 1, n), n);
  for (std::int64_t step = 1; high - low > 1; step *= 2) {
    if (holds(middle)) {
      low = middle;
      middle = high > n ? std::min(n, low + step) : low + (high - low) / 2;
    } else {
      high = middle;
      middle = low == begin ? std::max(begin + 1, high - step) : low + (high - low) / 2;
    }
  }
  return low;
}

// Stages that choose it keep everything, or sets of modules of all blocks are recomputed. MemoryFloor asks the same of all
// of them while they work.
bool recomputes_parts(const Recomputation& one) {
  return one.kind == Recompute::none || one.kind == Recompute::modules;
}

constexpr std::size_t kCompared = 64;  // recomputations: the bits of a word

}  // namespace

KeyPrices::Offers KeyPrices::list_offers(const Key& key) const {
  const std::vector<Recomputation>& all = space_->recomputations();
  const OffloadSet away = space_->splits()[at(key.split)].offload;
  const auto is_legal = [&](const Recomputation& one) {
    return cost::refuse_offload(space_->job().stack, away, one).empty();
  };
  const auto treated = [&](const Recomputation& one) {
    return cost::stage_treatment(pair_->treatments(), one, 1).rest;
  };
  const auto is_replaced = [&](const Recomputation& one) {
    if (one.kind != Recompute::modules) return false;
    return std::any_of(all.begin(), all.end(), [&](const Recomputation& other) {
      return other.layers == 0 && other != one && is_legal(other) && pair_->replaces(treated(other), treated(one));
    });
  };
  Offers offers;
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (is_legal(all[k]) && !is_replaced(all[k])) offers.recomputations.push_back(static_cast<int>(k));
  }
  offers.spares.assign(all.size(), 0);
  offers.inputs_are_least = true;
  for (const int k : offers.recomputations) {
    const Recomputation& one = all[at(k)];
    if (!recomputes_parts(one)) continue;
    offers.inputs_are_least = offers.inputs_are_least && pair_->keeps_no_more(cost::kEverything, treated(one));
    for (const int j : offers.recomputations) {
      // What keeps everything may be asked for more while it works.
      const bool comparable = j != k && at(j) < kCompared && recomputes_parts(all[at(j)]) && one != Recompute::none;
      if (comparable && pair_->keeps_no_more(treated(one), treated(all[at(j)]))) {
        offers.spares[at(k)] |= std::uint64_t{1} << j;
      }
    }
  }
  return offers;
}

bool KeyPrices::reaches_end(int option) {
  if ((*reach_)[at(option)] == Verdict::unknown) settle_reach(option);
  return (*reach_)[at(option)] == Verdict::yes;
}

void KeyPrices::settle_reach(int option) {
  Verdicts& known = *reach_;
  const std::vector<Recomputation>& all = space_->recomputations();
  const std::int64_t ways = std::ssize(space_->shardings()), rows = std::ssize(all);
  const std::int64_t row = option / ways, z = option % ways;
  const auto verdict = [&](std::int64_t r) -> Verdict& { return known[at(r * ways + z)]; };
  const MemoryFloor::Sharded state = floor_of(space_->choice(option));
  const auto ask = [&](const cost::StageTreatment& treated) {
    return reaches_end(state, treated) ? Verdict::yes : Verdict::no;
  };
  const bool blocks = row >= rows;
  if (offers_->inputs_are_least && (blocks || recomputes_parts(all[at(row)]))) {
    // Whatever part of them is recomputed, blocks keep their inputs at least.
    Verdict& hope = known[known.size() - at(ways - z)];
    if (hope == Verdict::unknown) hope = ask({cost::kNothing, space_->layers()});
    if (hope == Verdict::no) {
      verdict(row) = Verdict::no;
      return;
    }
  }
  if (!blocks) {
    const Verdict own = verdict(row) = ask(treatment(all[at(row)]));
    for (std::int64_t j = 0; j < std::min<std::int64_t>(rows, kCompared); ++j) {
      const bool spares = (offers_->spares[at(row)] >> j & 1) != 0;
      const bool is_spared = at(row) < kCompared && (offers_->spares[at(j)] >> row & 1) != 0;
      if (own == Verdict::no ? spares : is_spared) verdict(j) = own;
    }
    return;
  }
  // The more blocks the less they keep: halved until this number is settled.
  std::int64_t low = row, high = row;  // numbers that are not known
  while (low > rows && verdict(low - 1) == Verdict::unknown) --low;
  while (high < rows + space_->most_blocks() - 1 && verdict(high + 1) == Verdict::unknown) ++high;
  while (verdict(row) == Verdict::unknown) {
    const std::int64_t middle = low + (high - low) / 2;
    const std::int64_t n = middle - rows + 1;
    if (ask({cost::kNothing, n * strategy_.virtual_stages}) == Verdict::yes) {
      for (std::int64_t k = middle; k <= high; ++k) verdict(k) = Verdict::yes;
      high = middle - 1;
    } else {
      for (std::int64_t k = low; k <= middle; ++k) verdict(k) = Verdict::no;
      low = middle + 1;
    }
  }
}

// What a stage needs at least grows with its layers on both sides: stages from the first on, each as long as memory
// allows, reach as far as any do. Before that is tried, all stages together are looked at, and stages of about the same
// length, which are asked once each. Most are about as long as the one before, so that its length is where the look begins.
bool KeyPrices::reaches_end(const MemoryFloor::Sharded& state, const cost::StageTreatment& treated) const {
  const std::int64_t n = space_->layers(), p = strategy_.pp;
  const double room = real(device(0).memory_bytes - context_bytes_);
  constexpr double kAbove = 1 + 1e-9;  // sums are rounded
  if (floor_.least_of_all(*pair_, p, state, treated, least_pressure_) > real(p) * room * kAbove) return false;
  const auto even = [&](std::int64_t from, std::int64_t s) { return ceil_div(n - from, p - s); };
  std::int64_t reached = 0;
  for (std::int64_t s = 0; s < p; ++s) {
    const std::int64_t end = reached + even(reached, s);
    if (!within_floor(s, reached, end, state, treated)) break;
    reached = end;
  }
  if (reached >= n) return true;
  reached = 0;
  std::int64_t length = even(0, 0);
  for (std::int64_t s = 0; s < p && reached < n; ++s) {
    const std::int64_t end = farthest(reached, n, reached + length, [&](std::int64_t middle) {
      return within_floor(s, reached, middle, state, treated);
    });
    length = end - reached;
    reached = end;
  }
  return reached >= n;
}

}  // namespace nest::search
