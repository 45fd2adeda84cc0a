// What goes with a plan that a search found: where it sits on the network, what was proved, and why not otherwise.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "plan/plan.h"
#include "report/style.h"

namespace nest {

// "tensor 8 inside a node", one line per kind of group.
std::string placement_text(const Plan& plan, const Cluster& cluster);

// "Proven optimal: 412,806 candidates, 398 opened, 0.21 s. Checked independently: ok."
std::string certificate_text(const Plan& plan);

struct WhyLine {
  std::string name;
  std::string verdict;  // "+4.1 %"
  std::string detail;   // "pp=16 dp=8 …", or what does not fit
};
std::string why_text(const std::vector<WhyLine>& lines, const Style& style);

}  // namespace nest
