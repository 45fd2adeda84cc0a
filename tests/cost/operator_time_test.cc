#include "cost/operator_time.h"

#include <gtest/gtest.h>

namespace nest::cost {
namespace {

// A device with round numbers: 100 multiprocessors of 1 TFLOP/s each, 1 TB/s.
DeviceRates round_device() {
  DeviceRates rates;
  rates.matrix_flops_per_s = 100e12;
  rates.matrix16_flops_per_s = 50e12;
  rates.peak16_flops_per_s = 200e12;
  rates.memory_bytes_per_s = 1e12;
  rates.multiprocessors = 100;
  rates.tile = 0.9;
  rates.attention = {80e12, 40e12};
  return rates;
}

TEST(Gemm, SmallProductTakesSmallestTile) {
  // 64 x 128 tiles: 4 * 2 = 8 of them, one wave: 2 * 64 * 128 * (816 + 208) / (1e12 * 0.81) = 20.713 us, and a gap of 8
  // us.
  EXPECT_NEAR(gemm_s(round_device(), {256, 256, 816, 1}), 20.7126e-6 + 8e-6, 1e-9);
}

TEST(Gemm, LastWaveCountsFully) {
  // 128 x 256 tiles: 101 * 1 = 101 on 100 multiprocessors are two waves: 2 * 2 * 128 * 256 * 2048 / 1e12 = 268.4 us.
  // 128 x 128: 202 tiles, 3 waves: 3 * 2 * 128 * 128 * 2048 / 0.9e12 = 223.7 us. 64 x 128: 404 tiles, 5 waves: 207.1
  // us.
  EXPECT_NEAR(gemm_s(round_device(), {101 * 128, 256, 2048 - 208, 1}), 5 * 2 * 64 * 128 * 2048 / 0.81e12 + 8e-6, 1e-9);
}

TEST(Gemm, ThinProductIsLimitedByMemory) {
  // One row: 2 (k + k n + n) bytes = 2 * (8192 + 8192 * 8192 + 8192) = 134.25 MB at 0.5 TB/s; one wave of tiles takes
  // 170 us.
  DeviceRates rates = round_device();
  rates.memory_bytes_per_s = 0.5e12;
  EXPECT_NEAR(gemm_s(rates, {1, 8192, 8192, 1}), 268.501e-6 + 8e-6, 1e-9);
}

TEST(Gemm, MisalignedAndSixteenBitAndEmpty) {
  const DeviceRates rates = round_device();
  const double aligned = gemm_s(rates, {4096, 4096, 4096, 1}) - 8e-6;
  EXPECT_NEAR(gemm_s(rates, {4096, 4096, 4096, 1}, GemmFormat::sixteen) - 8e-6, 2 * aligned, 1e-12);
  EXPECT_GT(gemm_s(rates, {4096, 4097, 4096, 1}), 3 * aligned);
  EXPECT_EQ(gemm_s(rates, {0, 4096, 4096, 1}), 0);
}

TEST(Gemm, NarrowFormatsStartTwiceAsSlowly) {
  DeviceRates rates = round_device();
  rates.element_bytes = 1;
  const double wide = gemm_s(round_device(), {12800, 256, 1000, 1}) - 8e-6;
  EXPECT_NEAR((gemm_s(rates, {12800, 256, 1000, 1}) - 8e-6) / wide, (1000 + 416.0) / (1000 + 208.0), 1e-9);
}

TEST(Gemm, WithoutTilesOnlyArithmeticCounts) {
  DeviceRates rates = round_device();
  rates.multiprocessors = 0;
  EXPECT_NEAR(gemm_s(rates, {1000, 1000, 1792, 3}), 3 * 2 * 1000.0 * 1000 * 2000 / 100e12 + 8e-6, 1e-12);
}

TEST(Attention, CausalSeesHalfTheKeys) {
  AttentionSize size;
  size.sequences = 2;
  size.heads = 8;
  size.queries = size.keys = 2048;
  size.qk_dim = size.value_dim = 128;
  // 4 * 2 * 8 * 128 * 2048 * (1024 + 64) = 18.25 GFLOP.
  const double flops = 4.0 * 2 * 8 * 128 * 2048 * 1088;
  const Passes causal = attention_s(round_device(), size, false);
  EXPECT_NEAR(causal.forward_s, flops / 80e12, 1e-12);
  EXPECT_NEAR(causal.backward_s, 2.5 * flops / 40e12, 1e-12);
  EXPECT_NEAR(attention_s(round_device(), size, true).backward_s, 1.5 * causal.backward_s, 1e-12);
  size.causal = false;
  EXPECT_NEAR(attention_s(round_device(), size, false).forward_s, causal.forward_s * (2048 + 64) / 1088, 1e-12);
  size.window = 128;  // to either side
  EXPECT_NEAR(attention_s(round_device(), size, false).forward_s, causal.forward_s * (256 + 64) / 1088, 1e-12);
}

TEST(Attention, WithSinksNothingIsSkipped) {
  AttentionSize size;
  size.heads = 8;
  size.queries = size.keys = 2048;
  size.qk_dim = size.value_dim = 128;
  const double all_s = attention_s(round_device(), size, false).forward_s;
  size.window = 128;
  EXPECT_NEAR(attention_s(round_device(), size, false).forward_s, all_s * (128 + 64) / (1024 + 64), 1e-12);
  size.sinks = true;
  EXPECT_NEAR(attention_s(round_device(), size, false).forward_s, all_s / 0.55, 1e-12);
}

// cuDNN's kernels of 8 bits: rates of their own, others for wide heads, and a backward that computes the whole triangle.
TEST(Attention, OfEightBits) {
  SoftwareStack stack = *find_stack("megatron-core");
  const cluster::Device device = *cluster::find_device("gb300");
  AttentionSize size;
  size.queries = size.keys = 4096;
  size.heads = 64;
  size.qk_dim = size.value_dim = 128;
  const auto passes = [&](bool eight) {
    stack.fp8_attention = eight;
    return attention_s(sustained_rates(device, Precision::fp8, stack), size, false);
  };
  EXPECT_NEAR(passes(false).forward_s / passes(true).forward_s, 0.774 / 0.48, 1e-9);
  EXPECT_NEAR(passes(false).backward_s / passes(true).backward_s, 0.339 / 0.34, 1e-9);
  size.window = 128;
  EXPECT_NEAR(passes(false).forward_s / passes(true).forward_s, 0.774 / 0.48, 1e-9);
  EXPECT_NEAR(passes(true).backward_s / passes(false).backward_s, (2048 + 64.0) / (128 + 64) * 0.34 / 0.339, 1e-9);
  size.window = 0;
  size.qk_dim = 192;
  EXPECT_NEAR(passes(false).forward_s / passes(true).forward_s, 0.858 / 0.48, 1e-9);
  EXPECT_NEAR(passes(false).backward_s / passes(true).backward_s, 0.451 / 0.34, 1e-9);
}

TEST(Attention, UnfusedWritesItsScores) {
  AttentionSize size;
  size.heads = 16;
  size.queries = size.keys = 1024;
  size.qk_dim = size.value_dim = 64;
  size.fused = false;
  const double pairs = 16.0 * 1024 * 1024;
  // Products at 0.7 of the peak, 4 passes over 2-byte scores (0.982 of them), four kernels.
  const double products = 4 * pairs * 64 / (200e12 * 0.7);
  EXPECT_NEAR(attention_s(round_device(), size, false).forward_s, products + pairs * 2 * 4 * 0.982 / 1e12 + 32e-6,
              1e-12);
  size.dropout = true;
  EXPECT_NEAR(attention_s(round_device(), size, false).forward_s, products + pairs * 2 * 6.5 * 0.982 / 1e12 + 32e-6,
              1e-12);
}

TEST(Rowwise, EagerKernelsMoveMore) {
  EXPECT_NEAR(rowwise_s(round_device(), 1e9, true), 0.888e-3, 1e-12);
  EXPECT_NEAR(rowwise_s(round_device(), 1e9, false), 0.888e-3 * 2.67, 1e-12);
}

}  // namespace
}  // namespace nest::cost
