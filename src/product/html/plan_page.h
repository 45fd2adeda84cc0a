// The page of one plan: what `nest plan --html` and `nest eval --html` write.
#pragma once

#include <string>
#include <vector>

#include "cost/job.h"
#include "html/page.h"
#include "report/plan_report.h"

namespace nest {

// Another plan, to compare with.
struct Alternative {
  std::string name;        // "tensor 4", "2nd best"
  std::string verdict;     // "+4.1 %", "does not fit"
  std::string detail;      // its strategy, or why there is none
  double iteration_s = 0;  // 0: not known
  double excess = 0;       // over the plan of the page, relative; 0: none, or not known
};

struct PlanPage {
  const PlanReport* report = nullptr;
  const Job* job = nullptr;            // that the plan is for
  std::vector<Alternative> why_not;    // one decision overruled each
  std::vector<Alternative> next_best;  // in the order of their time
  std::vector<HtmlSection> first;      // sections of whoever asks for the page, before its own
  std::vector<std::string> command;    // the command line, word by word
  std::string version;                 // of nest
};

HtmlPage plan_page(const PlanPage& input);

}  // namespace nest
