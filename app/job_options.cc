#include "job_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "nest/dimension.h"
#include "nest/error.h"
#include "nest/show.h"
#include "nest/text.h"
#include "options.h"

namespace nest::app {
namespace {

// Sequences, or tokens where the number says so: "4M-tokens", "4M tokens".
void read_batch(const std::string& text, Question& question) {
  const std::string lower = to_lower(trim(text));
  for (const std::string_view unit : {"tokens", "token", "tok"}) {
    if (!lower.ends_with(unit)) continue;
    std::string_view number = trim(std::string_view(lower).substr(0, lower.size() - unit.size()));
    if (number.ends_with('-') || number.ends_with('_')) number = trim(number.substr(0, number.size() - 1));
    const std::optional<std::int64_t> tokens = parse_whole(number);
    if (!tokens || !kBatchTokens.holds(*tokens)) {
      throw InputError(
          fmt::format("--global-batch: `{}` is no number of tokens; write for example 4M-tokens", clip(text, 40)));
    }
    question.batch_tokens = *tokens;
    return;
  }
  const std::optional<std::int64_t> sequences = parse_whole(text);
  if (!sequences || !kBatches.holds(*sequences)) fail_range("--global-batch", text, kBatches);
  question.global_batch = *sequences;
}

std::vector<std::string> names_of(std::string_view kind) {
  std::vector<std::string> names;
  for (KnownName& known : known_names()) {
    if (known.kind == kind) names.push_back(std::move(known.name));
  }
  return names;
}

std::string flag_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

// `lists`: where several of some may be given.
void add_options(CLI::App& app, Question& question, JobLists* lists, bool positional) {
  app.option_defaults()->group("What is trained, where");
  app.add_option(
         positional ? "--model,MODEL" : "--model", question.model.name,
         "a model preset, a config.json, a folder that holds one, a graph traced by nest.trace, an ONNX file, -, or "
         "organisation/name from the local Hugging Face cache; default llama3-70b")
      ->type_name("NAME|FILE");
  const std::string several = lists == nullptr ? "" : "; several, with commas between, are compared";
  const std::string cluster = "a cluster preset or a YAML file; default dgx-h100" + several;
  const std::string devices = "how many devices; default: all of the cluster" + several;
  if (lists == nullptr) {
    app.add_option("--cluster", question.cluster.name, cluster)->type_name("NAME|FILE");
    add_integer(app, "--devices,--gpus", question.devices, kDevices, devices);
  } else {
    add_words(app, "--cluster", lists->clusters, cluster)->type_name("NAME|FILE");
    add_integers(app, "--devices,--gpus", lists->devices, kDevices, devices);
  }
  add_integer(app, "--nodes", question.nodes, kDevices, "how many hosts, in place of --devices");
  app.add_option_function<std::string>(
         "--global-batch,--gbs", [&question](const std::string& text) { read_batch(text, question); },
         "sequences per optimizer step, 512 or 1k, or tokens: 4M-tokens; default: about 4 million tokens")
      ->type_name("N");
  add_integer(app, "--seq", question.seq, kSequences,
              "tokens per sequence: 8192, 128k (k is 1,024); default: what the model was trained with");
  add_integer(app, "--encoder-seq", question.encoder_seq, kSequences,
              "the same for the encoder of an encoder-decoder model; default: as --seq");
  add_integer(app, "--mtp-layers", question.mtp_layers, kMtpLayers,
              "depths that predict further tokens, trained with the model; default: none");
  app.add_option(
         "--freeze", question.freeze,
         "weights that are not trained, by where they stand: vision, embedding, blocks.0-15, blocks.*.ffn; may be "
         "given several times; default: all are trained")
      ->type_name("PATTERN")
      ->join(',');
  app.add_option(
         "--lora", question.lora,
         "low-rank adapters beside frozen weights: rank=16,targets=q,v (k, o, gate, up, down, all, ...), base=nf4 "
         "for QLoRA; default: none")
      ->type_name("ADAPTERS")
      ->join(',');
  app.option_defaults()->group("How it runs");
  const std::string stack =
      "the software that runs the training: a preset (nest show stacks) or a YAML file; default by model, device and "
      "precision" +
      several;
  if (lists == nullptr) {
    app.add_option("--stack", question.stack.name, stack)->type_name("NAME|FILE");
  } else {
    add_words(app, "--stack", lists->stacks, stack)->type_name("NAME|FILE");
  }
  app.add_option(
         "--routing", question.routing,
         "how evenly tokens choose experts: forced (as benchmarks do), cv=0.18 (variation of the experts' loads) "
         "or overload=1.2 (rows of the busiest rank over the mean); default as the stack says")
      ->type_name("ROUTING");
  add_enum(app, "--precision", question.precision, kPrecisionWords, "of GEMMs; default bf16");
  add_enum(app, "--optimizer", question.optimizer, kOptimizerWords, "whose state is kept; default adam");
  add_integer(app, "--optimizer-offload", question.optimizer_offload, kPercent,
              "percent of the optimizer's state that waits, and is updated, on the host; default 0");
  app.add_option("--oom-risk", question.oom_risk,
                 "probability of running out of memory that a plan may have: 1%; default: the stack's margin "
                 "(memory_margin) decides what fits")
      ->type_name("SHARE");
  add_profile_option(app, question.profile);
}

}  // namespace

void add_job_options(CLI::App& app, Question& question, bool positional) {
  add_options(app, question, nullptr, positional);
}

void add_job_options(CLI::App& app, Question& question, JobLists& lists) { add_options(app, question, &lists, false); }

void add_profile_option(CLI::App& app, Input& profile) {
  app.add_option("--profile", profile.name, "measured operators or layers that override estimates")->type_name("FILE");
}

void add_dimension_options(CLI::App& app, std::vector<std::string>& settings, bool limits) {
  app.option_defaults()->group(limits ? "Only plans with" : "The strategy, piece by piece");
  for (const Dimension& dimension : dimensions()) {
    if (limits && !dimension.is_limited) continue;
    std::string names;
    std::vector<std::string> all = {dimension.name};
    all.insert(all.end(), dimension.other_names.begin(), dimension.other_names.end());
    for (const std::string& name : all) {
      const std::string flag = flag_of(name);
      if (name.size() < 2 || app.get_option_no_throw(flag) != nullptr) continue;
      names += (names.empty() ? "" : ",") + flag;
    }
    if (names.empty()) continue;
    const std::string& key = dimension.name;
    if (dimension.is_flag) {
      // --sp, --sp=0
      app.add_flag_function(
          names,
          [&settings, key](std::int64_t count) { settings.push_back(fmt::format("{}={}", key, count > 0 ? 1 : 0)); },
          dimension.label);
      continue;
    }
    std::string type = "N";
    for (std::size_t i = 0; i < dimension.words.size(); ++i) type = (i == 0 ? "" : type + "|") + dimension.words[i];
    app.add_option_function<std::string>(
           names, [&settings, key](const std::string& text) { settings.push_back(fmt::format("{}={}", key, text)); },
           dimension.label)
        ->type_name(type);
  }
}

std::vector<std::string> model_names() { return names_of("model"); }
std::vector<std::string> cluster_names() { return names_of("cluster"); }

}  // namespace nest::app
