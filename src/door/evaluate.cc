#include "nest/evaluate.h"

#include "base/error.h"
#include "cost/evaluate.h"
#include "door/job_data.h"
#include "door/plan_reports.h"
#include "door/priced_plan.h"
#include "load/job.h"
#include "nest/option.h"
#include "plan/strategy_text.h"

namespace nest {

PricedPlan price_plan(const Plan& plan) {
  PricedPlan priced;
  priced.job = load_job(plan);
  if (const std::string reason = refuse_strategy(priced.job, plan.strategy, plan.stages); !reason.empty()) {
    throw InputError((plan.source.empty() ? option("plan") : plan.source) + ": " + reason);
  }
  priced.plan = evaluate(priced.job, plan.strategy, plan.stages);
  priced.plan.search = plan.search;
  return priced;
}

Plan evaluate_plan(const Plan& plan) { return price_plan(plan).plan; }

Plan evaluate_plan(const TrainingJob& training, std::string_view text) {
  const Job& job = unwrap(training);
  StrategyRequest request = parse_strategy(text, option("strategy"));
  fill_devices(request, job.cluster.devices);
  Strategy& strategy = request.strategy;
  if (strategy.dp_inner == 1) strategy.dp_inner = strategy.dp;
  const std::vector<StagePlan> stages =
      even_stages(job, strategy, request.recompute, request.zero.value_or(job.stack.default_zero), request.zero_degree);
  if (const std::string reason = refuse_strategy(job, strategy, stages); !reason.empty()) {
    throw InputError(option("strategy") + ": " + reason);
  }
  return evaluate(job, strategy, stages);
}

PlanReport plan_report(const Plan& plan, const Job& job, const ReportOptions& options) {
  if (options.price_per_device_hour < 0) throw InputError(option("price") + ": a price is not negative");
  PlanReport report;
  report.plan = plan;
  report.model = job.model;
  report.tokens = options.tokens;
  report.price_per_device_hour = options.price_per_device_hour;
  return report;
}

std::string plan_page_text(const Plan& plan, const Job& job, const ReportOptions& options, PlanPage page) {
  const PlanReport report = plan_report(plan, job, options);
  page.report = &report;
  page.job = &job;
  page.command = options.command;
  page.version = NEST_VERSION;
  return plan_page(page).str();
}

std::string to_text(const Plan& plan, const ReportOptions& options) {
  return plan_text(plan_report(plan, load_job(plan), options), options.style);
}

std::string to_json(const Plan& plan, const ReportOptions& options) {
  return to_text(plan_json(plan_report(plan, load_job(plan), options)));
}

std::string to_html(const Plan& plan, const ReportOptions& options) {
  return plan_page_text(plan, load_job(plan), options);
}

}  // namespace nest
