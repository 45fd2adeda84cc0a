// Planners side by side: what `nest compare --html` and `--svg` show.
#pragma once

#include "html/bar_chart.h"
#include "html/page.h"
#include "report/compare_report.h"

namespace nest::html {

BarChart compare_chart(const report::CompareReport& report);
HtmlSection compare_section(const report::CompareReport& report);
// The section alone, for comparisons without any plan.
HtmlPage compare_page(const report::CompareReport& report);

}  // namespace nest::html
