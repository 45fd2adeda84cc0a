#include "model/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "doc/reader.h"
#include "model/build.h"
#include "model/count.h"
#include "test_support/data.h"

namespace nest::model {
namespace {

ParameterCount count_of(std::string_view name) {
  const auto architecture = find_model_preset(name);
  EXPECT_TRUE(architecture) << name;
  return architecture ? count_parameters(build_model(*architecture)) : ParameterCount{};
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const ModelPreset& preset : model_presets()) names.push_back(preset.name);
  return names;
}

TEST(ModelPresets, AllThatArePromisedAreThere) {
  EXPECT_THAT(preset_names(),
              testing::IsSupersetOf(
                  {"bert-large",      "llama2-7b",        "llama2-13b",  "llama2-70b",  "llama3-8b",   "llama3-70b",
                   "llama3-405b",     "llama3.2-1b",      "llama3.2-3b", "gpt3-175b",   "gpt3-35b",    "mixtral-8x7b",
                   "mixtral-790m",    "mixtral-8x22b",    "mistral-7b",  "qwen2.5-7b",  "qwen2.5-72b", "qwen3-0.6b",
                   "qwen3-1.7b",      "qwen3-4b",         "qwen3-8b",    "qwen3-14b",   "qwen3-32b",   "qwen3-30b-a3b",
                   "qwen3-235b-a22b", "deepseek-v2-lite", "deepseek-v2", "deepseek-v3", "gpt-oss-20b", "gpt-oss-120b",
                   "gemma-7b",        "gemma2-9b",        "gemma2-27b",  "gemma3-27b",  "opt-30b",     "gpt2-xl",
                   "gpt-neox-20b",    "pythia-2.8b",      "bloom-176b",  "falcon-7b",   "falcon-40b",  "starcoder2-15b",
                   "nemotron4-15b",   "nemotron4-340b",   "olmo2-13b",   "phi-2",       "phi3-mini",   "roberta-large",
                   "t5-11b",          "kimi-k2"}));
}

// The published count stands in the preset's own file; the architecture must arrive at it to the last digit.
TEST(ModelPresets, HaveTheirPublishedParameterCounts) {
  int checked = 0;
  for (const ModelPreset& preset : model_presets()) {
    SCOPED_TRACE(preset.name);
    doc::Reader file(test::read_json(test::source_dir() / "data/models" / (preset.name + ".json")));
    doc::Reader nest = file.object("nest");
    nest.text("description");
    nest.text("source");
    nest.integer("sequence", {1, 1e6});
    nest.maybe_texts("aliases", 16);
    const auto published = nest.maybe_integer("parameters", {1, 1e15});
    nest.refuse_unknown_keys();
    if (!published) continue;
    EXPECT_EQ(count_of(preset.name).total, *published);
    ++checked;
  }
  EXPECT_GE(checked, 40);
}

// The same figures once more, kept apart from the preset files: changing a file must not change what it is held to.
TEST(ModelPresets, MatchCountsKeptApartFromTheirFiles) {
  const std::map<std::string, std::int64_t> published = {
      {"llama2-7b", 6738415616},       {"llama2-13b", 13015864320},       {"llama2-70b", 68976648192},
      {"llama3-8b", 8030261248},       {"llama3-70b", 70553706496},       {"llama3-405b", 405853388800},
      {"llama3.2-1b", 1235814400},     {"llama3.2-3b", 3212749824},       {"mistral-7b", 7241732096},
      {"mixtral-8x7b", 46702792704},   {"mixtral-8x22b", 140620634112},   {"qwen2.5-7b", 7615616512},
      {"qwen2.5-72b", 72706203648},    {"qwen3-0.6b", 596049920},         {"qwen3-8b", 8190735360},
      {"qwen3-32b", 32762123264},      {"qwen3-30b-a3b", 30532122624},    {"qwen3-235b-a22b", 235093634560},
      {"deepseek-v2", 235741434880},   {"deepseek-v2-lite", 15706484224}, {"deepseek-v3", 671026404352},
      {"gpt-oss-20b", 20914757184},    {"gpt-oss-120b", 116829156672},    {"gemma-7b", 8537680896},
      {"gemma2-9b", 9241705984},       {"gemma2-27b", 27227128320},       {"opt-30b", 29974540288},
      {"gpt2-xl", 1557611200},         {"gpt-neox-20b", 20554567680},     {"pythia-2.8b", 2775208960},
      {"bloom-176b", 176247271424},    {"falcon-7b", 6921720704},         {"falcon-40b", 41303293952},
      {"starcoder2-15b", 15957889024}, {"olmo2-13b", 13716198400},        {"phi-2", 2779683840},
      {"phi3-mini", 3821079552},       {"roberta-large", 355412057},      {"bert-large", 335174458},
      {"t5-11b", 11307321344},         {"kimi-k2", 1026408209408}};
  for (const auto& [name, parameters] : published) EXPECT_EQ(count_of(name).total, parameters) << name;
}

// GPT-3 as its paper describes it: 12 h^2 + 13 h per layer, tables of 50257 and 2048 rows, one last norm.
TEST(ModelPresets, Gpt3ByHand) {
  const std::int64_t h = 12288;
  EXPECT_EQ(count_of("gpt3-175b").total, 96 * (12 * h * h + 13 * h) + (50257 + 2048) * h + 2 * h);
  const std::int64_t g = 8192;
  const std::int64_t f = 16384;
  EXPECT_EQ(count_of("gpt3-35b").total, 64 * (4 * g * g + 2 * g * f + 9 * g + f) + (50257 + 2048) * g + 2 * g);
}

// Nemotron's reports give embedding and other parameters to two digits.
TEST(ModelPresets, NemotronByItsReports) {
  const auto nearly = [](std::string_view name, double embedding, double other) {
    const ParameterCount count = count_of(name);
    const auto tables = static_cast<double>(count.by_weight.at("embedding.tokens") + count.by_weight.at("head.weight"));
    EXPECT_NEAR(tables, embedding, 0.06e9) << name;
    EXPECT_NEAR(static_cast<double>(count.total) - tables, other, 0.06e9) << name;
  };
  nearly("nemotron4-15b", 3.2e9, 12.5e9);
  nearly("nemotron4-340b", 9.4e9, 331.6e9);
}

// Active parameters as the models' cards round them.
TEST(ModelPresets, ActiveParametersOfMixtures) {
  EXPECT_NEAR(static_cast<double>(count_of("mixtral-8x7b").active), 12.9e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(count_of("qwen3-30b-a3b").active), 3.3e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(count_of("qwen3-235b-a22b").active), 22e9, 0.3e9);
  EXPECT_NEAR(static_cast<double>(count_of("kimi-k2").active), 32.6e9, 0.4e9);
}

TEST(ModelPresets, NamesAndAliasesAreUniqueAndFound) {
  std::set<std::string> seen;
  for (const ModelPreset& preset : model_presets()) {
    EXPECT_TRUE(seen.insert(preset.name).second) << preset.name;
    EXPECT_FALSE(preset.description.empty()) << preset.name;
    EXPECT_FALSE(preset.source.empty()) << preset.name;
    for (const std::string& alias : preset.aliases) {
      EXPECT_TRUE(seen.insert(alias).second) << alias;
      EXPECT_EQ(find_model_preset(alias)->name, preset.name);
    }
  }
  EXPECT_EQ(find_model_preset("LLaMA3-70B")->hidden, 8192);
  EXPECT_EQ(find_model_preset("llama3.1-405b")->name, "llama3-405b");
  EXPECT_FALSE(find_model_preset("llama9-1b"));
}

TEST(ModelPresets, AreListedByFamilyAndSize) {
  std::vector<std::string> llamas;
  std::vector<std::string> families;
  for (const ModelPreset& preset : model_presets()) {
    const Architecture architecture = *find_model_preset(preset.name);
    families.push_back(architecture.family);
    if (architecture.family == "llama") llamas.push_back(preset.name);
  }
  EXPECT_TRUE(std::is_sorted(families.begin(), families.end()));
  EXPECT_THAT(llamas, testing::ElementsAre("llama3.2-1b", "llama3.2-3b", "llama2-7b", "llama3-8b", "llama2-13b",
                                           "llama2-70b", "llama3-70b", "llama3-405b"));
}

TEST(ModelPresets, SequencesFit) {
  for (const ModelPreset& preset : model_presets()) {
    const Architecture architecture = *find_model_preset(preset.name);
    EXPECT_GT(architecture.default_sequence, 0) << preset.name;
    EXPECT_LE(architecture.default_sequence, architecture.max_positions) << preset.name;
  }
  EXPECT_EQ(find_model_preset("mixtral-790m")->default_sequence, 1024);
  EXPECT_EQ(find_model_preset("llama3-405b")->default_sequence, 8192);
}

}  // namespace
}  // namespace nest::model
