#include "exporter/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/units.h"
#include "cost/evaluate.h"
#include "cost/group_time.h"
#include "exporter/gpt.h"
#include "schedule/rules.h"

namespace nest::exporter {
namespace {

// "stage 3", "stages 0-2 and 5"
std::string stages_text(const std::vector<std::size_t>& stages) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < stages.size();) {
    std::size_t end = i + 1;
    while (end < stages.size() && stages[end] == stages[end - 1] + 1) ++end;
    runs.push_back(end - i == 1 ? fmt::format("{}", stages[i]) : fmt::format("{}-{}", stages[i], stages[end - 1]));
    i = end;
  }
  return fmt::format("stage{} {}", stages.size() == 1 ? "" : "s", fmt::join(runs, ", "));
}

// Stages whose word differs from the most common one, with the words: {"shard stage 3 alone", "ZeRO 3 there, …"}.
struct Odd {
  std::vector<std::size_t> stages;
  std::string there, elsewhere;
};

std::optional<Odd> odd_stages(const std::vector<std::pair<std::size_t, std::string>>& words) {
  std::map<std::string, std::size_t> counts;
  for (const auto& [stage, word] : words) ++counts[word];
  if (counts.size() < 2) return std::nullopt;
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  Odd odd;
  odd.elsewhere = most->first;
  for (const auto& [stage, word] : words) {
    if (word == most->first) continue;
    odd.stages.push_back(stage);
    if (odd.there.find(word) == std::string::npos) odd.there += (odd.there.empty() ? "" : " or ") + word;
  }
  return odd;
}

std::string sharding_word(const Sharding& sharding, std::int64_t all) {
  if (sharding.zero == 0 || sharding.degree == all) return fmt::format("ZeRO {}", sharding.zero);
  return fmt::format("ZeRO {} over {} ranks{}", sharding.zero, sharding.degree,
                     sharding.outer ? ", optimizer over all" : "");
}

void check_uniform(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
                   Obstacles& found) {
  const std::vector<StageBlocks> blocks = stage_blocks(job.model, stages);
  std::vector<std::pair<std::size_t, std::string>> sharding, recompute;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    sharding.emplace_back(s, sharding_word(sharding_of(strategy, stages[s]), groups::dense_replicas(strategy)));
    if (blocks[s].blocks > 0) recompute.emplace_back(s, to_string(stages[s].recompute));
  }
  if (const auto odd = odd_stages(sharding)) {
    found.push_back(fmt::format("cannot shard {} alone ({} there, {} elsewhere)", stages_text(odd->stages), odd->there,
                                odd->elsewhere));
  }
  if (const auto odd = odd_stages(recompute)) {
    found.push_back(fmt::format("cannot recompute differently on {} ({} there, {} elsewhere)", stages_text(odd->stages),
                                odd->there, odd->elsewhere));
  }
}

void check_batch(const cost::Job& job, const Strategy& strategy, Obstacles& found) {
  const std::int64_t step = strategy.micro_batch * strategy.dp;
  if (job.run.global_batch % step != 0) {
    found.push_back(
        fmt::format("cannot train on a batch of {} with {} sequences at a time", job.run.global_batch, step));
  }
}

// Where ranks can be started: host by host, on a torus in its own order.
class Placement {
 public:
  Placement(const FrameworkRules& rules, const cost::Job& job, std::int64_t per_host)
      : either_order_(rules.counts_stages_first), torus_(job.cluster.torus.has_value()) {
    if (torus_) return;
    hosts_ = hosts_of(job.cluster, per_host);
    host_size_ = host_size(hosts_);
  }

  bool is_torus() const { return torus_; }
  bool reaches(const Strategy& strategy) const {
    if (torus_) return strategy.dp_inner == strategy.dp;
    return starts_host_by_host(hosts_, host_size_, strategy, either_order_);
  }

 private:
  bool either_order_, torus_;
  std::vector<Host> hosts_;
  std::optional<std::int64_t> host_size_;
};

void check_placement(const Placement& placement, const Strategy& strategy, Obstacles& found) {
  if (placement.reaches(strategy)) return;
  if (placement.is_torus()) {
    found.emplace_back("cannot place ranks on a torus other than in its own order");
  } else {
    found.push_back(
        fmt::format("cannot place ranks like that: hosts would run ranks that are not consecutive "
                    "({} replicas together, {} devices a stage)",
                    strategy.dp_inner, strategy.split.replica_devices()));
  }
}

// Of every treatment that there is; what several have in common once.
void refuse_treatments(const FrameworkRules& rules, const cost::Job& job, const Strategy& strategy,
                       const std::vector<StagePlan>& stages, Obstacles& found) {
  const auto alike = [](const StagePlan& a, const StagePlan& b) {
    return a.zero == b.zero && a.zero_degree == b.zero_degree && a.zero_outer == b.zero_outer &&
           a.recompute == b.recompute;
  };
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (s > 0 && alike(stages[s], stages[s - 1])) continue;
    Obstacles here;
    rules.refuse(job, strategy, stages[s], here);
    for (std::string& obstacle : here) {
      if (std::find(found.begin(), found.end(), obstacle) == found.end()) found.push_back(std::move(obstacle));
    }
  }
}

bool has_mixed_blocks(const model::Model& model) {
  return std::count_if(model.kinds.begin(), model.kinds.end(),
                       [](const model::Layer& layer) { return layer.counted_block(); }) > 1;
}

}  // namespace

std::optional<launch::Framework> framework_of(const cost::SoftwareStack& stack) {
  switch (stack.framework) {
    case cost::Runner::usual: break;
    case cost::Runner::none: return std::nullopt;
    case cost::Runner::megatron: return launch::Framework::megatron;
    case cost::Runner::deepspeed: return launch::Framework::deepspeed;
    case cost::Runner::torchtitan: return launch::Framework::torchtitan;
    case cost::Runner::fsdp: return launch::Framework::fsdp;
  }
  switch (stack.memory) {
    case cost::MemoryModel::megatron: return launch::Framework::megatron;
    case cost::MemoryModel::fsdp: return launch::Framework::torchtitan;
    case cost::MemoryModel::megatron_deepspeed: return launch::Framework::deepspeed;
    case cost::MemoryModel::plain:
    case cost::MemoryModel::nanotron:
    case cost::MemoryModel::internevo: break;
  }
  return std::nullopt;
}

bool is_own_stack(launch::Framework framework, const cost::SoftwareStack& stack) {
  if (stack.framework == cost::Runner::usual) return rules_of(framework).is_own(stack.memory);
  launch::Framework engine = framework;
  if (framework == launch::Framework::nemo) engine = launch::Framework::megatron;  // the same one
  if (framework == launch::Framework::torchtitan_main) engine = launch::Framework::torchtitan;
  return framework_of(stack) == engine;
}

std::vector<std::string> obstacles(launch::Framework framework, const cost::Job& job, const Strategy& strategy,
                                   const std::vector<StagePlan>& stages, std::int64_t per_host) {
  const FrameworkRules& rules = rules_of(framework);
  Obstacles found;
  check_uniform(job, strategy, stages, found);
  check_batch(job, strategy, found);
  refuse_treatments(rules, job, strategy, stages, found);
  rules.refuse_cuts(job, strategy, stages, found);
  check_placement(Placement(rules, job, per_host), strategy, found);
  return found;
}

plan::PlanLimits runnable_limits(launch::Framework framework, const cost::Job& job, std::int64_t per_host, bool folds) {
  const FrameworkRules& rules = rules_of(framework);
  plan::PlanLimits limits;
  limits.uniform = true;
  limits.uneven_batch = false;
  limits.any_rounds = false;
  rules.restrict(job, limits);
  auto runs = std::make_shared<plan::Runnable>();
  const bool flat_only = !folds && has_mixed_blocks(job.model);
  runs->places = [&rules, &job, flat_only, placement = Placement(rules, job, per_host)](const Strategy& strategy) {
    if (flat_only && strategy.pp > 1 && schedule::rule_of(strategy.schedule).is_v()) return false;
    if (!placement.reaches(strategy)) return false;
    if (!rules.cuts_evenly || strategy.pp == 1) return true;
    Obstacles found;
    rules.refuse_cuts(job, strategy, cost::even_stages(job, strategy, Recompute::none, 0), found);
    return found.empty();
  };
  runs->treats = [&rules, &job](const Strategy& strategy, const StagePlan& like) {
    Obstacles found;
    rules.refuse(job, strategy, like, found);
    return found.empty();
  };
  limits.runs = std::move(runs);
  return limits;
}

std::string precision_obstacle(launch::Framework framework, Precision precision) {
  if (rules_of(framework).computes_in(precision)) return {};
  return fmt::format("cannot compute in {}", to_string(precision));
}

Precision usable_precision(launch::Framework framework, Precision precision) {
  return rules_of(framework).computes_in(precision) ? precision : Precision::bf16;
}

}  // namespace nest::exporter
