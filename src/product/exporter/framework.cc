#include "exporter/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/units.h"
#include "cost/group_time.h"
#include "exporter/gpt.h"

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

void check_placement(const cost::Job& job, const Strategy& strategy, bool other_order, std::int64_t per_host,
                     Obstacles& found) {
  if (job.cluster.torus) {
    const bool tight = strategy.dp_inner == strategy.dp;
    if (!tight) found.emplace_back("cannot place ranks on a torus other than in its own order");
    return;
  }
  const std::vector<Host> hosts = hosts_of(job.cluster, per_host);
  const bool reached = other_order ? launch_order(hosts, strategy).has_value()
                                   : host_order(hosts, strategy, groups::RankOrder::stages_last).has_value();
  if (!reached) {
    found.push_back(
        fmt::format("cannot place ranks like that: hosts would run ranks that are not consecutive "
                    "({} replicas together, {} devices a stage)",
                    strategy.dp_inner, strategy.split.replica_devices()));
  }
}

}  // namespace

std::optional<launch::Framework> framework_of(const cost::SoftwareStack& stack) {
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

std::vector<std::string> obstacles(launch::Framework framework, const cost::Job& job, const Strategy& strategy,
                                   const std::vector<StagePlan>& stages, std::int64_t per_host) {
  const FrameworkRules& rules = rules_of(framework);
  Obstacles found;
  check_uniform(job, strategy, stages, found);
  check_batch(job, strategy, found);
  rules.refuse(job, strategy, stages, found);
  check_placement(job, strategy, rules.counts_stages_first, per_host, found);
  return found;
}

std::string precision_obstacle(launch::Framework framework, Precision precision) {
  if (rules_of(framework).computes_in(precision)) return {};
  return fmt::format("cannot compute in {}", to_string(precision));
}

Precision usable_precision(launch::Framework framework, Precision precision) {
  return rules_of(framework).computes_in(precision) ? precision : Precision::bf16;
}

}  // namespace nest::exporter
