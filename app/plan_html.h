// The page that --html writes (html/plan_page.h).
#pragma once

#include <string>
#include <vector>

#include "command.h"
#include "html/page.h"
#include "job_options.h"
#include "report/plan_report.h"
#include "search/why.h"

namespace nest {

// The page alone, for those who write several files.
std::string plan_page_text(const PlanReport& report, const Job& job, const Session& session,
                           const PlanAnswer* answer = nullptr, const std::vector<WhyNot>& whys = {},
                           std::vector<HtmlSection> first = {});

// Complete, or not at all; throws InputError when it cannot be written. A plan that was not searched for has no
// `answer`; `first` stands before the plan's own sections.
void write_plan_page(const std::string& path, const PlanReport& report, const Job& job, const Session& session,
                     const PlanAnswer* answer = nullptr, const std::vector<WhyNot>& whys = {},
                     std::vector<HtmlSection> first = {});

}  // namespace nest
