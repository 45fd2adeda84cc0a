#include "check/held_tables.h"

#include <algorithm>

namespace nest::check {

HeldTables held_already(const split::LocalLayer& local, std::set<std::string>& held) {
  HeldTables elements;
  for (const split::LocalOperator& op : local.operators) {
    std::int64_t shared = 0;
    bool frozen = false;
    for (const model::Weight& weight : op.source->weights) {
      frozen = frozen || (weight.frozen && !weight.tied_to.empty());
      if (weight.tied_to.empty() || held.insert(weight.tied_to).second) continue;
      const bool matrix = op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul;
      shared += matrix && shared == 0 ? op.n * op.k : op.parameters - shared;
    }
    (frozen ? elements.frozen : elements.trained) += std::min(shared, op.parameters);
  }
  return elements;
}

}  // namespace nest::check
