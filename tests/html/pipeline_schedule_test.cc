#include "html/pipeline_schedule.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

namespace nest::html {
namespace {

// Judges a schedule by the rules alone: what must run, what must wait, one cell at a time.
void expect_sound(const PipelineSchedule& schedule, const std::vector<PassTimes>& times, std::int64_t chunks) {
  const auto p = static_cast<std::int64_t>(times.size());
  std::map<std::tuple<bool, std::int64_t, std::int64_t, std::int64_t>, ScheduleCell> cells;
  for (std::int64_t s = 0; s < p; ++s) {
    double free_at = 0;
    for (const ScheduleCell& cell : schedule.stages[static_cast<std::size_t>(s)]) {
      EXPECT_GE(cell.begin_s, free_at - 1e-12);
      free_at = cell.end_s;
      const PassTimes& time = times[static_cast<std::size_t>(s)];
      EXPECT_NEAR(cell.end_s - cell.begin_s,
                  (cell.backward ? time.backward_s : time.forward_s) / static_cast<double>(chunks), 1e-9);
      EXPECT_TRUE(cells.emplace(std::tuple(cell.backward, s, cell.chunk, cell.micro_batch), cell).second);
    }
  }
  EXPECT_EQ(static_cast<std::int64_t>(cells.size()), 2 * p * chunks * schedule.played);
  for (const auto& [key, cell] : cells) {
    const auto [backward, s, chunk, batch] = key;
    const std::int64_t place = chunk * p + s;  // in the order of layers
    if (!backward && place > 0) {
      EXPECT_GE(cell.begin_s, cells.at({false, (place - 1) % p, (place - 1) / p, batch}).end_s - 1e-12);
    }
    if (!backward) continue;
    EXPECT_GE(cell.begin_s, cells.at({false, s, chunk, batch}).end_s - 1e-12);
    if (place + 1 < p * chunks) {
      EXPECT_GE(cell.begin_s, cells.at({true, (place + 1) % p, (place + 1) / p, batch}).end_s - 1e-12);
    }
  }
}

TEST(PipelineSchedule, TwoStagesByHand) {
  const std::vector<PassTimes> times = {{1, 2}, {1, 2}};
  const PipelineSchedule schedule = play_schedule(Schedule::one_f_one_b, 1, times, 2);
  // stage 0: F0 0-1, F1 1-2, (waits) B0 4-6, B1 7-9;  stage 1: F0 1-2, B0 2-4, F1 4-5, B1 5-7
  const auto& first = schedule.stages[0];
  ASSERT_EQ(first.size(), 4U);
  EXPECT_DOUBLE_EQ(first[1].end_s, 2);
  EXPECT_TRUE(first[2].backward);
  EXPECT_DOUBLE_EQ(first[2].begin_s, 4);
  EXPECT_DOUBLE_EQ(first[3].begin_s, 7);
  EXPECT_DOUBLE_EQ(schedule.stages[1][1].begin_s, 2);
  EXPECT_DOUBLE_EQ(schedule.total_s(), 9);  // (m + p - 1) (f + b)
  EXPECT_DOUBLE_EQ(schedule.warm_up_s, 4);
  EXPECT_DOUBLE_EQ(schedule.drain_s, 7);
}

TEST(PipelineSchedule, TakesWhatTheFormulaSaysForEqualStages) {
  for (const std::int64_t p : {1, 2, 4, 8}) {
    for (const std::int64_t v : {1, 2, 5}) {
      if (p == 1 && v > 1) continue;
      for (const std::int64_t rounds : {1, 2, 7, 40}) {
        const std::int64_t m = p * rounds;
        const std::vector<PassTimes> times(static_cast<std::size_t>(p), PassTimes{1, 2});
        const PipelineSchedule schedule =
            play_schedule(v > 1 ? Schedule::interleaved : Schedule::one_f_one_b, v, times, m);
        expect_sound(schedule, times, v);
        EXPECT_NEAR(schedule.total_s(),
                    3.0 * static_cast<double>(m) + 3.0 * static_cast<double>(p - 1) / static_cast<double>(v), 1e-9)
            << p << " stages, " << v << " chunks, " << m << " micro-batches";
      }
    }
  }
  EXPECT_NEAR(play_schedule(Schedule::gpipe, 1, {{1, 2}, {1, 2}, {1, 2}}, 5).total_s(), 3.0 * 5 + 3.0 * 2, 1e-9);
}

TEST(PipelineSchedule, IsSoundForAnyTimes) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto p = static_cast<std::int64_t>(1 + random() % 6);
    const auto v = static_cast<std::int64_t>(p == 1 || random() % 2 == 0 ? 1 : 2 + random() % 3);
    const auto m = static_cast<std::int64_t>(1 + random() % 30);
    std::vector<PassTimes> times;
    double slowest = 0;
    for (std::int64_t s = 0; s < p; ++s) {
      times.push_back(
          {0.1 + 0.01 * static_cast<double>(random() % 100), 0.1 + 0.01 * static_cast<double>(random() % 100)});
      slowest = std::max(slowest, times.back().forward_s + times.back().backward_s);
    }
    const Schedule kind = v > 1 ? Schedule::interleaved : random() % 3 == 0 ? Schedule::gpipe : Schedule::one_f_one_b;
    const PipelineSchedule schedule = play_schedule(kind, v, times, m);
    expect_sound(schedule, times, v);
    EXPECT_GE(schedule.total_s(), slowest * static_cast<double>(m) - 1e-9);
  }
}

TEST(PipelineSchedule, LeavesOutTheMiddleOfManyMicroBatches) {
  const std::vector<PassTimes> times = {{1, 2}, {1.5, 2}, {1, 2}};
  const PipelineSchedule all = play_schedule(Schedule::one_f_one_b, 1, times, 14);
  EXPECT_EQ(all.played, 14);
  const PipelineSchedule many = play_schedule(Schedule::one_f_one_b, 1, times, 1'000'000);
  EXPECT_LT(many.played, 20);
  EXPECT_EQ((many.micro_batches - many.played) % 3, 0);
  EXPECT_NEAR(many.total_s() - all.total_s(), 3.5 * (1'000'000 - 14), 1e-3);
}

// Whole groups are left out, and the bubble is that of smaller ones.
TEST(PipelineSchedule, GroupsOfMicroBatches) {
  const std::vector<PassTimes> times(4, PassTimes{1, 2});
  const PipelineSchedule few = play_schedule(Schedule::interleaved, 2, times, 8, 8);
  expect_sound(few, times, 2);
  EXPECT_NEAR(few.total_s(), 28.5, 1e-9);
  const PipelineSchedule many = play_schedule(Schedule::interleaved, 2, times, 400, 10);
  EXPECT_LT(many.played, 60);
  EXPECT_EQ((many.micro_batches - many.played) % 10, 0);
  EXPECT_NEAR(many.total_s(), 3 * 400 + 4.5, 1e-9);
}

TEST(PipelineSchedule, PassesAddUpToTheStage) {
  StagePlan stage;
  stage.zero = 3;
  stage.time = {.forward = 1, .backward = 2, .recompute = 0.5, .p2p = 0.2, .zero = 0.3, .total = 4.0};
  const PassTimes times = pass_times(stage);
  EXPECT_DOUBLE_EQ(times.forward_s, 1.2);
  EXPECT_DOUBLE_EQ(times.forward_s + times.backward_s, 4.0);
}

}  // namespace
}  // namespace nest::html
