// Rows of collectives/simgrid.json as what our functions take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/collective.h"
#include "cluster/layout.h"
#include "doc/reader.h"

namespace nest::test {

struct SimulatedRow {
  std::string topology;
  std::string kind;  // of the mixed rows
  std::string collective;
  std::string algorithm;
  std::vector<std::int64_t> hier_dims;
  std::int64_t chunks = 1;
  std::int64_t members = 0;
  std::int64_t groups = 1;
  double bytes = 0;
  double seconds = 0;

  std::optional<Fabric> fabric;
  std::optional<Torus> torus;

  // The group, in one of the forms that the file has.
  std::string ids;  // words
  std::string note;
  std::optional<GroupSpec> spec;                  // start, stride, count, starts
  std::vector<std::vector<std::int64_t>> listed;  // explicit groups
  double offset_s = 0;                            // between staggered starts

  Collective our_collective() const;
  GroupLayout layout() const;
};

std::vector<SimulatedRow> read_rows(const Document& document, const std::string& key);

}  // namespace nest::test
