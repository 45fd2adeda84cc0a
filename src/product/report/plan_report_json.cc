#include "nest/interval.h"
#include "plan/plan_json.h"
#include "report/nearest_runs.h"
#include "report/plan_report.h"

namespace nest::report {

Json plan_json(const PlanReport& report) {
  Json json = plan::plan_to_json(report.plan);
  if (report.tokens > 0) {
    const TrainingTotals totals = training_totals(report);
    Json& training = json["evaluation"]["training"];
    training = {{"tokens", report.tokens}, {"time_s", totals.seconds}, {"device_hours", totals.device_hours}};
    if (report.price_per_device_hour > 0) training["price"] = totals.price;
    if (const double spread = report.plan.expected().spread; spread > 0) {
      const Interval told = interval(totals.seconds, spread);
      training["interval_s"] = {told.low, told.high};
    }
  }
  json["nearest_runs"] = nearest_json(nearest_runs(report));
  return json;
}

}  // namespace nest::report
