// What the independent judge says of a plan, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "check/check.h"
#include "check/levels.h"
#include "report/json.h"
#include "report/style.h"

namespace nest::report {

struct CheckReport {
  std::string title;  // of the model
  Plan plan;
  cluster::Cluster cluster;
  model::Model model;
  std::vector<check::Violation> violations;
  std::vector<std::string> not_judged;  // keys of claims that no rule is about
  // Empty where the plan's shape is broken.
  check::LevelsCrossed levels;
  std::vector<double> memory_floor_bytes;  // per stage
};

CheckReport make_check_report(std::string title, const Plan& plan, const model::Model& model,
                              const cluster::Cluster& cluster, const check::StateFloor& state,
                              const check::ListedDevices& listed);

std::string check_text(const CheckReport& report, const Style& style);
Json check_json(const CheckReport& report);

// A plan of ours that is not sound, with what is wrong: the file to report a bug with. `nest check` reads it.
std::string reproducer_text(const Plan& plan, const std::vector<check::Violation>& violations);

}  // namespace nest::report
