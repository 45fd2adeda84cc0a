#include "exporter/exporters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "exporter/accelerate.h"
#include "exporter/chakra.h"
#include "exporter/deepspeed.h"
#include "exporter/job_folder.h"
#include "exporter/nemo.h"
#include "exporter/rankfile.h"
#include "exporter/sbatch.h"
#include "exporter/titan_main.h"
#include "exporter/titan_order.h"
#include "exporter/torchtitan.h"
#include "launch/titan_schedules.h"
#include "nest/option.h"

namespace nest::exporter {
namespace {

using ExportJson = nlohmann::ordered_json;

ExportJson option_list(const std::vector<LaunchOption>& options) {
  ExportJson list = ExportJson::array();
  for (const LaunchOption& each : options) {
    list.push_back(each.name);
    for (const std::string& value : each.values) list.push_back(value);
  }
  return list;
}

constexpr std::array kMegatronFormats = {
    ExportFormat{"args", "arguments of Megatron-LM's `pretrain_gpt.py`, one option per line"},
    ExportFormat{"script", "a bash script: environment, `torchrun` with static rendezvous, all options quoted"}};

ExportedText write_megatron(const ExportTask& task, std::size_t format) {
  const bool script = format == 1;
  if (script && task.launch == nullptr) {
    throw InputError(
        "format script: hosts of this cluster cannot be started one by one for this plan; format args and a rankfile "
        "say the same in two files");
  }
  const MegatronExport exported = export_megatron(task);
  ExportedText written;
  if (script) {
    const HostOrder& hosts = task.launch->hosts;
    const std::string devices = hosts.natural_devices() ? "" : fmt::format("{}", fmt::join(hosts.local_devices, ","));
    written.text =
        launch_script(exported, static_cast<std::int64_t>(hosts.hosts.size()), hosts.ranks_per_host, devices);
  } else {
    written.text = arguments_text(exported.options);
  }
  written.json["options"] = option_list(exported.options);
  written.notes = exported.notes;
  written.environment = exported.environment;
  return written;
}

constexpr std::array kSbatchFormats = {ExportFormat{
    "megatron", "a job script: `sbatch FILE` runs `pretrain_gpt.py`, one `torchrun` per host in the plan's order"}};

ExportedText write_sbatch(const ExportTask& task, std::size_t /*format*/) {
  const MegatronExport exported = export_megatron(task);
  ExportedText written;
  written.text = sbatch_text(task, exported);
  written.json["script"] = written.text;
  written.notes = exported.notes;
  return written;  // variables are set in the script
}

constexpr std::array kNemoFormats = {
    ExportFormat{"bridge", "overrides for a Megatron-Bridge recipe, `key=value` per line (Hydra's grammar)"},
    ExportFormat{"nemo2", "the same for a NeMo 2 factory (`trainer.strategy.…`)"}};

ExportedText write_nemo(const ExportTask& task, std::size_t format) {
  const NemoExport exported = export_nemo(task, format == 1 ? NemoForm::nemo2 : NemoForm::bridge);
  ExportedText written;
  written.text = overrides_text(exported);
  written.json["overrides"] = ExportJson::array();
  for (const auto& [key, value] : exported.overrides)
    written.json["overrides"].push_back(fmt::format("{}={}", key, value));
  written.notes = exported.notes;
  written.environment = exported.environment;
  return written;
}

constexpr std::array kDeepspeedFormats = {ExportFormat{
    "json", "DeepSpeed's configuration; arguments of Megatron-DeepSpeed beside it where the plan has a pipeline"}};

ExportedText write_deepspeed(const ExportTask& task, std::size_t /*format*/) {
  const DeepspeedExport exported = export_deepspeed(task);
  ExportedText written;
  written.text = exported.config.dump(2) + "\n";
  written.json["config"] = exported.config;
  written.notes = exported.notes;
  if (!exported.arguments.empty()) {
    written.json["options"] = option_list(exported.arguments);
    std::string arguments;
    for (const LaunchOption& each : exported.arguments) {
      arguments += " " + each.name + (each.values.empty() ? "" : " " + each.values.front());
    }
    written.notes.push_back("Megatron-DeepSpeed takes, beside the file:" + arguments);
  }
  return written;
}

constexpr std::array kTorchtitanFormats = {
    ExportFormat{"toml", "torchtitan's configuration (v0.2.2, the last that reads TOML)"},
    ExportFormat{"csv", "the order of a pipeline that torchtitan has no name for: `pipeline_parallel_schedule_csv`"}};

// The configuration, or with format 1 the order of the pipeline beside it.
ExportedText titan_text(const ExportTask& task, std::size_t format, const char* member,
                        const std::string& configuration, std::vector<std::string> notes) {
  const bool filed = task.strategy.pp > 1 && launch::titan_file(task.strategy.schedule) != nullptr;
  if (format == 1 && !filed) {
    throw InputError(fmt::format("{}: {} needs no file", option("format"),
                                 task.strategy.pp > 1 ? fmt::format("torchtitan knows schedule {} by name, which",
                                                                    to_string(task.strategy.schedule))
                                                      : std::string("a plan without a pipeline")));
  }
  const std::string order = filed ? titan_order(task.strategy, task.job.run.global_batch) : "";
  ExportedText written;
  written.json[member] = configuration;
  if (filed) written.json["csv"] = order;
  written.text = format == 1 ? order : configuration;
  written.notes = std::move(notes);
  return written;
}

ExportedText write_torchtitan(const ExportTask& task, std::size_t format) {
  TorchtitanExport exported = export_torchtitan(task);
  return titan_text(task, format, "toml", exported.toml, std::move(exported.notes));
}

constexpr std::array kTitanMainFormats = {
    ExportFormat{"python", "the same for torchtitan's main: a module whose function `plan` is the configuration"},
    ExportFormat{"csv", "its `pipeline_parallel_schedule_csv`"}};

ExportedText write_titan_main(const ExportTask& task, std::size_t format) {
  TitanMainExport exported = export_titan_main(task);
  return titan_text(task, format, "python", exported.python, std::move(exported.notes));
}

constexpr std::array kAccelerateFormats = {
    ExportFormat{"accelerate",
                 "Hugging Face accelerate's configuration, FSDP2: `accelerate launch --config_file FILE`"},
    ExportFormat{"trainer", "arguments of transformers' Trainer (TrainingArguments), one option per line"}};

ExportedText write_accelerate(const ExportTask& task, std::size_t format) {
  AccelerateExport exported = export_accelerate(task);
  ExportedText written;
  written.json["yaml"] = exported.yaml;
  written.json["options"] = option_list(exported.arguments);
  if (format == 0) {
    written.text = exported.yaml;
  } else {
    for (LaunchOption& each : exported.arguments) {
      for (std::string& value : each.values) value = shell_quoted(value);
    }
    written.text = arguments_text(exported.arguments);
  }
  written.notes = std::move(exported.notes);
  return written;
}

// In the order of RankfileForm.
constexpr std::array kRankfileFormats = {
    ExportFormat{"slurm", "`SLURM_HOSTFILE`, one line per rank: task i runs on line i"},
    ExportFormat{"slurm-hosts", "one line per host, for one `torchrun` per host with `--node_rank=$SLURM_PROCID`"},
    ExportFormat{"openmpi",
                 "`mpirun --rankfile F` (Open MPI 4, 5); `--cores-per-device C` binds every rank to cores of its own"},
    ExportFormat{"torchrun", "node ranks and hosts"},
    ExportFormat{"json", "everything about every rank: host, device, coordinates in both grids (`nest.ranks/1`)"}};

ExportedText write_rankfile(const ExportTask& task, std::size_t format) {
  const RankfileTask ranks{task.strategy, task.hosts, task.order, task.cores_per_device};
  ExportedText written;
  written.text = rankfile_text(ranks, static_cast<RankfileForm>(format));
  return written;
}

constexpr std::array kChakraFormats = {
    ExportFormat{"et", "a folder: one Chakra execution trace per rank, communicator groups, a map of the ranks"}};

ExportedFiles write_chakra(const ExportTask& task, std::size_t /*format*/, const TakeFile& take) {
  const ChakraExport traces(task.job, task.strategy, task.stages);
  const std::vector<std::int64_t> ranks = parse_ranks(task.ranks, traces.ranks());
  traces.refuse_size(ranks);
  std::map<std::int64_t, std::vector<std::int64_t>> of_stage;  // all ranks of a stage execute the same nodes
  for (const std::int64_t rank : ranks) of_stage[traces.place(rank).stage].push_back(rank);
  std::int64_t all_nodes = 0, bytes = 0;
  for (const auto& [stage, members] : of_stage) {
    const std::vector<TraceNode> nodes = traces.plan().stage(stage);
    for (const std::int64_t rank : members) {
      const std::string file = traces.trace(nodes, rank);
      take(fmt::format("trace.{}.et", rank), file);
      all_nodes += static_cast<std::int64_t>(nodes.size());
      bytes += static_cast<std::int64_t>(file.size());
    }
  }
  take("groups.json", traces.group_file().dump() + "\n");
  take("ranks.json", traces.rank_file(ranks).dump(1) + "\n");
  const auto written = static_cast<std::int64_t>(ranks.size());
  const auto groups = static_cast<std::int64_t>(traces.groups().groups().size());
  const std::string of_all = written == traces.ranks() ? "" : fmt::format(" of {}", format_integer(traces.ranks()));
  ExportedFiles files;
  files.summary = fmt::format(
      "one step, {}{} ranks, {} nodes, {}.\n"
      "  trace.RANK.et  Chakra {}\n"
      "  groups.json    {} communicator groups\n"
      "  ranks.json     node and device of each\n",
      format_integer(written), of_all, format_integer(all_nodes), format_bytes(bytes), kChakraVersion,
      format_integer(groups));
  files.json = {{"version", kChakraVersion}, {"ranks", written}, {"ranks_in_all", traces.ranks()},
                {"nodes", all_nodes},        {"bytes", bytes},   {"groups", groups}};
  return files;
}

// In the order of job_kinds().
constexpr std::array kJobFormats = {
    ExportFormat{"megatron",
                 "a folder to submit: configuration, `launch.sh`, `job.sbatch`, `hosts`, `README.md`; Megatron-LM's",
                 launch::Framework::megatron},
    ExportFormat{"bridge", "Megatron-Bridge's", launch::Framework::nemo},
    ExportFormat{"nemo2", "NeMo 2's", launch::Framework::nemo},
    ExportFormat{"deepspeed", "DeepSpeed's", launch::Framework::deepspeed},
    ExportFormat{"torchtitan", "torchtitan 0.2.2's", launch::Framework::torchtitan},
    ExportFormat{"torchtitan-main", "that of torchtitan's main", launch::Framework::torchtitan_main},
    ExportFormat{"fsdp", "accelerate's and transformers' Trainer's", launch::Framework::fsdp}};

ExportedFiles write_job(const ExportTask& task, std::size_t format, const TakeFile& take) {
  if (task.launch == nullptr) {
    throw InputError(
        fmt::format("{} job: hosts of this cluster cannot be started one by one for this plan", option("to")));
  }
  const JobKind& kind = job_kinds()[format];
  NEST_CHECK(std::string_view(kind.name) == kJobFormats[format].name, "one row for every kind of job");
  const JobParts parts = kind.parts(task);
  ExportedFiles files;
  files.json["files"] = ExportJson::array();
  for (const JobFile& file : job_files(task, kind, parts)) {
    take(file.name, file.content);
    files.json["files"].push_back(file.name);
  }
  std::string variables;
  for (const auto& [name, words] : parts.variables) variables += fmt::format("{}=… ", name);
  files.summary =
      fmt::format("{}sbatch job.sbatch, inside it, starts {} ranks on {} hosts.\n", variables,
                  format_integer(task.strategy.devices_used()), format_integer(std::ssize(task.launch->hosts.hosts)));
  files.notes = parts.notes;
  return files;
}

constexpr std::array kExporters = {
    Exporter{"megatron", "Megatron-LM", kMegatronFormats, launch::Framework::megatron, write_megatron},
    Exporter{"nemo", "Megatron-Bridge and NeMo 2", kNemoFormats, launch::Framework::nemo, write_nemo},
    Exporter{"deepspeed", "DeepSpeed", kDeepspeedFormats, launch::Framework::deepspeed, write_deepspeed},
    Exporter{"torchtitan", "torchtitan", kTorchtitanFormats, launch::Framework::torchtitan, write_torchtitan},
    Exporter{"torchtitan-main", "torchtitan's main", kTitanMainFormats, launch::Framework::torchtitan_main,
             write_titan_main},
    Exporter{"fsdp", "Hugging Face accelerate and Trainer", kAccelerateFormats, launch::Framework::fsdp,
             write_accelerate},
    Exporter{"sbatch", "a job script for Slurm", kSbatchFormats, launch::Framework::megatron, write_sbatch},
    Exporter{"job", "a folder to submit", kJobFormats, std::nullopt, nullptr, write_job},
    Exporter{"rankfile", "which rank runs on which host and device", kRankfileFormats, std::nullopt, write_rankfile},
    Exporter{"chakra", "execution traces of a step", kChakraFormats, std::nullopt, nullptr, write_chakra},
};

}  // namespace

std::span<const Exporter> exporters() { return kExporters; }

const Exporter* find_exporter(std::string_view name) {
  const auto* found =
      std::find_if(kExporters.begin(), kExporters.end(), [&](const Exporter& row) { return name == row.name; });
  return found == kExporters.end() ? nullptr : found;
}

std::vector<std::string> exporter_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kExporters));
  for (const Exporter& row : kExporters) names.emplace_back(row.name);
  return names;
}

std::size_t format_index(const Exporter& exporter, std::string_view format) {
  if (format.empty()) return 0;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < exporter.formats.size(); ++i) {
    if (format == exporter.formats[i].name) return i;
    names.emplace_back(exporter.formats[i].name);
  }
  throw InputError(fmt::format("{}: `{}` is none of {}, the formats of {}{}", option("format"), clip(format, 40),
                               join_words(names), exporter.name, did_you_mean(format, names)));
}

std::string formats_text() {
  std::string text;
  for (const Exporter& row : kExporters) {
    if (row.formats.size() < 2) continue;
    text += fmt::format("{}{}: ", text.empty() ? "" : "; ", row.name);
    for (std::size_t i = 0; i < row.formats.size(); ++i) {
      text += fmt::format("{}{}", i == 0 ? "" : ", ", row.formats[i].name);
    }
  }
  return text;
}

}  // namespace nest::exporter
