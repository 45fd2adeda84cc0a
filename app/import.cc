// nest import: a cluster file from what Slurm, nvidia-smi, ibnetdiscover or NCCL say about a cluster.
#include "nest/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cluster_template.h"
#include "command.h"
#include "import_prompt.h"
#include "nest/error.h"
#include "nest/option.h"
#include "nest/text.h"
#include "options.h"
#include "output.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "make a cluster file from what Slurm, nvidia-smi, ibnetdiscover or NCCL print\n"
    "Reads one file about the network between nodes (Slurm's topology.conf or topology.yaml, the output of "
    "ibnetdiscover), one about the inside of a node (the output of `nvidia-smi topo -m`, NCCL's topology XML), or one "
    "of "
    "each. Racks that differ in size and the names of the nodes are kept. What the files do not say, mostly "
    "bandwidths, "
    "is asked for.";

constexpr const char* kExamples =
    "  nest import topology.conf --device h100 --devices-per-node 8 \\\n"
    "      --bandwidth leaf=400Gbps --bandwidth spine=6.4Tbps -o cluster.yaml\n"
    "  nest import ibnetdiscover.txt topo.txt --device h100 -o cluster.yaml\n"
    "  nest import nccl-topo.xml --device h200\n"
    "  nest import topology.conf --exclude 'login[1-4]' --rails leaf …\n"
    "  nest import --template > cluster.yaml    a file to edit, with comments\n"
    "  nest plan llama3-70b --cluster cluster.yaml";

struct ImportRun {
  std::vector<std::string> files;
  ImportQuestion question;
  std::string output;
  bool template_only = false;
};

std::string flag_of(const MissingFact& fact) { return flag_options(option(fact.option)) + ' ' + fact.prefix; }
// The same with an answer, as a shell takes it: names in it are those of a file that may be a stranger's.
std::string flag_line(const MissingFact& fact) {
  return flag_options(option(fact.option)) + ' ' + shell_quoted(fact.prefix + fact.example);
}

// One more option, as if it had been on the command line.
void add_answer(const MissingFact& fact, const std::string& answer, ImportQuestion& question) {
  if (fact.option == "device") question.device = answer;
  if (fact.option == "devices_per_node") question.devices_per_node.push_back(answer);
  if (fact.option == "bandwidth") question.bandwidth.push_back(fact.prefix + answer);
}

void ask_until_understood(const MissingFact& fact, ImportQuestion& question) {
  constexpr int kTries = 3;
  for (int left = kTries; left > 0; --left) {
    ImportQuestion answered = question;
    add_answer(fact, ask(flag_of(fact), fact.question, fact.example), answered);
    try {
      static_cast<void>(import_cluster(answered));
      question = std::move(answered);
      return;
    } catch (const InputError& error) {
      if (left == 1) throw;
      write_stderr(fmt::format("{}\n", flag_options(error.marked())));
    }
  }
}

[[noreturn]] void fail_missing(const std::vector<MissingFact>& missing, const std::string& file) {
  std::size_t width = 0;
  for (const MissingFact& fact : missing) width = std::max(width, flag_line(fact).size());
  std::string options;
  for (const MissingFact& fact : missing) {
    if (!options.empty()) options += '\n';
    options += wrap_after(fmt::format("  {:<{}}   ", flag_line(fact), width), fact.question);
  }
  throw InputError(fmt::format("{}: more must be known; add (values are examples)", file), options);
}

ExitCode write_template(const ImportRun& run, Session& session) {
  if (!run.files.empty()) throw InputError("--template: is a file to start from; leave out the files");
  if (session.json) throw InputError("--template: is YAML; leave out --json");
  if (run.output.empty() || run.output == "-") {
    session.out = cluster_template();
    return kExitOk;
  }
  write_file_atomically(run.output, cluster_template());
  session.out = fmt::format("Written to {}.\n", run.output);
  return kExitOk;
}

ExitCode run_import(const ImportRun& run, Session& session) {
  if (run.template_only) return write_template(run, session);
  if (run.files.empty()) {
    throw InputError(
        "which files? topology.conf, the output of ibnetdiscover or nvidia-smi topo -m, NCCL's XML; or "
        "--template, a cluster file to edit");
  }
  ImportQuestion question = run.question;
  question.files.assign(run.files.begin(), run.files.end());
  if (!run.output.empty() && run.output != "-") question.name = stem_of(run.output);
  const bool reads_terminal = std::find(run.files.begin(), run.files.end(), "-") != run.files.end();
  ClusterImport imported = import_cluster(question);
  for (int round = 0; !imported.missing.empty(); ++round) {
    if (session.json || reads_terminal || !can_ask() || round > 3) {
      fail_missing(imported.missing, run.files.front() == "-" ? "standard input" : clip(run.files.front(), 200));
    }
    for (const MissingFact& fact : imported.missing) ask_until_understood(fact, question);
    imported = import_cluster(question);
  }
  if (run.output == "-") {
    if (session.json) throw InputError("-o -: writes the file to standard output, where --json writes too");
    session.out = imported.yaml;
    return kExitOk;
  }
  if (!run.output.empty()) write_file_atomically(run.output, imported.yaml);
  if (session.json) {
    session.out = to_json(imported);
    return kExitOk;
  }
  const std::string file =
      run.output.empty() ? "none written; add -o cluster.yaml (or -o - to see it)" : clip(run.output, 200);
  session.out = to_text(imported, session.style) + wrap_after("  file      ", file) + '\n';
  return kExitOk;
}

void add_repeated(CLI::App& app, const char* name, std::vector<std::string>& target, const char* type,
                  const char* description) {
  app.add_option(name, target, description)->type_name(type)->allow_extra_args(false);
}

}  // namespace

Command add_import(CLI::App& program) {
  CLI::App* app = program.add_subcommand("import", kDescription);
  app->footer(kExamples);
  const auto run = std::make_shared<ImportRun>();
  ImportQuestion& question = run->question;
  app->add_option("FILES", run->files, "one or two files; - for standard input")->type_name("FILE")->group("Arguments");
  app->add_flag("--template", run->template_only, "no files: print a cluster file to edit, 8 GPUs a node, rails, 2:1")
      ->group("Arguments");
  app->option_defaults()->group("Cluster");
  app->add_option("--device", question.device.name, "what the nodes hold: a name, or a YAML file")->type_name("NAME");
  add_repeated(*app, "--devices-per-node", question.devices_per_node, "[HOSTS=]N",
               "devices of every node, or of these hosts; repeat where they differ");
  add_repeated(*app, "--bandwidth", question.bandwidth, "LEVEL=RATE",
               "of one child's link into a level, per direction; repeat");
  add_repeated(*app, "--latency", question.latency, "LEVEL=TIME", "of a message that climbs to a level; repeat");
  app->add_option("--rails", question.rails,
                  "level into which every device has a port of its own, or none; default: as the files say")
      ->type_name("LEVEL");
  app->option_defaults()->group("Files");
  add_word(*app, "--format", import_formats(), question.format, "what the files are; default: recognised by content");
  app->add_option("--only", question.only, "what is below this switch, or in this block or topology")
      ->type_name("NAME");
  add_repeated(*app, "--exclude", question.exclude, "HOSTS", "hosts without devices, as login[1-2],admin; repeat");
  app->add_option("-o,--output", run->output, "write the cluster file here; - for standard output")->type_name("FILE");
  return {app, [run](Session& session) { return run_import(*run, session); }, {}};
}

}  // namespace nest::app
