// Reports of one priced plan of a job, shared by all answers that have one.
#pragma once

#include <string>

#include "cost/job.h"
#include "html/plan_page.h"
#include "nest/report.h"
#include "report/plan_report.h"

namespace nest {

report::PlanReport plan_report(const Plan& plan, const cost::Job& job, const ReportOptions& options);

// `page` holds what comes beside the plan itself.
std::string plan_page_text(const Plan& plan, const cost::Job& job, const ReportOptions& options,
                           html::PlanPage page = {});

}  // namespace nest
