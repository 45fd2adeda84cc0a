// Schedules that compute gradients of weights apart: legal for every shape, as long as the guide says, and what they fill.
#include <gmock/gmock.h>

#include <random>

#include "schedule/filled.h"
#include "schedule/step_time.h"
#include "test_support/scale.h"

namespace nest::schedule {
namespace {

PipelineSeconds of_stage(const Shape& shape, const PassSeconds& stage) {
  const auto v = static_cast<double>(shape.chunks);
  PipelineSeconds seconds;
  seconds.chunks.assign(static_cast<std::size_t>(shape.positions()),
                        {stage.forward_s / v, stage.input_s / v, stage.weight_s / v});
  return seconds;
}

// A pair of F 0.5 and B 1 in 1.2: the last stage has seven of them, 24 - 7 * 0.3 of work, and waits 3 (1.2 + 1 - 1.5).
TEST(Split, PairsThatHideAFifth) {
  const Shape shape{4, 2, 8};
  PipelineSeconds seconds = of_stage(shape, {1, 1, 1});
  seconds.hidden = 0.2;
  EXPECT_NEAR(play(Pipeline(Schedule::dualpipev, shape), seconds).total_s, 24.0, 1e-12);
}

// In units of a chunk's F, for eight stages: six per stage and micro-batch, 1F1B waits 7 * 6.
TEST(Split, WhatIsBuiltStepByStep) {
  const auto waits = [](Schedule kind, std::int64_t p, std::int64_t m) {
    const Shape shape{p, 2, m};
    return play(Pipeline(kind, shape), of_stage(shape, {2, 2, 2})).total_s - 6 * static_cast<double>(m);
  };
  EXPECT_NEAR(waits(Schedule::v_half, 8, 16), 29, 1e-9);
  EXPECT_NEAR(waits(Schedule::v_half, 8, 64), 29, 1e-9);
  EXPECT_NEAR(waits(Schedule::v_half, 4, 8), 8, 1e-9);
  EXPECT_NEAR(waits(Schedule::v_min, 8, 16), 50, 1e-9);  // more than 1F1B
  EXPECT_NEAR(waits(Schedule::zbv, 8, 16), 7, 1e-9);
}

// No stage waits for ever, whatever F, I and W take, and what is filled makes the closed form exact.
TEST(Split, EveryShapeRunsAndTheClosedFormIsExactForEqualStages) {
  std::mt19937_64 random(20261116);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  FilledShares filled;
  int seen[kScheduleWords.size()] = {};
  const auto cases = static_cast<int>(nest::test::scaled(4000, 1000));
  for (int k = 0; k < cases; ++k) {
    const Rule& rule = rules()[static_cast<std::size_t>(below(std::ssize(rules())))];
    const std::int64_t p = 1 + below(12), most = rule.is_v() ? 2 : rule.interleaves() ? 2 + below(3) : 1;
    const Shape shape{p, most, 1 + below(5 * p)};
    if (!refuse(rule, shape).empty() || !rule.is_split()) continue;
    ++seen[static_cast<std::size_t>(rule.kind)];
    const PassShares shares{static_cast<int>(120 + below(100)), static_cast<int>(100 + below(100))};
    const PassSeconds stage{shares.forward / 512.0, (512 - shares.forward - shares.weight) / 512.0,
                            shares.weight / 512.0};
    const PlayedPipeline played = play(Pipeline(rule, shape), of_stage(shape, stage));
    const double form = step_time(static_cast<double>(shape.micro_batches), static_cast<double>(shape.chunks), 1,
                                  static_cast<double>(p)) -
                        filled.of(rule.kind, shape, shares);
    ASSERT_NEAR(played.total_s, form, 1e-9) << to_string(rule.kind) << ": p " << p << ", m " << shape.micro_batches;
    ASSERT_GE(played.total_s, played.busiest_s - 1e-9);
    ASSERT_EQ(shares_of(stage), shares);
  }
  for (const Rule& rule : rules()) {
    if (rule.is_split()) {
      EXPECT_GT(seen[static_cast<std::size_t>(rule.kind)], cases / 40);
    }
  }
}

// More micro-batches never take less time: bounds of the search ask the fewest.
TEST(Split, OneMoreMicroBatchTakesLonger) {
  for (const Rule& rule : rules()) {
    if (!rule.is_split()) continue;
    for (const std::int64_t p : {2, 3, 4, 7, 8}) {
      for (const PassShares shares : {PassShares{171, 170}, PassShares{160, 140}, PassShares{190, 170}}) {
        double before = 0;
        for (std::int64_t m = 1; m <= 4 * p; ++m) {
          const Shape shape{p, rule.fewest_chunks, m};
          if (!refuse(rule, shape).empty()) continue;
          const auto fill = static_cast<double>(p - 1) / static_cast<double>(shape.chunks);
          const double time = static_cast<double>(m) + fill - filled_share(rule.kind, shape, shares);
          EXPECT_GE(time, before - 1e-9) << to_string(rule.kind) << ": p " << p << ", m " << m;
          before = time;
        }
      }
    }
  }
}

TEST(Split, FilledByHand) {
  const PassShares third{171, 170};
  const double f = 171 / 512.0, w = 170 / 512.0, i = 1 - f - w;
  EXPECT_NEAR(filled_share(Schedule::zb_h1, {4, 1, 8}, third), 3 - 3 * (f + i - w), 1e-12);
  EXPECT_NEAR(filled_share(Schedule::zbv, {4, 2, 8}, third), 1.5 - 1.5 * f, 1e-12);
  EXPECT_NEAR(filled_share(Schedule::dualpipev, {4, 2, 8}, third), 1.5 - 1.5 * (f + 2 * i - w), 1e-12);
  EXPECT_EQ(filled_share(Schedule::one_f_one_b, {4, 1, 8}, third), 0);
  EXPECT_EQ(filled_share(Schedule::interleaved, {4, 2, 8}, third), 0);
  EXPECT_EQ(filled_share(Schedule::zb_h1, {1, 1, 8}, third), 0);
}

}  // namespace
}  // namespace nest::schedule
