// Models that are operator graphs, from file to plan and back.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden.h"
#include "onnx_graph/read_onnx.h"
#include "program.h"
#include "test_support/data.h"
#include "test_support/temporary_folder.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::string corpus(const std::string& name) { return (source_dir() / "tests" / "fuzz" / "corpus" / name).string(); }

TEST(GraphCommand, AGraphBecomesAPlanThatStandsAlone) {
  const TemporaryFolder folder;
  const std::string file = folder.file("plan.json");
  const Result made = nest({"plan", "--model", corpus("graph/decoder.json"), "--devices", "8", "--global-batch", "64",
                            "--stack", "pytorch", "-o", file});
  ASSERT_EQ(made.code, 0) << made.err;
  expect_fits_screen(made.out);
  const Result checked = nest({"check", file});
  EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
  const Result priced = nest({"eval", file, "--json"});
  ASSERT_EQ(priced.code, 0) << priced.err;
  const Json plan = Json::parse(std::ifstream(file));
  EXPECT_EQ(plan["model"]["config"]["schema"], "nest.graph/1");
  EXPECT_NEAR(Json::parse(priced.out)["prediction"]["iteration_s"], plan["prediction"]["iteration_s"], 1e-9);
  EXPECT_EQ(nest({"export", file, "--to", "rankfile"}).code, 0);
  const Result refused = nest({"export", file, "--to", "megatron"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("operator graph"));
}

TEST(GraphCommand, ShowCountsItsParameters) {
  const Result shown = nest({"show", corpus("graph/decoder.json"), "--json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  const Json json = Json::parse(shown.out);
  // Two tables; per layer two norms, q and o, k and v of half the width, three of the feed-forward; the last norm.
  EXPECT_EQ(json["parameters"]["total"], 2 * 64 * 16 + 2 * (2 * 16 + 2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 32) + 16);
  EXPECT_EQ(json["model"]["blocks"], 2);
  expect_fits_screen(nest({"show", corpus("graph/decoder.json"), "--tp", "2"}).out);
}

TEST(GraphCommand, SamplesHaveNoSequence) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"plan", "--model"}, {"show"}}) {
    std::vector<std::string> line = words;
    line.insert(line.end(), {corpus("graph/skip.json"), "--seq", "128"});
    const Result result = nest(line);
    EXPECT_EQ(result.code, 2) << words.front();
    EXPECT_THAT(result.err, HasSubstr("has no sequence"));
  }
}

TEST(GraphCommand, WhatIsBrokenIsRefusedByName) {
  const TemporaryFolder folder;
  Json graph = Json::parse(std::ifstream(corpus("graph/skip.json")));
  graph["operators"][0]["inputs"] = {99};
  std::ofstream(folder.file("graph.json")) << graph.dump();
  const Result result = nest({"plan", "--model", folder.file("graph.json")});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("operators[0].inputs: entry 99"));
}

TEST(GraphCommand, AnOnnxFileIsReadOrRefusedByWhatItIs) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("zeros.onnx")) << std::string(4096, '\0');
  const Result zeros = nest({"plan", "--model", folder.file("zeros.onnx")});
  EXPECT_EQ(zeros.code, 2);
  const Result shown = nest({"show", corpus("onnx/decoder.onnx"), "--json"});
  if (!onnx_graph::onnx_supported()) {
    EXPECT_THAT(zeros.err, HasSubstr("zeros.onnx: this nest was built without ONNX"));
    EXPECT_EQ(shown.code, 2);
    return;
  }
  EXPECT_THAT(zeros.err, HasSubstr("zeros.onnx: it is no ONNX model"));
  ASSERT_EQ(shown.code, 0) << shown.err;
  // Two tables; two norms, four of attention, three of the feed-forward; the last norm.
  EXPECT_EQ(Json::parse(shown.out)["parameters"]["total"], 2 * 64 * 16 + 2 * 16 + 4 * 16 * 16 + 3 * 16 * 32 + 16);
}

// Refused by its size, before anything of it is read: the file has no blocks, reading it would take seconds.
TEST(GraphCommand, AnOnnxFileOfGigabytesIsRefusedAtOnce) {
  const TemporaryFolder folder;
  const std::string file = folder.file("large.onnx");
  std::ofstream(file) << "";
  std::filesystem::resize_file(file, 2'000'000'000);
  const auto begin = std::chrono::steady_clock::now();
  const Result result = nest({"plan", "--model", file});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("large.onnx: a file of 2000000000 bytes; allowed are 268435456"));
}

}  // namespace
}  // namespace nest::test
