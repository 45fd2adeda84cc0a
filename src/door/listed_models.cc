#include "door/listed_models.h"

#include "base/error.h"
#include "model/build.h"
#include "model/count.h"

namespace nest {

std::vector<ListedModel> listed_models() {
  std::vector<ListedModel> models;
  for (const model::ModelPreset& preset : model::model_presets()) {
    std::optional<model::Architecture> architecture = model::find_model_preset(preset.name);
    NEST_CHECK(architecture.has_value(), "a listed preset exists: " + preset.name);
    const model::ParameterCount count = model::count_parameters(model::build_model(*architecture));
    models.push_back({preset, std::move(*architecture), count.total, count.active});
  }
  return models;
}

}  // namespace nest
