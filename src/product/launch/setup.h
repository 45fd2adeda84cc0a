// What a launch line, script or configuration file says about a run, before it is laid on a model and a cluster.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/job.h"
#include "launch/command.h"
#include "launch/frameworks.h"
#include "plan/plan.h"

namespace nest::launch {

// A part of a pipeline as the text describes it.
struct LaunchChunk {
  bool embedding = false;
  std::int64_t blocks = 0;
  bool head = false;
  std::int64_t mtp = 0;  // depths that predict further tokens
  bool operator==(const LaunchChunk&) const = default;
};

struct LaunchSetup {
  Framework framework = Framework::megatron;
  std::string source;  // in messages

  // The model, where the text has its sizes: a config of family "megatron"; or the name of a preset.
  nlohmann::ordered_json model_config;
  std::string model_name;

  std::optional<std::int64_t> world;  // ranks
  std::string world_unknown;          // what of it could not be resolved
  std::optional<std::int64_t> global_batch, sequence, micro_batch;
  std::optional<std::int64_t> accumulation;  // micro-batches of a step, where that is what the text gives
  std::optional<std::int64_t> local_batch;   // sequences of one rank between two exchanges (torchtitan)
  Precision precision = Precision::bf16;
  Optimizer optimizer = Optimizer::adam;
  std::int64_t optimizer_offload = 0;  // percent
  OffloadSet offload = 0;              // modules whose tensors wait on the host

  std::int64_t tp = 1, cp = 1, pp = 1, vpp = 1;
  ContextExchange cp_comm = ContextExchange::p2p;
  std::int64_t cp_inner = 1;
  std::int64_t ep = 1;         // Megatron's expert-model-parallel size
  std::int64_t expert_tp = 0;  // 0: as tp
  bool sp = false;
  std::int64_t group = 0;                     // micro-batches that pass a chunk in a row; 0: as many as stages
  Schedule schedule = Schedule::one_f_one_b;  // where stages have several chunks: interleaved, unless it is a V
  bool replicas_last = false;                 // --use-tp-pp-dp-mapping
  std::vector<LaunchChunk> chunks;            // chunk-major, pp * vpp of them; empty: blocks divide evenly
  std::int64_t mtp_layers = 0;                // that predict further tokens
  Recomputation recompute;
  int zero = 0;
  std::int64_t shard_instances = 1;  // groups that shard on their own
  std::int64_t shard_degree = 0;     // or ranks of one such group; 0: all
  bool shard_outer = false;          // the optimizer's state over the ranks of all groups

  cost::SoftwareStack stack;       // the framework's, with what the text switches on and off
  bool overlap_object = false;     // Megatron-Bridge's comm_overlap, which is written over what others say of overlap
  std::vector<std::string> notes;  // what is not priced, not read or unknown
};

// Command line, shell script, file of arguments, Megatron YAML, DeepSpeed JSON, accelerate YAML, torchtitan TOML, overrides of
// Megatron-Bridge and NeMo 2: recognised by its content. `variables` stand for what the text leaves open, `more_arguments` are options added to those of the training
// program. Throws InputError that names `source`, the line and the
// option or key; a value that cannot be resolved is an error where it matters, and a note where it does not.
LaunchSetup read_launch(std::string_view source, const std::string& text, const ShellVariables& variables,
                        std::string_view more_arguments, const ReadNamedFile& read_file);

// The strategy and its stages on a job whose model the text describes. Throws InputError with the reason when they do
// not fit together: the devices, the layers, the batch.
struct LaunchedPlan {
  Strategy strategy;
  std::vector<StagePlan> stages;
  std::vector<std::string> notes;  // where the price is that of something slightly different
};
LaunchedPlan lay_out(const LaunchSetup& setup, const cost::Job& job);

// --- internal to launch
LaunchSetup read_megatron_launch(std::string_view source, const TrainingCommand& command,
                                 const ReadNamedFile& read_file);
LaunchSetup read_torchtitan_launch(std::string_view source, const TrainingCommand& command,
                                   const ReadNamedFile& read_file);
LaunchSetup read_torchtitan_file(std::string_view source, const std::string& text,
                                 const std::vector<ShellWord>& overrides);
LaunchSetup read_titan_main_file(std::string_view source, const std::string& text,
                                 const std::vector<ShellWord>& overrides);
LaunchSetup read_deepspeed_file(std::string_view source, const std::string& text, const std::vector<ShellWord>& more);
bool looks_like_accelerate(const std::string& text);
LaunchSetup read_accelerate_file(std::string_view source, const std::string& text, const std::vector<ShellWord>& more,
                                 const ReadNamedFile& read_file);
// Overrides of Megatron-Bridge's recipes and NeMo 2's factories: files of them, and lines that start one with them.
bool is_recipe_command(const TrainingCommand& command);
LaunchSetup read_recipe_launch(std::string_view source, const TrainingCommand& command, const ReadNamedFile& read_file);
LaunchSetup read_recipe_file(std::string_view source, const std::string& text, const std::vector<ShellWord>& more,
                             const ReadNamedFile& read_file);
// Lines that start transformers' Trainer, or that accelerate starts.
bool is_trainer_command(const TrainingCommand& command);
LaunchSetup read_trainer_launch(std::string_view source, const TrainingCommand& command,
                                const ReadNamedFile& read_file);
// Arguments of transformers' Trainer, which say what a configuration leaves open or calls "auto". Throws InputError for
// others, and where both say different things.
void add_trainer_arguments(LaunchSetup& setup, const std::vector<ShellWord>& arguments);
// Takes over what a DeepSpeed file says beside Megatron-DeepSpeed's own options.
void add_deepspeed_file(LaunchSetup& setup, std::string_view source, const std::string& text);

}  // namespace nest::launch
