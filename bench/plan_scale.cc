// How long `nest plan` searches, for models and clusters of real size: everything open, one core unless said.
//
//   bench_plan [--only TEXT] [--runs N] [--markdown FILE] [--plot FILE] [--one NAME]
//
// Every row runs in a process of its own: processor and wall time are the best of N searches there (3 unless said),
// memory its peak resident set. On an idle machine one thread's wall time is its processor time. `opened` are nodes of
// the search, `solved` exact partition problems; both are the same on any machine.
// --one runs one row once and prints nothing: for instruction counts,
//   valgrind --tool=callgrind bench_plan --one 'llama3-70b dgx-h100 1024'
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "cost/default_stack.h"
#include "model/presets.h"
#include "search/planner.h"

namespace {

struct Row {
  std::string series;  // what grows along it
  std::string name;
  double x = 0;  // devices, layers or sequences
  std::function<nest::cost::Job()> job;
  int threads = 1;
};

struct Result {
  double wall_s = 0;
  double cpu_s = 0;
  double peak_mb = 0;
  double keys = 0;
  double iteration_s = 0;  // 0: no plan fits
  std::int64_t opened = 0, leaves = 0;
};

constexpr const char* kStack = "megatron-core";

// No stack: the one that is chosen where nobody names one.
nest::cost::Job make(const nest::model::Architecture& model, const std::string& cluster, std::int64_t devices,
                     std::int64_t batch, std::int64_t sequence, const std::string& stack = kStack) {
  nest::Run run;
  run.global_batch = batch;
  run.sequence = sequence;
  const nest::cluster::Cluster network = nest::cluster::find_cluster(cluster, devices).value();
  const std::string chosen =
      stack.empty() ? nest::cost::default_stack(model, network.device, run.precision).name : stack;
  return nest::cost::make_job(model, run, nest::cost::find_stack(chosen).value(), network);
}

nest::model::Architecture preset(const std::string& name) { return nest::model::find_model_preset(name).value(); }

nest::cost::Job preset_job(const std::string& model, const std::string& cluster, std::int64_t devices,
                           std::int64_t batch, const std::string& stack = kStack) {
  const nest::model::Architecture architecture = preset(model);
  return make(architecture, cluster, devices, batch, std::min<std::int64_t>(4096, architecture.default_sequence),
              stack);
}

// Blocks that are all alike, or all different (by up to a third in the width of their feed-forward).
nest::model::Architecture tower(std::int64_t blocks, bool different) {
  nest::model::Architecture model = preset("llama3-8b");
  nest::model::Tower& decoder = model.towers.front();
  const nest::model::Block pattern = decoder.kinds.front();
  decoder.kinds.clear();
  decoder.blocks.clear();
  for (std::int64_t i = 0; i < blocks; ++i) {
    if (different || i == 0) {
      decoder.kinds.push_back(pattern);
      if (different) decoder.kinds.back().feed_forward->width -= 64 * ((i * 37) % blocks);
    }
    decoder.blocks.push_back(static_cast<int>(decoder.kinds.size()) - 1);
  }
  return model;
}

std::int64_t most_devices(const std::string& cluster) {
  return nest::cluster::find_cluster(cluster).value().sizes.at_most;
}

std::int64_t usual_batch(std::int64_t devices) { return devices <= 1024 ? 1024 : devices <= 16384 ? 4096 : 16384; }

std::vector<Row> rows() {
  std::vector<Row> rows;
  const auto add_preset = [&](const std::string& series, const std::string& model, const std::string& cluster,
                              std::int64_t devices, std::int64_t batch, double x, int threads = 1) {
    std::string name = fmt::format("{} {} {}", model, cluster, devices);
    if (batch != usual_batch(devices)) name += fmt::format(" batch {}", batch);
    if (threads > 1) name += fmt::format(" threads {}", threads);
    rows.push_back({series, name, x, [=] { return preset_job(model, cluster, devices, batch); }, threads});
  };
  for (const char* cluster : {"dgx-h100", "h100-spine-leaf"}) {
    for (const char* model : {"llama3-8b", "llama3-70b", "gpt3-175b", "llama3-405b", "mixtral-8x7b", "qwen3-235b-a22b",
                              "deepseek-v3", "gemma3-27b"}) {
      for (const std::int64_t devices : {64, 256, 1000, 1024, 4096, 16384, 131072}) {
        if (devices > most_devices(cluster)) continue;
        add_preset(fmt::format("{} {}", model, cluster), model, cluster, devices, usual_batch(devices),
                   static_cast<double>(devices));
      }
    }
  }
  for (const std::int64_t batch : {64, 256, 1000, 1024, 4096, 16384, 65536}) {
    add_preset("batch", "llama3-70b", "dgx-h100", 1024, batch, static_cast<double>(batch));
  }
  for (const bool different : {false, true}) {
    for (const char* cluster : {"dgx-h100", "h100-spine-leaf"}) {
      for (const std::int64_t blocks : {25, 50, 100, 200}) {
        const std::string name =
            fmt::format("{} {} blocks {} 1024", blocks, different ? "different" : "equal", cluster);
        rows.push_back({different ? "different blocks" : "equal blocks", name, static_cast<double>(blocks),
                        [=] { return make(tower(blocks, different), cluster, 1024, 1024, 4096); }, 1});
      }
    }
  }
  // Mixtures of the size that is trained now.
  const auto add_mixture = [&](const std::string& model, const std::string& cluster, std::int64_t devices,
                               std::int64_t batch, const std::string& stack) {
    const std::string name =
        fmt::format("{} {} {} batch {} {}", model, cluster, devices, batch, stack.empty() ? "default stack" : stack);
    rows.push_back({"mixtures", name, static_cast<double>(devices),
                    [=] { return preset_job(model, cluster, devices, batch, stack); }, 1});
  };
  for (const char* stack : {"", kStack}) {
    add_mixture("deepseek-v3", "dgx-h100", 2048, 15360, stack);
    add_mixture("kimi-k2", "gb200-nvl72", 16384, 16384, stack);
  }
  for (const int threads : {2, 4}) {
    add_preset("threads", "llama3-405b", "h100-spine-leaf", 1024, 1024, threads, threads);
    add_preset("threads", "deepseek-v3", "h100-spine-leaf", 1024, 1024, threads, threads);
  }
  return rows;
}

Result search(const Row& row, int runs) {
  const nest::cost::Job job = row.job();
  Result result;
  result.wall_s = result.cpu_s = HUGE_VAL;
  for (int run = 0; run < runs; ++run) {
    nest::search::PlanRequest request;
    request.job = &job;
    request.search.threads = row.threads;
    const std::clock_t before = std::clock();
    const nest::search::PlanAnswer answer = nest::search::make_plan(request);
    result.cpu_s = std::min(result.cpu_s, static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC);
    result.wall_s = std::min(result.wall_s, answer.wall_s);
    result.keys = answer.keys;
    result.opened = answer.opened;
    result.leaves = answer.leaves;
    if (!answer.plans.empty()) result.iteration_s = answer.plans.front().prediction.iteration_s;
  }
  return result;
}

Result search_alone(const Row& row, int runs) {
  int ends[2];
  if (pipe(ends) != 0) throw nest::InputError("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const Result result = search(row, runs);
    const bool written = write(ends[1], &result, sizeof result) == static_cast<ssize_t>(sizeof result);
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  Result result;
  const bool whole = read(ends[0], &result, sizeof result) == static_cast<ssize_t>(sizeof result);
  close(ends[0]);
  rusage usage{};
  int status = 0;
  wait4(child, &status, 0, &usage);
  if (!whole || status != 0) throw nest::InputError(row.name + ": the search did not finish");
  result.peak_mb = static_cast<double>(usage.ru_maxrss) / 1024;
  return result;
}

std::string line_of(const Row& row, const Result& result) {
  return fmt::format("| {} | {:.0f} | {:.3f} | {:.3f} | {:.0f} | {:.2g} | {} | {} | {} |\n", row.name, row.x,
                     result.cpu_s, result.wall_s, result.peak_mb, result.keys, result.opened, result.leaves,
                     result.iteration_s > 0 ? fmt::format("{:.3f} s", result.iteration_s) : "none fits");
}

// Wall time over devices, one line per model, both axes logarithmic.
std::string plot(const std::vector<Row>& rows, const std::vector<Result>& results, const std::string& cluster) {
  constexpr double kLeft = 60, kTop = 36, kWidth = 520, kHeight = 300;
  const auto px = [&](double devices) { return kLeft + kWidth * std::log(devices / 64) / std::log(131072.0 / 64); };
  const auto py = [&](double seconds) { return kTop + kHeight * (1 - std::log10(seconds / 1e-3) / 4); };
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 390\" role=\"img\" aria-label=\"search time over "
      "devices on {}\">\n<style>text{{font:12px system-ui,sans-serif;fill:#222}}.g{{stroke:#ddd}}.l{{fill:none;"
      "stroke-width:2}}.b{{fill:#fff}}@media(prefers-color-scheme:dark){{text{{fill:#ddd}}.g{{stroke:#333}}.b{{fill:"
      "#111}}}}</style>\n<rect class=\"b\" width=\"760\" height=\"390\"/>\n<text x=\"{}\" y=\"20\">seconds to the "
      "proof, "
      "{}, one core</text>\n",
      cluster, kLeft, cluster);
  for (const double seconds : {1e-3, 1e-2, 1e-1, 1.0, 10.0}) {
    out += fmt::format("<path class=\"g\" d=\"M{} {:.1f}h{}\"/><text x=\"8\" y=\"{:.1f}\">{:g} s</text>\n", kLeft,
                       py(seconds), kWidth, py(seconds) + 4, seconds);
  }
  for (const double devices : {64.0, 256.0, 1024.0, 4096.0, 16384.0, 131072.0}) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n", px(devices),
                       kTop + kHeight + 18, devices);
  }
  static constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                             "#b58900", "#2a9fd6", "#7a5cc0", "#777777"};
  std::map<std::string, std::vector<std::pair<double, double>>> lines;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const auto space = rows[k].series.find(' ');
    if (space == std::string::npos || rows[k].series.substr(space + 1) != cluster) continue;
    lines[rows[k].series.substr(0, space)].emplace_back(rows[k].x, std::max(1e-3, results[k].cpu_s));
  }
  // Labels at the right end, moved apart where lines meet.
  std::vector<std::pair<double, std::string>> ends;
  for (const auto& [model, points] : lines) ends.emplace_back(py(points.back().second), model);
  std::sort(ends.begin(), ends.end());
  std::map<std::string, double> label;
  double below = 0;
  for (const auto& [y, model] : ends) below = label[model] = std::max(y + 4, below + 14);
  std::size_t colour = 0;
  for (const auto& [model, points] : lines) {
    std::string path;
    for (const auto& [x, y] : points) path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", px(x), py(y));
    const char* ink = kColours[colour++ % std::size(kColours)];
    out += fmt::format(
        "<path class=\"l\" stroke=\"{}\" d=\"{}\"/><text x=\"{}\" y=\"{:.1f}\" style=\"fill:{}\">{}</text>\n", ink,
        path, kLeft + kWidth + 8, label[model], ink, model);
  }
  return out + "</svg>\n";
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw nest::InputError("cannot write " + path);
}

int run(int argc, char** argv) {
  std::string only, markdown, picture, one;
  int runs = 3;
  for (int k = 1; k + 1 < argc; k += 2) {
    const std::string option = argv[k], value = argv[k + 1];
    if (option == "--only") only = value;
    if (option == "--one") one = value;
    if (option == "--runs") runs = std::max(1, std::atoi(value.c_str()));
    if (option == "--markdown") markdown = value;
    if (option == "--plot") picture = value;
  }
  std::vector<Row> all = rows();
  if (!one.empty()) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Row& row) { return row.name == one; });
    if (found == all.end()) throw nest::InputError("no row is named " + one);
    search(*found, 1);
    return 0;
  }
  std::erase_if(all, [&](const Row& row) { return row.name.find(only) == std::string::npos; });
  std::string table =
      "| case | | CPU s | wall s | peak MB | keys | opened | solved | plan "
      "|\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  fmt::print("{}", table);
  std::vector<Result> results;
  for (const Row& row : all) {
    results.push_back(search_alone(row, runs));
    table += line_of(row, results.back());
    fmt::print("{}", line_of(row, results.back()));
    std::fflush(stdout);
  }
  if (!markdown.empty()) write_text(markdown, table);
  if (!picture.empty()) {
    for (const char* cluster : {"dgx-h100", "h100-spine-leaf"}) {
      write_text(fmt::format("{}-{}.svg", picture, cluster), plot(all, results, cluster));
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_plan: {}\n", error.what());
    return 2;
  }
}
