// The command line as people type it: words of other tools, units, cases, positions.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "program.h"
#include "test_support/data.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

nlohmann::json answer(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Result result = nest(arguments);
  EXPECT_EQ(result.code, 0) << result.err;
  return nlohmann::json::parse(result.out, nullptr, false);
}

nlohmann::json planned(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"plan", "--no-why", "--judge", "formula", "--threads", "1"});
  return answer(std::move(arguments));
}

TEST(AsTyped, HelpIsAWordToo) {
  EXPECT_EQ(nest({"help"}).out, nest({"--help"}).out);
  EXPECT_EQ(nest({"help", "plan"}).out, nest({"plan", "--help"}).out);
  EXPECT_EQ(nest({"help", "help"}).out, nest({"help", "--help"}).out);
  EXPECT_THAT(nest({"help", "plna"}).err, HasSubstr("did you mean `plan`?"));
  EXPECT_EQ(nest({"-V"}).out, nest({"--version"}).out);
}

TEST(AsTyped, NumbersAndWordsOfTheField) {
  const nlohmann::json usual = planned({"--model", "llama3-8b", "--devices", "16", "--global-batch", "32", "--seq",
                                        "8192", "--precision", "bf16", "--optimizer", "adam"});
  const nlohmann::json typed = planned({"llama3-8b", "--nodes", "2", "--gbs", "256k-tokens", "--seq", "8k",
                                        "--precision", "BF16", "--optimizer", "AdamW"});
  EXPECT_EQ(usual["strategy"], typed["strategy"]);
  EXPECT_EQ(usual["prediction"], typed["prediction"]);
  EXPECT_EQ(usual["run"], typed["run"]);
  EXPECT_EQ(planned({"llama3-8b", "--gpus", "16", "--gbs", "1k"})["run"]["global_batch"], 1024);
}

TEST(AsTyped, DimensionsAreOptions) {
  const std::vector<std::string> job = {"llama3-8b", "--gpus", "16", "--gbs", "32"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), job.begin(), job.end());
    return more;
  };
  EXPECT_EQ(planned(with({"--tp", "2", "--pp", "2", "--sp", "--zero", "1"}))["strategy"],
            planned(with({"--set", "tp=2", "--set", "pp=2", "--set", "sp=1", "--set", "zero=1"}))["strategy"]);
  EXPECT_EQ(planned(with({"--tp", "4..8"}))["strategy"], planned(with({"--set", "tp=4..8"}))["strategy"]);
  std::vector<std::string> pieces = with({"--tp", "2", "--sp", "--pp", "2", "--mbs", "2", "--recompute", "full"});
  pieces.insert(pieces.begin(), "eval");
  std::vector<std::string> whole = with({"--strategy", "tp=2,sp=1,pp=2,mbs=2,recompute=full"});
  whole.insert(whole.begin(), "eval");
  EXPECT_EQ(answer(pieces)["prediction"], answer(whole)["prediction"]);
}

// What is printed, pasted as it stands, is the plan.
TEST(AsTyped, PrintedStrategiesArePastedBack) {
  for (const std::vector<std::string>& job :
       {std::vector<std::string>{"llama3-8b", "--gpus", "16", "--gbs", "32"},
        {"mixtral-8x7b", "--gpus", "32", "--gbs", "64"},
        {"llama3-70b", "--gpus", "64", "--gbs", "64", "--recompute", "full", "--set", "even_cuts=1"},
        {"llama3-8b", "--gpus", "16", "--gbs", "32", "--zero", "3", "--seq", "32k"}}) {
    std::vector<std::string> plan = {"plan", "--no-why", "--judge", "formula", "--threads", "1"};
    plan.insert(plan.end(), job.begin(), job.end());
    const Result printed = nest(plan);
    ASSERT_EQ(printed.code, 0) << printed.err;
    const std::vector<std::string> text = lines(printed.out);
    const auto strategy = std::find_if(text.begin(), text.end(), [](const std::string& line) {
      return line.starts_with("  ") && line.find("mbs=") != std::string::npos;
    });
    ASSERT_NE(strategy, text.end()) << printed.out;
    std::vector<std::string> eval = {"eval", "--judge", "formula"};
    for (const std::string& word : job) {
      if (word == "--recompute" || word == "--set" || word == "--zero") break;
      eval.push_back(word);
    }
    if (job.back() == "32k") eval.insert(eval.end(), {"--seq", "32k"});
    eval.insert(eval.end(), {"--strategy", strategy->substr(2)});
    const Result again = nest(eval);
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(lines(again.out)[1], text[1]) << *strategy;
  }
}

TEST(AsTyped, MoneyAndTime) {
  const Result plain =
      nest({"eval", "llama3-8b", "--gpus", "8", "--gbs", "8", "--tp", "2", "--tokens", "1T", "--price", "2.5"});
  const Result typed =
      nest({"eval", "llama3-8b", "--gpus", "8", "--gbs", "8", "--tp", "2", "--tokens", "1T", "--price", "$2.50"});
  EXPECT_EQ(plain.out, typed.out);
  const Result wrong = nest({"eval", "llama3-8b", "--price", "cheap"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err, "nest: --price: `cheap` is not a price of a device-hour; write for example 2.5 or $2.50\n");
}

TEST(AsTyped, WordsOfOtherToolsAreTranslated) {
  const auto meant = [](std::vector<std::string> arguments) { return nest(arguments).err; };
  EXPECT_THAT(meant({"plan", "--tensor-model-parallel-size", "8"}), HasSubstr("did you mean `--tp`?"));
  EXPECT_THAT(meant({"plan", "--seq_len", "8192"}), HasSubstr("did you mean `--seq`?"));
  EXPECT_THAT(meant({"plan", "--global_batch", "8"}), HasSubstr("did you mean `--global-batch`?"));
  EXPECT_THAT(meant({"estimate"}), HasSubstr("did you mean `nest eval`?"));
  EXPECT_THAT(meant({"models"}), HasSubstr("did you mean `nest show models`?"));
  EXPECT_THAT(meant({"plan", "tp=8"}), HasSubstr("`tp=8` stands alone; write --tp 8"));
}

TEST(AsTyped, LaunchLinesLeaveTheBestPlan) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "nest-as-typed";
  std::filesystem::create_directories(folder);
  const std::string best = (folder / "best.json").string(), page = (folder / "best.html").string();
  const Result result = nest({"eval", "llama3-8b", "--from",
                              "torchrun --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size 8 "
                              "--micro-batch-size 1 --global-batch-size 32 --seq-length 8192 --bf16",
                              "-o", best, "--html", page, "--judge", "formula"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Written to " + best));
  EXPECT_EQ(nest({"check", best}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(page));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace nest::test
