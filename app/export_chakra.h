// The files of nest export --to chakra.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "exporter/chakra.h"

namespace nest {

struct WrittenTraces {
  std::int64_t ranks = 0;  // of which a trace was written
  std::int64_t nodes = 0;  // of all of them
  std::int64_t bytes = 0;
};

// Writes FOLDER/trace.<rank>.et for the ranks that `chosen` names (parse_ranks), groups.json and ranks.json. The folder
// appears when it is complete, or not at all; one that is there must be empty. Throws InputError when it cannot be
// written or would be too large.
WrittenTraces write_traces(const ChakraExport& traces, const std::string& chosen, const std::string& folder);

std::string traces_text(const ChakraExport& traces, const WrittenTraces& written, const std::string& folder);
nlohmann::ordered_json traces_json(const ChakraExport& traces, const WrittenTraces& written, const std::string& folder);

}  // namespace nest
