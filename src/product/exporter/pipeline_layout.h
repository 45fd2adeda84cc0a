// Megatron's --pipeline-model-parallel-layout: stages separated by `|`, E embedding, t block, m each depth of
// multi-token prediction, L loss and head, C*N and
// (BODY)*N for repetition. Stage i of the text is chunk i / PP of pipeline rank i % PP.
#pragma once

#include <string>
#include <vector>

#include "exporter/gpt.h"

namespace nest::exporter {

// "Et*7|t*9|t*9|t*7L" for stages in the order of the text (chunk_blocks gives it).
std::string pipeline_layout(const std::vector<StageBlocks>& stages, std::int64_t mtp_layers = 0);

}  // namespace nest::exporter
