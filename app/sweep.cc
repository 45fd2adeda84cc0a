// nest sweep: many questions at once, kept in a database.
#include "nest/sweep.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>

#include "command.h"
#include "interrupt.h"
#include "nest/error.h"
#include "nest/text.h"
#include "options.h"
#include "output.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "plan every point of a study into a database\n"
    "A study is a YAML file with axes: models, clusters, devices, batches, bandwidths, prices, … Every combination is "
    "planned as nest plan does it and stored in SQLite as it comes. What is stored is not planned again: run the same "
    "command after a stop and it goes on. `nest sweep merge` puts databases of shards together.";

constexpr const char* kExamples =
    "  nest sweep study.yaml --db study.sqlite --html study.html --csv study.csv\n"
    "  nest sweep study.yaml --db part3.sqlite --shard 3/8\n"
    "  nest sweep merge part1.sqlite part2.sqlite -o study.sqlite\n"
    "  nest sweep study.yaml --db study.sqlite --sbatch study.sbatch --shards 64\n"
    "      then: bash study.sbatch";

constexpr double kQuietSeconds = 60;  // between two lines where nobody looks at a terminal
constexpr int kBarWidth = 24;
constexpr IntegerRange kShards{1, kMostSweepPoints};

struct SweepCommand {
  std::vector<std::string> words;
  std::string database, shard, output, csv, lines, html, sbatch;
  std::int64_t threads = 0, shards = 0;
  bool resume = false;
};

std::string time_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string bar_text(double share) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(share * kBarWidth * 8);
  std::string bar;
  for (int k = 0; k < eighths / 8; ++k) bar += "█";
  bar += kEighths[eighths % 8];
  return pad_right(bar, kBarWidth);
}

class ProgressLine {
 public:
  explicit ProgressLine(bool quiet) : terminal_(isatty(STDERR_FILENO) != 0), quiet_(quiet) {}

  void show(const SweepProgress& progress) {
    if (quiet_ || (!terminal_ && progress.elapsed_s < last_ + kQuietSeconds)) return;
    last_ = progress.elapsed_s;
    const double share =
        progress.points > 0 ? static_cast<double>(progress.done) / static_cast<double>(progress.points) : 1;
    const double rate =
        progress.elapsed_s > 0 ? static_cast<double>(progress.done - progress.before) / progress.elapsed_s : 0;
    const std::string left = progress.left_s > 0 ? ", " + time_text(progress.left_s) + " left" : "";
    const std::string text = fmt::format("{} of {} points, {:.3g}/s{}", format_integer(progress.done),
                                         format_integer(progress.points), rate, left);
    write_stderr(terminal_ ? fmt::format("\r  {} {:3.0f} %  {}\x1b[K", bar_text(share), 100 * share, text)
                           : fmt::format("nest: {}\n", text));
    shown_ = true;
  }
  void end() {
    if (shown_ && terminal_) write_stderr("\r\x1b[K");
  }

 private:
  bool terminal_, quiet_, shown_ = false;
  double last_ = 0;
};

// "3/8", counted from 0 or from 1.
void read_shard(const std::string& text, SweepOptions& options) {
  const std::size_t slash = text.find('/');
  const auto number = [&](std::string_view part, std::int64_t& value) {
    const auto [rest, status] = std::from_chars(part.data(), part.data() + part.size(), value);
    return status == std::errc{} && rest == part.data() + part.size() && !part.empty();
  };
  const std::string_view all = text;
  if (slash == std::string::npos || !number(all.substr(0, slash), options.shard) ||
      !number(all.substr(slash + 1), options.shards) || options.shards < 1 || options.shard < 0 ||
      options.shard > options.shards) {
    throw InputError(fmt::format("--shard: \"{}\" is no part of a whole; write for example 0/4 … 3/4, or 1/4 … 4/4",
                                 clip(text, 40)));
  }
}

// Line by line into a file beside, which takes the name when it is complete.
void write_lines(const SweepResults& results, const std::string& path) {
  FileWriter file(path);
  to_json_lines(results, [&](std::string_view line) { file.write(line); });
  file.finish();
}

ExitCode merge(const SweepCommand& command, Session& session) {
  if (command.output.empty()) throw InputError("sweep merge: where to? -o ALL.sqlite");
  const std::vector<std::string> databases(command.words.begin() + 1, command.words.end());
  if (databases.empty()) throw InputError("sweep merge: which databases? sweep merge A.sqlite B.sqlite -o ALL.sqlite");
  bool complete = true;
  std::string json;
  for (const SweepMerge& study : merge_sweeps(databases, command.output)) {
    complete = complete && study.merged == study.points;
    session.out += fmt::format(
        "{}: {} of {} points{}{}\n", study.study, format_integer(study.merged), format_integer(study.points),
        study.twice > 0 ? fmt::format(", {} of them in several databases, equal", format_integer(study.twice)) : "",
        study.merged < study.points ? "; run the study on it for the others" : "");
    json += fmt::format("{}{{\"study\":{},\"points_of_study\":{},\"points\":{},\"twice\":{}}}", json.empty() ? "" : ",",
                        json_string(study.study), study.points, study.merged, study.twice);
  }
  session.out += fmt::format("Written to {}.\n", command.output);
  if (session.json) {
    session.out =
        fmt::format("{{\"schema\":\"nest.sweep-merge/1\",\"studies\":[{}],\"complete\":{}}}\n", json, complete);
  }
  return kExitOk;
}

ExitCode write_sbatch(const SweepCommand& command, const Study& study, const std::string& database, Session& session) {
  SweepArray array;
  array.study = command.words.front();
  array.database = database;
  array.shards =
      command.shards > 0 ? command.shards : std::min<std::int64_t>(16, static_cast<std::int64_t>(study.points.size()));
  array.threads = command.threads;
  std::error_code none;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", none);
  if (!none) array.program = self.string();
  write_file_atomically(command.sbatch, sweep_sbatch(study, array));
  session.out = fmt::format("{} shards of {} points. Submit with: bash {}\n", format_integer(array.shards),
                            format_integer(static_cast<std::int64_t>(study.points.size())), command.sbatch);
  return kExitOk;
}

ExitCode sweep_study(const SweepCommand& command, Session& session) {
  if (command.words.size() > 1) {
    throw InputError(fmt::format("one argument too many: \"{}\"", clip(command.words[1], 60)));
  }
  if (!command.output.empty()) throw InputError("-o: names the output of sweep merge; a study's database is --db FILE");
  const Study study = read_study(command.words.front());
  SweepOptions options;
  options.database = command.database.empty() ? study.name + ".sqlite" : command.database;
  options.threads = command.threads;
  if (!command.sbatch.empty()) return write_sbatch(command, study, options.database, session);
  if (command.shards > 0) throw InputError("--shards: goes with --sbatch; one shard of several is --shard 3/8");
  if (!command.shard.empty()) read_shard(command.shard, options);
  const Interrupt interrupt;
  options.stop = interrupt.flag();
  ProgressLine line(session.json && isatty(STDERR_FILENO) == 0);
  options.progress = [&](const SweepProgress& progress) { line.show(progress); };
  SweepRun run;
  try {
    run = run_sweep(study, options);
  } catch (...) {
    line.end();
    throw;
  }
  line.end();
  const SweepResults results = read_results(study, options.database);
  if (!command.csv.empty()) write_file_atomically(command.csv, to_csv(results));
  if (!command.lines.empty()) write_lines(results, command.lines);
  if (!command.html.empty()) write_file_atomically(command.html, to_html(results, session.report()));
  if (session.json) {
    session.out = to_json(results);
  } else {
    session.out = to_text(results, session.style);
    const SweepProgress& done = run.progress;
    session.out +=
        done.done == done.before
            ? fmt::format("Nothing was left to plan. In {}.\n", options.database)
            : fmt::format("{} points planned in {}, {} were there. In {}.\n", format_integer(done.done - done.before),
                          time_text(done.elapsed_s), format_integer(done.before), options.database);
    if (!command.html.empty()) session.out += fmt::format("Page in {}.\n", command.html);
  }
  if (!run.stopped) return kExitOk;
  write_stderr(fmt::format("nest: stopped; {} of {} points are stored, the same command goes on\n",
                           format_integer(run.progress.done), format_integer(run.progress.points)));
  return kExitLimit;
}

}  // namespace

Command add_sweep(CLI::App& program) {
  CLI::App* app = program.add_subcommand("sweep", kDescription);
  app->footer(kExamples);
  const auto command = std::make_shared<SweepCommand>();
  app->add_option("STUDY", command->words, "the study's file, or merge and the databases to put together")
      ->required()
      ->type_name("STUDY.yaml | merge FILE...");
  app->add_option("--db", command->database, "the database; default: the study's name with .sqlite")->type_name("FILE");
  app->add_option("--shard", command->shard, "of n parts the i-th only, from 0 or from 1; each into its own database")
      ->type_name("I/N");
  add_integer(*app, "--threads", command->threads, kThreads, "points at a time; default: one per core");
  app->add_flag("--resume", command->resume, "go on where an earlier run was stopped: what is done in any case");
  app->add_option("--html", command->html, "write a page: curves, heat maps, fronts, and the plan of every point")
      ->type_name("FILE");
  app->add_option("--csv", command->csv, "write a table of all points")->type_name("FILE");
  app->add_option("--jsonl", command->lines, "write a line of JSON per point, with its plan")->type_name("FILE");
  app->add_option("-o,--output", command->output, "of merge: the database to write")->type_name("FILE");
  app->add_option("--sbatch", command->sbatch, "write a job array for Slurm, and plan nothing now")->type_name("FILE");
  add_integer(*app, "--shards", command->shards, kShards, "of that array; default 16");
  return {app,
          [command](Session& session) {
            return command->words.front() == "merge" ? merge(*command, session) : sweep_study(*command, session);
          },
          [] { return std::vector<std::string>{"merge"}; }};
}

}  // namespace nest::app
