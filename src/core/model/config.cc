#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/index.h"
#include "base/text.h"
#include "base/units.h"
#include "doc/reader.h"
#include "model/families.h"

namespace nest::model {
namespace {

// Nobody trains at the longest context by default; most pre-training runs use this much or less.
constexpr std::int64_t kUsualSequence = 8192;

constexpr std::array kMegatron = std::to_array<families::Family>({{"megatron", families::read_megatron}});

// All families, table by table.
std::array<std::span<const families::Family>, 11> tables() {
  return {families::llama_families(),
          families::gemma_families(),
          families::gpt_families(),
          families::sparse_families(),
          families::latent_families(),
          families::state_families(),
          families::delta_families(),
          families::encoder_families(),
          families::bart_families(),
          families::media_families(),
          std::span<const families::Family>(kMegatron)};
}

families::Read find_family(std::string_view model_type) {
  for (const auto& table : tables()) {
    for (const families::Family& family : table) {
      if (family.model_type == model_type) return family.read;
    }
  }
  return nullptr;
}

std::string without_digits(std::string_view name) {
  std::string letters(name);
  std::erase_if(letters, [](char c) { return c >= '0' && c <= '9'; });
  return letters;
}

// A name that lacks a letter, has one too many, another one or two exchanged. Other families' names are often as near
// as two letters, or differ in their number.
std::string misspelling(const std::string& model_type) {
  constexpr std::size_t kLongestName = 100;
  if (model_type.size() > kLongestName) return {};
  for (const std::string& known : supported_families()) {
    const bool near = known.size() >= 4 && edit_distance(model_type, known, 1) == 1;
    if (near && without_digits(model_type) != without_digits(known)) return fmt::format(" (did you mean `{}`?)", known);
  }
  return {};
}

[[noreturn]] void refuse_family(const families::Config& config, const std::string& model_type) {
  config.fail(
      "model_type",
      fmt::format("`{}` is not supported: none of the {} families that nest reads by itself{}; {}",
                  clip(model_type, 40), supported_families().size(), misspelling(model_type), families::kTraceInstead));
}

// What a preset says beyond its config: the sequence length to train with.
std::optional<std::int64_t> read_sequence(doc::Reader& reader) {
  auto nest = reader.maybe_object("nest");
  if (!nest) return std::nullopt;
  return nest->maybe_integer("sequence", {1, real(families::kMaxPositions)});
}

}  // namespace

Architecture read_config(const Document& config, std::string name) {
  doc::Reader reader(config);
  const std::string model_type = reader.text("model_type");
  const auto sequence = read_sequence(reader);
  families::Config keys(reader);
  const families::Read read = find_family(model_type);
  if (read == nullptr) refuse_family(keys, model_type);
  Architecture architecture = read(keys);
  if (const double parameters = families::estimate_parameters(architecture); parameters > families::kMaxParameters) {
    reader.fail(fmt::format("describes a model of {} parameters; allowed are up to {}", format_count(parameters),
                            format_count(families::kMaxParameters)));
  }
  architecture.name = std::move(name);
  architecture.family = model_type;
  architecture.document = config;
  for (const char* key : {"num_nextn_predict_layers", "num_mtp_layers", "mtp_num_layers"}) {
    if (!keys.has(key)) continue;
    architecture.further_tokens = reader.maybe_integer(key, {0, real(families::kMaxLayers)}).value_or(0);
    break;
  }
  architecture.default_sequence = sequence.value_or(std::min(architecture.max_positions, kUsualSequence));
  return architecture;
}

Architecture families::read_family(Config& config, std::string_view otherwise) {
  std::string model_type = config.maybe_text("model_type").value_or("");
  if (model_type.empty()) model_type = otherwise;
  const Read read = find_family(model_type);
  if (read == nullptr) refuse_family(config, model_type);
  return read(config);
}

std::vector<std::string> supported_families() {
  std::vector<std::string> names;
  for (const auto& table : tables()) {
    for (const families::Family& family : table) names.emplace_back(family.model_type);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace nest::model
