// Results of a study as text, JSON and CSV.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "nest/style.h"
#include "nest/sweep.h"

namespace nest::sweep {

std::string results_text(const SweepResults& results, const Style& style);
std::string results_json(const SweepResults& results);
std::string results_csv(const SweepResults& results);
// A line of JSON, with the plan where there is one.
std::string result_line(const SweepResults& results, const SweepResult& result, std::string_view plan);

// "84 plans, 8 without a plan that fits, 4 refused"
std::string outcomes_text(const SweepResults& results);

}  // namespace nest::sweep
