// Layer-profile instances of the published artifact: layers whose times and sizes are given, no model and no formulas.
#pragma once

#include <memory>
#include <string>

#include "nest/input.h"
#include "nest/style.h"

namespace nest {

struct InstanceResult;  // internal

struct InstancePlan {
  bool found = false;
  std::string misfit;  // what would be enough, where nothing fits; may be empty
  std::shared_ptr<const InstanceResult> result;
};

// The fastest plan of the instance, proven. Throws InputError for a file that is none.
InstancePlan plan_instance(const Input& file);

// Of one that was found.
std::string to_text(const InstancePlan& plan, const Style& style = Style());
std::string to_json(const InstancePlan& plan);  // nest.profile-plan/1

}  // namespace nest
