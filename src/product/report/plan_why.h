// What goes with a plan that a search found: where it sits on the network, what was proved, and why not otherwise.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "nest/search.h"
#include "plan/plan.h"
#include "report/json.h"
#include "report/style.h"

namespace nest::report {

// "tensor 8 inside a node", one line per kind of group.
std::string placement_text(const Plan& plan, const cluster::Cluster& cluster);

// "Within 0.5 % of the proven optimum, which has uneven cuts: 4.31 s, tp=8 pp=4 dp=2 mbs=1." The record says which.
std::string tie_text(const SearchRecord& search);

// "among what Megatron-Core 0.19 can run", or "within the search space".
std::string searched_text(const SearchRecord& search);

// Of a plan that execution preferred to the formula's. The record has an execution.
std::string execution_text(const SearchRecord& search);

// "Proven optimal among what Megatron-Core 0.19 can run: 412,806 candidates, 398 opened, 0.21 s. Checked independently: ok."
std::string certificate_text(const Plan& plan);

// "+4.1 %", "> +3.0 %", "does not fit"; empty where nothing was learnt.
std::string why_verdict(const WhyNot& why);

std::string why_text(const std::vector<WhyNot>& whys, const Style& style);
Json why_json(const std::vector<WhyNot>& whys);

}  // namespace nest::report
