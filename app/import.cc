// nest import: a cluster file from what Slurm, nvidia-smi, ibnetdiscover or NCCL say about a cluster.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "command.h"
#include "import/hostlist.h"
#include "import/import_cluster.h"
#include "import_prompt.h"
#include "load/input.h"
#include "options.h"
#include "output.h"
#include "report/cluster_report.h"
#include "report/layout.h"

namespace nest {
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
    "  nest plan --cluster cluster.yaml --model llama3-70b";

constexpr std::size_t kMostFiles = 8;
constexpr double kFastestLink = 1e18;  // bytes per second
constexpr double kSlowestHop_s = 1;

struct ImportQuestion {
  std::vector<std::string> files;
  std::optional<ImportFormat> format;
  std::string device;
  std::vector<std::string> bandwidths;
  std::vector<std::string> latencies;
  std::vector<std::string> devices_per_node;
  std::string rails;
  std::string only;
  std::vector<std::string> without;
  std::string output;
};

// LEVEL=VALUE
template <class Parse>
std::pair<std::string, double> level_value(const std::string& option, const std::string& text, const char* example,
                                           Parse parse) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError(fmt::format("{}: `{}` is not LEVEL=VALUE; write for example {}", option, clip(text, 40), example));
  }
  try {
    return {text.substr(0, equals), parse(std::string_view(text).substr(equals + 1))};
  } catch (const InputError& error) {
    throw InputError(fmt::format("{} {}: {}", option, clip(text, 40), error.what()));
  }
}

void read_bandwidths(const std::vector<std::string>& texts, ImportRequest& request) {
  for (const std::string& text : texts) {
    const auto [level, value] = level_value("--bandwidth", text, "leaf=400Gbps", parse_bandwidth);
    if (value <= 0 || value > kFastestLink) {
      throw InputError(fmt::format("--bandwidth {}: must be more than 0 and less than 1e18 B/s", clip(text, 40)));
    }
    if (!request.bandwidth_bytes_per_s.emplace(level, value).second) {
      throw InputError(fmt::format("--bandwidth: `{}` is given twice", clip(level, 40)));
    }
  }
}

void read_latencies(const std::vector<std::string>& texts, ImportRequest& request) {
  for (const std::string& text : texts) {
    const auto [level, value] = level_value("--latency", text, "leaf=5us", parse_duration);
    if (value > kSlowestHop_s) throw InputError(fmt::format("--latency {}: is more than 1 s", clip(text, 40)));
    if (!request.latency_s.emplace(level, value).second) {
      throw InputError(fmt::format("--latency: `{}` is given twice", clip(level, 40)));
    }
  }
}

// N, or HOSTLIST=N.
void read_devices_per_node(const std::vector<std::string>& texts, ImportRequest& request) {
  for (const std::string& text : texts) {
    const std::size_t equals = text.rfind('=');
    const std::string digits = equals == std::string::npos ? text : text.substr(equals + 1);
    const bool number = !digits.empty() && digits.size() <= 4 &&
                        std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
    const std::int64_t count = number ? std::stoll(digits) : 0;
    if (count < 1 || count > static_cast<std::int64_t>(kMostDevicesOfNode)) {
      throw InputError(fmt::format("--devices-per-node: `{}` is not a number in 1 … {}, nor HOSTS=NUMBER",
                                   clip(text, 40), kMostDevicesOfNode));
    }
    if (equals == std::string::npos) {
      if (request.devices_per_node) throw InputError("--devices-per-node: is given twice without hosts");
      request.devices_per_node = count;
      continue;
    }
    try {
      request.devices_of_hosts.emplace_back(expand_hostlist(text.substr(0, equals)), count);
    } catch (const InputError& error) {
      throw InputError(fmt::format("--devices-per-node: {}", error.what()));
    }
  }
}

// A preset by its name, a file by its text.
void read_device_option(const std::string& name, ImportRequest& request) {
  if (auto device = find_device(name)) {
    request.device_yaml = device->name;
    request.device = std::move(device);
    return;
  }
  if (!path_exists(name)) {
    std::vector<std::string> known;
    for (const Device& device : device_presets()) known.push_back(device.name);
    throw InputError(fmt::format("--device: `{}` is neither a known device nor a file; known are {}{}", clip(name, 60),
                                 join_words(known), did_you_mean(name, known)));
  }
  const std::string text = read_text(name);
  request.device = read_device(parse_yaml(source_name(name), text), file_stem(name));
  request.device_yaml.clear();
  for (const std::string_view line : split_text(text, '\n')) {
    if (trim(line).empty() || line.starts_with("---")) continue;
    request.device_yaml += fmt::format("\n  {}", line);
  }
}

ImportRequest request_of(const ImportQuestion& question) {
  ImportRequest request;
  request.name =
      file_stem(question.output.empty() || question.output == "-" ? question.files.front() : question.output);
  if (!question.device.empty()) read_device_option(question.device, request);
  read_bandwidths(question.bandwidths, request);
  read_latencies(question.latencies, request);
  read_devices_per_node(question.devices_per_node, request);
  request.rails = question.rails;
  request.part.only = question.only;
  for (const std::string& list : question.without) {
    try {
      for (std::string& host : expand_hostlist(list)) request.part.without.push_back(std::move(host));
    } catch (const InputError& error) {
      throw InputError(fmt::format("--exclude: {}", error.what()));
    }
  }
  return request;
}

// One more option, as if it had been on the command line.
void add_answer(const std::string& option, const std::string& answer, ImportQuestion& question) {
  if (option == "--device ") question.device = answer;
  if (option == "--devices-per-node ") question.devices_per_node.push_back(answer);
  if (option.starts_with("--bandwidth ")) question.bandwidths.push_back(option.substr(12) + answer);
}

void ask_until_understood(const MissingFact& fact, ImportQuestion& question) {
  constexpr int kTries = 3;
  for (int left = kTries; left > 0; --left) {
    ImportQuestion answered = question;
    add_answer(fact.option, ask(fact.option, fact.question, fact.example), answered);
    try {
      static_cast<void>(request_of(answered));
      question = std::move(answered);
      return;
    } catch (const InputError& error) {
      if (left == 1) throw;
      write_stderr(fmt::format("{}\n", error.what()));
    }
  }
}

[[noreturn]] void fail_missing(const ImportedCluster& imported, const std::string& file) {
  std::size_t width = 0;
  for (const MissingFact& fact : imported.missing) width = std::max(width, fact.option.size() + fact.example.size());
  std::string options;
  for (const MissingFact& fact : imported.missing) {
    if (!options.empty()) options += '\n';
    options += wrap_after(fmt::format("  {:<{}}   ", fact.option + fact.example, width), fact.question);
  }
  throw InputError(fmt::format("{}: more must be known; add (values are examples)", file), options);
}

// "  leaf      …", the text wrapped beside the name.
std::string entry(const std::string& name, const std::string& text) {
  return wrap_after(fmt::format("  {:<9} ", clip(name, 30)), text) + '\n';
}

std::string origins_text(const ImportedCluster& imported) {
  constexpr std::size_t kLongestHostList = 200;
  std::string text;
  for (const ImportedLevel& level : imported.levels) {
    text += entry(level.name, fmt::format("{}, {}; {}", format_bandwidth(*level.bandwidth_bytes_per_s), level.link,
                                          level.bandwidth_from));
  }
  std::vector<std::string> assumed;
  for (const ImportedLevel& level : imported.levels) {
    if (level.latency_from != "--latency") assumed.push_back(level.name);
  }
  if (!assumed.empty()) {
    text +=
        entry("assumed", fmt::format("latency and efficiency of {}, as in nest's DGX presets; give --latency or edit "
                                     "the file where you know better",
                                     join_words(assumed)));
  }
  for (const std::string& note : imported.notes) text += entry("note", note);
  if (!imported.node_names.empty()) {
    text += entry("hosts", clip(compress_hostlist(imported.node_names), kLongestHostList));
  }
  return text;
}

Json import_json(const ImportedCluster& imported, const Cluster& cluster, const std::string& yaml) {
  Json levels = Json::array();
  for (const ImportedLevel& level : imported.levels) {
    levels.push_back({{"name", level.name},
                      {"units", level.children.size()},
                      {"children", level.even() ? Json(level.children.front()) : Json(level.children)},
                      {"link", level.link},
                      {"bandwidth_bytes_per_s", json_number(*level.bandwidth_bytes_per_s)},
                      {"bandwidth_from", level.bandwidth_from},
                      {"latency_s", level.latency_s},
                      {"latency_from", level.latency_from},
                      {"efficiency", level.efficiency},
                      {"rails", level.rails},
                      {"rail_switches", level.rail_switches}});
  }
  return {{"schema", "nest.import/1"},           {"cluster", cluster_json(cluster)}, {"levels", std::move(levels)},
          {"nodes", imported.node_names.size()}, {"notes", imported.notes},          {"yaml", yaml}};
}

ExitCode run_import(ImportQuestion question, Session& session) {
  if (question.files.size() > kMostFiles) throw InputError(fmt::format("more than {} files", kMostFiles));
  std::vector<SourceText> files;
  bool reads_terminal = false;
  for (const std::string& path : question.files) {
    files.push_back({source_name(path), read_text(path)});
    reads_terminal = reads_terminal || path == "-";
  }
  ImportedCluster imported = import_cluster(files, question.format, request_of(question));
  for (int round = 0; !imported.missing.empty(); ++round) {
    if (session.json || reads_terminal || !can_ask() || round > 3) fail_missing(imported, files.front().name);
    for (const MissingFact& fact : imported.missing) ask_until_understood(fact, question);
    imported = import_cluster(files, question.format, request_of(question));
  }
  const std::string yaml = cluster_yaml(imported);
  const Cluster cluster = read_cluster(parse_yaml(imported.name + ".yaml", yaml), imported.name);
  if (question.output == "-") {
    if (session.json) throw InputError("-o -: writes the file to standard output, where --json writes too");
    session.out = yaml;
    return kExitOk;
  }
  if (!question.output.empty()) write_file_atomically(question.output, yaml);
  if (session.json) {
    session.out = to_text(import_json(imported, cluster, yaml));
    return kExitOk;
  }
  session.out = cluster_text(cluster, session.style) + '\n' + origins_text(imported);
  session.out += question.output.empty() ? entry("file", "none written; add -o cluster.yaml (or -o - to see it)")
                                         : entry("file", clip(question.output, 200));
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
  const auto question = std::make_shared<ImportQuestion>();
  app->add_option("FILES", question->files, "one or two files; - for standard input")
      ->required()
      ->type_name("FILE")
      ->group("Arguments");
  app->option_defaults()->group("Cluster");
  app->add_option("--device", question->device, "what the nodes hold: a name, or a YAML file")->type_name("NAME");
  add_repeated(*app, "--devices-per-node", question->devices_per_node, "[HOSTS=]N",
               "devices of every node, or of these hosts; repeat where they differ");
  add_repeated(*app, "--bandwidth", question->bandwidths, "LEVEL=RATE",
               "of one child's link into a level, per direction; repeat");
  add_repeated(*app, "--latency", question->latencies, "LEVEL=TIME", "of a message that climbs to a level; repeat");
  app->add_option("--rails", question->rails,
                  "level into which every device has a port of its own, or none; default: as the files say")
      ->type_name("LEVEL");
  app->option_defaults()->group("Files");
  std::vector<std::string> formats;
  for (std::size_t i = 0; i < kImportFormats; ++i) formats.emplace_back(to_string(static_cast<ImportFormat>(i)));
  add_word(
      *app, "--format", formats, [question](std::size_t index) { question->format = static_cast<ImportFormat>(index); },
      "what the files are; default: recognised by content");
  app->add_option("--only", question->only, "what is below this switch, or in this block or topology")
      ->type_name("NAME");
  add_repeated(*app, "--exclude", question->without, "HOSTS", "hosts without devices, as login[1-2],admin; repeat");
  app->add_option("-o,--output", question->output, "write the cluster file here; - for standard output")
      ->type_name("FILE");
  return {app, [question](Session& session) { return run_import(*question, session); }, {}};
}

}  // namespace nest
