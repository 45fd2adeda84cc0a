#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden.h"
#include "program.h"
#include "test_support/temporary_folder.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Json = nlohmann::json;

const std::vector<std::string> kFits = {"eval",
                                        "--model",
                                        "llama3-70b",
                                        "--cluster",
                                        "dgx-h100",
                                        "--devices",
                                        "128",
                                        "--global-batch",
                                        "128",
                                        "--strategy",
                                        "tp=8,sp=1,pp=4,vpp=5,mbs=1"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Eval, AnswersOnOneScreen) {
  const Result result = nest(with(kFits, {"--tokens", "1T", "--price", "2.5"}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_THAT(result.out, HasSubstr("per step"));
  EXPECT_THAT(result.out, HasSubstr("1.00 T tokens take"));
  EXPECT_THAT(result.out, HasSubstr("at 2.50 per"));
  EXPECT_THAT(result.out, HasSubstr("Assumptions: stack megatron-bridge-2026 (for a dense model in bf16 on"));
  expect_fits_screen(result.out);
}

TEST(Eval, SaysWhatDoesNotFit) {
  const Result result = nest({"eval", "--model", "gpt3-175b", "--cluster", "dgx-a100", "--devices", "16",
                              "--global-batch", "64", "--strategy", "tp=8,pp=2,mbs=1"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.out, HasSubstr("does not fit: stage 0 needs"));
  EXPECT_THAT(result.out, HasSubstr("activations"));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("per step")));
  expect_fits_screen(result.out);
}

TEST(Eval, JsonIsAPlanThatPricesTheSame) {
  const Result first = nest(with(kFits, {"--json"}));
  ASSERT_EQ(first.code, 0) << first.err;
  const Json json = Json::parse(first.out);
  EXPECT_EQ(json["schema"], "nest.plan/3");
  EXPECT_EQ(json["strategy"]["tp"], 8);
  EXPECT_EQ(json["stages"].size(), 4U);
  EXPECT_TRUE(json["evaluation"]["fits"]);
  double parts = 0;
  for (const auto& [name, seconds] : json["prediction"]["breakdown_s"].items()) parts += seconds.get<double>();
  EXPECT_NEAR(parts, json["prediction"]["iteration_s"].get<double>(), 1e-9);

  const TemporaryFolder folder;
  const std::string file = folder.file("plan.json");
  std::ofstream(file) << first.out;
  const Result second = nest({"eval", file, "--json"});
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_DOUBLE_EQ(Json::parse(second.out)["prediction"]["iteration_s"], json["prediction"]["iteration_s"]);
  EXPECT_EQ(Json::parse(second.out)["stages"], json["stages"]);
}

TEST(Eval, EveryStackPricesAndFp8IsFaster) {
  const Result bf16 = nest(with(kFits, {"--json"}));
  const Result fp8 = nest(with(kFits, {"--json", "--precision", "fp8"}));
  EXPECT_LT(Json::parse(fp8.out)["prediction"]["iteration_s"], Json::parse(bf16.out)["prediction"]["iteration_s"]);
  const Json stacks = Json::parse(nest({"show", "stacks", "--json"}).out);
  ASSERT_GT(stacks["stacks"].size(), 10U);
  for (const Json& stack : stacks["stacks"]) {
    const Result result = nest({"eval", "--model", "llama3-8b", "--devices", "8", "--global-batch", "8", "--strategy",
                                "tp=2,mbs=1,recompute=full", "--stack", stack["name"].get<std::string>()});
    EXPECT_TRUE(result.code == 0 || result.code == 3) << stack["name"] << result.err;
    expect_fits_screen(result.out);
  }
}

TEST(Eval, ExplainsMistakes) {
  const auto message = [](const std::vector<std::string>& arguments) {
    const Result result = nest(arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.out, IsEmpty());
    return result.err;
  };
  EXPECT_THAT(message({"eval", "--strategy", "tp=3"}),
              StartsWith("nest: --strategy: tp=3 does not divide the 64 attention heads"));
  EXPECT_THAT(message({"eval", "--strategy", "tpp=8"}), HasSubstr("`tpp` is not known"));
  EXPECT_THAT(message({"eval", "--strategy", "tp=8,pp=100"}), HasSubstr("more than the 82 layers"));
  EXPECT_THAT(message({"eval", "--stack", "megatron-cor"}), HasSubstr("did you mean `megatron-core`?"));
  EXPECT_THAT(message({"eval", "--cluster", "dgx-h10"}), HasSubstr("did you mean `dgx-h100`?"));
  EXPECT_THAT(message({"eval", "--devices", "12"}), HasSubstr("multiple"));
  EXPECT_THAT(message({"eval", "--precision", "bf15"}), HasSubstr("bf16"));
  EXPECT_THAT(message({"eval", "no-such-plan.json"}), HasSubstr("no-such-plan.json: cannot be read"));
  EXPECT_THAT(message({"eval", "--devices", "64", "--strategy", "tp=8,dp=64"}), HasSubstr("devices are needed"));
}

}  // namespace
}  // namespace nest::test
