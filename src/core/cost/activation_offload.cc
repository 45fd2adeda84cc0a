#include "cost/activation_offload.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/index.h"
#include "cost/memory_parts.h"

namespace nest::cost {
namespace {

constexpr double kWayExposed = 0.05;  // set: of both ways, whatever they hide behind

constexpr OffloadSet kExpertParts = set_of(OffloadModule::expert_fc1) | set_of(OffloadModule::moe_act);
constexpr OffloadSet kOfExperts = kExpertParts | set_of(OffloadModule::fused_group_mlp);
constexpr OffloadSet kNorms = set_of(OffloadModule::attn_norm) | set_of(OffloadModule::mlp_norm);

bool captures(const SoftwareStack& stack, GraphScope scope) {
  return std::find(stack.graph_scopes.begin(), stack.graph_scopes.end(), scope) != stack.graph_scopes.end();
}

// Megatron offloads beside graphs that capture attention and router, and not what crosses their borders.
std::string refuse_graphs(const Job& job, OffloadSet modules) {
  const SoftwareStack& stack = job.stack;
  if (stack.graph_scopes.empty() || captures(stack, GraphScope::full)) return {};
  if ((modules & kNorms) != 0) return "norms cross the borders of graphs (graph_scopes)";
  const auto& kinds = job.model.kinds;
  const bool experts = std::any_of(kinds.begin(), kinds.end(), [](const auto& kind) { return kind.experts > 0; });
  if (!captures(stack, GraphScope::attention) || (experts && !captures(stack, GraphScope::router))) {
    return experts ? "graphs must capture attention and router (graph_scopes)"
                   : "graphs must capture attention (graph_scopes)";
  }
  return {};
}

std::string refuse_modules_of(const Job& job, OffloadSet modules) {
  const SoftwareStack& stack = job.stack;
  const auto has = [&](OffloadModule module) { return (modules & set_of(module)) != 0; };
  if (!stack.offload_modules) return fmt::format("stack {} keeps all activations on the device", stack.name);
  if (stack.memory != MemoryModel::megatron) return "only Megatron-Core's memory is known with it";
  if (job.cluster.device.host_link_bytes_per_s <= 0) {
    return fmt::format("the rate of {}'s link to its host is not known (host_link in its file)",
                       job.cluster.device.name);
  }
  if (has(OffloadModule::attn_proj) && !has(OffloadModule::core_attn)) {
    return "attn_proj needs core_attn, which keeps the same tensor";
  }
  if (has(OffloadModule::fused_group_mlp) && (modules & kExpertParts) != 0) {
    return "fused_group_mlp covers expert_fc1 and moe_act";
  }
  if (has(OffloadModule::fused_group_mlp) && !stack.fused_experts) return "fused_group_mlp needs fused_experts";
  if ((modules & kExpertParts) != 0 && stack.fused_experts) {
    return "fused_experts have no expert_fc1 and moe_act of their own; fused_group_mlp is all of them";
  }
  if ((modules & kOfExperts) != 0 && stack.paged_stash > 0) return "paged_stash keeps what experts need already";
  if (stack.offloaded_layers > 0) return "offloaded_layers are on the host as a whole";
  return refuse_graphs(job, modules);
}

}  // namespace

std::string refuse_offload(const Job& job, OffloadSet modules) {
  if (modules == 0) return {};
  const std::string why = refuse_modules_of(job, modules);
  return why.empty() ? why : fmt::format("offload={}: {}", offload_text(modules), why);
}

std::string refuse_offload(const SoftwareStack& stack, OffloadSet modules, const Recomputation& recompute) {
  if (modules == 0) return {};
  const std::string text = offload_text(modules);
  if (recompute.whole_layers()) {
    return fmt::format(
        "offload={}: layers that are recomputed from their inputs (recompute={}) keep nothing in modules", text,
        to_string(recompute));
  }
  const auto& own = stack.selective_modules;
  const bool experts = recompute == Recompute::selective
                           ? std::find(own.begin(), own.end(), model::Module::moe) != own.end()
                           : (recompute.modules & set_of(RecomputeModule::moe)) != 0;
  if ((modules & kOfExperts) != 0 && experts) {
    return fmt::format("offload={}: experts that are recomputed as a whole (recompute={}) keep nothing", text,
                       to_string(recompute));
  }
  return {};
}

double exposed_way_s(double moved_bytes, double link_bytes_per_s, double forward_s, double backward_s) {
  if (moved_bytes <= 0) return 0;
  const double way_s = moved_bytes / link_bytes_per_s;
  return std::max(0.0, way_s - forward_s) + std::max(0.0, way_s - backward_s) + kWayExposed * 2 * way_s;
}

split::HostBytes host_bytes(const split::SavedBytes& saved, int treatment) {
  switch (treatment) {
    case kNothing: return saved.none_host;
    case kSelective: return saved.selective_host;
    case kEverything: return {};
    default: return saved.sets_host[at(treatment - kFirstSet)];
  }
}

void add_way_to_host(const Job& job, int layer, const Split& split, std::int64_t micro_batch,
                     const std::vector<RecomputeSet>& sets, LayerPrice& price) {
  const LayerView view = view_layer(job, layer, split, micro_batch, {sets});
  if (!view.block()) return;
  price.way_s.assign(price.recompute_s.size(), 0);
  for (std::size_t t = 0; t < price.recompute_s.size(); ++t) {
    const double moved = host_bytes(view.local.saved, static_cast<int>(t)).moved;
    price.way_s[t] = exposed_way_s(moved, job.cluster.device.host_link_bytes_per_s, price.forward_s,
                                   price.backward_s + price.recompute_s[t]);
    price.recompute_s[t] += price.way_s[t];
  }
}

double layers_way_s(const Job& job, const Split& split, std::int64_t micro_batch,
                    const std::vector<LayerPrice>& kinds) {
  const double link = job.cluster.device.host_link_bytes_per_s;
  if (link <= 0) return 0;
  double moved = 0, forward_s = 0, backward_s = 0;
  int away = job.stack.offloaded_layers;
  for (const int kind : job.model.layers) {
    forward_s += kinds[at(kind)].forward_s;
    backward_s += kinds[at(kind)].backward_s;
    if (away == 0 || job.model.kinds[at(kind)].kind != model::LayerKind::block) continue;
    LayerPrice memory;
    price_layer_memory(job, kind, split, micro_batch, memory);
    moved += memory.kept_bytes[kNothing];
    --away;
  }
  return exposed_way_s(moved, link, forward_s, backward_s);
}

}  // namespace nest::cost
