#include "accuracy/known.h"

#include <array>
#include <string_view>

#include "base/text.h"

namespace nest::accuracy {
namespace {

struct Known {
  const char* source;
  const char* part;  // of the id in lower case; empty: all of the source
  const char* reason;
};

// The first that matches counts.
constexpr std::array kKnown = {
    Known{"dgxc", "dsv3-gb200",
          "first release on this device, not tuned yet: later ones run the model three times as fast"},
    Known{"titan", "rowwise", "float8 with one scale per row ran slower than bf16 in that release"},
    Known{"titan", "-cp",
          "attention of these runs costs 1.6 times more per token at cp 4 and 8 than at cp 1 and 2; not explained"},
    Known{"titan", "405b", "priced at the power cap that the row states; without it the prediction is closer"},
    Known{"mbridge", "gptoss", "attention with sinks is priced with one constant, fitted to this model alone"},
    Known{"mbridge", "gpt-oss", "attention with sinks is priced with one constant, fitted to this model alone"},
    Known{"mbridge", "26.06", "depends on the release: overlap of the all-to-all is assumed for all of it"},
    Known{"bloom", "", "the same configuration differs by 6 % between days"},
    Known{"mlm", "", "deterministic kernels, with dropout"},
};

}  // namespace

std::string known_reason(const PublishedRun& run) {
  const std::string id = to_lower(run.id);
  for (const Known& known : kKnown) {
    // Settings say what was guessed otherwise.
    if (run.settings.stated && std::string_view(known.part) == "26.06") continue;
    if (run.source == known.source && id.find(known.part) != std::string::npos) return known.reason;
  }
  return {};
}

}  // namespace nest::accuracy
