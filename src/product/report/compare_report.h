// Several planners' answers to one question, side by side, for people and for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nest/compare.h"
#include "plan/plan.h"
#include "report/json.h"
#include "report/style.h"

namespace nest::report {

struct CompareReport {
  Plan about;  // what was planned for: no strategy, no stages
  std::vector<ComparedPlanner> planners;
  bool simulated = false;  // was asked for

  // Whether every plan was executed: then that is what plans are compared by.
  bool is_executed() const;
  // Of a step of a planner that has a plan: executed, or predicted where not every plan was executed.
  double seconds(const ComparedPlanner& planner) const;
  // What the others are measured by: nest's plan, or the fastest where nest has none or was not asked.
  const ComparedPlanner* baseline() const;
  // The one whose plan takes least; the baseline where it ties.
  const ComparedPlanner* fastest() const;
  // Nobody has a plan, but somebody was stopped and nobody proved that there is none.
  bool is_open() const;
};

// Time of a step over the baseline's; nothing where there is no plan.
std::optional<double> ratio(const CompareReport& report, const ComparedPlanner& planner);

// One sentence: who is fastest, by how much.
std::string compare_headline(const CompareReport& report);

// What the stages do about memory, "recompute selective, ZeRO 1"; ranges where they differ.
std::string memory_measures(const Plan& plan);

std::string compare_text(const CompareReport& report, const Style& style);
Json compare_json(const CompareReport& report);  // nest.compare/1

}  // namespace nest::report
