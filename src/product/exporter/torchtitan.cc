#include "exporter/torchtitan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cost/group_time.h"
#include "exporter/framework_rules.h"
#include "exporter/gpt.h"
#include "launch/titan_flavors.h"
#include "launch/titan_schedules.h"
#include "schedule/rules.h"

namespace nest::exporter {
namespace {

std::string toml_quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) result += c;
  }
  return result + "\"";
}

class TitanFile {
 public:
  explicit TitanFile(const ExportTask& task) : task_(task), strategy_(task.strategy) {}

  TorchtitanExport run() {
    add_model();
    add_training();
    add_parallelism();
    add_checkpointing();
    if (task_.job.run.precision == Precision::fp8) {
      text_ += "\n[quantize.linear.float8]\nrecipe_name = \"rowwise\"\nfilter_fqns = [\"output\"]\n";
    }
    return {std::move(text_), std::move(notes_)};
  }

 private:
  template <class T>
  void key(const char* name, const T& value) {
    text_ += fmt::format("{} = {}\n", name, value);
  }

  void add_model() {
    const model::Architecture& architecture = task_.job.model.architecture;
    TitanModel model = titan_model(architecture.name);
    if (model.name.empty()) {
      model = {architecture.family, architecture.name};
      notes_.push_back(fmt::format("torchtitan ships no flavor for {}: register one under [model]", architecture.name));
    }
    if (task_.job.run.mtp_layers > 0) {
      notes_.emplace_back(
          "torchtitan does not train layers that predict further tokens: the plan was modelled with them");
    }
    text_ += "[model]\n";
    key("name", toml_quoted(model.name));
    key("flavor", toml_quoted(model.flavor));
    if (task_.job.run.precision == Precision::fp8) key("converters", "[\"quantize.linear.float8\"]");
  }

  void add_training() {
    // A pipeline takes all micro-batches of a step in one flush; without one they are accumulated.
    const std::int64_t m = micro_batches(strategy_, task_.job.run.global_batch);
    text_ += "\n[training]\n";
    key("local_batch_size", strategy_.micro_batch * (strategy_.pp > 1 ? m : 1));
    key("global_batch_size", task_.job.run.global_batch);
    key("seq_len", task_.job.run.sequence);
    key("mixed_precision_param", task_.job.run.precision == Precision::fp32 ? "\"float32\"" : "\"bfloat16\"");
  }

  void add_parallelism() {
    const Split& split = strategy_.split;
    const Sharding sharding = sharding_of(strategy_, task_.stages.front());
    const std::int64_t all = strategy_.dp;
    const std::int64_t shard = sharding.zero == 0 ? 1 : sharding.degree / split.cp;
    text_ += "\n[parallelism]\n";
    key("data_parallel_replicate_degree", all / shard);
    key("data_parallel_shard_degree", shard);
    if (sharding.zero >= 2) key("fsdp_reshard_after_forward", sharding.zero == 3 ? "\"always\"" : "\"never\"");
    key("tensor_parallel_degree", split.tp);
    if (split.tp > 1) key("enable_async_tensor_parallel", task_.job.stack.tensor_overlap);
    key("context_parallel_degree", split.cp);
    if (split.cp > 1) {
      // Its all-to-all passes blocks on to the next rank: a ring.
      const bool ring = split.cp_comm == ContextExchange::p2p;
      key("context_parallel_rotate_method", ring ? "\"alltoall\"" : "\"allgather\"");
    }
    // The innermost ranks of a stage; experts are sharded over the other data_parallel_shard · context · tensor ranks.
    key("expert_parallel_degree", split.ep);
    key("pipeline_parallel_degree", strategy_.pp);
    if (strategy_.pp > 1) add_pipeline();
  }

  void add_pipeline() {
    const launch::TitanSchedule* const file = launch::titan_file(strategy_.schedule);
    const launch::TitanSchedule* const schedule = file != nullptr ? file : launch::titan_schedule(strategy_.schedule);
    NEST_CHECK(schedule != nullptr, "schedules have a name there or a file");
    key("pipeline_parallel_schedule", toml_quoted(schedule->name));
    if (file != nullptr) {
      const std::string name = launch::titan_file_name(strategy_.schedule);
      key("pipeline_parallel_schedule_csv", toml_quoted(name));
      notes_.push_back(fmt::format("{} holds the order of the stages: `--format csv` writes it", name));
    }
    key("pipeline_parallel_microbatch_size", strategy_.micro_batch);
    std::vector<std::string> parts;
    for (const std::vector<std::string>& names : titan_parts(task_, "output")) {
      parts.push_back(fmt::format("    [{}],\n", fmt::join(names, ", ")));
    }
    text_ += fmt::format("module_fqns_per_model_part = [\n{}]\n", fmt::join(parts, ""));
  }

  void add_checkpointing() {
    const Recomputation mode = titan_recomputation(task_);
    text_ += "\n[activation_checkpoint]\n";
    key("mode", toml_quoted(to_string(mode)));
    if (mode == Recompute::selective) key("selective_ac_option", "\"op\"");
    text_ += "\n[compile]\nenable = true\ncomponents = [\"model\", \"loss\"]\n";
    if (is_graph_trainer(task_.job.stack)) {
      key("mode", "\"aot_fx_trace\"");
      notes_.emplace_back("this schedule runs under torchtitan's graph trainer (experiments/graph_trainer, GraphPP)");
    }
  }

  const ExportTask& task_;
  const Strategy& strategy_;
  std::string text_;
  std::vector<std::string> notes_;
};

void refuse_schedule(const cost::Job& job, const Strategy& strategy, const Sharding& sharding, Obstacles& found) {
  if (strategy.pp == 1) return;
  const char* const word = to_string(strategy.schedule);
  const std::int64_t m = micro_batches(strategy, job.run.global_batch);
  if (strategy.group != 0 && strategy.group != launch::titan_group(strategy.pp, m)) {
    found.push_back(
        fmt::format("cannot be told groups of {} micro-batches; its {} form groups of their own", strategy.group, m));
  }
  if (is_graph_trainer(job.stack)) {
    if (strategy.virtual_stages == 1 && launch::titan_file(strategy.schedule) == nullptr) {
      found.push_back(
          fmt::format("cannot run schedule {} in its graph trainer, whose stages have several chunks", word));
    }
    if (sharding.zero == 3)
      found.emplace_back("cannot gather weights again in a pipeline of its graph trainer (ZeRO 3)");
  } else if (schedule::rule_of(strategy.schedule).is_split()) {
    found.push_back(
        fmt::format("cannot run schedule {} with torch.compile, which stack {} assumes; its graph trainer can (stack "
                    "torchtitan-graph)",
                    word, job.stack.name));
  }
}

}  // namespace

TitanModel titan_model(const std::string& preset) {
  const auto found = std::find_if(launch::kTitanFlavors.begin(), launch::kTitanFlavors.end(),
                                  [&](const launch::TitanFlavor& known) { return preset == known.preset; });
  return found == launch::kTitanFlavors.end() ? TitanModel{} : TitanModel{found->name, found->flavor};
}

bool is_graph_trainer(const cost::SoftwareStack& stack) { return !stack.schedules.empty(); }

std::vector<std::vector<std::string>> titan_parts(const ExportTask& task, const char* head) {
  const bool is_v = schedule::rule_of(task.strategy.schedule).is_v();
  std::vector<std::vector<std::string>> parts;
  std::int64_t layer = 0;
  for (const StageBlocks& stage : is_v ? v_blocks(task.job.model, task.stages)
                                       : chunk_blocks(task.job.model, task.stages, task.strategy.virtual_stages)) {
    std::vector<std::string> names;
    names.reserve(static_cast<std::size_t>(stage.blocks) + 3);
    if (stage.embedding) names.emplace_back("\"tok_embeddings\"");
    for (std::int64_t k = 0; k < stage.blocks; ++k) names.push_back(fmt::format("\"layers.{}\"", layer++));
    if (stage.head) {
      names.emplace_back("\"norm\"");
      names.push_back(fmt::format("\"{}\"", head));
    }
    parts.push_back(std::move(names));
  }
  return parts;
}

Recomputation titan_recomputation(const ExportTask& task) {
  const std::vector<StageBlocks> blocks = stage_blocks(task.job.model, task.stages);
  Recomputation mode;
  for (std::size_t s = 0; s < blocks.size(); ++s) {
    if (blocks[s].blocks > 0) mode = task.stages[s].recompute;
  }
  return mode;
}

TorchtitanExport export_torchtitan(const ExportTask& task) { return TitanFile(task).run(); }

namespace {

// What the family of the model lacks; its graph trainer pipelines and splits contexts of graphs, whatever they are.
launch::TitanFamily titan_family(const cost::Job& job) {
  const std::string& family = job.model.architecture.family;
  const auto found = std::find_if(launch::kTitanFamilies.begin(), launch::kTitanFamilies.end(),
                                  [&](const launch::TitanFamily& known) { return family == known.family; });
  if (found == launch::kTitanFamilies.end() || is_graph_trainer(job.stack)) return {"", true, true};
  return *found;
}

void limit_family(const cost::Job& job, plan::PlanLimits& limits) {
  const launch::TitanFamily family = titan_family(job);
  if (!family.pipelines) plan::set_limit(limits, "pp=1");
  if (!family.contexts) plan::set_limit(limits, "cp=1");
}

void refuse_family(const cost::Job& job, const Strategy& strategy, const Sharding& sharding, Obstacles& found) {
  const launch::TitanFamily family = titan_family(job);
  if (strategy.pp > 1 && !family.pipelines) found.push_back(fmt::format("cannot cut {} into stages", family.family));
  if (strategy.split.cp > 1 && !family.contexts) {
    found.push_back(fmt::format("cannot split contexts of {}", family.family));
  }
  // distributed/utils.py, maybe_enable_amp: FSDP mixes precisions, autocast does beside nothing else.
  const bool others = strategy.split.tp > 1 || strategy.pp > 1;
  if (sharding.zero == 0 && strategy.split.cp == 1 && others && job.run.precision != Precision::fp32) {
    found.push_back(fmt::format("cannot compute in {} where nothing is sharded beside tensors or stages (dp=cp=1)",
                                to_string(job.run.precision)));
  }
}

// Contexts travel as keys and values alone.
void refuse_heads(plan::PlanLimits& limits) {
  for (const ContextExchange exchange : {ContextExchange::a2a, ContextExchange::a2a_p2p}) {
    limits.cp_comm[static_cast<std::size_t>(exchange)] = false;
  }
}

}  // namespace

void refuse_titan(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found) {
  const Split& split = strategy.split;
  const Sharding sharding = sharding_of(strategy, like);
  if (sharding.zero == 1)
    found.emplace_back("cannot shard the optimizer alone (ZeRO 1); it shards gradients too, or nothing");
  const bool alone = split.tp == 1 && split.cp == 1 && split.ep == 1 && strategy.pp == 1;
  if (sharding.zero == 0 && groups::dense_replicas(strategy) > 1 && !alone) {
    found.emplace_back("cannot replicate without sharding beside any other parallelism (ZeRO 0)");
  }
  if (sharding.zero > 0 && sharding.degree < groups::dense_replicas(strategy)) {
    if (split.ep > 1) found.emplace_back("cannot shard over part of the ranks in a model with spread experts");
    if (sharding.degree % split.cp != 0) found.emplace_back("cannot shard over part of a context-parallel group");
  }
  refuse_hybrid(sharding, found);
  if (split.context_heads() > 1) {
    found.push_back(fmt::format("cannot trade heads of contexts (cp_comm={})", to_string(split.cp_comm)));
  }
  if (split.tp > 1 && !split.sp) found.emplace_back("cannot run tensor parallelism without sequence parallelism");
  if (like.recompute.kind == Recompute::selective && job.stack.selective != cost::SelectiveKind::every_second_matmul) {
    found.push_back(fmt::format("cannot recompute selectively the way stack {} does", job.stack.name));
  }
  refuse_megatron_recomputation(like, found);
  refuse_host_activations(strategy, found);
  if (has_experts(job.model) && split.expert_tp() > 1) {
    found.push_back(fmt::format("cannot divide an expert over ranks (etp={})", split.expert_tp()));
  }
  refuse_schedule(job, strategy, sharding, found);
  refuse_rounds(job, strategy, found);
}

void refuse_torchtitan(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found) {
  refuse_titan(job, strategy, like, found);
  refuse_family(job, strategy, sharding_of(strategy, like), found);
}

void refuse_torchtitan_chunks(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
                              Obstacles& found) {
  refuse_chunks(job, strategy, stages, found);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (std::none_of(stages[s].chunks.begin(), stages[s].chunks.end(),
                     [](const ChunkPlan& chunk) { return chunk.last < chunk.first; }))
      continue;
    found.push_back(fmt::format("cannot run a chunk without layers, as stage {} has", s));
    break;
  }
}

// Sharded data parallelism under the rest; experts stay whole.
void restrict_to_titan(const cost::Job& job, plan::PlanLimits& limits) {
  plan::set_limit(limits, "zero=0,2,3");
  limits.sp[0] = false;
  limits.zero_outer[1] = false;
  limits.more_offloads = false;
  refuse_heads(limits);
  admit_common_recomputation(job.stack.selective == cost::SelectiveKind::every_second_matmul, limits);
  if (has_experts(job.model)) plan::set_limit(limits, "etp=1");
  if (!is_graph_trainer(job.stack)) limits.more_schedules = false;
}

void restrict_to_torchtitan(const cost::Job& job, plan::PlanLimits& limits) {
  restrict_to_titan(job, limits);
  limit_family(job, limits);
}

}  // namespace nest::exporter
