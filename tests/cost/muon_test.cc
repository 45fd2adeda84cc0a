// Newton–Schulz by hand, and whole matrices dealt out to ranks.
#include "cost/muon.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/index.h"
#include "cost/rates.h"
#include "cost/tables.h"
#include "cost_support.h"
#include "memory_support.h"

namespace nest::cost {
namespace {

TEST(Muon, FiveStepsOfNewtonSchulz) {
  EXPECT_NEAR(newton_schulz_flops(4096, 14336), 5.50e12, 0.005e12);
  EXPECT_DOUBLE_EQ(newton_schulz_flops(4096, 14336), newton_schulz_flops(14336, 4096));
  EXPECT_DOUBLE_EQ(newton_schulz_flops(2, 3), 5 * (4 * 4 * 3 + 2 * 8));
}

TEST(Muon, WholeMatricesGoToTheEmptiestRank) {
  EXPECT_DOUBLE_EQ(fullest_bin({{5, 1}, {3, 2}}, 1), 11);
  EXPECT_DOUBLE_EQ(fullest_bin({{5, 1}, {3, 2}}, 4), 5);          // a rank each, one has none
  EXPECT_DOUBLE_EQ(fullest_bin({{5, 1}, {3, 2}}, 2), 6);          // 5 | 3 3
  EXPECT_DOUBLE_EQ(fullest_bin({{3, 7}}, 3), 9);                  // 3 | 2 | 2
  EXPECT_DOUBLE_EQ(fullest_bin({{10, 1}, {1, 25}}, 3), 12);       // 10 1 | 12 | 12
  EXPECT_DOUBLE_EQ(fullest_bin({{4, 1}, {3, 1}, {2, 3}}, 2), 7);  // 4 2 | 3 2 2
  EXPECT_DOUBLE_EQ(fullest_bin({}, 8), 0);
}

// Dealt out in rounds as one by one.
TEST(Muon, RoundsAreShortcuts) {
  const std::vector<Pieces> pieces = {{7, 5}, {4, 11}, {3, 40}, {1, 17}};
  for (std::int64_t ranks = 1; ranks < 80; ++ranks) {
    std::vector<double> bins(at(ranks), 0);
    for (const Pieces& piece : pieces) {
      for (std::int64_t i = 0; i < piece.count; ++i) *std::min_element(bins.begin(), bins.end()) += piece.size;
    }
    EXPECT_DOUBLE_EQ(fullest_bin(pieces, ranks), *std::max_element(bins.begin(), bins.end())) << ranks;
  }
}

test::Shape two_blocks() {
  return {.layers = 2,
          .hidden = 1024,
          .heads = 8,
          .kv_heads = 2,
          .head_dim = 128,
          .ffn = 4096,
          .vocabulary = 1024,
          .sequence = 512};
}

Job timed_job(const test::Shape& shape, Optimizer optimizer) {
  Run run;
  run.global_batch = 8;
  run.sequence = shape.sequence;
  run.optimizer = optimizer;
  return make_job(test::architecture_of(shape), run, SoftwareStack{}, rail_cluster("h100", 8));
}

// q and o 1024 x 1024, k and v 256 x 1024, gate and up 8192 x 1024, down 1024 x 4096.
TEST(Muon, MatricesOfABlock) {
  const Job job = timed_job(two_blocks(), Optimizer::muon);
  const auto flops = [](double a, double b) { return newton_schulz_flops(a, b); };
  const double block = 2 * flops(1024, 1024) + 2 * flops(256, 1024) + flops(8192, 1024) + flops(1024, 4096);
  const double rate = sustained_rates(job.cluster.device, Precision::bf16, job.stack).matrix16_flops_per_s;
  const int last = static_cast<int>(job.model.layers.size()) - 1;
  for (const std::int64_t tp : {1, 2}) {  // every rank repeats the whole work
    Split split;
    split.tp = tp;
    const MatrixTable table(job, split);
    EXPECT_NEAR(table.seconds(0, last, 1, 1), 2 * block / rate, 1e-9 * block / rate);
    EXPECT_NEAR(table.seconds(0, last, 2, 1), block / rate, 1e-9 * block / rate);
    EXPECT_NEAR(table.seconds(0, last, 64, 1), flops(8192, 1024) / rate, 1e-9 * block / rate);
    EXPECT_EQ(table.seconds(0, 0, 1, 1), 0);  // the token table is Adam's
    EXPECT_EQ(table.rest_parameters(0, last), real(2 * 1024 * 1024 / tp + 5 * 1024));
  }
}

TEST(Muon, ExpertsAreMatricesOfTheirOwn) {
  test::Shape shape = two_blocks();
  shape.experts = 16;
  shape.top_k = 2;
  shape.expert_ffn = 512;
  const Job job = timed_job(shape, Optimizer::muon);
  const double rate = sustained_rates(job.cluster.device, Precision::bf16, job.stack).matrix16_flops_per_s;
  const double expert = newton_schulz_flops(1024, 1024) + newton_schulz_flops(1024, 512);
  Split split;
  split.ep = 4;
  const MatrixTable table(job, split);
  // Four experts of each of two blocks on two ranks or on one; dense matrices on very many ranks: the largest.
  const double dense = newton_schulz_flops(1024, 1024) / rate;
  EXPECT_NEAR(table.seconds(1, 2, 64, 1) - dense, 8 * expert / rate, 1e-9);
  EXPECT_NEAR(table.seconds(1, 2, 64, 2) - dense, 4 * expert / rate, 1e-9);
}

// The step takes longer by the products of the busiest rank, and moves other bytes.
TEST(Muon, IsPartOfTheStep) {
  const auto optimizer_s = [](Optimizer optimizer, int zero) {
    const Job job = timed_job(two_blocks(), optimizer);
    const Strategy strategy = strategy_of({.dp = 2});
    const PriceTable table = price_table(job, strategy.split, 1);
    const int last = static_cast<int>(job.model.layers.size()) - 1;
    const StageSums sums = sum_stage(job, table, 0, last, 1);
    const SyncRule rule = sync_rule(job, 1);
    return state_cost(rule, strategy, sums, sync_lines(job, strategy, table, zero, 0), zero).optimizer_s;
  };
  const Job job = timed_job(two_blocks(), Optimizer::muon);
  const MatrixTable table(job, Split{});
  const double memory = sustained_rates(job.cluster.device, Precision::bf16, job.stack).memory_bytes_per_s;
  // 30 bytes of Adam's become 26 for the matrices of two blocks.
  const double matrices = 2 * (2 * 1024.0 * 1024 + 2 * 256 * 1024 + 3 * 4096 * 1024.0);
  EXPECT_NEAR(optimizer_s(Optimizer::muon, 0) - optimizer_s(Optimizer::adam, 0),
              table.seconds(0, 3, 1, 1) - 4 * matrices / memory, 1e-9);
  EXPECT_NEAR(optimizer_s(Optimizer::muon, 1) - optimizer_s(Optimizer::adam, 1),
              table.seconds(0, 3, 2, 1) - 4 * matrices / 2 / memory, 1e-9);
}

}  // namespace
}  // namespace nest::cost
