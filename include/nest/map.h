// Many questions that differ in little: the best plan of every cell of a map, say tensor by pipeline parallel, or devices
// by batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nest/job.h"
#include "nest/search.h"

namespace nest {

// What a cell asks that the question does not.
struct MapCell {
  std::vector<std::string> set = {};  // "tp=8", besides those of the search
  std::int64_t devices = 0;           // 0: as the question says
  std::int64_t global_batch = 0;
  std::int64_t seq = 0;
};

struct MappedCell {
  enum class Outcome : std::uint8_t {
    optimal,     // proven
    limit,       // stopped early
    no_plan,     // proven that nothing fits: `missing_bytes` at least
    impossible,  // no plan is like this, whatever its memory, for `reason`
  };
  Outcome outcome = Outcome::impossible;
  std::optional<Plan> plan = {};
  // On the device that lacks most under the plan that comes closest; 0: not known.
  std::int64_t missing_bytes = 0;
  std::string reason = {};
};

// The best plan of each cell, everything that the cell leaves open searched: as find_plan() does, without its reasons.
// With a time limit, which is each cell's, cells come with a bound first and can be asked again without.
// Throws InputError where the question itself is wrong; a cell that cannot be is an answer.
std::vector<MappedCell> map_cells(const Question& question, const SearchOptions& options,
                                  const std::vector<MapCell>& cells);

std::string to_json(const std::vector<MappedCell>& cells);  // nest.map/1

}  // namespace nest
