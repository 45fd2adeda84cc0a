// Whole sweeps through the front door: the same table however many threads, shards and stops there were.
#include <gmock/gmock.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nest/nest.h"
#include "test_support/data.h"
#include "test_support/refusal.h"
#include "test_support/temporary_folder.h"

#ifdef NEST_SQLITE

namespace nest::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr const char* kStudy = R"(
study: small
model: llama3.2-1b
cluster: dgx-h100
seq: 2048
tokens: 1T
axes:
  devices: [8, 12, 16]
  batch: [16, 32]
  price: [2, 3]
)";

std::string all_lines(const Study& study, const std::string& database) {
  std::string text;
  to_json_lines(read_results(study, database), [&](std::string_view line) { text += line; });
  return text;
}

// Files are read with the study: whoever edits one meanwhile does not change half of the points.
TEST(Sweep, FilesAreReadOnce) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.file(name)) << text;
  };
  const std::string slow =
      "device: h100\nlevels:\n  - {name: node, group: 4, bandwidth: 20GB/s, latency: 3us}\n"
      "  - {name: pod, group: 2, bandwidth: 5GB/s, latency: 8us}\n";
  std::string fast = slow;
  fast.replace(fast.find(" 5GB"), 4, "50GB");
  write("net.yaml", slow);
  write("s.yaml", "model: llama3.2-1b\ncluster: net.yaml\nseq: 2048\naxes: {batch: [16, 32]}\n");
  const Study study = read_study(folder.file("s.yaml"));
  ASSERT_EQ(study.files.size(), 1U);
  write("net.yaml", fast);
  SweepOptions options;
  options.database = folder.file("s.sqlite");
  run_sweep(study, options);
  const SweepResults results = read_results(study, options.database);
  for (const SweepResult& result : results.points) {
    Question question;
    question.model = "llama3.2-1b";
    question.cluster = Input::memory("net.yaml", slow);
    question.seq = 2048;
    question.global_batch = result.point == 0 ? 16 : 32;
    SearchOptions search;
    search.why = false;
    EXPECT_EQ(result.step_s, find_plan(read_job(question), search).plans.front().expected().iteration_s);
  }
  // The next run sees the new file, and does not mix.
  EXPECT_THAT(refusal_of([&] { run_sweep(read_study(folder.file("s.yaml")), options); }), HasSubstr("net.yaml"));
  // With the old one it goes on.
  write("net.yaml", slow);
  EXPECT_EQ(run_sweep(read_study(folder.file("s.yaml")), options).progress.before, 2);
}

TEST(SweepThreads, GiveTheSameTable) {
  const TemporaryFolder folder;
  const Study study = read_study(Input::memory("small.yaml", kStudy));
  EXPECT_EQ(study.points.size(), 12U);
  std::vector<std::string> tables;
  for (const std::int64_t threads : {1, 3}) {
    SweepOptions options;
    options.database = folder.file(std::to_string(threads) + ".sqlite");
    options.threads = threads;
    std::int64_t told = 0;
    options.progress = [&](const SweepProgress& progress) { told = progress.done; };
    const SweepRun run = run_sweep(study, options);
    EXPECT_FALSE(run.stopped);
    EXPECT_EQ(told, 12);
    tables.push_back(all_lines(study, options.database));
  }
  EXPECT_EQ(tables[0], tables[1]);

  // Points that are stored are the plans of the front door.
  const SweepResults results = read_results(study, folder.file("1.sqlite"));
  Question question;
  question.model = "llama3.2-1b";
  question.cluster = "dgx-h100";
  question.seq = 2048;
  question.devices = 16;
  question.global_batch = 32;
  SearchOptions options;
  options.why = false;
  const Plan plan = find_plan(read_job(question), options).plans.front();
  const SweepResult& last = results.points.back();
  EXPECT_EQ(last.step_s, plan.expected().iteration_s);
  EXPECT_EQ(last.lower_bound_s, plan.search->lower_bound_s);
  EXPECT_EQ(read_plan(Input::memory("p.json", read_sweep_plan(results, last.point))).prediction.iteration_s,
            plan.prediction.iteration_s);
  // 1 T tokens in steps of 32 x 2,048, on 16 devices, at 3 an hour.
  const double steps = std::ceil(1e12 / (32 * 2048));
  EXPECT_NEAR(*last.cost, steps * last.step_s / 3600 * static_cast<double>(last.devices_used) * 3, 1e-6 * *last.cost);
  // A node and a half is no cluster: a result, with its reason.
  EXPECT_EQ(results.points[4].outcome, SweepOutcome::refused);
  EXPECT_THAT(results.points[4].reason, HasSubstr("12"));
}

TEST(SweepThreads, ShardsAndStopsGiveTheSameTable) {
  const TemporaryFolder folder;
  const Study study = read_study(Input::memory("small.yaml", kStudy));
  const auto run = [&](const std::string& name, std::int64_t shard, std::int64_t shards, int stop_after) {
    std::atomic<bool> stop{false};
    SweepOptions options;
    options.database = folder.file(name);
    options.threads = 2;
    options.shard = shard;
    options.shards = shards;
    options.stop = &stop;
    options.progress = [&](const SweepProgress& p) { stop.store(p.done - p.before >= stop_after); };
    return run_sweep(study, options);
  };
  run("whole", 0, 1, 100);
  const std::string wanted = all_lines(study, folder.file("whole"));
  // From 1 to 3, each stopped several times; every run does what is open and no more.
  for (const std::int64_t shard : {1, 2, 3}) {
    std::int64_t planned = 0;
    for (int round = 0; round < 20; ++round) {
      const SweepRun part = run("part" + std::to_string(shard), shard, 3, 1);
      planned += part.progress.done - part.progress.before;
      if (!part.stopped) break;
    }
    EXPECT_EQ(planned, 4);
  }
  const std::vector<SweepMerge> merged =
      merge_sweeps({folder.file("part1"), folder.file("part2"), folder.file("part3")}, folder.file("all"));
  ASSERT_EQ(merged.size(), 1U);
  EXPECT_EQ(merged[0].merged, 12);
  EXPECT_EQ(all_lines(study, folder.file("all")), wanted);
  // Merging again, into what is there, changes nothing.
  EXPECT_EQ(merge_sweeps({folder.file("part1")}, folder.file("all"))[0].twice, 4);
  EXPECT_EQ(all_lines(study, folder.file("all")), wanted);
  // From 0 to 2 the shards are the same.
  run("zero", 0, 3, 100);
  EXPECT_EQ(all_lines(study, folder.file("zero")), all_lines(study, folder.file("part3")));
}

TEST(Sweep, ReportsHoldEveryPoint) {
  const TemporaryFolder folder;
  const Study study = read_study(Input::memory("small.yaml", std::string(kStudy) + "where: [devices != 12]\n"));
  SweepOptions options;
  options.database = folder.file("x.sqlite");
  run_sweep(study, options);
  const SweepResults results = read_results(study, options.database);
  const std::string csv = to_csv(results);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 9);
  const auto json = nlohmann::json::parse(to_json(results));
  EXPECT_EQ(json["points"].size(), 8U);
  EXPECT_EQ(json["front"].get<std::vector<std::int64_t>>(), pareto_front(results));
  const std::string page = to_html(results);
  for (const SweepResult& result : results.points) {
    EXPECT_THAT(page, HasSubstr("id=\"p" + std::to_string(result.point) + "\""));
    EXPECT_THAT(page, HasSubstr("href=\"#p" + std::to_string(result.point) + "\""));
  }
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy"));
  EXPECT_THAT(to_text(results), HasSubstr("small: 8 points"));
}

TEST(Sweep, WhatCannotBeIsSaidBeforeAnythingIsWritten) {
  const auto study = [](const std::string& text) {
    return refusal_of([&] { read_study(Input::memory("s.yaml", text)); });
  };
  EXPECT_THAT(study("axes: {model: [llama3-8b, lama3-8b]}"), HasSubstr("s.yaml: \"lama3-8b\" is not a model"));
  EXPECT_THAT(study("axes: {cluster: [dgx-h1000]}"), HasSubstr("dgx-h1000"));
  EXPECT_THAT(study("axes: {stack: [megatron-cor]}"), HasSubstr("megatron-cor"));
  EXPECT_THAT(study("axes: {target: [megatronn]}"), HasSubstr("megatronn"));
  EXPECT_THAT(study("axes: {cluster: [dgx-h100], cluster.spine.bandwidth: [1GB/s]}"),
              HasSubstr("no level or key `spine`"));
  EXPECT_THAT(study("axes: {cluster.unit.bandwidth: [fast]}"), HasSubstr("fast"));
  EXPECT_THAT(study("axes: {memory: [lots]}"), HasSubstr("lots"));
  EXPECT_THAT(study("axes: {experts: [8]}"), HasSubstr("has none"));
}

TEST(Sweep, ArraysOfSlurm) {
  const Study study = read_study(Input::memory("small.yaml", kStudy));
  SweepArray array;
  array.study = "/a b/small.yaml";
  array.database = "/out/small.sqlite";
  array.shards = 5;
  array.threads = 4;
  const std::string text = sweep_sbatch(study, array);
  EXPECT_THAT(text, HasSubstr("#SBATCH --array=0-4\n"));
  EXPECT_THAT(text, HasSubstr("#SBATCH --cpus-per-task=4\n"));
  EXPECT_THAT(text, HasSubstr("study='/a b/small.yaml'\n"));
}

}  // namespace
}  // namespace nest::test

#endif
