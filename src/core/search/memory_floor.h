// What a stage needs at least: weights, optimizer state, and all activations but those of one micro-batch; in
// Megatron's accounting gradients and the last micro-batch as well, and what the greediest of its layers needs besides
// (PairPrices::more_bytes). `many`: it is one of several stages. Never more than stage_memory() says, a few
// operations to work out, and growing with the layers and with what is in flight.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cost/memory.h"
#include "plan/limits.h"
#include "search/pair_prices.h"

namespace nest::search {

// One per thread. Pairs that it was asked about outlive it.
class MemoryFloor {
 public:
  MemoryFloor(const cost::Job& job, const plan::PlanLimits& limits);

  // What the state of one parameter takes at least.
  struct Sharded {
    int zero = 0;
    double dense = 0, expert = 0, frozen_dense = 0, frozen_expert = 0;
  };
  // `updated`: degrees of the optimizer's state.
  Sharded sharded(int zero, const groups::ZeroDegrees& degrees, const groups::ZeroDegrees& updated) const;

  // Of layers [begin, end), without what context_bytes() counts.
  double bytes(const PairPrices& pair, std::int64_t begin, std::int64_t end, const Sharded& state,
               const cost::StageTreatment& treatment, double in_flight, bool many) const;

  // Of so many stages together, wherever they are cut, each with so much in flight at least.
  double least_of_all(const PairPrices& pair, std::int64_t stages, const Sharded& state,
                      const cost::StageTreatment& treatment, double in_flight) const;

  // Of the state of one parameter that is divided over so many ranks, that of the optimizer over `updated`, at least.
  double parameter_bytes(int zero, std::int64_t degree, std::int64_t updated, groups::Weights weights) const;
  // The same of one that is not trained.
  double frozen_bytes(int zero, std::int64_t degree, groups::Weights weights) const;
  // Bytes that a stage has, contexts apart; the most that strategies with fewer replicas have.
  double room_of(const Strategy& strategy) const;

  // No cut and no options of this strategy that fit have a smaller tau, nor of any with fewer replicas and more
  // micro-batches: what must be recomputed for want of memory is counted. Infinite when none fits. Bounds above
  // `enough` are not told apart: it is then any value above it. Within 1/1000 of the best such bound.
  //
  // Where stages choose from many recomputations, every layer chooses for itself, and in parts: of the bytes that a stage
  // is short of, the cheapest to spare are spared first. Per kind of layer these are the lower hull of (bytes kept,
  // seconds) over its treatments.
  double slowest_s(const Strategy& strategy, const PairPrices& pair, double enough) const;

 private:
  // What recomputation can do about the memory of layers, all sums those of layers [0, i).
  struct Sparing {
    struct Step {                  // bytes that may be spared
      std::vector<double> spared;  // per micro-batch in flight, at most
      double s_per_byte;
    };

    int treatment = 0;                // whose more_bytes() count
    std::vector<double> time_s{0.0};  // per micro-batch, with the least recomputation
    std::vector<double> kept{0.0};    // bytes per micro-batch in flight, with it
    std::vector<Step> steps;          // towards less memory, the cheapest first
    std::vector<double> most_more;    // of all layers, by zeros_
  };
  class LongestStages;

  Sparing spare_freely(const PairPrices& pair, const std::vector<cost::StageTreatment>& treatments, bool many) const;
  Sparing spare_alike(const PairPrices& pair, const cost::StageTreatment& treatment, bool many) const;
  std::vector<Sparing> list_sparings(const PairPrices& pair, bool many) const;

  double flying(double in_flight) const;  // micro-batches whose activations are counted

  const cost::Job* job_;
  cost::StateBytes state_;
  bool gradients_;          // are counted
  bool activations_;        // are counted: none of them waits on the host
  double margin_;           // factor
  std::vector<int> zeros_;  // that the limits admit, the most first
  std::vector<Recomputation> recomputations_;
  bool blocks_;  // some layers of a stage may be recomputed as a whole
  mutable std::map<std::pair<const PairPrices*, bool>, std::vector<Sparing>> known_;  // on stages of many, or of one
};

}  // namespace nest::search
