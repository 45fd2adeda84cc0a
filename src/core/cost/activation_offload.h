// Tensors that modules keep for backward and that wait on the host meanwhile (Megatron's fine-grained activation
// offloading, Split::offload).
//
// A layer hands down `moved` bytes while it and the next one run forward and gets them back before its backward:
//     exposed = max(0, moved / link - F) + max(0, moved / link - B) + 0.05 (2 moved / link)
// with F and B of the layer itself, what it recomputes included. On the device
//     kept' = kept - freed        working' = working + freed + the largest group
// because the layer at work has its own tensors back, and one group of the next layer is under way. Megatron keeps the
// last layer of the micro-batch that turns round first: the same bytes at the same moment. The host pins `moved` of every
// micro-batch in flight.
// Layers whose tensors are all there (SoftwareStack::offloaded_layers) follow the same law, with F and B of all layers:
// they are the first ones, and their copies travel behind the others. Llama 3 70B on GB200 and GB300 with 40 and 20 of 80
// layers there runs as fast as all on the device is priced, to 2 %, where layer by layer 8 … 14 % would be exposed.
// Limit: layer by layer. A chunk of unlike layers hides more: what one has too much can hide behind another.
#pragma once

#include <string>
#include <vector>

#include "cost/job.h"
#include "cost/layer_price.h"
#include "cost/treatments.h"
#include "split/local_layer.h"

namespace nest::cost {

// Why these modules of this job cannot wait on the host, in one sentence; empty where they can, or where there are none.
std::string refuse_offload(const Job& job, OffloadSet modules);
// Why they cannot where stages recompute so.
std::string refuse_offload(const SoftwareStack& stack, OffloadSet modules, const Recomputation& recompute);

// Seconds by which passes of so many seconds are longer.
double exposed_way_s(double moved_bytes, double link_bytes_per_s, double forward_s, double backward_s);

// Of a layer under a treatment; nothing where it is recomputed as a whole.
split::HostBytes host_bytes(const split::SavedBytes& saved, int treatment);

// Adds the exposed part to what each treatment adds to backward. The price has its passes.
void add_way_to_host(const Job& job, int layer, const Split& split, std::int64_t micro_batch,
                     const std::vector<RecomputeSet>& sets, LayerPrice& price);

// Exposed of a model whose first offloaded_layers blocks are there, without a pipeline and recomputation; 0 where the rate of
// the link is not known. `kinds` are priced.
double layers_way_s(const Job& job, const Split& split, std::int64_t micro_batch, const std::vector<LayerPrice>& kinds);

}  // namespace nest::cost
