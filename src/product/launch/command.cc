#include "launch/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace nest::launch {
namespace {

constexpr int kDeepest = 4;  // bash -c inside bash -c
constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;

using Words = std::vector<ShellWord>;

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

bool is_python(const std::string& name) { return name.starts_with("python"); }
bool is_torchrun(const std::string& name) { return name == "torchrun" || name == "ft_launcher"; }
bool is_shell(const std::string& name) { return name == "bash" || name == "sh" || name == "zsh"; }
bool is_mpirun(const std::string& name) {
  return name == "mpirun" || name == "mpiexec" || name == "prterun" || name == "mpirun.real";
}

// Programs that are understood, at which the scan through a wrapper's options stops.
bool is_known(const std::string& name) {
  return is_python(name) || is_torchrun(name) || is_shell(name) || is_mpirun(name) || name == "deepspeed" ||
         name == "srun" || name == "accelerate";
}

// Wrappers whose options do not matter.
bool is_wrapper(const std::string& name) {
  static const std::set<std::string, std::less<>> kNames = {
      "env",    "numactl", "nsys",  "uv",   "singularity", "apptainer", "docker",  "podman",
      "enroot", "nohup",   "exec",  "time", "sudo",        "ncu",       "taskset", "timeout",
      "stdbuf", "shifter", "conda", "nice", "command",     "eval",      "xargs"};
  return kNames.contains(name);
}

LaunchCount count_of(const ShellWord& word, std::string_view text) {
  LaunchCount count;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value > 0 && value <= kMostRanks) {
    count.value = value;
  } else {
    count.unknown = word.unknown.empty() ? std::string(text) : word.unknown.front();
  }
  return count;
}

// An option with its value glued (--a=b, -N8) or in the next word.
class OptionCursor {
 public:
  OptionCursor(const Words& words, std::size_t& at) : words_(words), at_(at) {}

  // The value if the current word is one of these options; moves to its last word.
  std::optional<LaunchCount> count(std::initializer_list<std::string_view> names) {
    const ShellWord* word = nullptr;
    const auto text = value(names, word);
    return text ? std::optional(count_of(*word, *text)) : std::nullopt;
  }

  std::optional<std::string> value(std::initializer_list<std::string_view> names, const ShellWord*& word) {
    const std::string& current = words_[at_].text;
    for (const std::string_view name : names) {
      const bool is_long = name.starts_with("--");
      if (current == name) {
        if (at_ + 1 >= words_.size()) return std::nullopt;
        word = &words_[++at_];
        return word->text;
      }
      if (!current.starts_with(name) || current.size() == name.size()) continue;
      word = &words_[at_];
      if (current[name.size()] == '=') return current.substr(name.size() + 1);
      const bool digit = current[name.size()] >= '0' && current[name.size()] <= '9';
      if (!is_long && digit && name.size() == 2) return current.substr(name.size());
    }
    return std::nullopt;
  }

 private:
  const Words& words_;
  std::size_t& at_;
};

class Peeler {
 public:
  Peeler(std::string_view source, const ShellVariables& variables, const ReadNamedFile& read_file)
      : source_(source), variables_(variables), read_file_(read_file) {}

  // The training program of one command; nothing when it is some other command.
  std::optional<TrainingCommand> peel(const Words& words, int depth) {
    std::size_t at = 0;
    while (at < words.size()) {
      const std::string name = base_name(words[at].text);
      if (is_torchrun(name)) return read_torchrun(words, at + 1);
      if (name == "deepspeed") return read_deepspeed(words, at + 1);
      if (name == "accelerate" && at + 1 < words.size() && words[at + 1].text == "launch") {
        return read_accelerate(words, at + 2);
      }
      if (is_nemo(words, at)) return finish(words, at);
      if (is_python(name)) return read_python(words, at + 1);
      if (is_shell(name)) return read_nested(words, at + 1, depth);
      if (name == "srun") {
        at = read_srun(words, at + 1);
      } else if (is_mpirun(name)) {
        at = read_mpirun(words, at + 1);
      } else if (is_wrapper(name)) {
        at = skip_to_known(words, at + 1);
      } else {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

 private:
  // NeMo 2's own program, which has no launcher's name: a container or an environment may be called so too.
  static bool is_nemo(const Words& words, std::size_t at) {
    return base_name(words[at].text) == "nemo" && at + 1 < words.size() && words[at + 1].text == "llm";
  }
  static bool is_program(const Words& words, std::size_t at) {
    return is_known(base_name(words[at].text)) || is_nemo(words, at);
  }

  static std::size_t skip_to_known(const Words& words, std::size_t at) {
    while (at < words.size() && !is_program(words, at)) ++at;
    return at;
  }

  std::size_t read_srun(const Words& words, std::size_t at) {
    LaunchCount per_node;
    for (; at < words.size() && !is_program(words, at); ++at) {
      if (is_wrapper(base_name(words[at].text))) break;
      OptionCursor cursor(words, at);
      if (const auto nodes = cursor.count({"-N", "--nodes"})) {
        found_.hosts = *nodes;
      } else if (const auto tasks = cursor.count({"-n", "--ntasks"})) {
        found_.ranks = *tasks;
      } else if (const auto each = cursor.count({"--ntasks-per-node"})) {
        per_node = *each;
      }
    }
    if (per_node.value || !per_node.unknown.empty()) found_.ranks_per_host = per_node;
    inherit_job();
    return at;
  }

  // What srun is not told it takes from the job.
  void inherit_job() {
    const auto inherit = [&](LaunchCount& count, const char* name) {
      const auto set = variables_.find(name);
      if (count.value || !count.unknown.empty() || set == variables_.end() || set->second.size() != 1) return;
      count = count_of(set->second.front(), set->second.front().text);
    };
    const bool tasks = found_.ranks.value || !found_.ranks.unknown.empty();
    inherit(found_.hosts, "SLURM_NNODES");
    if (!tasks) inherit(found_.ranks_per_host, "SLURM_NTASKS_PER_NODE");
    if (!tasks && !found_.ranks_per_host.value) inherit(found_.ranks, "SLURM_NTASKS");
  }

  std::size_t read_mpirun(const Words& words, std::size_t at) {
    for (; at < words.size() && !is_program(words, at); ++at) {
      if (is_wrapper(base_name(words[at].text))) break;
      OptionCursor cursor(words, at);
      if (const auto ranks = cursor.count({"-np", "--np", "-n", "--n", "-c"})) {
        found_.ranks = *ranks;
      } else if (const auto each = cursor.count({"-N", "--npernode", "-npernode"})) {
        found_.ranks_per_host = *each;
      }
    }
    return at;
  }

  // bash -c 'text'
  std::optional<TrainingCommand> read_nested(const Words& words, std::size_t at, int depth) {
    for (; at < words.size(); ++at) {
      const std::string& word = words[at].text;
      if (word.size() >= 2 && word.front() == '-' && word.back() == 'c' && at + 1 < words.size()) break;
      if (word.front() != '-') return std::nullopt;  // another script, which is not at hand
    }
    if (at + 1 >= words.size() || depth >= kDeepest) return std::nullopt;
    const ShellScript inner = read_shell(source_, words[at + 1].text, variables_);
    for (const ShellCommand& command : inner.commands) {
      if (auto found = peel(command.words, depth + 1)) return found;
    }
    return std::nullopt;
  }

  std::optional<TrainingCommand> read_python(const Words& words, std::size_t at) {
    while (at < words.size() && words[at].text.starts_with('-') && words[at].text != "-m") {
      if (words[at].text == "-c") return std::nullopt;
      at += words[at].text == "-X" || words[at].text == "-W" ? 2 : 1;
    }
    if (at >= words.size()) return std::nullopt;
    if (words[at].text != "-m") return finish(words, at);
    if (at + 1 >= words.size()) return std::nullopt;
    const std::string& module = words[at + 1].text;
    if (module == "torch.distributed.run" || module == "torch.distributed.launch") return read_torchrun(words, at + 2);
    if (module.starts_with("deepspeed.launcher")) return read_deepspeed(words, at + 2);
    return finish(words, at + 1);
  }

  std::optional<TrainingCommand> read_torchrun(const Words& words, std::size_t at) {
    found_.hosts = {};
    found_.ranks_per_host = {};
    found_.ranks = {};
    bool standalone = false;
    for (; at < words.size(); ++at) {
      std::string option = words[at].text;
      if (!option.starts_with('-')) break;
      const std::size_t equals = option.find('=');
      std::string name = option.substr(0, equals);
      std::replace(name.begin() + 2 * static_cast<int>(name.size() > 2), name.end(), '_', '-');
      if (name == "--standalone") {
        standalone = true;
        continue;
      }
      if (name == "-m" || name == "--module" || name == "--no-python" || name == "--run-path" || name == "--use-env")
        continue;
      ShellWord value = words[at];
      if (equals != std::string::npos) {
        value.text = option.substr(equals + 1);
      } else {
        if (at + 1 >= words.size()) return std::nullopt;
        value = words[++at];
      }
      if (name == "--nnodes") found_.hosts = hosts_count(value);
      if (name == "--nproc-per-node") found_.ranks_per_host = count_of(value, value.text);
    }
    // torchrun starts one node with one process unless told otherwise.
    if (standalone || (!found_.hosts.value && found_.hosts.unknown.empty())) found_.hosts = {1, ""};
    if (!found_.ranks_per_host.value && found_.ranks_per_host.unknown.empty()) found_.ranks_per_host = {1, ""};
    return finish(words, at);
  }

  // N, or MIN:MAX, which says something only when both are equal.
  static LaunchCount hosts_count(const ShellWord& word) {
    const std::size_t colon = word.text.find(':');
    if (colon == std::string::npos || !word.unknown.empty()) return count_of(word, word.text);
    const std::string low = word.text.substr(0, colon), high = word.text.substr(colon + 1);
    return low == high ? count_of(word, low) : LaunchCount{std::nullopt, word.text};
  }

  std::optional<TrainingCommand> read_deepspeed(const Words& words, std::size_t at) {
    found_.hosts = found_.ranks_per_host = found_.ranks = {};
    static const std::set<std::string, std::less<>> kFlags = {
        "--no_ssh",   "--force_multi",         "--module", "--no_python", "--no_local_rank",
        "--save_pid", "--enable_each_rank_log"};
    for (; at < words.size(); ++at) {
      const std::string& option = words[at].text;
      if (!option.starts_with('-')) break;
      if (kFlags.contains(option)) continue;
      OptionCursor cursor(words, at);
      const ShellWord* word = nullptr;
      if (const auto hosts = cursor.count({"--num_nodes"})) {
        found_.hosts = *hosts;
      } else if (const auto each = cursor.count({"--num_gpus", "--num_accelerators"})) {
        found_.ranks_per_host = *each;
      } else if (const auto include = cursor.value({"-i", "--include"}, word)) {
        found_.ranks = included_ranks(*include);
      } else if (const auto file = cursor.value({"-H", "--hostfile"}, word)) {
        hostfile_ = *file;
      } else if (option.find('=') == std::string::npos) {
        ++at;  // some other option with its value
      }
    }
    if (!hostfile_.empty() && !found_.ranks.value && !found_.ranks_per_host.value) read_hostfile();
    if (found_.ranks_per_host.value && !found_.hosts.value && hostfile_.empty()) found_.hosts = {1, ""};
    return finish(words, at);
  }

  // accelerate's options have hyphens or underscores; what counts ranks is read with the rest (trainer_launch.cc).
  std::optional<TrainingCommand> read_accelerate(const Words& words, std::size_t at) {
    found_.hosts = found_.ranks_per_host = found_.ranks = {};
    found_.accelerate = true;
    static const std::set<std::string, std::less<>> kFlags = {"--cpu",
                                                              "--debug",
                                                              "--dynamo_use_dynamic",
                                                              "--module",
                                                              "--multi_gpu",
                                                              "--dynamo_use_fullgraph",
                                                              "--no_python",
                                                              "--quiet",
                                                              "--dynamo_use_regional_compilation",
                                                              "--use_fsdp",
                                                              "--use_deepspeed",
                                                              "--enable_cpu_affinity",
                                                              "--tpu",
                                                              "--tpu_cluster",
                                                              "--tpu_use_sudo",
                                                              "-m",
                                                              "-q",
                                                              "--use_megatron_lm",
                                                              "--same_network",
                                                              "--use_parallelism_config"};
    for (; at < words.size() && words[at].text.starts_with('-'); ++at) {
      ShellWord name = words[at];
      const std::size_t equals = name.text.find('=');
      ShellWord value{"true", name.unknown, name.line};
      if (equals != std::string::npos) value.text = name.text.substr(equals + 1);
      name.text = name.text.substr(0, equals);
      for (std::size_t i = 2; i < name.text.size(); ++i) {
        if (name.text[i] == '-') name.text[i] = '_';
      }
      if (equals == std::string::npos && !kFlags.contains(name.text)) {
        if (at + 1 >= words.size()) return std::nullopt;
        value = words[++at];
      }
      found_.launcher.push_back(name);
      found_.launcher.push_back(value);
    }
    return finish(words, at);
  }

  // worker-0:0,1@worker-1:2,3; a host without a list counts as unknown.
  static LaunchCount included_ranks(const std::string& text) {
    std::int64_t ranks = 0;
    for (const std::string_view host : split_text(text, '@')) {
      const std::size_t colon = host.find(':');
      if (colon == std::string_view::npos) return {std::nullopt, text};
      ranks += static_cast<std::int64_t>(split_text(host.substr(colon + 1), ',').size());
    }
    return {ranks, ""};
  }

  // Lines `host slots=8`.
  void read_hostfile() {
    const auto text = read_file_ ? read_file_(hostfile_) : std::nullopt;
    if (!text) {
      found_.ranks.unknown = "the hostfile " + hostfile_;
      return;
    }
    std::int64_t ranks = 0;
    int number = 0;
    for (const std::string_view line : split_text(*text, '\n')) {
      ++number;
      const std::string_view content = trim(line.substr(0, line.find('#')));
      if (content.empty()) continue;
      const std::size_t slots = content.find("slots=");
      const LaunchCount count =
          slots == std::string_view::npos ? LaunchCount{} : count_of({}, trim(content.substr(slots + 6)));
      if (!count.value) {
        throw InputError(fmt::format("{}: line {}: `{}` is no `host slots=N`", hostfile_, number, clip(content, 40)));
      }
      ranks += *count.value;
    }
    found_.ranks = {ranks, ""};
  }

  std::optional<TrainingCommand> finish(const Words& words, std::size_t at) {
    if (at >= words.size()) return std::nullopt;
    found_.program = base_name(words[at].text);
    found_.line = words[at].line;
    found_.arguments.assign(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
    return found_;
  }

  std::string_view source_;
  const ShellVariables& variables_;
  const ReadNamedFile& read_file_;
  TrainingCommand found_;
  std::string hostfile_;
};

// What Slurm sets inside a job follows from the script's #SBATCH lines.
void add_slurm_variables(const Words& sbatch, ShellVariables& variables) {
  for (std::size_t at = 0; at < sbatch.size(); ++at) {
    OptionCursor cursor(sbatch, at);
    const auto set = [&](const std::optional<LaunchCount>& count, std::initializer_list<const char*> names) {
      if (!count || !count->value) return;
      for (const char* name : names) {
        variables.try_emplace(name, std::vector<ShellWord>{{fmt::format("{}", *count->value), {}, sbatch[at].line}});
      }
    };
    if (const auto nodes = cursor.count({"-N", "--nodes"})) {
      set(nodes, {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
    } else if (const auto tasks = cursor.count({"-n", "--ntasks"})) {
      set(tasks, {"SLURM_NTASKS", "SLURM_NPROCS"});
    } else if (const auto each = cursor.count({"--ntasks-per-node"})) {
      set(each, {"SLURM_NTASKS_PER_NODE"});
    } else if (const auto devices = cursor.count({"--gpus-per-node"})) {
      set(devices, {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"});
    }
  }
}

}  // namespace

std::optional<std::int64_t> TrainingCommand::world() const {
  if (ranks.value) return ranks.value;
  if (!hosts.value || !ranks_per_host.value) return std::nullopt;
  const std::int64_t product = *hosts.value * *ranks_per_host.value;
  return product <= kMostRanks ? std::optional(product) : std::nullopt;
}

TrainingCommand find_training_command(std::string_view source, std::string_view text, const ShellVariables& variables,
                                      const ReadNamedFile& read_file) {
  ShellContext context{variables, {}, read_file};
  for (const auto& [name, value] : variables) context.fixed.insert(name);
  add_slurm_variables(read_shell(source, text, context).sbatch, context.variables);
  const ShellScript script = read_shell(source, text, context);
  std::optional<TrainingCommand> best;
  std::size_t candidates = 0;
  for (const ShellCommand& command : script.commands) {
    Peeler peeler(source, script.variables, read_file);
    auto found = peeler.peel(command.words, 0);
    if (!found) continue;
    // Scripts prepare data and test the network too: training is what has most arguments.
    ++candidates;
    if (!best || found->arguments.size() >= best->arguments.size()) best = std::move(found);
  }
  if (!best) {
    throw InputError(
        fmt::format("{}: nothing in it starts a training program; understood are torchrun, python, "
                    "deepspeed, accelerate, srun, mpirun and what wraps them",
                    source));
  }
  if (candidates > 1) {
    best->notes.push_back(
        fmt::format("{} commands start programs; read was {} of line {}", candidates, best->program, best->line));
  }
  best->environment = script.variables;
  return *best;
}

}  // namespace nest::launch
