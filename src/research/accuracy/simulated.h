// One simulated collective, as what the functions of cluster/ take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accuracy/fields.h"
#include "cluster/collective.h"
#include "cluster/layout.h"
#include "cluster/torus.h"

namespace nest::accuracy {

struct Simulated {
  std::string topology;
  std::string collective;
  std::string algorithm;
  std::string kind;  // of rows that mix several jobs; else empty
  std::int64_t members = 0;
  std::int64_t groups = 1;
  double bytes = 0;
  double seconds = 0;
  std::vector<std::int64_t> dims;         // of a hierarchical algorithm
  std::optional<cluster::Fabric> fabric;  // one of the two
  std::optional<cluster::Torus> torus;
  std::optional<GroupSpec> spec;                  // the group by arithmetic, or
  std::vector<std::vector<std::int64_t>> listed;  // all groups device by device
  bool scattered = false;                         // messages of different lengths at once
};

// Nothing when the row lacks something or has sizes that no network has.
std::optional<Simulated> read_simulated(const doc::Value& row);

// Seconds by our formulas, or nothing when the row is not one collective that they describe.
std::optional<double> predict_s(const Simulated& row);

}  // namespace nest::accuracy
