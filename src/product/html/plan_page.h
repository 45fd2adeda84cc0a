// The page of one plan: what `nest plan --html` and `nest eval --html` write.
#pragma once

#include <string>
#include <vector>

#include "cost/job.h"
#include "html/page.h"
#include "nest/search.h"
#include "report/plan_report.h"

namespace nest::html {

struct PlanPage {
  const report::PlanReport* report = nullptr;
  const cost::Job* job = nullptr;    // that the plan is for
  std::vector<WhyNot> why_not;       // one decision overruled each
  std::vector<Plan> next_best;       // in the order of their time
  std::vector<HtmlSection> first;    // sections of whoever asks for the page, before its own
  std::vector<HtmlSection> last;     // and after all that is of the plan
  std::vector<std::string> command;  // the command line, word by word
  std::string version;               // of nest
};

HtmlPage plan_page(const PlanPage& input);

}  // namespace nest::html
