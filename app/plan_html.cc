#include "plan_html.h"

#include <fmt/format.h>

#include "html/plan_page.h"
#include "output.h"
#include "plan/strategy_text.h"

namespace nest {
namespace {

std::vector<Alternative> overruled(const std::vector<WhyNot>& whys) {
  std::vector<Alternative> list;
  for (const WhyNot& why : whys) {
    Alternative other;
    other.name = why.name;
    if (!why.answer.plans.empty()) {
      other.detail = strategy_text(why.answer.plans.front().strategy);
      other.iteration_s = why.answer.plans.front().prediction.iteration_s;
    }
    switch (why.outcome) {
      case WhyOutcome::slower:
        other.verdict = fmt::format("+{:.1f} %", 100 * why.excess);
        other.excess = why.excess;
        break;
      case WhyOutcome::not_worse: other.verdict = "+0.0 %"; break;
      case WhyOutcome::no_plan: other.verdict = "does not fit"; break;
      case WhyOutcome::unknown:
        if (why.excess < 5e-4) continue;  // nothing was learnt
        other.verdict = fmt::format("> +{:.1f} %", 100 * why.excess);
        other.detail = "not searched to the end";
        other.iteration_s = 0;
        other.excess = why.excess;
        break;
    }
    list.push_back(std::move(other));
  }
  return list;
}

std::vector<Alternative> next_best(const PlanAnswer& answer) {
  std::vector<Alternative> list;
  for (std::size_t k = 1; k < answer.plans.size(); ++k) {
    const double best_s = answer.plans.front().prediction.iteration_s;
    const double time_s = answer.plans[k].prediction.iteration_s;
    const double excess = time_s / best_s - 1;
    list.push_back({fmt::format("{}", k + 1), fmt::format("{:+.2f} %", 100 * excess),
                    strategy_text(answer.plans[k].strategy), time_s, excess});
  }
  return list;
}

}  // namespace

std::string plan_page_text(const PlanReport& report, const Job& job, const Session& session, const PlanAnswer* answer,
                           const std::vector<WhyNot>& whys, std::vector<HtmlSection> first) {
  PlanPage page;
  page.report = &report;
  page.job = &job;
  page.why_not = overruled(whys);
  if (answer != nullptr) page.next_best = next_best(*answer);
  page.first = std::move(first);
  page.command = session.arguments;
  page.version = NEST_VERSION;
  return plan_page(page).str();
}

void write_plan_page(const std::string& path, const PlanReport& report, const Job& job, const Session& session,
                     const PlanAnswer* answer, const std::vector<WhyNot>& whys, std::vector<HtmlSection> first) {
  write_file_atomically(path, plan_page_text(report, job, session, answer, whys, std::move(first)));
}

}  // namespace nest
