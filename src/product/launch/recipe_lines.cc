// Lines and files that start a recipe of Megatron-Bridge or a factory of NeMo 2 with overrides.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "launch/nemo_fields.h"
#include "launch/nemo_launch.h"
#include "launch/recipe_names.h"
#include "launch/setup.h"

namespace nest::launch {
namespace {

std::optional<std::string_view> short_key(std::string_view option) {
  for (const Spelling& row : kShortOptions) {
    if (row.from == option) return row.to;
  }
  return std::nullopt;
}

// "llama3_8b_pretrain_config", "llama3_8b", "llama3_8b(num_nodes=2)": the stem.
std::string_view model_of_recipe(std::string_view recipe) {
  std::string_view best, preset;
  for (const RecipeName& known : kRecipeNames) {
    const bool is =
        recipe.starts_with(known.stem) &&
        (recipe.size() == known.stem.size() || recipe[known.stem.size()] == '_' || recipe[known.stem.size()] == '(');
    if (!is || known.stem.size() <= best.size()) continue;
    best = known.stem;
    preset = known.preset;
  }
  return preset;
}

// The key of an option, and what its flag sets.
struct OptionKey {
  std::string key;
  bool flag = true;
};

OptionKey key_of_option(const std::string& option, bool overlap_object) {
  for (const Spelling& row : kRenamed) {
    if (row.to == option) return {std::string(row.from)};
  }
  for (const Spelling& row : kInverted) {
    if (row.to == option) return {std::string(row.from), false};
  }
  std::string field = option.substr(2);
  std::replace(field.begin(), field.end(), '-', '_');
  const auto is_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), field) != names.end();
  };
  const char* part = "model.";
  if (is_of({"micro_batch_size", "global_batch_size"})) part = "train.";
  const bool gradients = is_of({"overlap_grad_reduce", "overlap_param_gather"});
  if (gradients || is_of({"use_distributed_optimizer", "use_megatron_fsdp", "data_parallel_sharding_strategy"})) {
    part = "ddp.";
  }
  if (overlap_object && (gradients || is_of({"tp_comm_overlap", "defer_embedding_wgrad_compute",
                                             "overlap_moe_expert_parallel_comm", "delay_wgrad_compute"}))) {
    part = "comm_overlap.";
  }
  return {part + field};
}

struct RecipeWords {
  Overrides overrides;
  std::string recipe;
  bool deterministic = false;
};

void read_recipe_words(std::string_view source, const std::vector<ShellWord>& words, const ReadNamedFile& read_file,
                       RecipeWords& read) {
  for (std::size_t i = 0; i < words.size(); ++i) {  // keys win over the short forms
    const std::string& word = words[i].text;
    const bool has_next = i + 1 < words.size();
    if (word == "--deterministic") read.deterministic = true;
    if (!has_next) break;
    if (word == "--recipe" || word == "--factory" || word == "--model") read.recipe = words[i + 1].text;
    if (word == "--config-file" || word == "--config_file") {
      const auto text = read_file ? read_file(words[i + 1].text) : std::nullopt;
      if (!text) {
        throw InputError(
            fmt::format("{}: line {}: {}: {} cannot be read", source, words[i].line, word, words[i + 1].text));
      }
      read.overrides.add_yaml(words[i + 1].text, *text);
    }
    if (const auto key = short_key(word)) {
      ShellWord value = words[i + 1];
      value.text = fmt::format("{}={}", *key, value.text);
      read.overrides.add(source, value);
    }
  }
  for (const ShellWord& word : words) {
    if (is_override_word(word.text)) read.overrides.add(source, word);
  }
}

LaunchSetup finish_recipe(std::string_view source, const RecipeWords& read, const TrainingCommand& command,
                          const ReadNamedFile& read_file) {
  RecipeWords words = read;
  if (read.deterministic) words.overrides.add(source, {"model.deterministic_mode=true", {}, command.line});
  LaunchSetup setup = read_overrides(source, words.overrides, command, read_file);
  setup.model_name = model_of_recipe(read.recipe);
  return setup;
}

}  // namespace

std::string override_words(std::string_view options, bool overlap_object) {
  constexpr std::string_view kChunks = "--num-virtual-stages-per-pipeline-rank";
  std::string text;
  std::string value;
  OptionKey key;
  const auto finish = [&] {
    if (key.key.empty()) return;
    text.append(text.empty() ? "" : " ").append(key.key).append("=");
    text += value.empty() ? std::string(key.flag ? "true" : "false") : value;
  };
  for (const std::string_view word : split_words(options)) {
    if (word.starts_with("--")) {
      finish();
      // Chunks overlap their messages only where they are told to.
      if (word == kChunks && !overlap_object) text += "model.overlap_p2p_comm=true model.batch_p2p_comm=false";
      key = key_of_option(std::string(word), overlap_object);
      value.clear();
    } else {
      value.append(value.empty() ? "" : " ").append(word);
    }
  }
  finish();
  return text;
}

bool is_recipe_command(const TrainingCommand& command) {
  return command.program == "nemo" || command.program == "run_recipe.py" ||
         std::any_of(command.arguments.begin(), command.arguments.end(),
                     [](const ShellWord& word) { return is_override_word(word.text); });
}

LaunchSetup read_recipe_launch(std::string_view source, const TrainingCommand& command,
                               const ReadNamedFile& read_file) {
  RecipeWords words;
  read_recipe_words(source, command.arguments, read_file, words);
  return finish_recipe(source, words, command, read_file);
}

LaunchSetup read_recipe_file(std::string_view source, const std::string& text, const std::vector<ShellWord>& more,
                             const ReadNamedFile& read_file) {
  RecipeWords words;
  if (looks_like_overrides(text)) {
    words.overrides.add_text(source, text);
  } else {
    words.overrides.add_yaml(source, text);
  }
  read_recipe_words("--with", more, read_file, words);
  return finish_recipe(source, words, {}, read_file);
}

}  // namespace nest::launch
