// A second judge of plans, ours or hand-written, that shares no code with the cost model or the search.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nest/error.h"
#include "nest/input.h"
#include "nest/plan.h"
#include "nest/style.h"

namespace nest {

struct JudgedPlan;  // internal

struct Verdict {
  struct Violation {
    std::string code;  // "layer_missing"
    std::string text;  // one line, with the numbers
  };
  std::vector<Violation> violations;
  std::vector<std::string> not_judged;  // claims that no rule is about, by their keys: "prediction.spread"
  std::shared_ptr<const JudgedPlan> judged;

  bool sound() const { return violations.empty(); }
};

// Every layer in one stage and in order, every rank on one device, sizes that divide, memory of every stage, batch
// arithmetic, levels of the network crossed, and claims that follow from each other.
Verdict check_plan(const Plan& plan);

// The same for a plan's file, and whether the devices that it lists are those of its ranks and what it repeats for its
// readers is what follows from the rest.
Verdict check_file(const Input& file);

std::string to_text(const Verdict& verdict, const Style& style = Style());
std::string to_json(const Verdict& verdict);

// For a bug report: the plan, where the bug is that a search returned one that this judge refuses; else empty.
std::string reproducer(const InternalError& bug);

}  // namespace nest
