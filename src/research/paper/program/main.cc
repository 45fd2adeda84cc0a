// nest-paper: runs the evaluation, point by point, and writes its page.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "paper/page.h"

namespace {

namespace fs = std::filesystem;
using nest::paper::Effort;
using nest::paper::Point;
using nest::paper::Record;
using nest::paper::Records;

struct Options {
  std::string records = "build/paper.jsonl";
  std::string page;
  std::string figures = "evaluation";  // beside the page
  std::string group;
  int threads = 2;
  bool only_page = false;
  Effort effort;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const fs::path& path, const std::string& text) {
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw nest::InputError("cannot write " + path.string());
}

// Those that are not known yet, or not as they are asked for now.
std::vector<Point> open_points(const Options& options, const Records& known) {
  std::vector<Point> open;
  const auto add = [&](const std::string& group) {
    for (const Point& point : nest::paper::distinct_points(group)) {
      const auto record = known.find(point.id());
      if (record == known.end() || !record->second.answers(options.effort)) open.push_back(point);
    }
  };
  add(options.group);
  if (options.group.empty()) {
    for (const char* group : {"published-fat-tree", "published-spine-leaf"}) add(group);
  }
  return open;
}

// To write behind what is there; a line that a killed run left unfinished is ended.
std::ofstream open_lines(const fs::path& path) {
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  const std::string before = read_file(path);
  std::ofstream lines(path, std::ios::binary | std::ios::app);
  if (!lines) throw nest::InputError("cannot write " + path.string());
  if (!before.empty() && before.back() != '\n') lines << '\n';
  return lines;
}

void run_points(const Options& options, Records& records) {
  const std::vector<Point> open = open_points(options, records);
  std::ofstream lines = open_lines(options.records);
  std::size_t done = 0;
  const auto start = std::chrono::steady_clock::now();
  std::atomic<std::size_t> next{0};
  std::mutex mutex, solver;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t k = next++; k < open.size(); k = next++) {
      try {
        const Record record = run_point(open[k], options.effort, solver);
        const std::lock_guard lock(mutex);
        lines << to_line(record) << std::flush;
        records[record.id] = record;
        const double elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        ++done;
        std::cerr << fmt::format("{} of {} points, {:.0f} s, about {:.0f} s left: {}\n", done, open.size(), elapsed_s,
                                 elapsed_s / static_cast<double>(done) * static_cast<double>(open.size() - done),
                                 record.id);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        std::cerr << "at " << open[k].id() << '\n';
        next = open.size();
      }
    }
  };
  std::vector<std::thread> workers;
  for (int k = 0; k < std::max(1, options.threads); ++k) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  if (failure) std::rethrow_exception(failure);
}

int run(const Options& options) {
  Records records = nest::paper::read_records(read_file(options.records));
  if (!options.only_page) run_points(options, records);
  const nest::paper::Page page = make_page(records, options.figures);
  if (options.page.empty()) {
    std::cout << page.markdown;
    return 0;
  }
  const fs::path path = options.page;
  write_file(path, page.markdown);
  for (const auto& [name, svg] : page.figures) write_file(path.parent_path() / options.figures / name, svg);
  std::cerr << "written: " << options.page << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("repeats the evaluation of the NEST paper", "nest-paper");
  Options options;
  app.add_option(
      "--records", options.records,
      "finished points, one line of JSON each; those there are not run again unless they were run otherwise");
  app.add_option("--page", options.page, "write the page here; default: standard output");
  app.add_option("--figures", options.figures, "folder of the figures, beside the page");
  app.add_option("--group", options.group, "run this group alone")->check(CLI::IsMember(nest::paper::group_names()));
  app.add_option("--threads", options.threads, "points at a time")->check(CLI::PositiveNumber);
  app.add_option("--time-limit", options.effort.time_limit_s, "seconds per planner and point")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.effort.seed, "of planners that draw lots");
  app.add_flag("--only-page", options.only_page, "write the page from what is there");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const nest::InputError& error) {
    std::cerr << "nest-paper: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "nest-paper: " << error.what() << '\n';
    return 1;
  }
}
