// Results of studies in an SQLite database: one file that anything can read.
//
//   nest_studies(name, nest, definition, document, points)   one row per study
//   "NAME"(point, <one column per axis>, outcome, reason, strategy, step_s, …, plan)    one table per study, a row per point
//   nest_times(study, point, wall_s)                          what find_plan() took, the only thing that is not the same twice
//
// A point is written in one transaction or not at all: whatever ends the program, every row is whole, and what is there
// is not planned again. The rollback journal is used, which works on network folders too; a lock beyond the end of the file
// keeps a second writer out and goes with the process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nest/sweep.h"

namespace nest::sweep {

struct StoredPoint {
  SweepResult result;
  std::string plan;  // JSON; empty: none
  double wall_s = 0;
};

struct StoredStudy {
  std::string name, version, definition, document;
  std::int64_t points = 0;
};

enum class Access : std::uint8_t {
  read,
  write,  // creates the file where there is none, and keeps other writers out
};

class Store {
 public:
  // Throws InputError where the file cannot be opened, is no database of nest, or (to write) is being written by another.
  Store(std::string path, Access access);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Makes the study's table, or finds it. Throws InputError where one of another definition has its name.
  void open_study(const Study& study, const std::string& version);
  // Throws InputError where it is not there.
  void require_study(const Study& study);

  std::vector<StoredStudy> studies();
  std::vector<std::int64_t> point_numbers(const std::string& study);
  std::vector<SweepResult> results(const std::string& study);
  std::string plan(const std::string& study, std::int64_t point);
  void for_each_plan(const std::string& study, const std::function<void(std::int64_t, std::string_view)>& each);

  // All of them in one transaction. Throws InputError where they cannot be written; nothing of them is then there.
  void add(const Study& study, const std::vector<StoredPoint>& points);

  // Copies a study with its points from another database. Gives the number of points that were here already; throws
  // InputError where such a point is another there.
  std::int64_t merge(const std::string& other, const std::string& study);

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace nest::sweep
