// Which strategies are sound, and how frameworks spread layers when nobody says.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/units.h"
#include "cost/activation_offload.h"
#include "cost/evaluate.h"
#include "cost/group_time.h"
#include "plan/pipeline_shape.h"
#include "schedule/pipeline.h"

namespace nest::cost {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 24;

// As many micro-batches as the schedule takes: whether there are is asked of the batch.
std::int64_t enough_micro_batches(const Strategy& strategy) {
  return std::max<std::int64_t>(1, schedule::rule_of(strategy.schedule).fewest * strategy.pp);
}

std::string refuse_sizes(const Strategy& strategy) {
  const struct {
    const char* name;
    std::int64_t value;
  } sizes[] = {{"pp", strategy.pp},
               {"dp", strategy.dp},
               {"micro-batch", strategy.micro_batch},
               {"virtual stages", strategy.virtual_stages},
               {"dp_inner", strategy.dp_inner}};
  for (const auto& size : sizes) {
    if (size.value < 1 || size.value > kMost) {
      return fmt::format("{}={} is out of range; allowed is 1 … {}", size.name, size.value, format_integer(kMost));
    }
  }
  if (strategy.dp % strategy.dp_inner != 0) {
    return fmt::format("dp_inner={} does not divide dp={}", strategy.dp_inner, strategy.dp);
  }
  const schedule::Rule& rule = schedule::rule_of(strategy.schedule);
  return schedule::refuse(rule, {strategy.pp, strategy.virtual_stages, enough_micro_batches(strategy)});
}

// Groups of micro-batches, as Megatron's interleaved schedule takes them: p <= g <= m, and a last group of p at least.
std::string refuse_group(const Strategy& strategy, std::int64_t micro_batches) {
  const std::int64_t g = strategy.group, p = strategy.pp, m = micro_batches;
  if (g == 0) return {};
  if (strategy.schedule != Schedule::interleaved) return fmt::format("group={} needs the interleaved schedule", g);
  if (g < p || g > m) {
    return fmt::format("group={} is out of range; allowed is {} … {}, from the stages to the micro-batches of a step",
                       g, p, m);
  }
  if (m % g > 0 && m % g < p) {
    return fmt::format("group={} leaves {} of {} micro-batches for the last group, fewer than the {} stages", g, m % g,
                       m, p);
  }
  return {};
}

// Sizes are at most 2^24 each, so products are formed as doubles until they are known to be small.
std::string refuse_devices(const Job& job, const Strategy& strategy) {
  const Split& split = strategy.split;
  const double used = real(split.tp) * real(split.cp) * real(strategy.pp) * real(strategy.dp);
  if (used > real(job.cluster.devices)) {
    return fmt::format("tp·cp·pp·dp = {}·{}·{}·{} = {:.0f} devices are needed; the cluster has {}", split.tp, split.cp,
                       strategy.pp, strategy.dp, used, format_integer(job.cluster.devices));
  }
  const double experts = real(split.expert_tp()) * real(split.ep);
  if (experts > real(strategy.block()) || strategy.block() % split.expert_devices() != 0) {
    return fmt::format(
        "etp·ep = {}·{} = {:.0f} ranks that hold one set of experts do not divide the {} neighbouring ranks of a stage "
        "(tp·cp·dp_inner = {}·{}·{})",
        split.expert_tp(), split.ep, experts, strategy.block(), split.tp, split.cp, strategy.dp_inner);
  }
  if (strategy.pitch < 0 || strategy.pitch > job.cluster.devices ||
      (strategy.pitch != 0 && strategy.pitch < strategy.pipeline_block())) {
    return fmt::format("pitch={} is out of range; one pipeline takes {} devices and the cluster has {}", strategy.pitch,
                       strategy.pipeline_block(), format_integer(job.cluster.devices));
  }
  if (strategy.devices_spanned() > job.cluster.devices) {
    return fmt::format("with a pitch of {} the pipelines reach over {} devices; the cluster has {}",
                       strategy.effective_pitch(), format_integer(strategy.devices_spanned()),
                       format_integer(job.cluster.devices));
  }
  return {};
}

std::string refuse_batch(const Job& job, const Strategy& strategy) {
  const std::int64_t batch = job.run.global_batch;
  if (batch < 1) return fmt::format("global batch {} is out of range; it is at least 1", batch);
  const double at_once = real(strategy.micro_batch) * real(strategy.dp);
  if (at_once > real(batch)) {
    return fmt::format(
        "one micro-batch of {} on each of {} data-parallel ranks is {:.0f} sequences; the global batch has {}",
        strategy.micro_batch, format_integer(strategy.dp), at_once, format_integer(batch));
  }
  const schedule::Shape shape = plan::pipeline_shape(strategy, batch);
  if (auto reason = refuse_group(strategy, shape.micro_batches); !reason.empty()) return reason;
  return schedule::refuse(schedule::rule_of(strategy.schedule), shape);
}

std::string refuse_recomputation(const SoftwareStack& stack, const Recomputation& recompute) {
  const bool counted = recompute.kind == Recompute::block || recompute.kind == Recompute::uniform;
  if (counted && recompute.layers < 1)
    return fmt::format("recompute={} needs a number of layers", to_string(recompute));
  if (counted && !stack.recompute_layers) {
    return fmt::format("stack {} cannot be told how many layers to recompute (recompute={})", stack.name,
                       to_string(recompute));
  }
  if (recompute.kind == Recompute::modules) {
    return refuse_modules(stack, recompute.modules);
  }
  return {};
}

// Why the optimizer's state of this stage is not divided over all replicas.
std::string refuse_outer(const Job& job, const Strategy& strategy, const StagePlan& stage) {
  if (!stage.zero_outer) return {};
  if (!job.stack.hybrid_sharding) {
    return fmt::format("zero_outer=1: stack {} does not shard optimizer state wider than weights", job.stack.name);
  }
  if (stage.zero != 3) return fmt::format("zero_outer=1 needs zero=3, not {}", stage.zero);
  const std::int64_t all = groups::dense_replicas(strategy);
  if (stage.zero_degree > 0 && stage.zero_degree < all) return {};
  return fmt::format("zero_outer=1 needs a zero_degree below its {} data-parallel ranks", all);
}

// Chunks that stages list: v each, which cover the layers once in the order of the chain. Any but the first and the last
// one may be empty.
std::string refuse_chunks(const Strategy& strategy, const std::vector<StagePlan>& stages, int layers) {
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (static_cast<std::int64_t>(stages[s].chunks.size()) != strategy.virtual_stages) {
      return fmt::format("stage {} lists {} chunks; it has {}", s, stages[s].chunks.size(), strategy.virtual_stages);
    }
  }
  const schedule::Chain chain(schedule::rule_of(strategy.schedule),
                              {strategy.pp, strategy.virtual_stages, enough_micro_batches(strategy)});
  int next = 0;
  for (std::int64_t g = 0; g < chain.shape().positions(); ++g) {
    const schedule::Place& place = chain.place(g);
    const ChunkPlan& chunk = stages[at(place.stage)].chunks[at(place.chunk)];
    const bool at_an_end = g == 0 || g + 1 == chain.shape().positions();
    if (chunk.first != next || chunk.last < chunk.first - (at_an_end ? 0 : 1) || chunk.last >= layers) {
      return fmt::format("chunk {} of stage {} has layers {} … {}; it must begin at layer {} and end before layer {}",
                         place.chunk, place.stage, chunk.first, chunk.last, next, layers);
    }
    next = chunk.last + 1;
  }
  if (next != layers) return fmt::format("the chunks end at layer {}; the model has {} layers", next - 1, layers);
  return {};
}

// Stages that are runs of layers, one after the other.
std::string refuse_runs(const Strategy& strategy, const std::vector<StagePlan>& stages, int layers) {
  if (strategy.pp > layers) {
    return fmt::format("pp={} is more than the {} layers (embedding and head included)", strategy.pp, layers);
  }
  int next = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StagePlan& stage = stages[s];
    if (!stage.chunks.empty()) return fmt::format("stage {} lists chunks; the first one does not", s);
    if (stage.first != next || stage.last < stage.first || stage.last >= layers) {
      return fmt::format("stage {} has layers {} … {}; it must begin at layer {} and end before layer {}", s,
                         stage.first, stage.last, next, layers);
    }
    if (stage.last - stage.first + 1 < strategy.virtual_stages) {
      return fmt::format("stage {} has {} layers, fewer than its {} virtual stages", s, stage.last - stage.first + 1,
                         strategy.virtual_stages);
    }
    next = stage.last + 1;
  }
  if (next != layers) return fmt::format("the stages end at layer {}; the model has {} layers", next - 1, layers);
  return {};
}

std::string refuse_treatment(const Job& job, const Strategy& strategy, const StagePlan& stage) {
  if (auto reason = refuse_recomputation(job.stack, stage.recompute); !reason.empty()) return reason;
  if (auto reason = refuse_offload(job.stack, strategy.split.offload, stage.recompute); !reason.empty()) return reason;
  if (stage.zero < 0 || stage.zero > 3) return fmt::format("zero={} is none of 0, 1, 2, 3", stage.zero);
  if (job.run.optimizer_offload > 0 && stage.zero != 1) {
    return fmt::format("zero={}; optimizer state that waits on the host is sharded as ZeRO 1", stage.zero);
  }
  if (!groups::can_shard(strategy, stage.zero_degree)) {
    return fmt::format("a sharding degree of {} does not divide its {} data-parallel ranks evenly", stage.zero_degree,
                       groups::dense_replicas(strategy));
  }
  return refuse_outer(job, strategy, stage);
}

std::string refuse_stages(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages) {
  const int layers = static_cast<int>(job.model.layers.size());
  if (static_cast<std::int64_t>(stages.size()) != strategy.pp) {
    return fmt::format("there are {} stages for pp={}", stages.size(), strategy.pp);
  }
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (const std::string reason = refuse_treatment(job, strategy, stages[s]); !reason.empty()) {
      return fmt::format("stage {}: {}", s, reason);
    }
  }
  return plan::lists_chunks(stages) ? refuse_chunks(strategy, stages, layers) : refuse_runs(strategy, stages, layers);
}

// Slots over pp * v chunks as evenly as possible, the first ones larger; chunk j belongs to stage j mod pp.
std::vector<std::int64_t> slots_per_stage(std::int64_t slots, std::int64_t pp, std::int64_t v) {
  std::vector<std::int64_t> sizes(at(pp), 0);
  const std::int64_t chunks = pp * v;
  for (std::int64_t j = 0; j < chunks; ++j) {
    sizes[at(j % pp)] += slots / chunks + (j < slots % chunks ? 1 : 0);
  }
  return sizes;
}

}  // namespace

std::string refuse_strategy(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages) {
  if (auto reason = refuse_sizes(strategy); !reason.empty()) return reason;
  const split::RunShape shape{strategy.micro_batch, job.run.sequence, job.run.encoder_sequence, 1.0};
  if (auto reason = split::refuse_split(job.model, shape, strategy.split); !reason.empty()) return reason;
  if (auto reason = refuse_offload(job, strategy.split.offload); !reason.empty()) return reason;
  if (auto reason = refuse_devices(job, strategy); !reason.empty()) return reason;
  if (auto reason = refuse_batch(job, strategy); !reason.empty()) return reason;
  return refuse_stages(job, strategy, stages);
}

std::vector<StagePlan> even_stages(const Job& job, const Strategy& strategy, const Recomputation& recompute, int zero,
                                   std::int64_t zero_degree, bool zero_outer) {
  const std::vector<int>& layers = job.model.layers;
  const auto is_block = [&](std::size_t i) { return job.model.kinds[at(layers[i])].counted_block(); };
  const auto trails = [&](std::size_t i) {
    const model::Layer& layer = job.model.kinds[at(layers[i])];
    return layer.kind == model::LayerKind::norm || layer.kind == model::LayerKind::head || layer.mtp;
  };
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) blocks += is_block(i) ? 1 : 0;
  const std::int64_t chunks = strategy.pp * strategy.virtual_stages;
  const bool divides = blocks % chunks == 0;
  const auto sizes = slots_per_stage(divides ? blocks : static_cast<std::int64_t>(layers.size()), strategy.pp,
                                     strategy.virtual_stages);
  std::vector<StagePlan> stages;
  std::size_t next = 0;
  for (const std::int64_t size : sizes) {
    StagePlan stage;
    stage.first = static_cast<int>(next);
    stage.zero = zero;
    stage.zero_degree = zero_degree;
    stage.zero_outer = zero_outer;
    stage.recompute = recompute;
    // Where blocks divide evenly, whatever stands before a block goes with it; norms and the head stay with the block
    // before.
    for (std::int64_t taken = 0; next < layers.size() && taken < size; ++next) {
      if (!divides || is_block(next)) ++taken;
    }
    while (divides && next < layers.size() && trails(next)) ++next;
    stage.last = static_cast<int>(next) - 1;
    stages.push_back(stage);
  }
  return stages;
}

}  // namespace nest::cost
