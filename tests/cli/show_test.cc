#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "golden.h"
#include "model/presets.h"
#include "program.h"
#include "test_support/data.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Json = nlohmann::json;

// The one JSON object on standard output.
Json json_of(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Result result = nest(arguments);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  return Json::parse(result.out);
}

TEST(Help, IsGolden) {
  for (const auto& [name, arguments] :
       std::map<std::string, std::vector<std::string>>{{"help.txt", {"--help"}},
                                                       {"help-show.txt", {"show", "--help"}},
                                                       {"help-eval.txt", {"eval", "--help"}},
                                                       {"help-completion.txt", {"completion", "-h"}}}) {
    const Result result = nest(arguments);
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.err, IsEmpty());
    expect_golden(name, result.out);
    expect_fits_screen(result.out);
  }
}

TEST(Help, IsWhatNoArgumentsShow) {
  const Result result = nest({});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, nest({"--help"}).out);
}

TEST(Version, IsPrinted) {
  const Result result = nest({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, ::testing::MatchesRegex("nest [0-9]+\\.[0-9]+\\.[0-9]+\n(without .*)?"));
}

TEST(ShowLists, HaveOneLinePerNameAndFit) {
  for (const std::string list : {"models", "devices", "clusters"}) {
    const Result result = nest({"show", list});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.err, IsEmpty());
    if (list == "models") expect_golden("show-models.txt", result.out);
    expect_fits_screen(result.out);
    const Json json = json_of({"show", list});
    EXPECT_EQ(json["schema"], "nest.show." + list + "/1");
    EXPECT_EQ(json[list].size() + 1, lines(result.out).size());
  }
}

TEST(ShowLists, AreAllShownTogether) {
  const Json json = json_of({"show"});
  EXPECT_EQ(json["schema"], "nest.show/1");
  EXPECT_EQ(json["models"], json_of({"show", "models"})["models"]);
  EXPECT_EQ(json["devices"], json_of({"show", "devices"})["devices"]);
  EXPECT_EQ(json["clusters"], json_of({"show", "clusters"})["clusters"]);
  expect_fits_screen(nest({"show"}).out);
}

TEST(ShowModel, IsGolden) {
  const Result result = nest({"show", "llama3-70b"});
  EXPECT_EQ(result.code, 0) << result.err;
  expect_golden("show-llama3-70b.txt", result.out);
  EXPECT_THAT(result.out, StartsWith("Llama 3 70B: 70.6 B parameters"));
  const Result split = nest({"show", "mixtral-8x7b", "--tp", "2", "--sp", "--ep", "4", "--operators"});
  EXPECT_EQ(split.code, 0) << split.err;
  expect_golden("show-mixtral-8x7b-split.txt", split.out);
}

TEST(ShowModel, EveryPresetFitsOneScreen) {
  for (const model::ModelPreset& preset : model::model_presets()) {
    SCOPED_TRACE(preset.name);
    const Result result = nest({"show", preset.name});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.err, IsEmpty());
    expect_fits_screen(result.out);
    EXPECT_LE(lines(result.out).size(), 45U);
    const Result all = nest({"show", preset.name, "--operators"});
    EXPECT_EQ(all.code, 0) << all.err;
    expect_fits_screen(all.out);
  }
}

TEST(ShowModel, JsonHasEverything) {
  const Json json = json_of({"show", "llama3-70b"});
  EXPECT_EQ(json["schema"], "nest.show.model/1");
  // Published: 70,553,706,496 parameters.
  EXPECT_EQ(json["parameters"]["total"].dump(), "70553706496");
  EXPECT_EQ(json["parameters"]["active"].dump(), "70553706496");
  for (const char* map : {"by_kind", "by_weight"}) {
    std::int64_t sum = 0;
    for (const auto& [name, count] : json["parameters"][map].items()) {
      EXPECT_TRUE(count.is_number_integer()) << name;
      sum += count.get<std::int64_t>();
    }
    EXPECT_EQ(sum, 70553706496) << map;
  }
  const Json& flops = json["flops_per_token"];
  // Two FLOPs per weight outside the token table, plus causal attention over 8,192 positions: 80 layers, 4 * 8,192 per
  // pair, 8,193 / 2 pairs per token. Norm weights multiply nothing that counts.
  const double products = 2.0 * (70553706496 - 1050673152 - 161 * 8192);
  EXPECT_DOUBLE_EQ(flops["forward"].get<double>(), products + 80.0 * 4 * 8192 * 8193 / 2);
  EXPECT_DOUBLE_EQ(flops["training"].get<double>(), 3 * flops["forward"].get<double>());

  ASSERT_EQ(json["layers"].size(), 3U);
  const Json& block = json["layers"][1];
  EXPECT_EQ(block["kind"], "block");
  EXPECT_EQ(block["first"], 1);
  EXPECT_EQ(block["count"], 80);
  EXPECT_EQ(block["parameters"], 855654400);
  EXPECT_EQ(block["weights_bytes"], 2 * 855654400);
  for (const char* key : {"flops_forward", "flops_backward", "output_bytes"})
    EXPECT_TRUE(block[key].is_number()) << key;
  for (const char* key : {"none", "selective", "full"})
    EXPECT_TRUE(block["saved_bytes"][key].is_number_integer()) << key;
  EXPECT_EQ(block["saved_bytes"]["full"], 8192 * 8192 * 2);
  EXPECT_GE(block["saved_bytes"]["none"].get<double>(), block["saved_bytes"]["selective"].get<double>());
  EXPECT_THAT(block["collectives"], IsEmpty());
  for (const char* key : {"operators", "saved_tensors"}) EXPECT_FALSE(block[key].empty()) << key;
  double kept = 0;
  for (const Json& tensor : block["saved_tensors"]) {
    if (tensor["none"].get<bool>()) kept += tensor["bytes"].get<double>();
  }
  EXPECT_DOUBLE_EQ(kept, block["saved_bytes"]["none"].get<double>());
  EXPECT_EQ(json["cut_bytes"].size(), 81U);
  EXPECT_EQ(json["cut_bytes"][40], 8192 * 8192 * 2);
}

TEST(ShowModel, SplitDividesAndAddsCollectives) {
  const Json whole = json_of({"show", "llama3-70b", "--micro-batch", "2", "--seq", "4096"});
  const Json part = json_of({"show", "llama3-70b", "--micro-batch", "2", "--seq", "4096", "--tp", "8", "--sp"});
  EXPECT_EQ(part["run"]["tp"], 8);
  EXPECT_EQ(part["run"]["sp"], true);
  EXPECT_EQ(part["run"]["tokens"], 8192);
  EXPECT_EQ(part["parameters"], whole["parameters"]);
  EXPECT_EQ(part["flops_per_token"], whole["flops_per_token"]);
  EXPECT_DOUBLE_EQ(part["layers"][1]["flops_forward"].get<double>() * 8,
                   whole["layers"][1]["flops_forward"].get<double>());
  EXPECT_EQ(part["cut_bytes"][10].get<std::int64_t>() * 8, whole["cut_bytes"][10].get<std::int64_t>());
  int gathers = 0;
  for (const Json& collective : part["layers"][1]["collectives"]) {
    EXPECT_EQ(collective["ranks"], 8);
    if (collective["kind"] == "all-gather" && collective["phase"] == "forward") ++gathers;
  }
  EXPECT_EQ(gathers, 2);  // one before attention, one before the feed-forward
}

TEST(ShowModel, TakesFilesFoldersAndStandardInput) {
  const std::string config = read_file(source_dir() / "data" / "models" / "llama3-8b.json");
  const std::string preset = json_of({"show", "llama3-8b"})["parameters"].dump();
  const Result piped = run({.arguments = {"show", "-", "--json"}, .input = config});
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(Json::parse(piped.out)["parameters"].dump(), preset);

  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "nest-cli-model";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(source_dir() / "data" / "models" / "llama3-8b.json", folder / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  for (const std::string& path : {folder.string(), (folder / "config.json").string()}) {
    const Json json = json_of({"show", path});
    EXPECT_EQ(json["parameters"].dump(), preset);
    EXPECT_EQ(json["model"]["title"], "nest-cli-model");
  }
  std::filesystem::remove_all(folder);
}

TEST(ShowModel, NamesAreFoundInAnyCaseAndPlace) {
  EXPECT_EQ(nest({"show", "Llama3-70B"}).out, nest({"show", "llama3-70b"}).out);
  EXPECT_EQ(nest({"--json", "show", "llama3-8b"}).out, nest({"show", "--json", "llama3-8b"}).out);
  EXPECT_EQ(nest({"show", "llama3-8b", "--tp=2"}).out, nest({"show", "--tp", "2", "llama3-8b"}).out);
}

TEST(ShowDevice, StartsWithTheAnswer) {
  EXPECT_THAT(nest({"show", "h100"}).out,
              StartsWith("NVIDIA H100 SXM5 80 GB: 990 TFLOP/s in bf16, 79.2 GiB at 3.35 TB/s\n"));
  const Json json = json_of({"show", "h100"});
  EXPECT_EQ(json["schema"], "nest.show.device/1");
  EXPECT_EQ(json["peak_flops_per_s"]["bf16"].dump(), "989500000000000");
}

TEST(ShowDevice, EveryPresetFits) {
  const Json list = json_of({"show", "devices"});
  for (const Json& device : list["devices"]) {
    const Result result = nest({"show", device["name"]});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("FLOP/s"));
    expect_fits_screen(result.out);
  }
}

TEST(ShowCluster, DrawsTheTree) {
  const Result result = nest({"show", "dgx-h100", "--devices", "256"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("256 x NVIDIA H100"));
  EXPECT_THAT(result.out, HasSubstr("\n  └─ 32 x node      8 devices "));
  EXPECT_THAT(result.out, HasSubstr("\n     └─ 256 x h100  "));
  EXPECT_THAT(result.out, HasSubstr("two devices of one"));
  const Json json = json_of({"show", "dgx-h100", "--devices", "256"});
  EXPECT_EQ(json["schema"], "nest.show.cluster/1");
  EXPECT_EQ(json["devices"], 256);
  EXPECT_EQ(json["device"]["name"], "h100");
  EXPECT_EQ(json["levels"][0]["devices_per_unit"], 8);
  EXPECT_EQ(json["levels"][0]["units"], 32);
}

TEST(ShowCluster, EveryPresetFits) {
  const Json list = json_of({"show", "clusters"});
  for (const Json& cluster : list["clusters"]) {
    const Result result = nest({"show", cluster["name"]});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.err, IsEmpty());
    expect_fits_screen(result.out);
    EXPECT_LE(lines(result.out).size(), 40U);
  }
}

// Two nodes of two devices under one switch, half of the uplink lost: hand-computed rates.
TEST(ShowCluster, ReadsFiles) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "nest-cli-cluster.yaml";
  std::ofstream(path) << "device: h100\n"
                         "levels:\n"
                         "  - {name: node, group: 2, bandwidth: 100GB/s, latency: 1us}\n"
                         "  - {name: leaf, group: 2, bandwidth: 40GB/s, latency: 5us, oversubscription: 2}\n";
  const Json json = json_of({"show", path.string()});
  EXPECT_EQ(json["name"], "nest-cli-cluster");
  EXPECT_EQ(json["devices"], 4);
  EXPECT_EQ(json["levels"][0]["alone_bytes_per_s"], 100'000'000'000);
  EXPECT_EQ(json["levels"][1]["alone_bytes_per_s"], 20'000'000'000);
  EXPECT_EQ(json["levels"][1]["device_bytes_per_s"], 10'000'000'000);
  EXPECT_THAT(nest({"show", path.string()}).out, HasSubstr("4 x NVIDIA H100 SXM5 80 GB, 2 nodes of 2"));
  std::filesystem::remove(path);
}

// A name stands for one thing only.
TEST(ShowNames, AreUnique) {
  const Json all = json_of({"show"});
  std::set<std::string> seen;
  for (const char* list : {"models", "devices", "clusters"}) {
    for (const Json& entry : all[list]) {
      EXPECT_TRUE(seen.insert(entry["name"]).second) << entry["name"];
      if (!entry.contains("aliases")) continue;
      for (const Json& alias : entry["aliases"]) EXPECT_TRUE(seen.insert(alias).second) << alias;
    }
  }
}

}  // namespace
}  // namespace nest::test
