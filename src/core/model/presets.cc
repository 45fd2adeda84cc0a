#include "model/presets.h"

#include <algorithm>

#include "base/text.h"
#include "doc/reader.h"
#include "model/config.h"
#include "model/families.h"
#include "preset_data/preset_data.h"

namespace nest::model {
namespace {

ModelPreset read_preset(const EmbeddedFile& file) {
  const Document document = doc::parse_json(std::string(file.name), std::string(file.text));
  doc::Reader reader(document);
  doc::Reader nest = reader.object("nest");
  ModelPreset preset;
  preset.name = file.name;
  preset.description = nest.text("description");
  preset.source = nest.text("source");
  preset.aliases = nest.maybe_texts("aliases", 16).value_or(std::vector<std::string>());
  preset.architecture = read_config(document, preset.name);
  return preset;
}

}  // namespace

const Shelf<ModelPreset>& model_presets() {
  static const Shelf<ModelPreset> kModels = [] {
    std::vector<ModelPreset> presets;
    for (const EmbeddedFile& file : embedded_files("models")) presets.push_back(read_preset(file));
    const auto rank = [](const ModelPreset& preset) {
      return std::pair(preset.architecture.family, families::estimate_parameters(preset.architecture));
    };
    std::sort(presets.begin(), presets.end(),
              [&](const ModelPreset& a, const ModelPreset& b) { return rank(a) < rank(b); });
    return Shelf<ModelPreset>(std::move(presets));
  }();
  return kModels;
}

std::optional<ModelPreset> find_preset(std::string_view name) {
  static const std::span<const EmbeddedFile> kFiles = embedded_files("models");
  static ReadOnce<ModelPreset> shipped(kFiles.size());
  if (const EmbeddedFile* file = embedded_file("models", to_lower(name))) {
    return shipped.at(static_cast<std::size_t>(file - kFiles.data()), [&] { return read_preset(*file); });
  }
  const ModelPreset* found = model_presets().find(name);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

std::optional<Architecture> find_model_preset(std::string_view name) {
  const std::optional<ModelPreset> found = find_preset(name);
  return found ? std::optional(found->architecture) : std::nullopt;
}

}  // namespace nest::model
