#include "door/state_layout.h"

#include <set>

#include "base/error.h"
#include "base/index.h"
#include "cost/memory.h"
#include "groups/rank_groups.h"
#include "model/graph.h"

namespace nest {
namespace {

struct LayerParameters {
  double dense = 0, expert = 0;
  double trained_dense = 0, trained_expert = 0;
};

LayerParameters parameters_of(const model::Layer& layer) {
  LayerParameters count;
  for (const model::Operator& op : layer.operators) {
    for (const model::Weight& weight : op.weights) {
      const auto size = static_cast<double>(model::elements(weight));
      const bool routed = !weight.shape.empty() && weight.shape.front().axis == model::Axis::experts;
      (routed ? count.expert : count.dense) += size;
      if (!weight.frozen) (routed ? count.trained_expert : count.trained_dense) += size;
    }
  }
  return count;
}

// Layers of a stage, in their order.
std::vector<int> layers_of(const StagePlan& stage) {
  std::vector<int> layers;
  if (stage.chunks.empty()) {
    for (int l = stage.first; l <= stage.last; ++l) layers.push_back(l);
  }
  for (const ChunkPlan& chunk : stage.chunks) {
    for (int l = chunk.first; l <= chunk.last; ++l) layers.push_back(l);
  }
  return layers;
}

// Part `index` of `parts`, of that the j-th of `shards`.
questions::Piece piece_of(int tensor, std::int64_t index, std::int64_t parts, std::int64_t j, std::int64_t shards) {
  const auto all = static_cast<double>(parts * shards);
  const auto first = static_cast<double>(index * shards + j);
  return {tensor, first / all, (first + 1) / all};
}

}  // namespace

StateLayout state_layout(const cost::Job& job, const Plan& plan) {
  const cost::StateBytes bytes = cost::state_bytes(job);
  StateLayout layout;
  std::vector<LayerParameters> kinds;
  for (const model::Layer& kind : job.model.kinds) kinds.push_back(parameters_of(kind));
  for (const int kind : job.model.layers) {
    const LayerParameters& count = kinds[at(kind)];
    layout.weight_bytes.insert(layout.weight_bytes.end(), {bytes.weight * count.dense, bytes.weight * count.expert});
    layout.optimizer_bytes.insert(layout.optimizer_bytes.end(),
                                  {bytes.optimizer * count.trained_dense, bytes.optimizer * count.trained_expert});
  }
  const Strategy& strategy = plan.strategy;
  const groups::RankGroups ranks(strategy);
  const Split& split = strategy.split;
  layout.weights.resize(at(strategy.devices_spanned()));
  layout.optimizer.resize(layout.weights.size());
  for (std::int64_t s = 0; s < strategy.pp; ++s) {
    const StagePlan& stage = plan.stages[at(s)];
    const std::vector<int> layers = layers_of(stage);
    const groups::ZeroDegrees some = ranks.zero_degrees(stage.zero_degree), all = ranks.zero_degrees(0);
    const groups::ZeroDegrees& outer = stage.zero_outer ? all : some;
    for (std::int64_t r = 0; r < ranks.grid().ranks_per_stage(); ++r) {
      const groups::Coordinates place = ranks.grid().coordinates({s, r});
      const std::int64_t dense = place.context + split.cp * place.data, expert = place.expert_data;
      const std::int64_t set = place.expert_tensor + split.expert_tp() * place.expert;
      const std::size_t device = at(ranks.device_of(groups::StageRank{s, r}));
      const auto hold = [&](questions::Layout& held, bool divided, const groups::ZeroDegrees& degrees) {
        const std::int64_t over = divided ? degrees.dense : 1, experts_over = divided ? degrees.expert : 1;
        for (const int layer : layers) {
          const LayerParameters& count = kinds[at(job.model.layers[at(layer)])];
          if (count.dense > 0) held[device].push_back(piece_of(2 * layer, place.tensor, split.tp, dense % over, over));
          if (count.expert > 0) {
            held[device].push_back(
                piece_of(2 * layer + 1, set, split.expert_devices(), expert % experts_over, experts_over));
          }
        }
      };
      hold(layout.weights, stage.zero >= 3, some);
      hold(layout.optimizer, stage.zero >= 1, outer);
    }
  }
  return layout;
}

double checkpoint_bytes(const cost::Job& job) {
  const cost::StateBytes bytes = cost::state_bytes(job);
  double trained = 0;
  std::set<std::string> seen;
  for (const int kind : job.model.layers) {
    for (const model::Operator& op : job.model.kinds[at(kind)].operators) {
      for (const model::Weight& weight : op.weights) {
        if (weight.frozen || (!weight.tied_to.empty() && !seen.insert(weight.tied_to).second)) continue;
        trained += static_cast<double>(model::elements(weight));
      }
    }
  }
  return trained * (bytes.weight + bytes.optimizer);
}

std::vector<std::int64_t> survivors(std::int64_t devices, std::int64_t per_node, std::int64_t lost) {
  const std::int64_t nodes = (devices + per_node - 1) / per_node, left = nodes - lost;
  NEST_CHECK(lost >= 0 && left > 0, "some nodes are left");
  std::vector<std::int64_t> node_of;  // before, of every node that is left
  node_of.reserve(at(left));
  for (std::int64_t k = 0; k < left; ++k) node_of.push_back(k);
  std::vector<char> gone(at(nodes), 0);
  for (std::int64_t k = 0; k < lost; ++k) gone[at((2 * k + 1) * nodes / (2 * lost))] = 1;
  std::int64_t last = nodes - 1;
  for (std::int64_t k = 0; k < left; ++k) {
    if (gone[at(k)] == 0) continue;
    while (gone[at(last)] != 0) --last;
    node_of[at(k)] = last--;
  }
  std::vector<std::int64_t> before;
  before.reserve(at(left * per_node));
  for (const std::int64_t node : node_of) {
    for (std::int64_t d = 0; d < per_node; ++d) {
      const std::int64_t device = node * per_node + d;
      before.push_back(device < devices ? device : -1);
    }
  }
  return before;
}

}  // namespace nest
