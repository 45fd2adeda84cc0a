#include "cost/messages.h"

#include <gmock/gmock.h>

#include "cost_support.h"

namespace nest::cost {
namespace {

// Two stages in two nodes; of 2 chunks, whose mean stage takes 2 x 0.010 s forward.
MessageLines plain_lines(double hop_s, double wrap_s) { return {{{hop_s, 0}}, {wrap_s, 0}}; }

Strategy two_chunks() { return strategy_of({.tp = 8, .pp = 2, .virtual_stages = 2, .sp = true}); }

Job sending(bool overlapped, bool forward_blocks, bool flush) {
  Job job = test_job({.devices = 16});
  job.stack.pipeline_overlap = overlapped;
  job.stack.forward_sends_block = forward_blocks;
  job.stack.flush_overlap = flush;
  return job;
}

TEST(MessageRule, WithoutOverlapAllIsWaitedFor) {
  const Job job = sending(false, true, false);
  const MessageRule rule(job, two_chunks(), 0.020);
  EXPECT_EQ(rule.exposed_s(0.003), 0.003);
  EXPECT_EQ(rule.least_share(), 1);
  EXPECT_EQ(rule.fill_s(plain_lines(0.003, 0.003), 1, 1), 0);
  Strategy one_chunk = two_chunks();
  one_chunk.virtual_stages = 1;
  one_chunk.schedule = Schedule::one_f_one_b;
  EXPECT_EQ(MessageRule(sending(true, false, true), one_chunk, 0.020).exposed_s(0.003), 0.003);
}

TEST(MessageRule, OverlappedMessagesHideBehindAForwardPass) {
  const MessageRule rule(sending(true, false, false), two_chunks(), 0.020);
  EXPECT_EQ(rule.exposed_s(0.003), 0);
  EXPECT_DOUBLE_EQ(rule.exposed_s(0.014), 0.004);
  EXPECT_EQ(rule.least_share(), 0);
  // One boundary, there and back, and 1 x 2 messages from the last stage to the first, there and back.
  EXPECT_DOUBLE_EQ(rule.fill_s(plain_lines(0.003, 0.005), 1, 1), 2 * 0.003 + 2 * 2 * 0.005);
  // 0.010 of 0.014 s are hidden in a full pipeline.
  EXPECT_DOUBLE_EQ(rule.fill_s(plain_lines(0.014, 0), 1, 1), 2 * 0.010);
  EXPECT_DOUBLE_EQ(MessageRule(sending(true, false, true), two_chunks(), 0.020).fill_s(plain_lines(0.003, 0.005), 1, 1),
                   2 * 0.003);
}

TEST(MessageRule, ForwardSendsBlock) {
  const MessageRule rule(sending(true, true, false), two_chunks(), 0.020);
  EXPECT_DOUBLE_EQ(rule.exposed_s(0.003), 0.0015);
  EXPECT_DOUBLE_EQ(rule.exposed_s(0.014), 0.007);
  EXPECT_EQ(rule.least_share(), 0.5);
  EXPECT_DOUBLE_EQ(rule.fill_s(plain_lines(0.003, 0.005), 1, 1), 0.003 + 2 * 0.005);
}

// By the least law the sender of a forward message alone waits, if anybody does. Ways of the pipeline have whole messages: two
// chunks over one boundary of 3 ms and back over the wrap-around of 5 ms, of which t_s has the forward ones where they block.
TEST(MessageRule, LeastTheSenderWaitsOrNobody) {
  Job job = sending(true, true, false);
  job.law = schedule::Law::least;
  const MessageRule blocking(job, two_chunks(), 0.020);
  EXPECT_EQ(blocking.exposed_s(0.014), 0);
  EXPECT_EQ(blocking.sender_s(0.014), 0.014);
  EXPECT_EQ(blocking.least_share(), 0.5);
  EXPECT_EQ(blocking.fill_s(plain_lines(0.003, 0.005), 1, 1), 0);
  schedule::StepForm form;
  blocking.add_ways(plain_lines(0.003, 0.005), 1, 1, 1, form);
  EXPECT_DOUBLE_EQ(form.way_s, 2 * 0.003 + 0.005);
  EXPECT_DOUBLE_EQ(form.end_s, 0.003 - 0.005 / 2);
  EXPECT_DOUBLE_EQ(form.waits_s, 2 * 0.003);

  job = sending(true, false, false);
  job.law = schedule::Law::least;
  const MessageRule free(job, two_chunks(), 0.020);
  EXPECT_EQ(free.sender_s(0.014), 0);
  EXPECT_EQ(free.least_share(), 0);
  free.add_ways(plain_lines(0.003, 0.005), 1, 1, 1, form);
  EXPECT_DOUBLE_EQ(form.way_s, 2 * (2 * 0.003 + 0.005));
  EXPECT_DOUBLE_EQ(form.end_s, 2 * 0.003);
  EXPECT_EQ(form.waits_s, 0);
}

// d = 0.002 s of each of m micro-batches; backward passes of 0.100 s, 4 stages of 2 chunks: the drain takes 0.150 s.
TEST(HeadCost, WaitsForTheDrainOrNot) {
  StageSums sums;
  sums.deferred_s = 0.002;
  sums.backward_s = 0.100;
  Strategy strategy = strategy_of({.tp = 8, .pp = 4, .virtual_stages = 2, .sp = true});
  const auto cost_of = [&](std::int64_t batch, double drain_again_s) {
    return head_cost(test_job({.devices = 32, .batch = batch}), strategy, sums, drain_again_s);
  };
  EXPECT_EQ(cost_of(16, 0).micro_s, 0);  // all 16 wait
  EXPECT_EQ(cost_of(16, 0).step_s, 0);   // 0.032 s hide behind 0.150
  EXPECT_DOUBLE_EQ(cost_of(88, 0).micro_s, 0.002 * 66 / 88);
  EXPECT_EQ(cost_of(88, 0).step_s, 0);
  sums.backward_s = 0.010;  // a drain of 0.015 s, or of 0.030 with as much recomputation
  EXPECT_DOUBLE_EQ(cost_of(88, 0).step_s, 22 * 0.002 - 0.015);
  EXPECT_DOUBLE_EQ(cost_of(88, 0.010).step_s, 22 * 0.002 - 0.030);
  strategy.defer_head = false;
  EXPECT_DOUBLE_EQ(cost_of(88, 0).micro_s, 0.002);
  EXPECT_EQ(cost_of(88, 0).step_s, 0);
}

TEST(HeadCost, TheFasterWayIsTaken) {
  int deferred = 0;
  for (const std::int64_t batch : {16, 64, 512}) {
    for (const std::int64_t pp : {2, 4}) {
      const Job job = test_job({.devices = 8 * pp, .batch = batch});
      Strategy strategy = strategy_of({.tp = 8, .pp = pp, .sp = true});
      const auto stages = even_stages(job, strategy, Recompute::none, 1, 0);
      const double in_drain_s = evaluate(job, strategy, stages).prediction.iteration_s;
      strategy.defer_head = false;
      const double at_once_s = evaluate(job, strategy, stages).prediction.iteration_s;
      const Plan best = evaluate_deferring(job, strategy, stages);
      EXPECT_EQ(best.prediction.iteration_s, std::min(in_drain_s, at_once_s));
      EXPECT_EQ(best.strategy.defer_head, in_drain_s <= at_once_s);
      EXPECT_FALSE(evaluate_deferring(job, strategy, stages, {true, false}).strategy.defer_head);
      EXPECT_TRUE(evaluate_deferring(job, strategy, stages, {false, true}).strategy.defer_head);
      deferred += best.strategy.defer_head ? 1 : 0;
    }
  }
  EXPECT_GT(deferred, 0);
}

}  // namespace
}  // namespace nest::cost
