#include "exporter/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/units.h"
#include "cost/group_time.h"
#include "exporter/gpt.h"

namespace nest {
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
  return fmt::format("ZeRO {} over {} ranks", sharding.zero, sharding.degree);
}

using Obstacles = std::vector<std::string>;

void check_uniform(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages, Obstacles& found) {
  const std::vector<StageBlocks> blocks = stage_blocks(job.model, stages);
  std::vector<std::pair<std::size_t, std::string>> sharding, recompute;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    sharding.emplace_back(s, sharding_word(sharding_of(strategy, stages[s]), dense_replicas(strategy)));
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

void check_batch(const Job& job, const Strategy& strategy, Obstacles& found) {
  const std::int64_t step = strategy.micro_batch * strategy.batch_ranks();
  if (job.run.global_batch % step != 0) {
    found.push_back(
        fmt::format("cannot train on a batch of {} with {} sequences at a time", job.run.global_batch, step));
  }
}

void check_placement(const Job& job, const Strategy& strategy, bool other_order, Obstacles& found) {
  if (job.cluster.torus) {
    const bool tight = strategy.dp_inner == strategy.dp;
    if (!tight) found.emplace_back("cannot place ranks on a torus other than in its own order");
    return;
  }
  const std::vector<Host> hosts = hosts_of(job.cluster);
  const bool reached = other_order ? launch_order(hosts, strategy).has_value()
                                   : host_order(hosts, strategy, RankOrder::stages_last).has_value();
  if (!reached) {
    found.push_back(
        fmt::format("cannot place ranks like that: hosts would run ranks that are not consecutive "
                    "({} replicas together, {} devices a stage)",
                    strategy.dp_inner, strategy.devices_per_stage()));
  }
}

void check_experts(const Strategy& strategy, Obstacles& found) {
  if (keeps_expert_groups(strategy)) return;
  found.push_back(fmt::format(
      "cannot spread experts across context-parallel groups (cp={}, ep={}): it takes neighbouring ranks, context first",
      strategy.split.cp, strategy.split.ep));
}

void check_chunks(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages, Obstacles& found) {
  if (strategy.virtual_stages == 1) return;
  const std::vector<StageBlocks> chunks = chunk_blocks(job.model, stages, strategy.virtual_stages);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i].blocks > 0 || chunks[i].embedding || chunks[i].head) continue;
    found.push_back(fmt::format("cannot interleave stage {}: it has too few layers for its {} chunks",
                                i % stages.size(), strategy.virtual_stages));
    return;
  }
  if (!keeps_priced_layers(job.model, stages, chunks)) {
    found.emplace_back("cannot interleave layers of several kinds that are cut in the middle of their pattern");
  }
}

void check_rounds(const Job& job, const Strategy& strategy, Obstacles& found) {
  const std::int64_t m = micro_batches(strategy, job.run.global_batch);
  if (strategy.virtual_stages > 1 && m % strategy.pp != 0) {
    found.push_back(fmt::format("cannot interleave {} micro-batches on {} stages: no multiple", m, strategy.pp));
  }
}

Sharding common_sharding(const Strategy& strategy, const std::vector<StagePlan>& stages) {
  return sharding_of(strategy, stages.front());
}

bool recomputes(const std::vector<StagePlan>& stages, Recompute mode) {
  return std::any_of(stages.begin(), stages.end(), [&](const StagePlan& stage) { return stage.recompute == mode; });
}

void check_megatron(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages, Obstacles& found) {
  const Sharding sharding = common_sharding(strategy, stages);
  if (sharding.zero >= 2 && strategy.pp > 1) {
    found.push_back(
        fmt::format("cannot shard gradients or weights of a pipeline (ZeRO {}, pp={}); its distributed "
                    "optimizer is ZeRO 1",
                    sharding.zero, strategy.pp));
  }
  if (sharding.zero > 0 && sharding.degree < dense_replicas(strategy) && has_experts(job.model)) {
    found.push_back(fmt::format("cannot shard over {} of {} ranks in a model with experts", sharding.degree,
                                dense_replicas(strategy)));
  }
  if (strategy.schedule == Schedule::gpipe) found.emplace_back("cannot run GPipe's schedule; it runs 1F1B");
  if (has_experts(job.model) && strategy.split.tp > 1 && !strategy.split.sp) {
    found.emplace_back("cannot train experts with tensor parallelism but without sequence parallelism");
  }
  if (recomputes(stages, Recompute::selective) && job.stack.selective != SelectiveKind::modules) {
    found.push_back(fmt::format("cannot recompute the way stack {} does", job.stack.name));
  }
  if (strategy.virtual_stages > 1 && strategy.pp == 2 && !job.stack.pipeline_overlap) {
    found.emplace_back("cannot interleave two stages without overlapping their messages");
  }
  check_rounds(job, strategy, found);
  check_chunks(job, strategy, stages, found);
  check_experts(strategy, found);
}

void check_deepspeed(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages, Obstacles& found) {
  const Split& split = strategy.split;
  const Sharding sharding = common_sharding(strategy, stages);
  if (sharding.zero >= 2 && strategy.pp > 1) {
    found.push_back(fmt::format("cannot combine ZeRO {} with a pipeline (pp={}); its pipelines take ZeRO 0 or 1",
                                sharding.zero, strategy.pp));
  }
  if (strategy.virtual_stages > 1) found.emplace_back("cannot interleave; its pipelines run plain 1F1B");
  if (strategy.schedule == Schedule::gpipe) found.emplace_back("cannot run GPipe's schedule; it runs 1F1B");
  if (split.sp) found.emplace_back("cannot split norms along the sequence (sp)");
  if (split.cp > 1) found.push_back(fmt::format("cannot pass keys and values around a ring (cp={})", split.cp));
  if (split.ep > 1 && (strategy.pp > 1 || split.tp > 1)) {
    found.push_back(
        fmt::format("cannot spread experts (ep={}) inside a pipeline or with tensor parallelism", split.ep));
  }
  if (split.ep > 1 && sharding.zero > 0 && sharding.degree < dense_replicas(strategy)) {
    found.emplace_back("cannot shard over part of the ranks in a model with spread experts");
  } else if (sharding.zero > 0 && sharding.degree < dense_replicas(strategy) && (sharding.zero < 3 || split.tp > 1)) {
    found.push_back(fmt::format("cannot shard ZeRO {} over {} of {} ranks", sharding.zero, sharding.degree,
                                dense_replicas(strategy)));
  }
  if (recomputes(stages, Recompute::selective))
    found.emplace_back("cannot recompute selectively; it checkpoints whole layers");
  if (strategy.pp > 1 && !is_even_cut(job.model, stages, 1)) {
    found.emplace_back("cannot cut a pipeline where it is told; it balances blocks itself");
  }
}

void check_torchtitan(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
                      Obstacles& found) {
  const Split& split = strategy.split;
  const Sharding sharding = common_sharding(strategy, stages);
  if (sharding.zero == 1)
    found.emplace_back("cannot shard the optimizer alone (ZeRO 1); it shards gradients too, or nothing");
  const bool alone = split.tp == 1 && split.cp == 1 && split.ep == 1 && strategy.pp == 1;
  if (sharding.zero == 0 && dense_replicas(strategy) > 1 && !alone) {
    found.emplace_back("cannot replicate without sharding beside any other parallelism (ZeRO 0)");
  }
  if (sharding.zero > 0 && sharding.degree < dense_replicas(strategy)) {
    if (split.ep > 1) found.emplace_back("cannot shard over part of the ranks in a model with spread experts");
    if (sharding.degree % split.cp != 0) found.emplace_back("cannot shard over part of a context-parallel group");
  }
  if (split.tp > 1 && !split.sp) found.emplace_back("cannot run tensor parallelism without sequence parallelism");
  if (recomputes(stages, Recompute::selective) && job.stack.selective != SelectiveKind::every_second_matmul) {
    found.push_back(fmt::format("cannot recompute selectively the way stack {} does", job.stack.name));
  }
  check_rounds(job, strategy, found);
  check_chunks(job, strategy, stages, found);
  check_experts(strategy, found);
}

}  // namespace

const char* to_string(Framework framework) {
  switch (framework) {
    case Framework::megatron: return "megatron";
    case Framework::nemo: return "nemo";
    case Framework::deepspeed: return "deepspeed";
    case Framework::torchtitan: return "torchtitan";
  }
  return "?";
}

Sharding sharding_of(const Strategy& strategy, const StagePlan& stage) {
  const std::int64_t all = dense_replicas(strategy);
  const std::int64_t degree = stage.zero_degree == 0 ? all : stage.zero_degree;
  if (stage.zero == 0 || degree <= 1) return {0, 1};
  return {stage.zero, degree};
}

std::vector<std::string> obstacles(Framework framework, const Job& job, const Strategy& strategy,
                                   const std::vector<StagePlan>& stages) {
  Obstacles found;
  check_uniform(job, strategy, stages, found);
  check_batch(job, strategy, found);
  const bool megatron = framework == Framework::megatron || framework == Framework::nemo;
  if (megatron) check_megatron(job, strategy, stages, found);
  if (framework == Framework::deepspeed) check_deepspeed(job, strategy, stages, found);
  if (framework == Framework::torchtitan) check_torchtitan(job, strategy, stages, found);
  check_placement(job, strategy, megatron, found);
  return found;
}

std::string precision_obstacle(Framework framework, ComputePrecision precision) {
  if (usable_precision(framework, precision) == precision) return {};
  return fmt::format("cannot compute in {}", to_string(precision));
}

ComputePrecision usable_precision(Framework framework, ComputePrecision precision) {
  const bool narrow = precision == ComputePrecision::fp8 || precision == ComputePrecision::fp4;
  if (framework == Framework::deepspeed && narrow) return ComputePrecision::bf16;
  if (framework == Framework::torchtitan &&
      (precision == ComputePrecision::fp4 || precision == ComputePrecision::fp16)) {
    return ComputePrecision::bf16;
  }
  return precision;
}

const char* usual_stack(Framework framework) {
  switch (framework) {
    case Framework::megatron:
    case Framework::nemo: return "megatron-core";
    case Framework::deepspeed: return "megatron-deepspeed";
    case Framework::torchtitan: return "fsdp2";
  }
  return "";
}

}  // namespace nest
