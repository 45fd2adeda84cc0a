// What more of every resource would buy (nest/sensitivity.h), for people and for programs.
#pragma once

#include <string>

#include "nest/sensitivity.h"
#include "report/json.h"
#include "report/style.h"

namespace nest::report {

// "What 10 % more would buy (of latencies and host time: 10 % less)"
std::string sensitivity_title(const Sensitivity& sensitivity);
// Which resource binds, and why the parts do not add up.
std::string binding_text(const Sensitivity& sensitivity);
std::string sum_text(const Sensitivity& sensitivity);

std::string sensitivity_text(const Sensitivity& sensitivity, const Style& style);
Json sensitivity_json(const Sensitivity& sensitivity);

// "6.9 %", "-0.2 %"; "0.0 %" for what does not show.
std::string saved_percent(double share);

}  // namespace nest::report
