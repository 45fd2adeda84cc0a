#include "job_options.h"

#include "options.h"

namespace nest::app {

void add_job_options(CLI::App& app, Question& question) {
  app.option_defaults()->group("What is trained, where");
  app.add_option(
         "--model", question.model.name,
         "a model preset, a config.json, a folder that holds one, a graph traced by nest.trace, an ONNX file, -, or "
         "organisation/name from the local Hugging Face cache; default llama3-70b")
      ->type_name("NAME|FILE");
  app.add_option("--cluster", question.cluster.name, "a cluster preset or a YAML file; default dgx-h100")
      ->type_name("NAME|FILE");
  add_integer(app, "--devices", question.devices, kDevices, "how many devices; default: all of the cluster");
  add_integer(app, "--global-batch", question.global_batch, kBatches,
              "sequences per optimizer step; default: about 4 million tokens");
  add_integer(app, "--seq", question.seq, kSequences, "tokens per sequence; default: what the model was trained with");
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
  app.add_option("--stack", question.stack.name,
                 "the software that runs the training: a preset (nest show stacks) or a YAML file; default by model, "
                 "device and precision")
      ->type_name("NAME|FILE");
  app.add_option(
         "--routing", question.routing,
         "how evenly tokens choose experts: forced (as benchmarks do), cv=0.18 (variation of the experts' loads) "
         "or overload=1.2 (rows of the busiest rank over the mean); default as the stack says")
      ->type_name("ROUTING");
  add_enum(app, "--precision", question.precision, kPrecisionWords, "of matrix products; default bf16");
  add_enum(app, "--optimizer", question.optimizer, kOptimizerWords, "whose state is kept; default adam");
  add_integer(app, "--optimizer-offload", question.optimizer_offload, kPercent,
              "percent of the optimizer's state that waits, and is updated, on the host; default 0");
  app.add_option("--oom-risk", question.oom_risk,
                 "probability of running out of memory that a plan may have: 1%; default: the stack's margin "
                 "(memory_margin) decides what fits")
      ->type_name("SHARE");
  add_profile_option(app, question.profile);
}

void add_profile_option(CLI::App& app, Input& profile) {
  app.add_option("--profile", profile.name, "measured operators or layers that override estimates")->type_name("FILE");
}

TrainingJob read_small_job(Question question) {
  if (question.cluster.empty() && question.devices == 0) question.devices = kUsualDevices;
  return read_job(question);
}

}  // namespace nest::app
