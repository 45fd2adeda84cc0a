// What Megatron-LM runs, and NeMo, which is the same engine.
#include <fmt/format.h>

#include <algorithm>

#include "cost/group_time.h"
#include "exporter/framework_rules.h"
#include "exporter/gpt.h"

namespace nest::exporter {
namespace {

bool has_latent_attention(const model::Model& model) {
  return std::any_of(model.architecture.towers.begin(), model.architecture.towers.end(), [](const model::Tower& tower) {
    return std::any_of(tower.kinds.begin(), tower.kinds.end(),
                       [](const model::Block& block) { return block.attention.latent.has_value(); });
  });
}

// Several instances of the distributed optimizer (num_distributed_optimizer_instances): experts have as many.
void refuse_instances(const cost::Job& job, const Strategy& strategy, const Sharding& sharding, Obstacles& found) {
  const std::int64_t replicas = groups::dense_replicas(strategy), instances = replicas / sharding.degree;
  const std::int64_t experts = groups::zero_degrees(strategy, sharding.degree).expert;
  if (has_experts(job.model) && experts * instances != strategy.edp()) {
    found.push_back(
        fmt::format("cannot shard over {} of {} ranks: {} instances of its optimizer do not divide the {} "
                    "replicas of every expert",
                    sharding.degree, replicas, instances, strategy.edp()));
  }
  if (job.run.optimizer == Optimizer::muon) {
    found.push_back(fmt::format("cannot shard over {} of {} ranks with Muon, whose optimizer has one instance",
                                sharding.degree, replicas));
  }
}

// Layers of two micro-batches run side by side to hide the exchanges of experts.
bool pairs_layers(const cost::Job& job) { return job.stack.expert_overlap && has_experts(job.model); }

bool has_partial_graphs(const cost::SoftwareStack& stack) {
  const auto& scopes = stack.graph_scopes;
  return !scopes.empty() && std::find(scopes.begin(), scopes.end(), cost::GraphScope::full) == scopes.end();
}

// Megatron-FSDP, its first version: in pipelines as without them, its hooks gather and scatter layers with every
// micro-batch. combined_1f1b.py and mcore_fsdp_adapter.py assert the rest.
void refuse_fsdp(const cost::Job& job, const Strategy& strategy, const Sharding& sharding, Obstacles& found) {
  if (sharding.zero < 2) return;
  if (job.run.optimizer == Optimizer::muon) {
    found.emplace_back("cannot shard gradients or weights (ZeRO 2, 3) with Muon, which updates whole matrices");
  }
  if (!pairs_layers(job) || strategy.split.ep == 1) return;
  if (strategy.pp > 1) {
    found.push_back(
        fmt::format("cannot hide exchanges of experts behind other micro-batches in a pipeline whose gradients or "
                    "weights are sharded (ZeRO {}, pp={})",
                    sharding.zero, strategy.pp));
  }
  if (has_partial_graphs(job.stack)) {
    found.push_back(
        fmt::format("cannot capture parts of layers in graphs where exchanges of experts hide behind other "
                    "micro-batches and gradients or weights are sharded (ZeRO {})",
                    sharding.zero));
  }
}

}  // namespace

void refuse_megatron(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found) {
  const Sharding sharding = sharding_of(strategy, like);
  if (sharding.zero > 0 && sharding.degree < groups::dense_replicas(strategy))
    refuse_instances(job, strategy, sharding, found);
  refuse_fsdp(job, strategy, sharding, found);
  refuse_split_gradients(strategy, found);
  if (strategy.schedule == Schedule::gpipe) found.emplace_back("cannot run GPipe's schedule; it runs 1F1B");
  if (like.recompute.kind == Recompute::selective && job.stack.selective != cost::SelectiveKind::modules) {
    found.push_back(fmt::format("cannot recompute the way stack {} does", job.stack.name));
  }
  const ContextExchange exchange = strategy.split.cp_comm;
  if ((exchange == ContextExchange::all_gather || exchange == ContextExchange::a2a) &&
      has_latent_attention(job.model)) {
    found.push_back(fmt::format("cannot exchange contexts of latent attention by {}", to_string(exchange)));
  }
  if (strategy.virtual_stages > 1 && strategy.pp == 2 && !job.stack.pipeline_overlap) {
    found.emplace_back("cannot interleave two stages without overlapping their messages");
  }
  refuse_rounds(job, strategy, found);
}

void restrict_megatron(const cost::Job& job, plan::PlanLimits& limits) {
  limits.more_schedules = false;
  if (job.stack.selective != cost::SelectiveKind::modules) limits.recompute[at(Recompute::selective)] = false;
  if (job.run.optimizer != Optimizer::muon) return;
  plan::set_limit(limits, "zero=0,1");
  limits.shard_in_node = false;
}

}  // namespace nest::exporter
