#include "plan/plan_json.h"
#include "report/plan_report.h"

namespace nest {

Json plan_json(const PlanReport& report) {
  Json json = plan_to_json(report.plan);
  Json memory = Json::array();
  for (const MemoryEstimate& estimate : report.evaluation.memory) {
    memory.push_back({{"allocated_bytes", estimate.allocated},
                      {"reserved_bytes", estimate.reserved},
                      {"needed_bytes", estimate.needed},
                      {"moment", estimate.moment}});
  }
  Json evaluation = {{"fits", report.evaluation.fits}};
  if (!report.evaluation.fits) evaluation["misfit"] = report.evaluation.misfit;
  evaluation["device_memory_bytes"] = report.device_memory_bytes;
  evaluation["stages"] = std::move(memory);
  evaluation["assumptions"] = report.evaluation.assumptions;
  evaluation["measured"] = report.evaluation.measured;
  if (report.tokens > 0) {
    const TrainingTotals totals = training_totals(report);
    evaluation["training"] = {
        {"tokens", report.tokens}, {"time_s", totals.seconds}, {"device_hours", totals.device_hours}};
    if (report.price_per_device_hour > 0) evaluation["training"]["price"] = totals.price;
  }
  json["evaluation"] = std::move(evaluation);
  return json;
}

}  // namespace nest
