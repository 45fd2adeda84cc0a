// The optimum by trying everything, from the raw file and with cost code of its own.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "random_instance.h"

namespace nest::test {

struct OraclePlan {
  int width;
  std::int64_t replicas;
  std::vector<int> lengths;  // nodes per stage, front to back
};

// Ids in the artifact's order.
std::vector<int> oracle_order(const RawInstance& raw, int width);

// Nothing when some stage does not fit; the plan's shape and devices must be right.
std::optional<double> oracle_price(const RawInstance& raw, const OraclePlan& plan);

// All plans whose shape and devices are right, with their price if they fit.
using PlanVisitor = std::function<void(const OraclePlan&, std::optional<double>)>;
void for_each_plan(const RawInstance& raw, const PlanVisitor& visit);

std::optional<double> oracle_optimum(const RawInstance& raw);

}  // namespace nest::test
