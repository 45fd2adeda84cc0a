// What launches a layer needs, and how its exchanges are weighed.
#include <algorithm>

#include "base/index.h"
#include "cost/constants.h"
#include "cost/layer_price.h"

namespace nest::cost {

using namespace constants;

bool is_regather(const split::LocalLayer& local, const split::LayerCollective& exchange) {
  if (exchange.kind != split::CollectiveKind::all_gather || exchange.phase != split::Phase::backward) return false;
  return std::any_of(local.collectives.begin(), local.collectives.end(), [&](const split::LayerCollective& other) {
    return other.kind == split::CollectiveKind::all_gather && other.phase == split::Phase::forward &&
           other.operator_index == exchange.operator_index && other.tensor == exchange.tensor;
  });
}

bool is_of_experts(const split::LocalLayer& local, const split::LayerCollective& exchange) {
  const model::OperatorKind kind = local.operators[at(exchange.operator_index)].kind;
  return exchange.group == split::Group::expert || exchange.group == split::Group::expert_tensor ||
         kind == model::OperatorKind::dispatch || kind == model::OperatorKind::combine ||
         kind == model::OperatorKind::grouped_matmul;
}

double host_launches(const HostWork& work, const std::vector<GraphScope>& captured) {
  const auto among = [&](GraphScope scope) {
    return std::any_of(captured.begin(), captured.end(),
                       [&](GraphScope one) { return one == scope || one == GraphScope::full; });
  };
  double launches = 0;
  const auto add = [&](double kernels, GraphScope scope) { launches += kernels * (among(scope) ? kHostCaptured : 1); };
  add(work.own * kHostAttention + (work.tensor ? kHostTensor : 0) + (work.latent ? kHostLatent : 0) +
          kHostCross * work.cross,
      GraphScope::attention);
  add(work.own * (1 - kHostAttention), work.experts ? GraphScope::router : GraphScope::feed_forward);
  if (work.shared) add(kHostShared, GraphScope::router);
  if (work.experts) {
    add(work.fused_router ? kHostFusedRouter : kHostRouter, GraphScope::router);
    add(kHostPreprocess, GraphScope::preprocess);
    add(kHostExperts, GraphScope::full);
  }
  return launches;
}

bool overlaps_tensor(const Job& job, const Split& split) {
  if (!job.stack.tensor_overlap || !split.sp) return false;
  if (const auto node = cluster::devices_per_node(job.cluster); node && split.tp > *node) return false;
  if (job.stack.memory != MemoryModel::megatron) return true;
  const std::vector<model::Tower>& towers = job.model.architecture.towers;
  return std::none_of(towers.begin(), towers.end(), [](const model::Tower& tower) {
    return std::any_of(tower.kinds.begin(), tower.kinds.end(),
                       [](const model::Block& block) { return block.attention.latent.has_value(); });
  });
}

double exposed_share(const Job& job, const Split& split, const split::LocalLayer& local,
                     const split::LayerCollective& exchange) {
  if (exchange.group == split::Group::context) return 1;
  if (is_of_experts(local, exchange)) return 1;
  if (is_regather(local, exchange)) return overlaps_tensor(job, split) ? 0 : kRegatherExposed;
  return overlaps_tensor(job, split) ? kTensorExposed : 1;
}

}  // namespace nest::cost
