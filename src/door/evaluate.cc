#include "nest/evaluate.h"

#include "base/error.h"
#include "cost/evaluate.h"
#include "door/executed.h"
#include "door/job_data.h"
#include "door/plan_reports.h"
#include "door/priced_plan.h"
#include "load/job.h"
#include "nest/dimension.h"
#include "nest/option.h"
#include "plan/dimensions.h"
#include "plan/strategy_text.h"

namespace nest {

PricedPlan price_plan(const Plan& plan) {
  PricedPlan priced;
  priced.job = load::load_job(plan);
  if (const std::string reason = cost::refuse_strategy(priced.job, plan.strategy, plan.stages); !reason.empty()) {
    throw InputError((plan.source.empty() ? option("plan") : plan.source) + ": " + reason);
  }
  priced.plan = cost::evaluate(priced.job, plan.strategy, plan.stages);
  priced.plan.search = plan.search;
  return priced;
}

Plan evaluate_plan(const Plan& plan, PlanJudge judge) {
  PricedPlan priced = price_plan(plan);
  if (judge == PlanJudge::simulation) expect_execution(priced.job, 0, nullptr, priced.plan);
  return std::move(priced.plan);
}

Plan evaluate_plan(const TrainingJob& training, std::string_view text, PlanJudge judge) {
  const cost::Job& job = unwrap(training);
  plan::StrategyRequest request = plan::parse_strategy(text, option("strategy"));
  plan::fill_devices(request, job.cluster.devices);
  Strategy& strategy = request.strategy;
  if (!request.inner_given) strategy.dp_inner = strategy.dp;
  if (!request.exchange_given) use_stack_exchange(job.stack, strategy.split);
  const std::vector<StagePlan> stages =
      cost::even_stages(job, strategy, request.recompute, request.zero.value_or(job.stack.default_zero),
                        request.zero_degree, request.zero_outer);
  if (const std::string reason = cost::refuse_strategy(job, strategy, stages); !reason.empty()) {
    throw InputError(option("strategy") + ": " + reason);
  }
  Plan plan = cost::evaluate(job, strategy, stages);
  if (judge == PlanJudge::simulation) expect_execution(job, 0, nullptr, plan);
  return plan;
}

report::PlanReport plan_report(const Plan& plan, const cost::Job& job, const ReportOptions& options) {
  if (options.price_per_device_hour < 0) throw InputError(option("price") + ": a price is not negative");
  report::PlanReport report;
  report.plan = plan;
  report.model = job.model;
  report.tokens = options.tokens;
  report.price_per_device_hour =
      options.price_per_device_hour > 0 ? options.price_per_device_hour : job.cluster.price_per_device_hour;
  return report;
}

std::string plan_page_text(const Plan& plan, const cost::Job& job, const ReportOptions& options, html::PlanPage page) {
  const report::PlanReport report = plan_report(plan, job, options);
  page.report = &report;
  page.job = &job;
  page.command = options.command;
  page.version = NEST_VERSION;
  return html::plan_page(page).str();
}

std::string to_text(const Plan& plan, const ReportOptions& options) {
  return report::plan_text(plan_report(plan, load::load_job(plan), options), options.style);
}

std::string to_json(const Plan& plan, const ReportOptions& options) {
  return report::to_text(report::plan_json(plan_report(plan, load::load_job(plan), options)));
}

std::string to_html(const Plan& plan, const ReportOptions& options) {
  return plan_page_text(plan, load::load_job(plan), options);
}

std::string strategy_help() { return plan::strategy_help(); }

std::vector<Dimension> dimensions() {
  std::vector<Dimension> list;
  for (const plan::PlanDimension& row : plan::plan_dimensions()) {
    Dimension one;
    one.name = row.name;
    for (const char* other : row.other_names) {
      if (other != nullptr) one.other_names.emplace_back(other);
    }
    one.label = row.label;
    one.meaning = row.meaning;
    one.otherwise = row.otherwise;
    one.is_flag = row.kind == plan::DimensionKind::flag;
    one.words.assign(row.words.begin(), row.words.end());
    one.is_limited = row.is_limited();
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace nest
