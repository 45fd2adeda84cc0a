// ModelFacts for people and for programs.
#pragma once

#include <string>

#include "report/json.h"
#include "report/model_facts.h"
#include "report/style.h"

namespace nest::report {

// One screen; `all_operators` adds every operator, collective and kept tensor of every kind of layer.
std::string model_text(const ModelFacts& facts, const Style& style, bool all_operators);

// Schema nest.show.model/1.
Json model_json(const ModelFacts& facts);

}  // namespace nest::report
