#include "exporter/pipeline_layout.h"

#include <fmt/format.h>

namespace nest::exporter {
namespace {

std::string stage_text(const StageBlocks& stage, std::int64_t mtp_layers) {
  std::string text = stage.embedding ? "E" : "";
  if (stage.blocks > 2) {
    text += fmt::format("t*{}", stage.blocks);
  } else {
    text += std::string(static_cast<std::size_t>(stage.blocks), 't');
  }
  if (stage.mtp) text += std::string(static_cast<std::size_t>(mtp_layers), 'm');
  return text + (stage.head ? "L" : "");
}

}  // namespace

std::string pipeline_layout(const std::vector<StageBlocks>& stages, std::int64_t mtp_layers) {
  constexpr std::size_t kWorthFolding = 3;
  std::string text;
  for (std::size_t i = 0; i < stages.size();) {
    std::size_t end = i + 1;
    while (end < stages.size() && stages[end] == stages[i]) ++end;
    // The last stage has no bar after it, so it is never part of a fold; it holds the head and differs anyway.
    if (end - i >= kWorthFolding && end < stages.size()) {
      text += fmt::format("({}|)*{}", stage_text(stages[i], mtp_layers), end - i);
    } else {
      for (std::size_t k = i; k < end; ++k)
        text += stage_text(stages[k], mtp_layers) + (k + 1 < stages.size() ? "|" : "");
    }
    i = end;
  }
  return text;
}

}  // namespace nest::exporter
