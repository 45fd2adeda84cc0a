// The formulas against values worked out by hand, on a device with round numbers.
#include "calibrate/burst.h"

#include <gtest/gtest.h>

namespace nest::calibrate {
namespace {

using C = BurstConstant;

// 100 TFLOP/s on 10 multiprocessors, 1 TB/s.
cluster::Device round_device() {
  cluster::Device device;
  device.name = "round";
  device.peak_flops_per_s[static_cast<std::size_t>(Precision::bf16)] = 100e12;
  device.peak_flops_per_s[static_cast<std::size_t>(Precision::fp8)] = 200e12;
  device.memory_bytes = std::int64_t{1} << 36;
  device.memory_bytes_per_s = 1e12;
  device.multiprocessors = 10;
  return device;
}

BurstConstants round_constants() {
  BurstConstants c = burst_constants(round_device());
  c[C::memory] = 0.5;
  c[C::cache] = 2;
  c[C::gap_us] = 4;
  c[C::gemm] = 0.8;
  c[C::k_ramp] = 100;
  c[C::small_tile] = 0.5;  // so slow that the largest tile wins wherever it fits
  c[C::throttle] = 0.2;
  c[C::throttle_ms] = 60;
  c[C::host_call_us] = 15;
  c[C::launch_row_us] = 7;
  c[C::launch_gemm_us] = 10;
  c[C::attention_forward] = 0.5;
  c[C::softmax_share_forward] = 0.4;
  c[C::tile_overhead] = 1;
  c[C::tail] = 0.5;
  return c;
}

constexpr Protocol kQueued{.queued = true, .repetitions = 20};
constexpr Protocol kLatency{.queued = false, .repetitions = 20};

TEST(Burst, GemmCountsWaves) {
  const cluster::Device device = round_device();
  const BurstModel model(device, round_constants());
  // 128 x 256 tiles: 8 x 4 = 32 on 10 units: 4 waves of 2 * 128 * 256 * (900 + 100) FLOP at 8 TFLOP/s each.
  const double wave = 2.0 * 128 * 256 * 1000 / (100e12 / 10 * 0.8);
  EXPECT_NEAR(model.cool_gemm({.m = 1024, .n = 1024, .k = 900}), 4e-6 + 4 * wave, 1e-12);
  // One tile more than 40 starts a fifth wave: 41 tiles of 128 rows, one column of 256.
  EXPECT_NEAR(model.cool_gemm({.m = 41 * 128, .n = 256, .k = 900}), 4e-6 + 5 * wave, 1e-12);
}

TEST(Burst, GemmIsBoundedByMemory) {
  cluster::Device device = round_device();
  device.memory_bytes_per_s = 1e11;
  const BurstModel model(device, round_constants());
  // A product with one row reads its 8192 x 8192 weights: 2 (m k + k n + m n) bytes at half of 0.1 TB/s.
  const double bytes = 2.0 * (8192 + 8192.0 * 8192 + 8192);
  EXPECT_NEAR(model.cool_gemm({.m = 1, .n = 8192, .k = 8192}), 4e-6 + bytes / 0.5e11, 1e-9);
}

TEST(Burst, RowwiseIsPassesOverMemory) {
  const cluster::Device device = round_device();
  const BurstModel model(device, round_constants());
  const RowwiseShape large{RowwiseOperator::add, 8192, 8192};
  const double device_s = 4e-6 + 3 * 8192.0 * 8192 * 2 / 0.5e12;
  EXPECT_NEAR(model.rowwise(large, kQueued), device_s, 1e-12);
  EXPECT_NEAR(model.rowwise(large, kLatency), device_s + 7e-6, 1e-12);
  // Small operands stay in the cache, and an idle device waits for the host: 1.4 calls of 15 us for an addition.
  const RowwiseShape small{RowwiseOperator::add, 64, 1024};
  EXPECT_NEAR(model.rowwise(small, kQueued), 4e-6 + 3 * 64.0 * 1024 * 2 / 1e12, 1e-12);
  EXPECT_NEAR(model.rowwise(small, kLatency), 21e-6, 1e-12);
}

TEST(Burst, AttentionCountsBlocksAndTail) {
  const cluster::Device device = round_device();
  const BurstModel model(device, round_constants());
  const double block = 4.0 * 128 * 128 * 128 / (10e12 * 0.5);
  // 1 x 5 heads, 1024 tokens: 40 tiles of (8 + 1) / 2 + 1 blocks on 10 units, then half of the longest, 8 + 1 blocks.
  EXPECT_NEAR(model.cool_attention({.batch = 1, .heads = 5, .sequence = 1024, .head_dim = 128}),
              4e-6 + (40 * 5.5 / 10 + 0.5 * 9) * block, 1e-12);
  // All keys: 40 equal tiles in four waves of nine blocks; a head of 64 pays 0.4 + 0.6 / 2 of a block.
  EXPECT_NEAR(model.cool_attention({.batch = 1, .heads = 5, .sequence = 1024, .head_dim = 64, .causal = false}),
              4e-6 + 4 * 9 * block * 0.7, 1e-12);
}

TEST(Burst, PowerCapActsOnLongRuns) {
  const cluster::Device device = round_device();
  const BurstModel model(device, round_constants());
  const GemmCall shape{.m = 128 * 1000, .n = 256, .k = 23337};
  const double cool = model.cool_gemm(shape);
  EXPECT_NEAR(model.gemm(shape, {.queued = true, .repetitions = 60e-3 / cool}) / cool, 1.1, 1e-9);  // half of 20 %
  EXPECT_NEAR(model.gemm(shape, {.queued = true, .repetitions = 6 / cool}) / cool, 1.2, 1e-4);
  EXPECT_NEAR(model.gemm(shape, {.queued = true, .repetitions = 0.6e-3 / cool}) / cool, 1.0, 1e-4);
}

TEST(Burst, SmallBlocksTakeTheHostsTime) {
  const cluster::Device device = round_device();
  BurstConstants c = round_constants();
  c[C::host_forward_us] = 100;
  c[C::host_backward_us] = 200;
  c[C::host_turn_us] = 300;
  const BurstModel model(device, c);
  const BlockShape tiny{.hidden = 128,
                        .heads = 2,
                        .kv_heads = 2,
                        .head_dim = 64,
                        .ffn = 256,
                        .gated = true,
                        .causal = true,
                        .micro_batch = 1,
                        .sequence = 128};
  // Eleven kernels forward, twenty backward; the last one runs after the host issued it.
  EXPECT_NEAR(model.host_forward(tiny), 1.1e-3, 1e-9);
  EXPECT_NEAR(model.host_both(tiny), 5.1e-3, 1e-9);
  EXPECT_GT(model.block_forward(tiny, kLatency), 1.1e-3);
  EXPECT_LT(model.block_forward(tiny, kLatency), 1.12e-3);
  EXPECT_GT(model.block_both(tiny, kLatency), 5.4e-3);
  EXPECT_LT(model.block_both(tiny, kLatency), 5.42e-3);
  EXPECT_LT(model.block_forward(tiny, kQueued), 0.2e-3);
}

TEST(Burst, LargerShapesNeverTakeLess) {
  const cluster::Device h200 = *cluster::find_device("h200");
  const BurstModel model(h200);
  for (std::int64_t size = 512; size <= 16384; size *= 2) {
    EXPECT_LE(model.gemm({.m = size, .n = size, .k = size}, kQueued),
              model.gemm({.m = 2 * size, .n = size, .k = size}, kQueued));
    EXPECT_LT(model.attention({.batch = 1, .heads = 32, .sequence = size, .head_dim = 128}, kQueued),
              model.attention({.batch = 1, .heads = 32, .sequence = 2 * size, .head_dim = 128}, kQueued));
  }
}

}  // namespace
}  // namespace nest::calibrate
