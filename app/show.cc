// nest show: what nest knows about a model, a device or a cluster, before anything is planned.
#include "show.h"

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "load/catalogue.h"
#include "load/input.h"
#include "model/presets.h"
#include "options.h"
#include "report/model_facts.h"

namespace nest {
namespace {

constexpr const char* kDescription =
    "what nest knows about a model, a device or a cluster\n"
    "For a model: parameters, FLOPs, and for one device and one micro-batch what every kind of layer weighs, computes, "
    "moves, exchanges and keeps for the backward pass.";

constexpr const char* kExamples =
    "  nest show                                everything that has a name\n"
    "  nest show models                         models, and how large they are\n"
    "  nest show llama3-70b                     one model on one screen\n"
    "  nest show mixtral-8x7b --ep 8            one device's part of every layer\n"
    "  nest show dgx-h100 --devices 1024        a cluster and its network\n"
    "  nest show ./config.json --operators      every operator of a model of yours\n"
    "  curl -s URL/config.json | nest show - --json";

constexpr std::int64_t kLongestSequence = std::int64_t{1} << 24;
constexpr std::int64_t kLargestBatch = std::int64_t{1} << 16;
constexpr std::int64_t kMostDevices = std::int64_t{1} << 24;
constexpr std::int64_t kMostRanks = std::int64_t{1} << 16;

struct Options {
  std::string name;
  ModelQuestion question;
  bool operators = false;
  std::int64_t devices = 0;                    // 0: not given
  std::vector<const CLI::Option*> for_models;  // options that say nothing about anything else
};

void add_run_options(CLI::App& app, Options& options) {
  app.option_defaults()->group("Run (models)");
  ModelQuestion& asked = options.question;
  std::vector<const CLI::Option*>& added = options.for_models;
  added.push_back(add_integer(app, "--seq", asked.shape.sequence, 1, kLongestSequence,
                              "tokens per sequence; default: what the model was trained with"));
  added.push_back(add_integer(app, "--micro-batch", asked.shape.micro_batch, 1, kLargestBatch,
                              "sequences per micro-batch; default 1"));
  added.push_back(add_choice<Stack>(app, "--stack", asked.implementation.stack,
                                    {{"megatron", Stack::megatron},
                                     {"plain", Stack::plain},
                                     {"huggingface", Stack::huggingface},
                                     {"torchtitan", Stack::torchtitan}},
                                    "whose kernels run the model; default megatron"));
  added.push_back(add_choice<bool>(app, "--attention", asked.implementation.flash_attention,
                                   {{"flash", true}, {"unfused", false}},
                                   "unfused: attention scores are written to memory; default flash"));
  added.push_back(
      add_choice<Recompute>(app, "--recompute", asked.recompute,
                            {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}},
                            "what is computed again in the backward pass instead of kept; default none"));
  added.push_back(app.add_flag("--dropout", asked.implementation.dropout, "keep the masks of the model's dropout"));
}

void add_split_options(CLI::App& app, Options& options) {
  app.option_defaults()->group("Split (models)");
  Split& split = options.question.split;
  std::vector<const CLI::Option*>& added = options.for_models;
  added.push_back(add_integer(app, "--tp", split.tp, 1, kMostRanks, "tensor parallel: divide heads and feed-forward"));
  added.push_back(app.add_flag("--sp", split.sp, "sequence parallel between the tensor-parallel parts"));
  added.push_back(add_integer(app, "--cp", split.cp, 1, kMostRanks, "context parallel: divide the sequence"));
  added.push_back(add_integer(app, "--ep", split.ep, 1, kMostRanks, "expert parallel: spread the experts"));
  added.push_back(
      add_integer(app, "--etp", split.etp, 1, kMostRanks, "tensor parallel inside an expert; default: as --tp"));
}

// An option that has no meaning for what is shown was a mistake; silence would hide it.
void refuse_model_options(const Options& options) {
  for (const CLI::Option* option : options.for_models) {
    if (option->count() > 0) throw InputError(fmt::format("{}: is for models only", option->get_name()));
  }
}

ExitCode show(const Options& options, Session& session) {
  std::optional<std::string> found = show_list(options.name, session);
  if (found && options.devices != 0) throw InputError("--devices: is for one cluster only");
  if (!found) found = show_hardware(options.name, options.devices, session);
  if (found) {
    refuse_model_options(options);
    session.out = std::move(*found);
    return kExitOk;
  }
  const std::string& name = options.name;
  if (name != "-" && !find_model_preset(name) && !path_exists(name))
    fail_unknown(name, "a model, a device or a cluster");
  if (options.devices != 0)
    throw InputError("--devices: is for clusters only; a model is divided by the options of `Split`");
  session.out = show_model(name, options.question, options.operators, session);
  return kExitOk;
}

std::vector<std::string> completion_words() {
  std::vector<std::string> words = list_names();
  for (KnownName& known : known_names()) words.push_back(std::move(known.name));
  return words;
}

}  // namespace

Command add_show(CLI::App& program) {
  CLI::App* app = program.add_subcommand("show", kDescription);
  app->footer(kExamples);
  const auto options = std::make_shared<Options>();
  app->add_option(
         "NAME", options->name,
         "models, devices, clusters or stacks to list them; or the name of one; or a Hugging Face "
         "config.json, a folder that holds one, a graph traced by nest.trace, an ONNX file, or - for standard input")
      ->group("Arguments");
  app->option_defaults()->group("View (models)");
  options->for_models.push_back(
      app->add_flag("--operators", options->operators, "every operator, collective and kept tensor of every layer"));
  app->option_defaults()->group("View (clusters)");
  add_integer(*app, "--devices", options->devices, 1, kMostDevices, "the cluster with this many devices");
  add_run_options(*app, *options);
  add_split_options(*app, *options);
  return {app, [options](Session& session) { return show(*options, session); }, completion_words};
}

}  // namespace nest
