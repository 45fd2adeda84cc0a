// One layer of one micro-batch as a trace has it: pieces of compute, and the exchanges between and beside them.
//
// A trace separates what the cost model adds up. A layer's price (cost/layer_price.h) holds its compute and the exposed
// part of its collectives; here compute is the price without the latter, and the collectives stand for themselves, at
// their whole size. The compute of a pass is divided at the collectives in proportion to what the operators between
// them would take at the device's sustained rates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/layer_price.h"

namespace nest::exporter {

// Who waits for an exchange: what follows, what follows the compute beside it, or whatever comes after the layer.
enum class Wait : std::uint8_t { at_once, beside, layer_end };

// Ranks among which routed tokens travel, where a dispatcher does not exchange them among the ranks of `group`.
enum class Routed : std::uint8_t { as_group, whole_set, inside_unit, across_units };

struct LayerStep {
  enum class Kind : std::uint8_t { compute, exchange };
  Kind kind = Kind::compute;
  double seconds = 0;  // of compute
  double flops = 0;
  double bytes = 0;  // compute: read and written; exchange: what one rank puts in
  split::CollectiveKind collective = split::CollectiveKind::all_reduce;
  split::Group group = split::Group::tensor;
  Routed routed = Routed::as_group;
  bool part_of_context = false;  // among some of the context ranks
  bool with_last = false;        // issued together with the exchange before it
  Wait wait = Wait::at_once;
  std::string tensor;
};

struct TracedLayer {
  std::vector<LayerStep> forward;
  std::vector<LayerStep> again;  // recomputation, before backward
  std::vector<LayerStep> backward;
  double deferred_s = 0;  // weight gradient of the head, where it is put off
  double deferred_flops = 0;
  double dense_parameters = 0;
  double expert_parameters = 0;
};

// `layer` is a position in the chain; `price` that of its kind.
TracedLayer trace_layer(const cost::Job& job, int layer, const Split& split, std::int64_t micro_batch,
                        const cost::PricingContext& context, const cost::LayerPrice& price, int treatment, bool defers);

}  // namespace nest::exporter
