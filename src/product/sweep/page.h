// A study as one page: curves, heat maps, fronts, all points, and the plan of each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "html/markup.h"
#include "nest/sweep.h"

namespace nest::sweep {

struct PageInput {
  const SweepResults* results = nullptr;
  std::function<std::string(std::int64_t point)> plan;  // JSON, or empty
  std::vector<std::string> command;                     // that made the page
  std::string version;
};

std::string results_page(const PageInput& input);

// What a point opens: the plan, or why there is none. `plan` is JSON.
html::Markup point_panel(const SweepResults& results, const SweepResult& result, const std::string& plan);
extern const char* const kPanelStyle;

// The address of a point's panel without "#".
std::string panel_id(std::int64_t point);

}  // namespace nest::sweep
