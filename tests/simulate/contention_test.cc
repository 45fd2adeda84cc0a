// Transfers that are slowed by others: where, by whom, when.
#include "simulate/contention.h"

#include <gmock/gmock.h>

#include "simulate/engine.h"
#include "simulation_check/random_plan.h"

namespace nest::simulate {
namespace {

using ::testing::ElementsAre;

// A link of 10 bytes/s. Messages of 20 bytes from stage 0 to 1 from 1 s on, gradients of 30 bytes of stage 0 from 2 s
// on: the message has moved 10 bytes at 2 s, then both run at 5: it ends at 4 s, 3 s instead of 2. The gradients have
// moved 10 bytes by then and end at 6 s, 4 s instead of 3. Weights of another link are alone.
LoweredPlan message_and_gradients() {
  LoweredPlan plan;
  plan.program.links = {{"uplink of node 0", 10, 4, 1}, {"uplink of node 1", 10, 1, 1}};
  plan.program.routes = {{{{0, 1}}, 1}, {{{1, 1}}, 1}};
  plan.program.activities = {
      {1, {}, {}}, {2, {}, {}}, {0, {{0, 0, 20}}, {0}}, {0, {{0, 0, 30}}, {1}}, {0, {{1, 0, 30}}, {1}}};
  plan.labels.resize(5);
  plan.labels[2].part = Part::message;
  plan.labels[2].from_stage = 0;
  plan.labels[2].stage = 1;
  plan.labels[3].part = Part::reduce;
  plan.labels[3].stage = 0;
  plan.labels[4].part = Part::gather;
  plan.labels[4].stage = 1;
  return plan;
}

TEST(Contention, ByHand) {
  const LoweredPlan plan = message_and_gradients();
  const std::vector<SlowedTransfers> slowed = slowed_transfers(plan, execute(plan.program));
  ASSERT_EQ(slowed.size(), 2U);
  EXPECT_EQ(slowed[0].what, "messages from stage 0 to stage 1");
  EXPECT_EQ(slowed[0].link, "uplink of node 0");
  EXPECT_EQ(slowed[0].alike, 4);
  EXPECT_EQ(slowed[0].count, 1);
  EXPECT_DOUBLE_EQ(slowed[0].taken_s, 3);
  EXPECT_DOUBLE_EQ(slowed[0].alone_s, 2);
  EXPECT_DOUBLE_EQ(slowed[0].begin_s, 1);
  EXPECT_DOUBLE_EQ(slowed[0].end_s, 4);
  EXPECT_THAT(slowed[0].beside, ElementsAre("gradients of stage 0"));
  EXPECT_EQ(slowed[1].what, "gradients of stage 0");
  EXPECT_DOUBLE_EQ(slowed[1].lost_s(), 1);
  EXPECT_THAT(slowed[1].beside, ElementsAre("messages from stage 0 to stage 1"));
  EXPECT_EQ(
      to_text(slowed[0], 6),
      "messages from stage 0 to stage 1 take 1.50 times as long as alone (1.00 s of 3.00 s lost), on uplink of node "
      "0 (and 3 like it) beside gradients of stage 0, 16.7 % to 66.7 % of the step");
}

// Two flows of one transfer on one link are not others to each other: 0.5 s and 50 bytes at 10 bytes/s.
TEST(Contention, OwnFlowsAreNoOthers) {
  LoweredPlan plan = message_and_gradients();
  plan.program.activities[2].flows = {{0, 0.5, 20}, {0, 0.5, 30}};
  EXPECT_DOUBLE_EQ(alone_seconds(plan.program, plan.program.activities[2]), 5.5);
  plan.program.activities[3].flows.front().bytes = 0;
  EXPECT_TRUE(slowed_transfers(plan, execute(plan.program)).empty());
}

// No transfer is faster than alone, whatever the plan.
TEST(Contention, NothingIsFasterThanAlone) {
  std::size_t contended = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const RandomPlan plan = random_plan(seed, DrawnFrom::slow);
    const LoweredPlan lowered = lower_plan(plan.job, plan.strategy, plan.stages);
    const Timeline timeline = execute(lowered.program);
    for (std::size_t i = 0; i < lowered.labels.size(); ++i) {
      const SimulatedActivity& activity = lowered.program.activities[i];
      if (activity.flows.empty()) continue;
      ASSERT_GE((timeline.end_s[i] - timeline.start_s[i]) * (1 + 1e-9) + 1e-12,
                alone_seconds(lowered.program, activity))
          << "seed " << seed;
    }
    const std::vector<SlowedTransfers> slowed = slowed_transfers(lowered, timeline);
    contended += slowed.empty() ? 0 : 1;
    for (const SlowedTransfers& one : slowed) {
      EXPECT_GT(one.taken_s, one.alone_s);
      EXPECT_LE(one.end_s, timeline.total_s);
      EXPECT_FALSE(one.link.empty());
    }
  }
  EXPECT_GE(contended, 10U);
}

}  // namespace
}  // namespace nest::simulate
