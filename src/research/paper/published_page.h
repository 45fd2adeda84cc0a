// The second evaluation on the page: every planner with only what its publication has (publications.h).
#pragma once

#include <string>

#include "paper/record.h"

namespace nest::paper {

// Of records of points that are as published.
std::string published_section(const Records& records);

}  // namespace nest::paper
