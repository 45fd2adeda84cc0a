#include "accuracy/case.h"

#include <algorithm>
#include <regex>

#include "accuracy/hardware.h"
#include "accuracy/shape.h"
#include "accuracy/software.h"
#include "base/error.h"
#include "base/index.h"
#include "cost/group_time.h"

namespace nest::accuracy {
namespace {

bool is_tpu(const cluster::Device& device) { return device.name.starts_with("tpu"); }

// Why a row cannot be priced at all; empty when it can.
std::string missing(const PublishedRun& run, bool for_memory) {
  if (run.model.hybrid) return "hybrid model: not read";
  if (run.model.layers < 1) return "sizes of the model not stated";
  if (!run.tp || !run.pp || !run.dp) return "parallel layout not stated";
  if (run.zero == 3 && run.source == "sc21") return "ZeRO-3 of 2021 without prefetching";
  if (run.zero == 3 && run.moe() && !run.ep) return "expert-parallel degree not stated";
  if (for_memory && !run.micro_batch) return "micro-batch not stated";
  if (for_memory && run.source == "alpa") return "compiled by XLA, whose memory plan is its own";
  if (!for_memory && !run.global_batch) return "global batch not stated";
  if (!for_memory && !run.model.sequence) return "sequence length not stated";
  if (run.micro_batch.value_or(1) < 1 || run.global_batch.value_or(1) < 1) return "batch is not positive";
  return {};
}

// Megatron-Bridge's recipes of such runs (llama3_70b_peft_8gpu_*: peft.target_modules, and dim of its LoRA).
std::string adapters_of(const PublishedRun& run) {
  return run.id.find("-lora-") != std::string::npos ? "rank=32,targets=linear_qkv" : "";
}

Recompute recompute_of(const PublishedRun& run) {
  const std::string mode = run.recompute.value_or("none");
  return mode == "full" ? Recompute::full : mode == "selective" ? Recompute::selective : Recompute::none;
}

// Micro-batches of rows that give no global batch; only memory is priced then, and a filled pipeline is all that
// matters.
std::int64_t assumed_micro_batches(const PublishedRun& run) {
  std::smatch found;
  if (std::regex_search(run.notes, found, std::regex("micro_num=([0-9]{1,6})"))) return std::stoll(found[1]);
  return std::max<std::int64_t>(4, run.pp.value_or(1));
}

// Frameworks train mixtures with tensor parallelism only where sequences are divided too.
void set_split(const PublishedRun& run, const cluster::Device& device, Strategy& strategy) {
  Split& split = strategy.split;
  split.tp = *run.tp;
  split.cp = run.cp.value_or(1);
  split.sp = split.tp > 1 && (run.sp || is_tpu(device) || run.moe());
  if (!run.moe()) return;
  split.ep = run.ep.value_or(1);
  std::int64_t etp = split.ep == 1 ? split.tp : run.etp.value_or(1);
  if (etp * split.ep > *run.dp * split.tp * split.cp) etp = 1;
  split.etp = etp;
}

Strategy strategy_of(const PublishedRun& run, const cluster::Device& device) {
  Strategy strategy;
  set_split(run, device, strategy);
  strategy.pp = *run.pp;
  strategy.dp = *run.dp;
  strategy.dp_inner = strategy.dp;
  strategy.micro_batch = run.micro_batch.value_or(1) * (is_tpu(device) ? *run.tp : 1);
  strategy.virtual_stages = strategy.pp > 1 ? run.virtual_stages.value_or(1) : 1;
  strategy.schedule = strategy.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
  return strategy;
}

// Blocks of every stage where the row gives Megatron's layout; empty where it gives none that is of this model.
std::vector<std::int64_t> blocks_of_layout(const PublishedRun& run, const Strategy& strategy) {
  const auto letters = read_layout(run.settings.layout, strategy.pp);
  if (!letters) return {};
  std::vector<std::int64_t> blocks;
  std::int64_t layers = 0;
  for (const StageLetters& stage : *letters) {
    layers += stage.layers;
    blocks.push_back(stage.layers);
  }
  const StageLetters& first = letters->front();
  const StageLetters& last = letters->back();
  if (layers != run.model.layers || first.embedding != 1 || last.loss != 1) return {};
  // Multi-token prediction stands before the loss.
  blocks.back() += run.model.extra_layers;
  return std::all_of(blocks.begin(), blocks.end(), [](std::int64_t count) { return count > 0; })
             ? blocks
             : std::vector<std::int64_t>{};
}

// The same number of blocks as `blocks` on every stage, in one run; chunks of an interleaved schedule are not placed.
void place_blocks(const cost::Job& job, const std::vector<std::int64_t>& blocks, std::vector<StagePlan>& stages) {
  if (blocks.size() != stages.size()) return;
  const auto kind = [&](std::size_t i) { return job.model.kinds[at(job.model.layers[i])].kind; };
  std::size_t next = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].first = static_cast<int>(next);
    for (std::int64_t taken = 0; next < job.model.layers.size() && taken < blocks[s]; ++next)
      taken += kind(next) == model::LayerKind::block ? 1 : 0;
    if (s + 1 == stages.size()) next = job.model.layers.size();
    stages[s].last = static_cast<int>(next) - 1;
  }
}

void note_assumptions(const PublishedRun& run, std::vector<std::string>& assumed) {
  if (!run.recompute) assumed.emplace_back("recomputation not stated, none assumed");
  if (!run.micro_batch) assumed.emplace_back("micro-batch not stated, 1 assumed");
  if (!run.zero) assumed.emplace_back("ZeRO stage not stated, 1 assumed");
  if (run.tier == "C") assumed.emplace_back("the source itself is doubtful (tier C)");
}

}  // namespace

std::variant<Case, Refusal> make_case(const PublishedRun& run, bool for_memory) {
  if (std::string reason = missing(run, for_memory); !reason.empty()) return Refusal{std::move(reason)};
  const std::optional<cluster::Device> device = device_for(run.gpu);
  if (!device) return Refusal{"device not calibrated: " + run.gpu};
  Case made;
  made.strategy = strategy_of(run, *device);
  note_assumptions(run, made.assumed);

  Run what;
  what.sequence = run.model.sequence.value_or(2048);
  what.global_batch =
      run.global_batch.value_or(assumed_micro_batches(run) * made.strategy.micro_batch * made.strategy.dp);
  const Software software = software_for(run);
  made.not_expressed = software.not_expressed;
  cost::use_stack_exchange(software.stack, made.strategy.split);
  what.stack = software.stack.name;
  what.optimizer = software.optimizer;
  what.optimizer_offload = software.optimizer_offload;
  what.precision = precision_for(run);
  what.mtp_layers = run.model.extra_layers;
  what.lora = adapters_of(run);
  try {
    const cluster::Cluster cluster = cluster_for(run, *device, std::max(run.gpus, made.strategy.devices_used()));
    made.job = cost::make_job(architecture_for(run), what, software.stack, cluster);
    const int zero = static_cast<int>(std::clamp<std::int64_t>(run.zero.value_or(1), 0, 3));
    const std::int64_t replicas = groups::dense_replicas(made.strategy);
    const std::int64_t instances = std::max<std::int64_t>(1, run.settings.optimizer_instances.value_or(1));
    const std::int64_t degree = run.zero_degree.value_or(instances > 1 ? replicas / instances : 0);
    const bool outer = run.settings.outer_sharding && instances > 1;
    made.stages = cost::even_stages(made.job, made.strategy, recompute_of(run), zero, degree, outer);
    const std::vector<StagePlan> even = made.stages;
    place_blocks(made.job, blocks_of_layout(run, made.strategy), made.stages);
    if (!cost::refuse_strategy(made.job, made.strategy, made.stages).empty()) {
      made.stages = even;
      made.not_expressed.emplace_back("layout of the pipeline");
    }
    if (const std::string why = cost::refuse_strategy(made.job, made.strategy, made.stages); !why.empty())
      return Refusal{"not a plan of ours: " + why};
  } catch (const InputError& error) {
    return Refusal{std::string("not a plan of ours: ") + error.what()};
  }
  return made;
}

}  // namespace nest::accuracy
