// Hugging Face: lines that start transformers' Trainer (torchrun, deepspeed, accelerate launch) and its arguments.
//
// Sources: transformers 5.16 (d56c55bf): training_args.py, hf_argparser.py, examples/pytorch; accelerate 1.15 (16cb6eb8):
// commands/launch.py. What changes neither time nor memory is passed over; what does and is not priced is named.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "cost/stack.h"
#include "doc/reader.h"
#include "launch/setup.h"

namespace nest::launch {
namespace {

constexpr std::int64_t kMostCount = 1 << 24;
constexpr std::int64_t kTrainerBatch = 8;  // per_device_train_batch_size of TrainingArguments

struct TrainerArgument {
  std::string name, value;
  std::vector<std::string> unknown;

  std::int64_t count() const {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (!unknown.empty()) {
      throw InputError(fmt::format("{}: {} is not set in the text; give it with --define", name, unknown.front()));
    }
    if (error != std::errc() || end != value.data() + value.size() || number < 1 || number > kMostCount) {
      throw InputError(fmt::format("{}: {} is no number from 1 to {}", name, clip(value, 40), kMostCount));
    }
    return number;
  }
  bool is_on() const {
    const std::string word = to_lower(value);
    if (word.empty() || word == "true" || word == "1" || word == "yes") return true;
    if (word == "false" || word == "0" || word == "no") return false;
    throw InputError(fmt::format("{}: {} is neither true nor false", name, clip(value, 40)));
  }
};

std::string trainer_name(std::string name) {
  for (std::size_t i = 2; i < name.size(); ++i) {
    if (name[i] == '-') name[i] = '_';
  }
  return name;
}

// "--a 1", "--a=1", "--a" (true), "--a 1 2"; underscores or hyphens.
std::vector<TrainerArgument> trainer_arguments(const std::vector<ShellWord>& words) {
  std::vector<TrainerArgument> list;
  list.reserve(words.size());
  for (const ShellWord& word : words) {
    if (!word.text.starts_with("--")) {
      if (list.empty()) throw InputError(fmt::format("`{}` belongs to no argument", clip(word.text, 40)));
      TrainerArgument& last = list.back();
      last.value += (last.value.empty() ? "" : " ") + word.text;
      last.unknown.insert(last.unknown.end(), word.unknown.begin(), word.unknown.end());
      continue;
    }
    const std::size_t equals = std::min(word.text.find('='), word.text.size());
    const std::string value = equals < word.text.size() ? word.text.substr(equals + 1) : "";
    list.push_back(
        {trainer_name(word.text.substr(0, equals)), value, value.empty() ? std::vector<std::string>{} : word.unknown});
  }
  return list;
}

void agree(const LaunchSetup& setup, const TrainerArgument& argument, std::optional<std::int64_t>& value) {
  const std::int64_t given = argument.count();
  if (value && *value != given) {
    throw InputError(fmt::format("{}: {} is given, and {} says {}", argument.name, given, setup.source, *value));
  }
  value = given;
}

void set_batch(LaunchSetup& setup, const TrainerArgument& argument) { agree(setup, argument, setup.micro_batch); }
void set_accumulation(LaunchSetup& setup, const TrainerArgument& argument) {
  agree(setup, argument, setup.accumulation);
}
void set_sequence(LaunchSetup& setup, const TrainerArgument& argument) { setup.sequence = argument.count(); }
void set_bf16(LaunchSetup& setup, const TrainerArgument& argument) {
  if (argument.is_on()) setup.precision = Precision::bf16;
}
void set_fp16(LaunchSetup& setup, const TrainerArgument& argument) {
  if (argument.is_on()) setup.precision = Precision::fp16;
}
void set_checkpointing(LaunchSetup& setup, const TrainerArgument& argument) {
  if (argument.is_on()) setup.recompute = Recompute::full;
}
void set_model(LaunchSetup& setup, const TrainerArgument& argument) {
  if (argument.unknown.empty()) setup.model_name = argument.value;
}
void set_nothing(LaunchSetup& /*setup*/, const TrainerArgument& /*argument*/) {}
void name_it(LaunchSetup& setup, const TrainerArgument& argument) {
  const std::string word = to_lower(argument.value);
  if (word == "false" || word == "0" || word == "none") return;
  setup.notes.push_back(fmt::format("{}{}{} is not modelled", argument.name, argument.value.empty() ? "" : " ",
                                    clip(argument.value, 40)));
}
void name_optimizer(LaunchSetup& setup, const TrainerArgument& argument) {
  if (argument.value == "sgd") setup.notes.emplace_back("--optim sgd is modelled as Adam");
  if (argument.value.starts_with("adamw_torch") || argument.value == "adamw_hf" || argument.value == "sgd") return;
  name_it(setup, argument);
}
void name_attention(LaunchSetup& setup, const TrainerArgument& argument) {
  if (argument.value.starts_with("flash") || argument.value == "sdpa" || argument.value.starts_with("kernels")) return;
  setup.notes.push_back(fmt::format("{} {}: modelled with flash attention", argument.name, clip(argument.value, 40)));
}

struct TrainerOption {
  const char* name;
  void (*take)(LaunchSetup& setup, const TrainerArgument& argument);
};

// Those of TrainingArguments, and what scripts of transformers, trl and others call the length of a sequence.
constexpr std::array kTrainerOptions = std::to_array<TrainerOption>({
    {"--per_device_train_batch_size", set_batch},
    {"--gradient_accumulation_steps", set_accumulation},
    {"--bf16", set_bf16},
    {"--fp16", set_fp16},
    {"--gradient_checkpointing", set_checkpointing},
    {"--accelerator_config", set_nothing},  // when gradients are exchanged: as planned
    {"--block_size", set_sequence},
    {"--max_seq_length", set_sequence},
    {"--max_length", set_sequence},
    {"--model_max_length", set_sequence},
    {"--cutoff_len", set_sequence},
    {"--model_name_or_path", set_model},
    {"--optim", name_optimizer},
    {"--attn_implementation", name_attention},
    {"--torch_compile", name_it},
    {"--use_liger_kernel", name_it},
    {"--use_peft", name_it},
    {"--use_lora", name_it},
    {"--lora_r", name_it},
    {"--load_in_4bit", name_it},
    {"--load_in_8bit", name_it},
    {"--auto_find_batch_size", name_it},
    {"--deepspeed", set_nothing},  // these three are read before the others
    {"--fsdp", set_nothing},
    {"--fsdp_config", set_nothing},
});

const TrainerOption* find_option(const std::string& name) {
  const auto* const found = std::find_if(kTrainerOptions.begin(), kTrainerOptions.end(),
                                         [&](const TrainerOption& row) { return name == row.name; });
  return found == kTrainerOptions.end() ? nullptr : found;
}

const TrainerArgument* find_argument(const std::vector<TrainerArgument>& arguments, std::string_view name) {
  const auto found = std::find_if(arguments.begin(), arguments.end(),
                                  [&](const TrainerArgument& argument) { return argument.name == name; });
  return found == arguments.end() ? nullptr : &*found;
}

// A file, or the text itself where it is one.
std::string named_json(std::string_view source, const TrainerArgument& argument, const ReadNamedFile& read_file) {
  if (trim(argument.value).starts_with('{')) return argument.value;
  const std::optional<std::string> text = read_file ? read_file(argument.value) : std::nullopt;
  if (text) return *text;
  throw InputError(fmt::format("{}: {} {}: cannot be read here", source, argument.name, clip(argument.value, 60)));
}

// --fsdp "full_shard auto_wrap" and --fsdp_config.
void read_trainer_fsdp(LaunchSetup& setup, const TrainerArgument& fsdp, const TrainingCommand& command) {
  setup.framework = Framework::fsdp;
  setup.stack = *cost::find_stack("hf-fsdp");
  setup.zero = 3;
  for (const std::string_view word : split_text(fsdp.value, ' ')) {
    if (word == "shard_grad_op" || word == "hybrid_shard_zero2") setup.zero = 2;
    if (word == "no_shard") setup.zero = 0;
    if (word.starts_with("hybrid_shard")) {
      if (!command.ranks_per_host.value) {
        throw InputError(fmt::format("{}: --fsdp {} shards inside of hosts, and how many ranks one has is not known",
                                     setup.source, word));
      }
      setup.shard_degree = *command.ranks_per_host.value;
    }
    if (word == "offload") setup.notes.emplace_back("--fsdp offload is not modelled");
  }
}

void read_trainer_fsdp_config(LaunchSetup& setup, const std::string& text) {
  doc::Reader root(doc::parse_json(setup.source, text));
  for (const char* key : {"activation_checkpointing", "fsdp_activation_checkpointing"}) {
    if (root.flag_or(key, false)) setup.recompute = Recompute::full;
  }
  for (const char* key : {"reshard_after_forward", "fsdp_reshard_after_forward"}) {
    const doc::Value* const value = root.raw(key);
    if (value != nullptr && value->as_bool() != nullptr) setup.zero = *value->as_bool() ? 3 : 2;
  }
}

// accelerate's options as its configuration file has them.
std::string accelerate_yaml(const std::map<std::string, std::string>& options) {
  const auto is_on = [&](const char* name) { return options.contains(name); };
  std::string text = fmt::format("distributed_type: {}\n", is_on("--use_fsdp")        ? "FSDP"
                                                           : is_on("--use_deepspeed") ? "DEEPSPEED"
                                                                                      : "MULTI_GPU");
  std::string fsdp, deepspeed, mesh;
  for (const auto& [name, value] : options) {
    if (!name.starts_with("--")) continue;  // a word that is no option
    const std::string key = name.substr(2);
    const std::string line = fmt::format("  {}: {}\n", key, value);
    if (key == "num_processes" || key == "mixed_precision") text += fmt::format("{}: {}\n", key, value);
    if (key.starts_with("fsdp_")) fsdp += line;
    if (key.starts_with("parallelism_config_")) mesh += line;
    if (key == "zero_stage" || key == "deepspeed_config_file" || key == "gradient_accumulation_steps" ||
        key.starts_with("offload_")) {
      deepspeed += line;
    }
  }
  if (!fsdp.empty() && is_on("--use_fsdp")) text += "fsdp_config:\n" + fsdp;
  if (!deepspeed.empty() && is_on("--use_deepspeed")) text += "deepspeed_config:\n" + deepspeed;
  if (!mesh.empty()) text += "parallelism_config:\n" + mesh;
  return text;
}

LaunchSetup read_accelerated(std::string_view source, const TrainingCommand& command, const ReadNamedFile& read_file) {
  std::map<std::string, std::string> options;
  for (std::size_t i = 0; i + 1 < command.launcher.size(); i += 2) {
    const ShellWord& value = command.launcher[i + 1];
    const std::string& name = command.launcher[i].text;
    const bool counts = name == "--num_processes" || name == "--config_file" || name == "--zero_stage";
    if (!value.unknown.empty() && counts) {
      throw InputError(fmt::format("{}: line {}: {}: {} is not set in the text; give it with --define", source,
                                   value.line, name, value.unknown.front()));
    }
    if (value.unknown.empty()) options[name] = value.text;
  }
  const auto file = options.find("--config_file");
  if (file == options.end()) return read_accelerate_file(source, accelerate_yaml(options), {}, read_file);
  const std::optional<std::string> text = read_file ? read_file(file->second) : std::nullopt;
  if (!text) throw InputError(fmt::format("{}: --config_file {}: cannot be read here", source, clip(file->second, 60)));
  LaunchSetup setup = read_accelerate_file(file->second, *text, {}, read_file);
  for (const auto& [name, value] : options) {
    if (name == "--num_processes") {
      setup.world = TrainerArgument{name, value, {}}.count();
    } else if (name == "--mixed_precision") {
      setup.precision = value == "bf16" ? Precision::bf16 : value == "fp16" ? Precision::fp16 : Precision::fp32;
    } else if (name.starts_with("--fsdp_") || name.starts_with("--zero_") ||
               name.starts_with("--parallelism_config_")) {
      throw InputError(fmt::format("{}: {} beside --config_file: write it into the file", source, name));
    }
  }
  return setup;
}

LaunchSetup read_distributed(std::string_view source, const TrainingCommand& command,
                             const std::vector<TrainerArgument>& arguments, const ReadNamedFile& read_file) {
  LaunchSetup setup;
  if (const TrainerArgument* const file = find_argument(arguments, "--deepspeed")) {
    setup = read_deepspeed_file(source, named_json(source, *file, read_file), {});
    return setup;
  }
  setup.source = source;
  setup.framework = Framework::fsdp;
  setup.stack = *cost::find_stack("huggingface");
  setup.precision = Precision::fp32;
  if (const TrainerArgument* const fsdp = find_argument(arguments, "--fsdp"); fsdp != nullptr && !fsdp->value.empty()) {
    read_trainer_fsdp(setup, *fsdp, command);
    if (const TrainerArgument* const config = find_argument(arguments, "--fsdp_config")) {
      read_trainer_fsdp_config(setup, named_json(source, *config, read_file));
    }
  }
  return setup;
}

}  // namespace

bool is_trainer_command(const TrainingCommand& command) {
  if (command.accelerate) return true;
  return std::any_of(command.arguments.begin(), command.arguments.end(), [](const ShellWord& word) {
    const std::string name = trainer_name(word.text.substr(0, word.text.find('=')));
    return name == "--per_device_train_batch_size" || name == "--fsdp";
  });
}

LaunchSetup read_trainer_launch(std::string_view source, const TrainingCommand& command,
                                const ReadNamedFile& read_file) {
  const std::vector<TrainerArgument> arguments = trainer_arguments(command.arguments);
  LaunchSetup setup = command.accelerate ? read_accelerated(source, command, read_file)
                                         : read_distributed(source, command, arguments, read_file);
  setup.source = source;
  setup.notes.insert(setup.notes.begin(), command.notes.begin(), command.notes.end());
  if (const auto world = command.world()) setup.world = world;
  if (!command.accelerate && !setup.world) {
    setup.world_unknown = !command.hosts.unknown.empty() ? command.hosts.unknown : command.ranks_per_host.unknown;
  }
  for (const TrainerArgument& argument : arguments) {
    if (const TrainerOption* const known = find_option(argument.name)) known->take(setup, argument);
  }
  if (!setup.micro_batch && !setup.global_batch && !command.accelerate) setup.micro_batch = kTrainerBatch;
  return setup;
}

void add_trainer_arguments(LaunchSetup& setup, const std::vector<ShellWord>& arguments) {
  for (const TrainerArgument& argument : trainer_arguments(arguments)) {
    const TrainerOption* const known = find_option(argument.name);
    if (known == nullptr) {
      std::vector<std::string> names;
      names.reserve(kTrainerOptions.size());
      for (const TrainerOption& row : kTrainerOptions) names.emplace_back(row.name);
      throw InputError(fmt::format("`{}` is no argument of the Trainer that is read; those are {}",
                                   clip(argument.name, 40), fmt::join(names, ", ")));
    }
    known->take(setup, argument);
  }
}

}  // namespace nest::launch
