// Layer-profile instances of the published artifact: how long each takes here, beside what the artifact's solver
// needed.
//
//   bench_instance FOLDER     with FOLDER/instances/*.json and, for the comparison, FOLDER/expected.json
//
// `read` (text to instance) and `solve` (including the re-judgement of the plan) are the best of several runs in this
// process. `process` and `peak` are the wall time and the resident memory of a process of its own that starts, reads
// the file, solves it and ends: what the artifact's recorded figures measure too (on a machine of this kind, not in
// this run), so `ratio` compares these. Where the artifact was stopped at a memory limit its time and the ratio are
// lower bounds.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "doc/reader.h"
#include "instance/planner.h"
#include "instance/read.h"

namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw nest::InputError("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Recorded {
  std::optional<double> optimum_s;
  std::string status;
  double wall_s = 0;
  double peak_mb = 0;
};

std::map<std::string, Recorded> read_recorded(const fs::path& path) {
  std::map<std::string, Recorded> recorded;
  if (!fs::exists(path)) return recorded;
  nest::doc::Reader root(nest::doc::parse_json("expected.json", "{\"list\":" + read_text(path) + "}"));
  for (nest::doc::Reader& entry : root.objects("list")) {
    Recorded& record = recorded[entry.text("instance")];
    if (entry.has("optimum")) record.optimum_s = entry.object("optimum").number("iteration", {0, 1e30});
    nest::doc::Reader artifact = entry.object("artifact");
    record.status = artifact.text("status");
    record.wall_s = artifact.number("wall_s", {0, 1e9});
    record.peak_mb = artifact.number("max_rss_mb", {0, 1e9});
  }
  return recorded;
}

struct Measured {
  double read_ms = 1e30;
  double solve_ms = 1e30;
  double process_ms = 1e30;
  double peak_mb = 0;
  nest::instance::ProfileAnswer answer;
  nest::instance::ProfileInstance instance;
};

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

int solve_once(const fs::path& file) {
  const auto instance =
      nest::instance::read_profile_instance(nest::doc::parse_json(file.filename().string(), read_text(file)));
  return nest::instance::plan_profile_instance(instance).solution.plan ? 0 : 3;
}

// Runs solve_once() in a fresh process.
void measure_process(const fs::path& file, Measured& measured) {
  const auto start = Clock::now();
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "bench_instance", "--one", file.c_str(), nullptr);
    _exit(1);
  }
  rusage usage{};
  int status = 0;
  if (child < 0 || wait4(child, &status, 0, &usage) != child) return;
  measured.process_ms = std::min(measured.process_ms, ms_since(start));
  measured.peak_mb = std::max(measured.peak_mb, static_cast<double>(usage.ru_maxrss) / 1024);
}

Measured measure(const fs::path& file) {
  constexpr int kRuns = 5;
  const std::string text = read_text(file);
  Measured measured;
  for (int run = 0; run < kRuns; ++run) {
    measure_process(file, measured);
    const auto reading = Clock::now();
    measured.instance = nest::instance::read_profile_instance(nest::doc::parse_json(file.filename().string(), text));
    measured.read_ms = std::min(measured.read_ms, ms_since(reading));
    const auto solving = Clock::now();
    measured.answer = nest::instance::plan_profile_instance(measured.instance);
    measured.solve_ms = std::min(measured.solve_ms, ms_since(solving));
  }
  return measured;
}

std::string show_plan(const Measured& measured) {
  const auto& plan = measured.answer.solution.plan;
  if (!plan) return "nothing fits";
  return fmt::format("t{} d{} S{}", plan->width, plan->replicas, plan->cuts.size());
}

// "same", or how far the objective is from the recorded optimum.
std::string compare(const Measured& measured, const Recorded& recorded) {
  const auto& solution = measured.answer.solution;
  if (solution.plan.has_value() != recorded.optimum_s.has_value()) return "DIFFERS";
  if (!solution.plan) return "same";
  const double difference = std::abs(solution.objective_s / *recorded.optimum_s - 1);
  return difference <= 1e-9 ? "same" : fmt::format("{:.1e}", difference);
}

void run(const fs::path& folder) {
  const auto recorded = read_recorded(folder / "expected.json");
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder / "instances")) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  fmt::print("{:<40} {:>5} {:>7} {:>12} {:>12} {:>7} {:>8} {:>10} {:>7} {:>8} {:>8} {:>9} {:>8}\n", "instance", "nodes",
             "devices", "objective", "plan", "read ms", "solve ms", "process ms", "peak MB", "optimum", "artif. s",
             "artif. MB", "ratio");
  double slowest_ms = 0;
  double largest_mb = 0;
  for (const fs::path& file : files) {
    const Measured measured = measure(file);
    slowest_ms = std::max(slowest_ms, measured.process_ms);
    largest_mb = std::max(largest_mb, measured.peak_mb);
    fmt::print("{:<40} {:>5} {:>7} {:>12.8g} {:>12} {:>7.2f} {:>8.2f} {:>10.2f} {:>7.1f}", file.stem().string(),
               measured.instance.graphs.front().nodes.size(), measured.instance.devices,
               measured.answer.solution.objective_s, show_plan(measured), measured.read_ms, measured.solve_ms,
               measured.process_ms, measured.peak_mb);
    if (const auto found = recorded.find(file.stem().string()); found != recorded.end()) {
      const Recorded& record = found->second;
      const char* at_least = record.status.starts_with("OOM") ? ">" : "";
      fmt::print(" {:>8} {:>8} {:>9.0f} {:>8}", compare(measured, record),
                 fmt::format("{}{:.2f}", at_least, record.wall_s), record.peak_mb,
                 fmt::format("{}{:.0f}x", at_least, record.wall_s * 1000 / measured.process_ms));
    }
    fmt::print("\n");
  }
  fmt::print("slowest process {:.2f} ms, largest {:.1f} MB\n", slowest_ms, largest_mb);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() == 2 && arguments[0] == "--one") return solve_once(arguments[1]);
    if (arguments.size() == 1) {
      run(arguments[0]);
      return 0;
    }
    fmt::print(stderr, "usage: bench_instance FOLDER\n");
  } catch (const nest::InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  return 2;
}
