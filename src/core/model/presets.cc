#include "model/presets.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "doc/reader.h"
#include "model/config.h"
#include "model/families.h"
#include "preset_data/preset_data.h"

namespace nest {
namespace {

// All presets, parsed once on first use. Immutable afterwards, so any number of threads may read it.
struct Catalogue {
  std::vector<ModelPreset> presets;
  std::map<std::string, Architecture, std::less<>> by_name;  // names and aliases in lower case
};

ModelPreset read_preset(std::string name, const Document& document) {
  Reader reader(document);
  Reader nest = reader.object("nest");
  ModelPreset preset;
  preset.name = std::move(name);
  preset.description = nest.text("description");
  preset.source = nest.text("source");
  preset.aliases = nest.maybe_texts("aliases", 16).value_or(std::vector<std::string>());
  return preset;
}

Catalogue read_catalogue() {
  using Ranked = std::tuple<std::string, double, ModelPreset>;  // family, size
  std::vector<Ranked> ranked;
  Catalogue catalogue;
  for (const EmbeddedFile& file : embedded_files("models")) {
    const Document document = parse_json(std::string(file.name), std::string(file.text));
    ModelPreset preset = read_preset(std::string(file.name), document);
    const Architecture architecture = read_config(document, preset.name);
    std::vector<std::string> names = preset.aliases;
    names.push_back(preset.name);
    for (const std::string& name : names) {
      const bool fresh = catalogue.by_name.emplace(to_lower(name), architecture).second;
      NEST_CHECK(fresh, "two model presets are called " + name);
    }
    ranked.emplace_back(architecture.family, families::estimate_parameters(architecture), std::move(preset));
  }
  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  for (Ranked& entry : ranked) catalogue.presets.push_back(std::move(std::get<2>(entry)));
  return catalogue;
}

const Catalogue& catalogue() {
  static const Catalogue kCatalogue = read_catalogue();
  return kCatalogue;
}

}  // namespace

const std::vector<ModelPreset>& model_presets() { return catalogue().presets; }

std::optional<Architecture> find_model_preset(std::string_view name) {
  const auto found = catalogue().by_name.find(to_lower(name));
  if (found == catalogue().by_name.end()) return std::nullopt;
  return found->second;
}

}  // namespace nest
