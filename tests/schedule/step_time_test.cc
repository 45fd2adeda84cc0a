// What a step takes at least, against hand-computed cases and the longest path through the orders.
#include "schedule/step_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "schedule/pipeline.h"

namespace nest::schedule {
namespace {

struct Stages {
  std::vector<double> forward_s, backward_s;

  std::size_t count() const { return forward_s.size(); }
  double stage_s(std::size_t s) const { return forward_s[s] + backward_s[s]; }
  double slowest_s() const {
    double most = 0;
    for (std::size_t s = 0; s < count(); ++s) most = std::max(most, stage_s(s));
    return most;
  }
  double sum_s() const {
    double sum = 0;
    for (std::size_t s = 0; s < count(); ++s) sum += stage_s(s);
    return sum;
  }
};

StepForm least_of(const Stages& stages, double micro_batches, double chunks = 1) {
  StepForm form;
  form.law = Law::least;
  form.micro_batches = micro_batches;
  form.chunks = chunks;
  form.stages = static_cast<double>(stages.count());
  return form;
}

double played_s(Schedule kind, const Stages& stages, std::int64_t micro_batches, std::int64_t chunks) {
  const Shape shape{static_cast<std::int64_t>(stages.count()), chunks, micro_batches};
  const Pipeline pipeline(kind, shape);
  PipelineSeconds seconds;
  const auto v = static_cast<double>(chunks);
  for (std::int64_t k = 0; k < shape.positions(); ++k) {
    const auto s = static_cast<std::size_t>(pipeline.place(k).stage);
    const double half = stages.backward_s[s] / 2 / v;
    seconds.chunks.push_back({stages.forward_s[s] / v, half, half});
  }
  return play(pipeline, seconds).total_s;
}

// (m - p - 1) tau + 2 S, and what 1F1B takes.
TEST(StepForm, LeastOfOneForwardOneBackward) {
  struct LeastCase {
    Stages stages;
    std::int64_t micro_batches;
    double least_s, played_s;
  };
  const LeastCase cases[] = {
      {{{1, 1, 1, 1}, {2, 2, 2, 2}}, 8, 33, 33},
      {{{1.5, 1, 1, 1}, {3, 2, 2, 2}}, 8, 40.5, 40.5},
      {{{1, 1, 1, 1.5}, {2, 2, 2, 3}}, 8, 40.5, 45},
      {{{1, 1.5, 1, 1}, {2, 3, 2, 2}}, 8, 40.5, 42},
      {{{1, 1, 1, 1, 1, 1, 1, 1.2}, {2, 2, 2, 2, 2, 2, 2, 2.6}}, 16, 76.2, 81.8},
      {{{1.2, 1, 1, 1, 1, 1, 1, 1}, {2.4, 2, 2, 2, 2, 2, 2, 2}}, 16, 74.4, 74.4},
      {{{1, 1.3, 1.1, 1.3, 1.3, 1.1}, {2, 2.3, 2.1, 2.3, 2.3, 2.1}}, 12, 58.4, 59.4},
      {{{1.5, 1, 1, 1}, {3, 2, 2, 2}}, 3, 13.5, 19.5},  // m <= p: three slots of the first, or one micro-batch's way
  };
  for (const LeastCase& one : cases) {
    const StepForm form = least_of(one.stages, static_cast<double>(one.micro_batches));
    EXPECT_NEAR(form.value(one.stages.slowest_s(), one.stages.sum_s()), one.least_s, 1e-9);
    EXPECT_NEAR(played_s(Schedule::one_f_one_b, one.stages, one.micro_batches, 1), one.played_s, 1e-9);
  }
}

// Stages of 3, whose gradients take 5 and 6, on one uplink: 10 slots less 4, twice the second stage and once the first, 11
// more: 18 + 12 + 3 + 11; with the first stage's alone, 18 + 18 + 5.
TEST(StepForm, GradientsOfTheFirstStagesLeaveThroughOneUplink) {
  StepForm form = least_of({{1, 1, 1}, {2, 2, 2}}, 10);
  const auto sum_s = [&] {
    return 3 * (form.share_of_passes(0) + form.share_of_passes(1) + form.share_of_passes(2)) +
           5 * form.share_of_rest(0) + 6 * form.share_of_rest(1);
  };
  EXPECT_DOUBLE_EQ(form.value(3, sum_s()), 41);
  form.together = 2;
  EXPECT_DOUBLE_EQ(form.value(3, sum_s()), 44);
  form.micro_batches = 2;  // the way of one from the second stage on, and both exchanges
  EXPECT_DOUBLE_EQ(form.value(3, sum_s()), 6 + 11);
  form.split = true;  // weight gradients are on nobody's way
  EXPECT_DOUBLE_EQ(form.value(4, 100), 8);
}

// Four equal stages of 3 with two chunks, whose passes take 1 and 2. Of 8 micro-batches one chunk goes there and back in place
// of six forwards of one: 24 + 9 / 2 - 6 / 2; of 4, in place of three.
TEST(StepForm, LeastOfChunksInTurns) {
  const Stages stages{{1, 1, 1, 1}, {2, 2, 2, 2}};
  StepForm form = least_of(stages, 8, 2);
  EXPECT_DOUBLE_EQ(form.value(3, 12), 24);
  form.in_turns = true;
  form.back_share = 2.0 / 3;
  EXPECT_DOUBLE_EQ(form.value(3, 12), 25.5);
  EXPECT_DOUBLE_EQ(played_s(Schedule::interleaved, stages, 8, 2), 28.5);
  form.micro_batches = 4;
  EXPECT_DOUBLE_EQ(form.value(3, 12), 15);
  EXPECT_DOUBLE_EQ(played_s(Schedule::interleaved, stages, 4, 2), 16.5);
}

// 10 micro-batches through 3 and 4: 7 slots of 4 and twice the way, 42; 1 less where the first and the last are shorter
// than the mean, and the slowest stage's 40 at least.
TEST(StepForm, TheFirstAndTheLastMayBeShorterThanTheMean) {
  StepForm form = least_of({{1, 1}, {2, 3}}, 10);
  EXPECT_DOUBLE_EQ(form.value(4, 7), 42);
  form.short_s = 1;
  EXPECT_DOUBLE_EQ(form.value(4, 7), 41);
  EXPECT_NEAR(form.slowest_within(7, 41, 0), 4, 1e-12);
  form.short_s = 3;
  EXPECT_DOUBLE_EQ(form.value(4, 7), 40);
}

TEST(StepForm, NoOrderTakesLess) {
  std::mt19937_64 random(7);
  const auto upto = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  int exact = 0;
  for (int k = 0; k < 3000; ++k) {
    const std::int64_t p = 1 + upto(7), v = upto(3);
    const bool turns = v > 1;
    const std::int64_t m = turns ? p * upto(4) : upto(20);
    Stages stages;
    for (std::int64_t s = 0; s < p; ++s) {
      const double time = 1 + static_cast<double>(upto(100)) / 100;
      stages.forward_s.push_back(time);
      stages.backward_s.push_back(time * (1 + static_cast<double>(upto(200)) / 100));
    }
    const Schedule kind = turns ? Schedule::interleaved : k % 5 == 0 ? Schedule::gpipe : Schedule::one_f_one_b;
    StepForm form = least_of(stages, static_cast<double>(m), static_cast<double>(v));
    form.in_turns = turns;
    form.back_share = 1;
    for (std::int64_t s = 0; s < p; ++s) {
      const auto at = static_cast<std::size_t>(s);
      form.back_share = std::min(form.back_share, stages.backward_s[at] / stages.stage_s(at));
    }
    const double least = form.value(stages.slowest_s(), stages.sum_s());
    const double played = played_s(kind, stages, m, v);
    ASSERT_LE(least, played * (1 + 1e-12)) << "case " << k << ": p " << p << ", v " << v << ", m " << m;
    exact += least > played * (1 - 1e-9) ? 1 : 0;
  }
  EXPECT_GT(exact, 30);  // two stages of which the first is the slowest, one micro-batch
}

// Both ways round.
TEST(StepForm, CapsAreTheLargestWithinALimit) {
  const Stages stages{{1, 1.5, 1}, {2, 3, 2}};
  for (const double m : {2.0, 4.0, 9.0}) {
    StepForm form = least_of(stages, m);
    for (const double share : {0.0, 0.5}) {
      form.back_share = share;
      const double limit = form.low(5, 9), cap = form.slowest_within(9, limit, 0);
      EXPECT_GE(cap, 5 * (1 - 1e-12));
      EXPECT_NEAR(form.low(cap, 9), limit, 1e-9);
      EXPECT_LT(form.slowest_within(1000, limit, 0), 0);
    }
  }
}

}  // namespace
}  // namespace nest::schedule
