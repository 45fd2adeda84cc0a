#include "planner/judge.h"

#include "check/check.h"

namespace nest {

std::vector<std::string> judge_plan(const Plan& plan, const Model& model, const Cluster& cluster) {
  std::vector<std::string> lines;
  for (const Violation& violation : check_plan(plan, model, cluster)) lines.push_back(violation.text);
  return lines;
}

}  // namespace nest
