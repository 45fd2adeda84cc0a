#include "nest/schema.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "preset_data/preset_data.h"

namespace nest {
namespace {

constexpr std::string_view kSchemaEnding = ".schema";  // of the file's name without .json

std::string_view schema_stem(std::string_view file) {
  if (file.ends_with(kSchemaEnding)) file.remove_suffix(kSchemaEnding.size());
  return file;
}

}  // namespace

std::vector<std::string> schema_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_files("schemas")) names.emplace_back(schema_stem(file.name));
  return names;
}

std::string schema_text(const std::string& name) {
  for (const EmbeddedFile& file : embedded_files("schemas")) {
    if (schema_stem(file.name) == name) return std::string(file.text);
  }
  const std::vector<std::string> known = schema_names();
  throw InputError(fmt::format("there is no schema \"{}\"{}; there are {}", clip(name, 40), did_you_mean(name, known),
                               join_words(known)));
}

std::string schema_title(const std::string& name) { return nlohmann::json::parse(schema_text(name)).at("title"); }

}  // namespace nest
