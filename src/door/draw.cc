#include "nest/draw.h"

#include "door/priced_plan.h"
#include "html/drawing.h"

namespace nest {
namespace {

std::string drawing_text(const char* schema, const report::Json& members) {
  report::Json document = {{"schema", schema}};
  document.update(members);
  return report::to_text(document);
}

}  // namespace

std::string pipeline_json(const Plan& plan) {
  const PricedPlan priced = price_plan(plan);
  return drawing_text("nest.pipeline/1", html::pipeline_drawing(priced.job, priced.plan));
}

std::string placement_json(const Plan& plan) {
  const PricedPlan priced = price_plan(plan);
  return drawing_text("nest.placement/1", html::placement_drawing(priced.job, priced.plan));
}

}  // namespace nest
