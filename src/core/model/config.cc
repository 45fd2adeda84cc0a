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

struct Family {
  std::string_view model_type;
  Architecture (*read)(families::Config&);
};

constexpr std::array kFamilies = std::to_array<Family>({
    {"bert", families::read_bert},
    {"bloom", families::read_bloom},
    {"deepseek_v2", families::read_deepseek_v2},
    {"deepseek_v3", families::read_deepseek_v3},
    {"falcon", families::read_falcon},
    {"gemma", families::read_gemma},
    {"gemma2", families::read_gemma2},
    {"gemma3", families::read_gemma3},
    {"gemma3_text", families::read_gemma3_text},
    {"gpt2", families::read_gpt2},
    {"gpt_neox", families::read_gpt_neox},
    {"gpt_oss", families::read_gpt_oss},
    {"kimi_k2", families::read_deepseek_v3},  // the same keys and modules
    {"llama", families::read_llama},
    {"megatron", families::read_megatron},
    {"mistral", families::read_mistral},
    {"mixtral", families::read_mixtral},
    {"nemotron", families::read_nemotron},
    {"olmo2", families::read_olmo2},
    {"opt", families::read_opt},
    {"phi", families::read_phi},
    {"phi3", families::read_phi3},
    {"qwen2", families::read_qwen2},
    {"qwen2_moe", families::read_qwen2_moe},
    {"qwen3", families::read_qwen3},
    {"qwen3_moe", families::read_qwen3_moe},
    {"roberta", families::read_roberta},
    {"starcoder2", families::read_starcoder2},
    {"t5", families::read_t5},
});

// Nobody trains at the longest context by default; most pre-training runs use this much or less.
constexpr std::int64_t kUsualSequence = 8192;

const Family& find_family(const doc::Reader& reader, const std::string& model_type) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(),
                                  [&](const Family& family) { return family.model_type == model_type; });
  if (found != kFamilies.end()) return *found;
  const auto known = supported_families();
  reader.fail("model_type", fmt::format("`{}` is not supported; allowed are {}{}", clip(model_type, 40),
                                        join_words(known), did_you_mean(model_type, known)));
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
  const Family& family = find_family(reader, model_type);
  const auto sequence = read_sequence(reader);
  families::Config keys(reader);
  Architecture architecture = family.read(keys);
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

std::vector<std::string> supported_families() {
  std::vector<std::string> names;
  names.reserve(kFamilies.size());
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  return names;
}

}  // namespace nest::model
