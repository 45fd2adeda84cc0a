// Parameter counts of a model, each shared weight counted once.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "model/graph.h"

namespace nest::model {

struct ParameterCount {
  std::int64_t total = 0;
  std::int64_t active = 0;                        // used by one token: top_k of the experts
  std::map<std::string, std::int64_t> by_weight;  // "attention.q" -> elements over all layers
  std::map<std::string, std::int64_t> by_kind;    // "attention" -> elements
};

ParameterCount count_parameters(const Model& model);

}  // namespace nest::model
