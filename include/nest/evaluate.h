// The price of one given plan: time, memory, money.
#pragma once

#include <string>
#include <string_view>

#include "nest/job.h"
#include "nest/plan.h"
#include "nest/report.h"

namespace nest {

// "tp=8,sp=1,pp=4,vpp=5,mbs=1": what is left out is 1 or off, and dp fills the devices. Stages are cut evenly. A plan
// that does not fit in memory says so (Plan::fits). Throws InputError for a strategy that is none for this job.
// Judged by simulation, it is executed too (Plan::executed).
Plan evaluate_plan(const TrainingJob& job, std::string_view strategy, PlanJudge judge = PlanJudge::simulation);

// Names and values that a strategy may have, "tp=8, sp=1, schedule=1f1b|interleaved|gpipe, …": for help.
std::string strategy_help();

// The plan priced anew, with its own documents. Throws InputError when it cannot be priced.
Plan evaluate_plan(const Plan& plan, PlanJudge judge = PlanJudge::simulation);

// Of a priced plan.
std::string to_text(const Plan& plan, const ReportOptions& options = {});
std::string to_json(const Plan& plan, const ReportOptions& options = {});  // its file, with what training takes in all
std::string to_html(const Plan& plan, const ReportOptions& options = {});

}  // namespace nest
