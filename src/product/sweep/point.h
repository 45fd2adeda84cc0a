// From a point of a study to the question that it asks.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "nest/job.h"
#include "nest/search.h"
#include "nest/sweep.h"
#include "sweep/study.h"

namespace nest::sweep {

struct PointQuestion {
  Question question;
  SearchOptions options;
  double price = 0;   // of a device-hour; 0: not told
  double tokens = 0;  // to train on; 0: not told
};

// May be asked by several threads at once; documents that an axis changes are made once.
class Questions {
 public:
  explicit Questions(const Study& study);

  // The files that the study names and that lie somewhere, read now (Study::files). Throws InputError.
  std::vector<SweepFile> read_files() const;

  // Throws InputError where the point's documents cannot be.
  PointQuestion at(std::int64_t point);

  // Reads every model, cluster and stack that the points name, each once, and says what they hold.
  // Throws InputError that names the study and what is wrong.
  std::vector<NamedHash> check();

 private:
  std::string path_of(const SweepValue& value) const;
  Input input(const SweepValue& value) const;
  Input changed(const std::string& what, const Input& base, const std::vector<struct Change>& changes,
                const std::vector<struct Change>& device);

  const Study& study_;
  std::string folder_;  // of the study's file
  std::mutex mutex_;
  std::map<std::string, Input> made_;
};

// Points that share a search: they differ in price or tokens at most. In the order of their first points.
std::vector<std::vector<std::int64_t>> group_points(const Study& study);

}  // namespace nest::sweep
