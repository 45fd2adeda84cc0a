// What one layer costs on one device, for one split and one micro-batch: all that stages, evaluations and the search
// are composed of. Layers of one kind have one price.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "cost/constants.h"
#include "cost/group_time.h"
#include "cost/job.h"
#include "cost/rates.h"
#include "cost/treatments.h"
#include "split/local_layer.h"
#include "split/split.h"

namespace nest::cost {

struct LayerPrice {
  // Seconds of one micro-batch. forward and backward are what the layer takes, exposed collectives and host floor
  // included; the parts below say how much of that is communication.
  double forward_s = 0;
  double backward_s = 0;                             // without recomputation
  ByTreatment recompute_s = ByTreatment(kFirstSet);  // added to backward
  ByTreatment way_s;                                 // of that, waiting for the host; empty where nothing is there
  double tp_s = 0;                                   // exposed, forward + backward
  double cp_s = 0;
  double ep_s = 0;
  // More, for a micro-batch whose passes meet none to pair with (cost/overlap.h); 0 where nothing overlaps.
  double alone_forward_s = 0;
  double alone_backward_s = 0;
  double alone_ep_s = 0;    // exposed
  double deferrable_s = 0;  // weight gradient that can move into the drain (head only); part of backward_s
  double weight_s = 0;      // weight gradients of matrix products; part of backward_s
  double flops = 0;         // model FLOPs, forward + backward, of this device

  // Bytes on one device.
  ByTreatment kept_bytes = ByTreatment(kFirstSet);     // per micro-batch in flight
  ByTreatment working_bytes = ByTreatment(kFirstSet);  // short-lived at the worst moment of this layer
  std::vector<split::HostBytes> host;                  // by treatment: not kept here; empty where nothing is there
  double gather_bytes = 0;                             // besides, when weights are sharded (ZeRO 3)
  double scatter_bytes = 0;                            // besides, when gradients alone are (ZeRO 2)
  double largest_block_bytes = 0;     // largest single short-lived tensor: what the allocator keeps a spare of
  std::int64_t dense_parameters = 0;  // trained ones, before ZeRO
  std::int64_t expert_parameters = 0;
  std::int64_t frozen_dense = 0;  // parameters that are not trained
  std::int64_t frozen_expert = 0;
  double frozen_dense_bytes = 0;  // of them, where weights are gathered
  double frozen_expert_bytes = 0;
  bool measured = false;  // at least one number comes from a profile
};

// What all layers of one split share.
struct PricingContext {
  PricingContext(const Job& job, const Split& split, const Treatments& treatments = {})
      : PricingContext(job, split, treatments, job.law) {}
  PricingContext(const Job& job, const Split& split, const Treatments& treatments, schedule::Law law);

  DeviceRates rates;
  StageGroups groups;
  model::Implementation implementation;
  split::RecomputePolicy policy;
};

// --- what the host does

// Launches of a block's forward pass: own ones of a dense block (11/18 of them attention's), and what comes with
// tensor parallelism, latent and cross attention (attention's), shared experts and the feed-forward's share (the
// router's, in a block with experts).
struct HostWork {
  double own = constants::kHostKernels;
  bool tensor = false, latent = false, experts = false, shared = false;
  bool fused_router = false;
  int cross = 0;  // attentions beyond the first
};
// Of what is captured in a graph, a tenth is left.
double host_launches(const HostWork& work, const std::vector<GraphScope>& captured);

// --- how the exchanges of a layer are weighed

// With sp, inputs are gathered once more in backward, for the weight gradient; nothing waits for that but the gradient.
bool is_regather(const split::LocalLayer& local, const split::LayerCollective& exchange);
// Rows on their way to experts or back, and what the experts' products exchange.
bool is_of_experts(const split::LocalLayer& local, const split::LayerCollective& exchange);
// Whether tensor-parallel collectives run behind matrix products: the stack may, norms are split along the sequence, the
// group stays among the links of one node, and the modules have buffers. Megatron-Core switches all of it off in a model
// with latent attention (core/extensions/transformer_engine.py: buffers are of qkv, proj, fc1 and fc2 alone); user
// buffers are handles of one NVLink domain (Transformer Engine, common/comm_gemm_overlap).
bool overlaps_tensor(const Job& job, const Split& split);
// Share of its time that the layer waits for an exchange of tensors. Ring exchanges of the context hide behind attention
// instead, those of experts as cost/overlap.h says; theirs is 1.
double exposed_share(const Job& job, const Split& split, const split::LocalLayer& local,
                     const split::LayerCollective& exchange);

// The price without what only memory needs: seconds, FLOPs and parameters.
LayerPrice time_layer(const Job& job, int layer, const Split& split, std::int64_t micro_batch,
                      const PricingContext& context);

// What a profile says that the layer keeps, where it says so.
std::optional<double> measured_saved_bytes(const Job& job, int layer, const Split& split, std::int64_t micro_batch);

// That much is kept where nothing is recomputed, less what waits on the host.
inline void keep_measured(double saved_bytes, LayerPrice& price) {
  price.kept_bytes[kNothing] = std::max(0.0, saved_bytes - (price.host.empty() ? 0 : price.host[kNothing].freed));
}

// `layer` is an index into Model::kinds. The split must be legal. Ranks are neighbours as
// nest/strategy.h says.
LayerPrice price_layer(const Job& job, int layer, const Split& split, std::int64_t micro_batch,
                       const Treatments& treatments = {});

// The half of it that memory.cc knows (kept, working, gather, block, parameters); price_layer calls it.
void price_layer_memory(const Job& job, int layer, const Split& split, std::int64_t micro_batch, LayerPrice& price,
                        const Treatments& treatments = {});

}  // namespace nest::cost
