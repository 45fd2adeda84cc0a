// Traces of small plans, written and read back.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "chakra_reader.h"
#include "export_support.h"
#include "exporter/chakra.h"

namespace nest::test {

inline model::Architecture few_layers(const std::string& preset, std::size_t blocks) {
  model::Architecture architecture = *model::find_model_preset(preset);
  for (model::Tower& tower : architecture.towers) tower.blocks.resize(std::min(tower.blocks.size(), blocks));
  return architecture;
}

struct Traces {
  std::vector<std::vector<exporter::TraceNode>> programs;  // by stage
  std::vector<std::string> files;                          // by rank
  std::vector<ReadTrace> read;
  std::map<std::string, std::vector<std::int64_t>> groups;
};

inline Traces write_all(const exporter::ChakraExport& exported, const Strategy& strategy) {
  Traces traces;
  for (std::int64_t s = 0; s < strategy.pp; ++s) traces.programs.push_back(exported.plan().stage(s));
  for (std::int64_t r = 0; r < exported.ranks(); ++r) {
    traces.files.push_back(exported.trace(traces.programs[static_cast<std::size_t>(exported.place(r).stage)], r));
    traces.read.push_back(read_trace(traces.files.back()));
  }
  const auto groups = exported.group_file();
  for (const auto& [id, members] : groups.items()) {
    traces.groups[id] = members.get<std::vector<std::int64_t>>();
  }
  return traces;
}

inline double sum_durations(const ReadTrace& trace, const std::function<bool(const ReadNode&)>& which) {
  double sum = 0;
  for (const ReadNode& node : trace.nodes) sum += which(node) ? static_cast<double>(node.duration_us) : 0;
  return sum;
}

}  // namespace nest::test
