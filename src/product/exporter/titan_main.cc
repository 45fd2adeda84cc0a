#include "exporter/titan_main.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "cost/group_time.h"
#include "exporter/framework_rules.h"
#include "exporter/gpt.h"
#include "exporter/torchtitan.h"
#include "launch/titan_main.h"
#include "launch/titan_schedules.h"

namespace nest::exporter {
namespace {

// A name as Python has them: "llama2-13b" is llama2_13b.
std::string python_name(const std::string& text) {
  std::string name;
  name.reserve(text.size());
  for (const char c : text) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

const char* python_flag(bool value) { return value ? "True" : "False"; }

class TitanModule {
 public:
  explicit TitanModule(const ExportTask& task)
      : task_(task), strategy_(task.strategy), graph_(is_graph_trainer(task.job.stack)) {}

  TitanMainExport run() {
    find_model();
    import("dataclasses");
    const std::string body = function();
    std::string text =
        "# A plan of nest for torchtitan's main. As nest_plan.py in a folder of PYTHONPATH, on every host:\n"
        "#     torchrun … -m torchtitan.train --module nest_plan --config plan\n";
    for (const std::string& line : plain_) text += line + "\n";
    text += "\n";
    for (const std::string& line : imports_) text += line + "\n";
    return {text + "\n\n" + body, std::move(notes_)};
  }

 private:
  void import(const std::string& module) { plain_.insert("import " + module); }
  void import(const std::string& module, const std::string& name) {
    imports_.insert(fmt::format("from {} import {}", module, name));
  }

  // key=value of a call; calls are indented twice or three times.
  template <class T>
  static std::string argument(const char* key, const T& value) {
    return fmt::format("            {}={},\n", key, value);
  }

  void find_model() {
    const model::Architecture& architecture = task_.job.model.architecture;
    const auto found =
        std::find_if(launch::kTitanMainFlavors.begin(), launch::kTitanMainFlavors.end(),
                     [&](const launch::TitanMainFlavor& known) { return architecture.name == known.preset; });
    if (found != launch::kTitanMainFlavors.end()) {
      module_ = found->module;
      flavor_ = found->flavor;
      config_ = found->config;
      return;
    }
    module_ = python_name(architecture.family);
    flavor_ = architecture.name;
    config_ = python_name(architecture.name);
    notes_.push_back(fmt::format("torchtitan ships no model {}: register one, and a configuration {} beside it",
                                 architecture.name, config_));
  }

  std::string function() {
    const std::string models = "torchtitan.models." + module_;
    import("torchtitan.components.loss", "CrossEntropyLoss");
    import("torchtitan.models.common.config_utils", "decoder_vocab_size");
    import("torchtitan.trainer", "Trainer");
    import(models, "model_registry");
    import(models + ".config_registry", config_);
    std::string text = fmt::format(
        "def plan() -> Trainer.Config:\n    model_spec = model_registry({})\n    base = dataclasses.replace(\n"
        "        {}(),\n        model_spec=model_spec,\n"
        "        loss=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)),\n    )\n",
        registry_arguments(), config_);
    if (graph_) {
      import("torchtitan.experiments.graph_trainer.configs", "GraphTrainerCompileConfig, to_graph_trainer_config");
      import("torchtitan.experiments.graph_trainer." + module_, "model_registry as graph_registry");
      text += "    base = to_graph_trainer_config(base, graph_registry)\n";
    }
    return text + "    return dataclasses.replace(\n        base,\n" + training() + parallelism() + checkpointing() +
           compilation() + "    )\n";
  }

  std::string registry_arguments() {
    std::string text = fmt::format("\"{}\"", flavor_);
    // gpt_oss attends by kernels over documents unless told; contexts are split by FlexAttention alone.
    if (module_ == "gpt_oss" && strategy_.split.cp > 1) text += ", attn_backend=\"flex\"";
    if (task_.job.run.precision == Precision::fp8) {
      import("torchtitan.components.quantization", "Float8LinearConverter");
      text +=
          ", converters=[Float8LinearConverter.Config(recipe_name=\"rowwise\", filter_fqns=[\"lm_head\"], "
          "model_compile_enabled=True)]";
    }
    if (const std::int64_t further = task_.job.run.mtp_layers; further > 0) {
      if (module_ == "deepseek_v3" && strategy_.pp == 1) {
        text += fmt::format(", num_mtp_layers={}", further);
      } else {
        notes_.emplace_back(
            "torchtitan does not train layers that predict further tokens here: the plan was modelled with them");
      }
    }
    return text;
  }

  std::string training() const {
    const std::int64_t sequence = task_.job.run.sequence;
    const bool full = task_.job.run.precision == Precision::fp32;
    // CUDA graphs are neither priced nor possible with pipelines or experts that are spread.
    return "        training=dataclasses.replace(\n            base.training,\n" +
           argument("num_tokens_per_microbatch_per_dp_rank", strategy_.micro_batch * sequence) +
           argument("num_tokens_per_train_step", task_.job.run.global_batch * sequence) +
           argument("max_context_length", sequence) +
           argument("mixed_precision_param", full ? "\"float32\"" : "\"bfloat16\"") +
           argument("disable_cuda_graphs", "True") + "        ),\n";
  }

  std::string parallelism() {
    import("torchtitan.config", graph_ ? "ParallelismConfig" : "CompileConfig, ParallelismConfig");
    const Split& split = strategy_.split;
    const Sharding sharding = sharding_of(strategy_, task_.stages.front());
    const std::int64_t shard = sharding.zero == 0 ? 1 : sharding.degree / split.cp;
    std::string text = "        parallelism=ParallelismConfig(\n";
    text += argument("data_parallel_replicate_degree", strategy_.dp / shard);
    text += argument("data_parallel_shard_degree", shard);
    if (sharding.zero >= 2) {
      text += argument("fsdp_reshard_after_forward", sharding.zero == 3 ? "\"always\"" : "\"never\"");
    }
    text += argument("tensor_parallel_degree", split.tp);
    text += argument("context_parallel_degree", split.cp);
    text += argument("expert_parallel_degree", split.ep);
    text += argument("pipeline_parallel_degree", strategy_.pp);
    if (strategy_.pp > 1) text += pipeline();
    if (graph_) text += argument("spmd_backend", "\"partial_dtensor\"");
    return text + "        ),\n";
  }

  std::string pipeline() {
    const launch::TitanSchedule* const file = launch::titan_file(strategy_.schedule);
    const launch::TitanSchedule* const schedule = file != nullptr ? file : launch::titan_schedule(strategy_.schedule);
    NEST_CHECK(schedule != nullptr, "schedules have a name there or a file");
    std::string text = argument("pipeline_parallel_schedule", fmt::format("\"{}\"", schedule->name));
    if (file != nullptr) {
      const std::string name = launch::titan_file_name(strategy_.schedule);
      text += argument("pipeline_parallel_schedule_csv", fmt::format("\"{}\"", name));
      notes_.push_back(fmt::format("{} holds the order of the stages: `--format csv` writes it", name));
    }
    // All micro-batches of a step in one flush.
    text += argument("num_pp_microbatches", micro_batches(strategy_, task_.job.run.global_batch));
    text += "            module_fqns_per_model_part=[\n";
    for (const std::vector<std::string>& names : titan_parts(task_, "lm_head")) {
      text += fmt::format("                [{}],\n", fmt::join(names, ", "));
    }
    return text + "            ],\n";
  }

  std::string checkpointing() {
    const Recomputation mode = titan_recomputation(task_);
    if (graph_ || mode == Recompute::none) return "        activation_checkpoint=None,\n";  // graphs: compilation()
    const char* const policy = mode == Recompute::full ? "FullAC" : "SelectiveAC";
    import("torchtitan.distributed.activation_checkpoint", policy);
    return fmt::format("        activation_checkpoint={}.Config(),\n", policy);
  }

  std::string compilation() const {
    if (graph_) {
      const bool full = titan_recomputation(task_) == Recompute::full;
      return fmt::format(
          "        compile=GraphTrainerCompileConfig(enable=True, mode=\"aot_fx_trace\", memory_policy=\"{}\"),\n",
          full ? "full" : "eager");
    }
    const bool overlap = strategy_.split.tp > 1 && task_.job.stack.tensor_overlap;
    return fmt::format(
        "        compile=CompileConfig(enable=True, components=[\"model\", \"loss\"], "
        "enable_async_tensor_parallel={}),\n",
        python_flag(overlap));
  }

  const ExportTask& task_;
  const Strategy& strategy_;
  bool graph_;
  std::string module_, flavor_, config_;
  std::set<std::string> plain_, imports_;  // lines, in order
  std::vector<std::string> notes_;
};

// to_graph_trainer_config, graph_pp/pipeline.py, GraphTrainerCompileConfig.memory_policy.
void refuse_graph(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found) {
  if (strategy.split.cp > 1) found.emplace_back("cannot split contexts in its graph trainer");
  if (like.recompute.kind == Recompute::none) found.emplace_back("cannot keep all activations in its graph trainer");
  if (job.run.precision == Precision::fp8) found.emplace_back("cannot compute in fp8 in its graph trainer");
  if (job.model.architecture.family == "gpt_oss") found.emplace_back("cannot run gpt_oss in its graph trainer");
}

}  // namespace

TitanMainExport export_titan_main(const ExportTask& task) { return TitanModule(task).run(); }

void refuse_titan_main(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found) {
  refuse_titan(job, strategy, like, found);
  // models/common/decoder.py, update_from_config
  if (strategy.pp > 1 && job.model.architecture.tied_embeddings) {
    found.emplace_back("cannot cut a model into stages whose head is its table of tokens");
  }
  // FlexAttention's contexts gather keys and values; there is no context_parallel_rotate_method any more.
  if (strategy.split.cp > 1 && strategy.split.cp_comm == ContextExchange::p2p) {
    found.emplace_back("cannot pass keys and values around a ring; it gathers them (cp_comm=all_gather)");
  }
  if (is_graph_trainer(job.stack)) refuse_graph(job, strategy, like, found);
}

void restrict_to_titan_main(const cost::Job& job, plan::PlanLimits& limits) {
  restrict_to_titan(job, limits);
  if (job.model.architecture.tied_embeddings) plan::set_limit(limits, "pp=1");
  if (!is_graph_trainer(job.stack)) return;
  plan::set_limit(limits, "cp=1");
  limits.recompute[at(Recompute::none)] = false;
}

}  // namespace nest::exporter
