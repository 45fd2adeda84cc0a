// Candidates side by side: what `nest compare --html` and `--svg` show of them.
#pragma once

#include "html/bar_chart.h"
#include "html/page.h"
#include "nest/candidates.h"

namespace nest::html {

BarChart candidates_chart(const CandidateComparison& comparison);
HtmlSection candidates_section(const CandidateComparison& comparison);
// The section alone, where no candidate fits.
HtmlPage candidates_page(const CandidateComparison& comparison);

}  // namespace nest::html
