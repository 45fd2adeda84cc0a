// nest show: what nest knows about a model, a device or a cluster, before anything is planned.
#include "nest/show.h"

#include <memory>

#include "command.h"
#include "options.h"

namespace nest::app {
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

struct ShowQuestion {
  std::string name;
  ShowOptions options;
};

void add_run_options(CLI::App& app, ShowOptions& options) {
  app.option_defaults()->group("Run (models)");
  add_integer(app, "--seq", options.seq, kSequences, "tokens per sequence; default: what the model was trained with");
  add_integer(app, "--micro-batch", options.micro_batch, kMicroBatches, "sequences per micro-batch; default 1");
  add_word(app, "--kernels,--stack", kernel_words(), options.kernels, "whose kernels run the model; default megatron");
  add_word(app, "--attention", attention_words(), options.attention,
           "unfused: attention scores are written to memory; default flash");
  add_word(app, "--recompute", {"none", "selective", "full"}, options.recompute,
           "what is computed again in the backward pass instead of kept; default none");
  app.add_flag("--dropout", options.dropout, "keep the masks of the model's dropout");
}

void add_split_options(CLI::App& app, ShowOptions& options) {
  app.option_defaults()->group("Split (models)");
  add_integer(app, "--tp", options.tp, kRanks, "tensor parallel: divide heads and feed-forward");
  app.add_flag("--sp", options.sp, "sequence parallel between the tensor-parallel parts");
  add_integer(app, "--cp", options.cp, kRanks, "context parallel: divide the sequence");
  add_integer(app, "--ep", options.ep, kRanks, "expert parallel: spread the experts over N ranks");
  add_integer(app, "--etp", options.etp, kRanks, "tensor parallel inside an expert; default: as --tp");
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
  const auto question = std::make_shared<ShowQuestion>();
  ShowOptions& options = question->options;
  app->add_option(
         "NAME", question->name,
         "models, devices, clusters or stacks to list them; or the name of one; or a Hugging Face "
         "config.json, a folder that holds one, a graph traced by nest.trace, an ONNX file, or - for standard input")
      ->group("Arguments");
  app->option_defaults()->group("View (models)");
  app->add_flag("--operators", options.operators, "every operator, collective and kept tensor of every layer");
  app->option_defaults()->group("View (clusters)");
  add_integer(*app, "--devices", options.devices, kDevices, "the cluster with this many devices");
  add_run_options(*app, options);
  add_split_options(*app, options);
  return {app,
          [question](Session& session) {
            const Shown shown = show(question->name, question->options);
            session.out = session.json ? to_json(shown) : to_text(shown, session.style);
            return kExitOk;
          },
          completion_words};
}

}  // namespace nest::app
