#include "instance/evaluate.h"

#include <gtest/gtest.h>

#include "example.h"

namespace nest::test {
namespace {

TEST(Evaluate, ThreeStages) {
  const instance::ProfileEvaluation e = instance::evaluate_profile_plan(example(), {1, 2, {0, 1, 2}});
  ASSERT_TRUE(e.valid());
  ASSERT_EQ(e.stages.size(), 3U);
  // Device 2 to 1 crosses level 1, device 1 to 0 stays in level 0.
  EXPECT_EQ(e.stages[0].in_level, 0);
  EXPECT_EQ(e.stages[0].out_level, 1);
  EXPECT_EQ(e.stages[1].in_level, 1);
  EXPECT_EQ(e.stages[1].out_level, 0);
  EXPECT_EQ(e.stages[2].in_level, 0);
  EXPECT_EQ(e.stages[2].out_level, 0);
  EXPECT_EQ(e.stages[0].forward_s, 4);
  EXPECT_EQ(e.stages[0].backward_s, 27);  // hop_1(40) = 20, + 7
  EXPECT_EQ(e.stages[1].forward_s, 17);   // hop_1(20) = 12, + 5
  EXPECT_EQ(e.stages[1].backward_s, 12);  // hop_0(30) = 4, + 8
  EXPECT_EQ(e.stages[2].forward_s, 11);   // hop_0(40) = 5, + 6
  EXPECT_EQ(e.stages[2].backward_s, 9);
  EXPECT_EQ(e.max_load_s, 31);              // 4 + 27
  EXPECT_EQ(e.sync_s, 25);                  // (1 + 40/10) + 2 (2 + 40/5): replicas at 0 and 3
  EXPECT_EQ(e.objective_s, 180);            // 31 * (ceil(5/2) + 3 - 1) + 25
  EXPECT_EQ(e.stages[0].memory_bytes, 89);  // 2*40 + 3 + 2*3
  EXPECT_EQ(e.stages[1].memory_bytes, 12);  // 2*2 + 4 + 1*4
  EXPECT_EQ(e.stages[2].memory_bytes, 5);
}

TEST(Evaluate, Recomputation) {
  instance::ProfileInstance instance = example();
  instance.recompute = true;
  const instance::ProfileEvaluation e = instance::evaluate_profile_plan(instance, {1, 2, {0, 1, 2}});
  ASSERT_TRUE(e.valid());
  EXPECT_EQ(e.stages[0].backward_s, 27);    // max(7, 20) + 7
  EXPECT_EQ(e.stages[1].backward_s, 16);    // max(8, 4) + 8
  EXPECT_EQ(e.stages[2].backward_s, 9);     // the last stage recomputes nothing
  EXPECT_EQ(e.objective_s, 190);            // 33 * 5 + 25
  EXPECT_EQ(e.stages[0].memory_bytes, 83);  // 2*40 + 3, nothing enters
  EXPECT_EQ(e.stages[1].memory_bytes, 28);  // 2*2 + 4 + 1*20
  EXPECT_EQ(e.stages[2].memory_bytes, 5);
}

TEST(Evaluate, SynchronisationOverThreeLevels) {
  instance::ProfileInstance instance = example();
  instance.micro_batches = 8;
  instance.graphs[0].nodes[1].parameter_bytes = 0;
  const instance::ProfileEvaluation e = instance::evaluate_profile_plan(instance, {1, 8, {0}});
  ASSERT_TRUE(e.valid());
  // (1+4) + (1+2) + (1+1) = 10; + 2 (2 + 40/5) = 30; + 2 (3 + 40/20) + 30 = 70
  EXPECT_EQ(e.sync_s, 70);
  EXPECT_EQ(e.objective_s, 109);  // (4+5+6 + 7+8+9) * 1 + 70
}

TEST(Evaluate, AdamKeepsSixMoreBytesPerParameterByte) {
  instance::ProfileInstance instance = example();
  instance.optimizer = instance::ProfileOptimizer::adam;
  const instance::ProfileEvaluation e = instance::evaluate_profile_plan(instance, {1, 1, {0, 1}});
  EXPECT_EQ(e.stages[0].memory_bytes, 326);  // 8*40 + 3 + 1*3
  EXPECT_EQ(e.stages[1].memory_bytes, 25);   // 8*2 + 9
}

TEST(Evaluate, DegreesWidenStages) {
  instance::ProfileInstance instance = example();
  instance.expert_degree = 2;
  instance.context_degree = 2;
  const instance::ProfileEvaluation e =
      instance::evaluate_profile_plan(instance, {1, 1, {0, 1}});  // devices 4 … 7, then 0 … 3
  ASSERT_TRUE(e.valid());
  EXPECT_EQ(e.stages[1].in_level, 2);
  EXPECT_EQ(e.stages[1].forward_s, 28);  // node 1 ends at hop_2(20) + 5 = 19; node 2 waits for hop_2(40) = 22, + 6
}

TEST(Evaluate, NamesEveryViolation) {
  const auto violations = [](const instance::ProfilePlan& plan, std::int64_t memory) {
    instance::ProfileInstance instance = example();
    instance.device_memory_bytes = memory;
    return instance::evaluate_profile_plan(instance, plan).violations;
  };
  using V = std::vector<instance::ProfileViolation>;
  EXPECT_EQ(violations({2, 1, {0}}, 1000), V{instance::ProfileViolation::unknown_width});
  for (const std::vector<int>& cuts : {std::vector<int>{}, {1}, {0, 0}, {0, 2, 1}, {0, 3}, {-1, 1}}) {
    EXPECT_EQ(violations({1, 1, cuts}, 1000), V{instance::ProfileViolation::bad_cuts});
  }
  EXPECT_EQ(violations({1, 0, {0}}, 1000), V{instance::ProfileViolation::bad_replicas});
  EXPECT_EQ(violations({1, 6, {0}}, 1000), V{instance::ProfileViolation::bad_replicas});  // 5 micro-batches
  EXPECT_EQ(violations({1, 4, {0, 1, 2}}, 1000), V{instance::ProfileViolation::too_many_devices});
  EXPECT_EQ(violations({1, 2, {0, 1, 2}}, 88), V{instance::ProfileViolation::memory});
  EXPECT_EQ(violations({1, 2, {0, 1, 2}}, 89), V{});
}

}  // namespace
}  // namespace nest::test
