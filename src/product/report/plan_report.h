// A priced plan as a person wants to read it, and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cost/evaluate.h"
#include "plan/plan.h"
#include "report/json.h"
#include "report/style.h"

namespace nest::report {

struct PlanReport {
  Plan plan;
  model::Model model;                // whose layers the stages hold
  double tokens = 0;                 // to train on in all; 0: not asked
  double price_per_device_hour = 0;  // 0: not asked
};

// What training on so many tokens takes.
struct TrainingTotals {
  double seconds = 0;
  double device_hours = 0;
  double price = 0;
};
TrainingTotals training_totals(const PlanReport& report);

// What of the model is trained, where that is not all: "3.4 M of 8.03 B parameters: adapters (rank=16,targets=q,v), all
// else frozen". Empty: everything is.
std::string trained_words(const PlanReport& report);

// Of running out of memory: "1.6 %", "below 0.1 %".
std::string risk_text(double probability);

// "embedding, 0-9", "70-79, head": what a stage holds, blocks numbered from 0.
std::string layers_label(const model::Model& model, int first, int last);
// Of a stage, or of neighbouring ones that are alike; chunk by chunk where they are listed: "embedding, 0-3 | 16-19".
std::string layers_label(const model::Model& model, const StagePlan& stage);
std::string layers_label(const model::Model& model, const StagePlan& begin, const StagePlan& end);

// What the rarer words of a strategy mean, where they stand in its line: whole lines, or nothing.
std::string placement_words(const Strategy& strategy, const std::string& indent);

std::string plan_text(const PlanReport& report, const Style& style);
Json plan_json(const PlanReport& report);

}  // namespace nest::report
