#include "door/listed_models.h"

#include "base/error.h"
#include "model/build.h"
#include "model/count.h"

namespace nest {

std::vector<ListedModel> listed_models() {
  std::vector<ListedModel> models;
  for (const ModelPreset& preset : model_presets()) {
    std::optional<Architecture> architecture = find_model_preset(preset.name);
    NEST_CHECK(architecture.has_value(), "a listed preset exists: " + preset.name);
    const ParameterCount count = count_parameters(build_model(*architecture));
    models.push_back({preset, std::move(*architecture), count.total, count.active});
  }
  return models;
}

}  // namespace nest
