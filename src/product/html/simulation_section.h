// A simulated step beside its prediction: what `nest simulate --html` adds to the page of the plan.
#pragma once

#include "html/page.h"
#include "report/simulate_report.h"

namespace nest::html {

HtmlSection simulation_section(const report::SimulationReport& report);

}  // namespace nest::html
