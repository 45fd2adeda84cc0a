// What may be recomputed of one layer, numbered: nothing, what the stack calls selective, everything, and from 3 on sets
// of modules. Prices of layers are listed by these numbers.
//
// A stage treats its layers alike, but for Recompute::block: of every chunk the first n blocks are recomputed from their
// inputs and the others keep everything. A stage is priced as one run of layers, so that its first n v blocks stand for
// these. Recompute::uniform keeps one input of n blocks, and needs what n of them keep at once:
//     kept = ceil(blocks / n) / blocks of what inputs take         working + (n - 1) * what the largest block keeps
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "nest/strategy.h"
#include "split/local_layer.h"

namespace nest::cost {

using ByTreatment = std::vector<double>;

inline constexpr int kNothing = 0, kSelective = 1, kEverything = 2, kFirstSet = 3;

struct Treatments {
  std::vector<RecomputeSet> sets;  // at most 64

  std::size_t count() const { return kFirstSet + sets.size(); }
  int of_set(RecomputeSet set) const {
    const auto found = std::find(sets.begin(), sets.end(), set);
    NEST_CHECK(found != sets.end(), "every set of modules of a stage is priced");
    return kFirstSet + static_cast<int>(found - sets.begin());
  }
};

// Of the blocks of a stage.
struct StageTreatment {
  int rest = kNothing;     // of all but the first ones
  std::int64_t whole = 0;  // so many: everything
  std::int64_t group = 1;  // blocks that share one kept input

  int of_block(std::int64_t index) const { return index < whole ? kEverything : rest; }
  bool operator==(const StageTreatment&) const = default;
};

inline StageTreatment stage_treatment(const Treatments& treatments, const Recomputation& recomputation,
                                      std::int64_t chunks) {
  switch (recomputation.kind) {
    case Recompute::none: break;
    case Recompute::selective: return {kSelective};
    case Recompute::full: return {kEverything};
    case Recompute::modules: return {treatments.of_set(recomputation.modules)};
    case Recompute::block: return {kNothing, recomputation.layers * chunks};
    case Recompute::uniform: return {kEverything, 0, recomputation.layers};
  }
  return {};
}

// Whether an operator of a layer runs again; its sets are those of the treatments.
inline bool runs_again(const split::LocalOperator& op, int treatment) {
  if (treatment < kFirstSet) return treatment == kEverything || (treatment == kSelective && op.recomputed);
  return (op.recomputed_sets >> (treatment - kFirstSet) & 1) != 0;
}

}  // namespace nest::cost
