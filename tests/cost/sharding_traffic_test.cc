#include "cost/sharding_traffic.h"

#include <gtest/gtest.h>

#include "cost/tables.h"
#include "cost_support.h"

namespace nest::cost {
namespace {

// 10 dense and 6 expert parameters, 4 bytes of gradient and 2 of weight each. One byte takes 1 s (dense) and 10 s
// (expert) inside a sharding group, 100 s and 1000 s between the groups; no latencies.
//     scatter = 40 + 240 = 280    gather = 20 + 120 = 140    between = 4000 + 24000 = 28000
struct Prices {
  SyncRule rule;
  StageSums sums;
  ShardLines lines;
  Prices() {
    rule.gradient_bytes = 4;
    rule.weight_bytes = 2;
    sums.dense_parameters = 10;
    sums.expert_parameters = 6;
    lines.dense_shard = {0, 1};
    lines.expert_shard = {0, 10};
    lines.dense_replicate = {0, 100};
    lines.expert_replicate = {0, 1000};
  }
};

void expect_traffic(const Prices& prices, int zero, double micro_s, double reduce_s, double gather_s) {
  const StageTraffic traffic = stage_traffic(prices.rule, prices.sums, prices.lines, zero);
  EXPECT_DOUBLE_EQ(traffic.micro_s, micro_s) << "ZeRO " << zero;
  EXPECT_DOUBLE_EQ(traffic.reduce_s, reduce_s) << "ZeRO " << zero;
  EXPECT_DOUBLE_EQ(traffic.gather_s, gather_s) << "ZeRO " << zero;
}

TEST(ShardingTraffic, FollowsTheTable) {
  const Prices prices;
  expect_traffic(prices, 0, 0, 2 * 280 + 2 * 28000, 0);
  expect_traffic(prices, 1, 0, 280 + 2 * 28000, 140);
  expect_traffic(prices, 2, 280, 2 * 28000, 140);
  expect_traffic(prices, 3, 280 + 2 * 140, 2 * 28000, 0);
  // The hybrid scatters gradients between the groups and gathers 2 bytes of weight: 2000 + 12000.
  expect_traffic(prices, kHybridRow, 280 + 2 * 140, 28000, 14000);
}

TEST(ShardingTraffic, TheHybridDividesTheOptimizerOverAllReplicas) {
  ShardLines lines;
  lines.dense_degree = 8;
  lines.expert_degree = 2;
  lines.replicas = {64, 16};
  EXPECT_EQ(lines.updated(0).dense, 1);
  EXPECT_EQ(lines.updated(3).dense, 8);
  EXPECT_EQ(lines.updated(3).expert, 2);
  EXPECT_EQ(lines.updated(kHybridRow).dense, 64);
  EXPECT_EQ(lines.updated(kHybridRow).expert, 16);
  StagePlan stage;
  stage.zero_outer = true;
  EXPECT_EQ(sharding_row(stage), 0);
  stage.zero = 3;
  EXPECT_EQ(sharding_row(stage), kHybridRow);
}

// One byte of update takes 1 s: 32 bytes of 10/64 + 6/16 parameters, and the norm's of as many; 10/8 + 6/2 without.
TEST(ShardingTraffic, TheHybridUpdatesLess) {
  Prices prices;
  prices.rule.update = {32, 32};
  prices.lines.dense_degree = 8;
  prices.lines.expert_degree = 2;
  prices.lines.replicas = {64, 16};
  const auto seconds = [&](int row) {
    return state_cost(prices.rule, Strategy{}, prices.sums, prices.lines, row).optimizer_s;
  };
  EXPECT_DOUBLE_EQ(seconds(kHybridRow) / seconds(3), (10.0 / 64 + 6.0 / 16) / (10.0 / 8 + 6.0 / 2));
}

TEST(ShardingTraffic, SomeStacksReduceEverythingUnderZero1) {
  Prices prices;
  prices.rule.often = sharding_traffic(true);
  expect_traffic(prices, 1, 0, 2 * 280 + 2 * 28000, 140);
  expect_traffic(prices, 2, 280, 2 * 28000, 140);
}

// Gradients are exchanged once per step; weights too, unless they go after every forward (ZeRO 3).
TEST(ShardingTraffic, FsdpInAPipelineSumsGradientsFirst) {
  Prices prices;
  prices.rule.often = sharding_traffic(false, true);
  expect_traffic(prices, 1, 0, 280 + 2 * 28000, 140);
  expect_traffic(prices, 2, 0, 280 + 2 * 28000, 140);
  expect_traffic(prices, 3, 2 * 140, 280 + 2 * 28000, 0);
  const auto priced = [](const char* stack, std::int64_t pp, int zero) {
    return evaluate_even(test_job({.stack = stack, .devices = 16}), {.pp = pp, .dp = 16 / pp}, Recompute::none, zero)
        .prediction.breakdown_s;
  };
  EXPECT_GT(priced("fsdp2", 1, 3).zero, 0);
  EXPECT_EQ(priced("fsdp2", 1, 3).grad_sync, 0);
  EXPECT_EQ(priced("fsdp2", 2, 2).zero, 0);
  EXPECT_GT(priced("fsdp2", 2, 2).grad_sync, 0);
  EXPECT_GT(priced("fsdp2", 2, 3).zero, 0);
  EXPECT_GT(priced("fsdp2", 2, 3).grad_sync, 0);
  EXPECT_GT(priced("megatron-core", 2, 3).zero, 0);  // Megatron-FSDP gathers with every micro-batch
}

TEST(ShardingTraffic, TensorByTensorPaysALatencyEach) {
  Prices prices;
  prices.rule.per_tensor = true;
  prices.lines.dense_shard.latency_s = 0.5;
  prices.sums.tensors = 8;
  // gather = 0.5 + 20 + 120 + 8 · 0.5, scatter = 0.5 + 280; sharded weights are gathered block by block.
  expect_traffic(prices, 2, 280.5, 2 * 28000, 144.5);
  expect_traffic(prices, 3, 280.5 + 2 * 140.5, 2 * 28000, 0);
}

TEST(ShardingTraffic, EveryParameterIsReducedOnceAndKeptWhole) {
  // Whatever is divided: gradients are summed over all replicas once per step or micro-batch, and whoever computes with
  // divided weights gathers them first.
  for (int zero = 0; zero < 4; ++zero) {
    const ShardingTraffic often = sharding_traffic(false)[at(zero)];
    EXPECT_GE(often.backward_scatters + often.step_scatters, 1);
    EXPECT_EQ(often.between, 2);
    EXPECT_EQ(often.step_gathers + often.forward_gathers + (zero == 0 ? 1 : 0), 1);
    EXPECT_EQ(often.forward_gathers, often.backward_gathers);
  }
}

}  // namespace
}  // namespace nest::cost
