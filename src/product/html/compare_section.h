// Planners side by side: what `nest compare --html` and `--svg` show.
#pragma once

#include "html/bar_chart.h"
#include "html/page.h"
#include "report/compare_report.h"

namespace nest {

BarChart compare_chart(const CompareReport& report);
HtmlSection compare_section(const CompareReport& report);
// The section alone, for comparisons without any plan.
HtmlPage compare_page(const CompareReport& report);

}  // namespace nest
