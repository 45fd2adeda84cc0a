// nest sweep as it is used: killed, resumed, in shards, with files that are wrong or in the way.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nest/sweep.h"
#include "program.h"
#include "test_support/data.h"
#include "test_support/temporary_folder.h"

namespace nest::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr const char* kStudy = R"(
study: tiny
description: <b>small</b> & quick
model: llama3.2-1b
seq: 2048
axes:
  cluster: [dgx-h100, dgx-a100]
  devices: [1, 8, 12]
  batch: [8, 16]
)";

class Sweep : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(study_) << kStudy;
    if (nest({"sweep", "merge", study_, "-o", folder_.file("probe")}).err.find("without SQLite") != std::string::npos) {
      GTEST_SKIP() << "this nest is built without SQLite";
    }
  }

  // A shell in the folder, with nest in its path.
  Result shell(const std::string& script) const {
    const std::string programs = std::filesystem::path(program_path()).parent_path().string();
    return run(
        {.arguments = {"-c", "PATH='" + programs + "':\"$PATH\"\ncd '" + folder_.path().string() + "'\n" + script},
         .program = "bash"});
  }
  std::string refusal(const std::string& text, const std::vector<std::string>& more = {}) const {
    std::ofstream(folder_.file("bad.yaml")) << text;
    std::vector<std::string> words = {"sweep", folder_.file("bad.yaml"), "--db", folder_.file("bad.sqlite")};
    words.insert(words.end(), more.begin(), more.end());
    const Result result = nest(words);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, StartsWith("nest: "));
    return result.err;
  }

  TemporaryFolder folder_;
  std::string study_ = folder_.file("tiny.yaml");
};

TEST_F(Sweep, KilledAndResumedIsTheSameTable) {
  const Result whole =
      shell("nest sweep tiny.yaml --db whole.sqlite --jsonl whole.jsonl --csv whole.csv --html p.html");
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("tiny: 12 points\n8 with a proven plan and 4 that cannot be asked."));
  EXPECT_THAT(whole.out, HasSubstr("12 points planned in "));
  const std::string wanted = read_file(folder_.file("whole.jsonl"));
  EXPECT_EQ(std::count(wanted.begin(), wanted.end(), '\n'), 12);

  const Result killed = shell(
      "for t in 0.05 0.1 0.15 0.2 0.3; do timeout -s KILL $t nest sweep tiny.yaml --db killed.sqlite >/dev/null 2>&1; "
      "done\n"
      "nest sweep tiny.yaml --db killed.sqlite --jsonl killed.jsonl --threads 1");
  ASSERT_EQ(killed.code, 0) << killed.err;
  EXPECT_EQ(read_file(folder_.file("killed.jsonl")), wanted);

  const Result shards = shell(
      "for i in 0 1 2; do nest sweep tiny.yaml --db $i.sqlite --shard $i/3 >/dev/null || exit; done\n"
      "nest sweep merge 0.sqlite 1.sqlite 2.sqlite -o all.sqlite\n"
      "nest sweep tiny.yaml --db all.sqlite --jsonl all.jsonl");
  ASSERT_EQ(shards.code, 0) << shards.err;
  EXPECT_THAT(shards.out, HasSubstr("tiny: 12 of 12 points\nWritten to all.sqlite.\n"));
  EXPECT_THAT(shards.out, HasSubstr("Nothing was left to plan. In all.sqlite.\n"));
  EXPECT_EQ(read_file(folder_.file("all.jsonl")), wanted);

  // A plan of the table is one that other commands open.
  std::ofstream(folder_.file("plan.json")) << nlohmann::json::parse(lines(wanted).front())["plan"].dump();
  EXPECT_EQ(nest({"check", folder_.file("plan.json")}).code, 0);
  EXPECT_THAT(read_file(folder_.file("p.html")), HasSubstr("&lt;b&gt;small&lt;/b&gt; &amp; quick"));
  EXPECT_THAT(lines(read_file(folder_.file("whole.csv"))).front(),
              StartsWith("point,cluster,devices,global_batch,outcome,reason,strategy,step_s"));
  const Result json = nest({"sweep", study_, "--db", folder_.file("whole.sqlite"), "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["points"].size(), 12U);
}

TEST_F(Sweep, BadStudiesLoseNothing) {
  EXPECT_THAT(refusal("axes: {divices: [8]}"), HasSubstr("did you mean `devices`?"));
  EXPECT_THAT(refusal("axes: {model: [lama3-8b]}"), HasSubstr("\"lama3-8b\" is not a model"));
  EXPECT_THAT(
      refusal("axes: {devices: {from: 1, to: 10000, step: 1}, seq: {from: 1, to: 10000, step: 1}, batch: {from: 1, "
              "to: 10000, step: 1}}"),
      HasSubstr("1,000,000,000,000 points, more than 1,000,000"));
  EXPECT_THAT(refusal("devices: 8\naxes: {devices: [16]}"), HasSubstr("`devices` is given twice"));
  EXPECT_THAT(refusal("axes: {devices: [8]}", {"--shard", "5/4"}), HasSubstr("--shard: \"5/4\" is no part of a whole"));
  EXPECT_THAT(refusal("axes: {devices: [8]}", {"-o", "x"}), HasSubstr("--db FILE"));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("bad.sqlite")));

  // A database of another study, or of nobody's, stays as it is.
  ASSERT_EQ(shell("nest sweep tiny.yaml --db bad.sqlite --shard 0/6").code, 0);
  const std::string before = read_file(folder_.file("bad.sqlite"));
  EXPECT_THAT(refusal("study: tiny\naxes: {devices: [8]}"), HasSubstr("holds another study of the name tiny"));
  EXPECT_EQ(read_file(folder_.file("bad.sqlite")), before);
  EXPECT_THAT(nest({"sweep", study_, "--db", study_}).err, HasSubstr("is no SQLite database"));
  EXPECT_EQ(read_file(study_), kStudy);
  EXPECT_THAT(shell("nest sweep merge tiny.yaml -o x.sqlite").err, HasSubstr("is no SQLite database"));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("x.sqlite")));
}

TEST_F(Sweep, WhatCannotBeWrittenIsSaidAndTheRestKept) {
  // 48 KiB hold the tables and a few plans.
  const Result full = shell("trap '' XFSZ\nulimit -f 48\nnest sweep tiny.yaml --db full.sqlite --threads 1");
  EXPECT_EQ(full.code, 2) << full.err;
  EXPECT_THAT(full.err, HasSubstr("what was stored is kept"));
  EXPECT_THAT(full.out, IsEmpty());
  const Result after = shell(
      "nest sweep tiny.yaml --db full.sqlite --jsonl full.jsonl && nest sweep tiny.yaml --db one.sqlite "
      "--jsonl one.jsonl && cmp full.jsonl one.jsonl");
  EXPECT_EQ(after.code, 0) << after.err << after.out;
  EXPECT_THAT(after.out, HasSubstr(" were there. In full.sqlite."));
}

TEST_F(Sweep, ArraysRunWithoutSlurmToo) {
  ASSERT_EQ(shell("nest sweep tiny.yaml --db whole.sqlite --jsonl whole.jsonl >/dev/null && mkdir out && "
                  "nest sweep tiny.yaml --db out/all.sqlite --sbatch tiny.sbatch --shards 3")
                .code,
            0);
  const Result tasks = shell(
      "for i in 0 1 2; do SLURM_ARRAY_TASK_ID=$i bash tiny.sbatch >/dev/null || exit; done\n"
      "bash tiny.sbatch merge && nest sweep tiny.yaml --db out/all.sqlite --jsonl all.jsonl");
  EXPECT_EQ(tasks.code, 0) << tasks.err;
  EXPECT_EQ(read_file(folder_.file("all.jsonl")), read_file(folder_.file("whole.jsonl")));
}

}  // namespace
}  // namespace nest::test
