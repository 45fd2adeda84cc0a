// A set of measurements and what nest predicts for each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accuracy/statistics.h"
#include "cost/error_bar.h"
#include "doc/value.h"

namespace nest::accuracy {

// Of a published run: where its row stands, what it is, and whether it would be said to fit.
struct RunFacts {
  std::string file;
  std::string release;
  std::string device;
  std::string ab_group, ab_change;  // runs of a group differ in one thing, named by the change
  std::vector<std::string> not_expressed;
  bool fits = true;
  double over = 0;  // memory needed, margin included, over that of the device, less 1: of the fullest stage
  std::string job;  // model, devices, batch and sequence: runs of one job are compared
  std::optional<Prediction> prediction;
  cost::Circumstances circumstances;  // of its spread
};

struct Reading {
  std::string id;
  std::string source;  // rows of one source are summarised together
  Point point;
  std::string unit;  // "s", "bytes", "parameters", …
  bool moe = false;
  bool strict = true;  // everything needed is stated, and the source is trusted
  double margin = 0;   // memory: the margin that a plan must leave
  std::string note;    // why it may be off, where that is known
  RunFacts run = {};
};

struct LeftOut {
  std::string id;
  std::string source;
  std::string reason;
};

struct Set {
  std::string name;   // "published_time"
  std::string title;  // "Published training runs, iteration time"
  std::string unit;   // of predictions and measurements
  std::size_t rows = 0;
  std::vector<Reading> readings;
  std::vector<LeftOut> left_out;

  void leave_out(std::string id, std::string source, std::string reason) {
    left_out.push_back({std::move(id), std::move(source), std::move(reason)});
  }
};

// Errors of the readings for which `wanted` holds.
Errors errors_of(
    const Set& set, const std::function<bool(const Reading&)>& wanted = [](const Reading&) { return true; });
std::vector<Point> points_of(const Set& set, const std::function<bool(const Reading&)>& wanted);

// Sources with at least one reading or one row left out, sorted.
std::vector<std::string> sources_of(const Set& set);

// Reasons with their numbers of rows, most frequent first.
std::vector<std::pair<std::string, std::size_t>> reasons_of(const Set& set, const std::string& source = {});

// Readings by size of their error, largest first.
std::vector<const Reading*> worst_of(
    const Set& set, std::size_t at_most,
    const std::function<bool(const Reading&)>& wanted = [](const Reading&) { return true; });

// The rows of a JSON file that holds a list: nothing when there is no such file; the set says why when it cannot be
// read.
std::optional<Document> read_list(const std::filesystem::path& path, Set& set);
// The text of a file, or nothing.
std::optional<std::string> read_text(const std::filesystem::path& path);

}  // namespace nest::accuracy
