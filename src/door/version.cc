#include "nest/version.h"

#include <algorithm>

#include "nest/compare.h"
#include "nest/simulate.h"
#include "onnx_graph/read_onnx.h"
#include "simulate_client/client.h"

namespace nest {

const char* version() { return NEST_VERSION; }

std::vector<std::string> left_out() {
  std::vector<std::string> missing;
  if (!onnx_graph::onnx_supported()) missing.emplace_back("ONNX files (libonnx)");
  const std::vector<std::string> planners = planner_names();
  if (std::find(planners.begin(), planners.end(), "alpa") == planners.end()) {
    missing.emplace_back("the planner alpa (COIN-OR CBC)");
  }
  try {
    find_simulator();
  } catch (const SimulatorError&) {
    missing.emplace_back("simulate --engine simgrid (SimGrid)");
  }
  return missing;
}

}  // namespace nest
