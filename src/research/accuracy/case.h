// A row, ready to be priced: the training job, how it was divided, and which layers sat where.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "accuracy/run.h"
#include "cost/evaluate.h"

namespace nest::accuracy {

struct Case {
  cost::Job job;
  Strategy strategy;
  std::vector<StagePlan> stages;
  std::vector<std::string> assumed;        // what the row does not say: "recomputation not stated, none assumed"
  std::vector<std::string> not_expressed;  // what the row says and nest cannot yet: "paged stash"
};

struct Refusal {
  std::string reason;  // a class of rows, without names or numbers of this one
};

// `for_memory`: the row's memory is wanted and not its time, so that what only the time depends on may be missing.
std::variant<Case, Refusal> make_case(const PublishedRun& run, bool for_memory);

}  // namespace nest::accuracy
