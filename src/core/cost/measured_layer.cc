#include "cost/measured_layer.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "cost/profile.h"

namespace nest::cost {
namespace {

const MeasuredLayer* measured_layer(const Job& job, const model::Layer& layer, const Split& split,
                                    std::int64_t micro_batch) {
  if (!job.profile || !layer.trains_all()) return nullptr;  // layers were measured with all their gradients
  return job.profile->find_layer(
      job.model.architecture.name, layer.name, split, micro_batch,
      layer.encoder && job.run.encoder_sequence > 0 ? job.run.encoder_sequence : job.run.sequence);
}

}  // namespace

const model::Layer& fused_layer(const Job& job, int kind) {
  const auto& layers = job.model.layers;
  const auto first = std::find(layers.begin(), layers.end(), kind);
  NEST_CHECK(first != layers.end(), "every layer kind occurs in its model");
  const auto fused = job.fused_model.layers[at(first - layers.begin())];
  return job.fused_model.kinds[at(fused)];
}

void override_layer(const Job& job, const model::Layer& layer, const Split& split, std::int64_t micro_batch,
                    LayerPrice& price) {
  const MeasuredLayer* found = measured_layer(job, layer, split, micro_batch);
  if (!found) return;
  // Its share of the backward pass is not measured.
  if (price.backward_s > 0) price.weight_s *= found->backward_s / price.backward_s;
  price.forward_s = found->forward_s;
  price.backward_s = found->backward_s;
  price.deferrable_s = std::min(price.deferrable_s, found->backward_s);
  // Full recomputation runs the measured forward again; what part of it selective recomputation repeats is not
  // measured.
  if (layer.kind == model::LayerKind::block) {
    for (double& again_s : price.recompute_s) again_s = std::min(again_s, found->forward_s);
    price.recompute_s[kEverything] = found->forward_s;
  }
  const double exposed_s = price.tp_s + price.cp_s + price.ep_s;
  const double whole_s = price.forward_s + price.backward_s;
  if (exposed_s > whole_s) {
    for (double* part : {&price.tp_s, &price.cp_s, &price.ep_s}) *part *= whole_s / exposed_s;
  }
  price.alone_forward_s = price.alone_backward_s = price.alone_ep_s = 0;
  price.measured = true;
}

std::optional<double> measured_saved_bytes(const Job& job, int layer, const Split& split, std::int64_t micro_batch) {
  if (!job.profile) return std::nullopt;
  const MeasuredLayer* found = measured_layer(job, fused_layer(job, layer), split, micro_batch);
  return found == nullptr ? std::nullopt : found->saved_bytes;
}

}  // namespace nest::cost
