#include "search/choices.h"

#include <algorithm>
#include <bit>

#include "base/index.h"
#include "cost/activation_offload.h"
#include "cost/facts.h"
#include "cost/layer_price.h"

namespace nest::search {
namespace {

constexpr std::size_t kMostSets = 64;
constexpr int kMostNamed = 3;  // modules of a set, where there are too many sets

// Modules of which some layer drops enough.
RecomputeSet worthwhile_modules(const cost::Job& job) {
  cost::Treatments singles;
  for (const auto& word : kRecomputeModuleWords) singles.sets.push_back(set_of(word.value));
  RecomputeSet found = 0;
  for (std::size_t kind = 0; kind < job.model.kinds.size(); ++kind) {
    if (job.model.kinds[kind].kind != model::LayerKind::block) continue;
    cost::LayerPrice price;
    cost::price_layer_memory(job, static_cast<int>(kind), Split{}, 1, price, singles);
    for (std::size_t i = 0; i < singles.sets.size(); ++i) {
      const double kept = price.kept_bytes[cost::kNothing];
      const double spared = kept - price.kept_bytes[cost::kFirstSet + i];  // a layer without backward keeps nothing
      if (kept > 0 && spared >= kLeastSpared * kept) found |= singles.sets[i];
    }
  }
  return found;
}

// Experts as a whole cover their parts.
bool repeats_itself(RecomputeSet set) {
  constexpr RecomputeSet kParts = set_of(RecomputeModule::moe_act) | set_of(RecomputeModule::shared_experts);
  return (set & set_of(RecomputeModule::moe)) != 0 && (set & kParts) != 0;
}

RecomputeSet own_set(const cost::SoftwareStack& stack) {
  RecomputeSet own = 0;
  for (const auto& word : kRecomputeModuleWords) {
    const auto& modules = stack.selective_modules;
    const bool named = std::find(modules.begin(), modules.end(), split::module_of(word.value)) != modules.end();
    if (named) own |= set_of(word.value);
  }
  return std::popcount(own) == static_cast<int>(stack.selective_modules.size()) ? own : RecomputeSet{0};
}

}  // namespace

std::vector<RecomputeSet> offered_sets(const cost::Job& job) {
  std::vector<RecomputeSet> sets;
  if (!job.stack.recompute_modules) return sets;
  const RecomputeSet worthwhile = worthwhile_modules(job), own = own_set(job.stack);
  for (unsigned bits = 1; bits <= worthwhile; ++bits) {
    const auto set = static_cast<RecomputeSet>(bits);
    if ((set & ~worthwhile) != 0 || set == own || repeats_itself(set)) continue;
    if (cost::refuse_modules(job.stack, set).empty()) sets.push_back(set);
  }
  std::stable_sort(sets.begin(), sets.end(),
                   [](RecomputeSet a, RecomputeSet b) { return std::popcount(a) < std::popcount(b); });
  if (sets.size() > kMostSets) {
    std::erase_if(sets, [](RecomputeSet set) { return std::popcount(set) > kMostNamed; });
  }
  return sets;
}

std::vector<OffloadSet> offered_offloads(const cost::Job& job) {
  // Attention's result leaves with both of its keepers only.
  constexpr OffloadSet kAttention = set_of(OffloadModule::core_attn) | set_of(OffloadModule::attn_proj);
  struct Part {
    OffloadSet modules;
    double freed;
  };
  std::vector<Part> parts;
  std::vector<double> layers(job.model.kinds.size(), 0.0);  // of every kind
  for (const int kind : job.model.layers) layers[at(kind)] += 1;
  for (const OffloadSet modules : {kAttention, set_of(OffloadModule::fused_group_mlp), set_of(OffloadModule::moe_act),
                                   set_of(OffloadModule::expert_fc1), set_of(OffloadModule::qkv_linear),
                                   set_of(OffloadModule::mlp_norm), set_of(OffloadModule::attn_norm)}) {
    if (!cost::refuse_offload(job, modules).empty()) continue;
    Part part{modules, 0};
    bool worthwhile = false;
    for (std::size_t kind = 0; kind < layers.size(); ++kind) {
      cost::LayerPrice price;
      if (layers[kind] == 0 || job.model.kinds[kind].kind != model::LayerKind::block) continue;
      cost::price_layer_memory(job, static_cast<int>(kind), Split{.offload = modules}, 1, price);
      const double freed = price.host[cost::kNothing].freed;
      part.freed += layers[kind] * freed;
      worthwhile = worthwhile || (freed > 0 && freed >= kLeastMoved * (price.kept_bytes[cost::kNothing] + freed));
    }
    if (worthwhile) parts.push_back(part);
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.freed > b.freed; });
  std::vector<OffloadSet> sets;
  OffloadSet together = 0;
  for (const Part& part : parts) {
    together |= part.modules;
    if (together != part.modules) sets.push_back(part.modules);
    sets.push_back(together);
  }
  return sets;
}

std::vector<OffloadSet> list_offloads(const cost::Job& job, const plan::PlanLimits& limits) {
  std::vector<OffloadSet> sets;
  if (limits.offload[0]) sets.push_back(0);
  if (limits.offload[1]) {
    const std::vector<OffloadSet> offered = offered_offloads(job);
    sets.insert(sets.end(), offered.begin(), offered.end());
  }
  for (const OffloadSet named : limits.offload_only) {
    const bool known = std::find(sets.begin(), sets.end(), named) != sets.end();
    if (!known && cost::refuse_offload(job, named).empty()) sets.push_back(named);
  }
  return sets;
}

std::vector<Recomputation> list_recomputations(const cost::Job& job, const plan::PlanLimits& limits) {
  std::vector<Recomputation> all{Recompute::none, Recompute::selective};
  for (const RecomputeSet set : offered_sets(job)) all.push_back(Recomputation::of_modules(set));
  all.emplace_back(Recompute::full);
  for (const std::int32_t layers : {2, 4, 8}) all.push_back(Recomputation::of_layers(Recompute::uniform, layers));
  // What somebody names is taken as it is.
  for (const Recomputation& named : limits.recompute_only) {
    if (named.kind != Recompute::block && std::find(all.begin(), all.end(), named) == all.end()) all.push_back(named);
  }
  std::erase_if(all, [&](const Recomputation& one) {
    if (one.kind == Recompute::uniform && !job.stack.recompute_layers) return true;
    if (one.kind == Recompute::modules && !cost::refuse_modules(job.stack, one.modules).empty()) return true;
    return !limits.admits(one);
  });
  return all;
}

bool offers_blocks(const cost::Job& job, const plan::PlanLimits& limits) {
  return job.stack.recompute_layers && limits.recompute[at(Recompute::block)];
}

std::vector<StageChoice> list_shardings(const cost::Job& job, const plan::PlanLimits& limits) {
  // Where weights travel in no more bytes than gradients, ZeRO 3 inside a node with the optimizer's state there too is
  // never better than with that over all replicas. Micro-batches exchange the same; a step exchanges g + w bytes between
  // the groups instead of 2 g over the same lines, and what is exposed grows with what is exchanged; every rank updates
  // and holds less. Not so for FSDP2, which scatters once per step in pipelines; nor for matrices that are updated whole
  // and dealt out to ranks: with more of them a deal may be worse; nor under the law of the least, which lets scatters
  // wait behind other stages, but no gathers.
  const bool wider_is_better =
      job.law == schedule::Law::formula && job.stack.weight_traffic_bytes <= job.stack.gradient_traffic_bytes &&
      job.stack.memory != cost::MemoryModel::fsdp && !cost::facts_of(job.run.optimizer).orthogonalises;
  std::vector<StageChoice> ways;
  for (int zero = 0; zero < 4; ++zero) {
    if (!limits.zero[at(zero)]) continue;
    const bool inside = zero > 0 && limits.shard_in_node;
    const bool wider = inside && zero == 3 && limits.zero_outer[1];
    if (limits.zero_outer[0]) ways.push_back({{}, zero, false});
    if (limits.zero_outer[0] && inside && !(wider && wider_is_better)) ways.push_back({{}, zero, true});
    if (wider) ways.push_back({{}, zero, true, true});
  }
  return ways;
}

std::optional<int> find_choice(const std::vector<StageChoice>& choices, const StageChoice& choice) {
  const auto found = std::find(choices.begin(), choices.end(), choice);
  if (found == choices.end()) return std::nullopt;
  return static_cast<int>(found - choices.begin());
}

StagePlan stage_of(std::int64_t begin, std::int64_t end, const StageChoice& choice, std::int64_t node_degree) {
  StagePlan stage;
  stage.first = static_cast<int>(begin);
  stage.last = static_cast<int>(end - 1);
  stage.zero = choice.zero;
  stage.zero_degree = choice.in_node ? node_degree : 0;
  stage.zero_outer = choice.outer;
  stage.recompute = choice.recompute;
  return stage;
}

}  // namespace nest::search
