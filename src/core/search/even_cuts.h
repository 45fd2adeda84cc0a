// Where a chain is cut into chunks of equal size.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/job.h"

namespace nest::search {

// 0 = cuts[0] < … < cuts[pp] = n where every one of the pp · v chunks holds as many blocks, or as many layers with
// embedding and head counted as layers (Megatron's --account-for-…-in-pipeline-split): the stages of
// cost::even_stages(). Empty where neither number divides.
std::vector<std::int64_t> even_cuts(const cost::Job& job, std::int64_t pp, std::int64_t virtual_stages);

}  // namespace nest::search
