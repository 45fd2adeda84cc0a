// Seconds of single operators on one device. Pure functions of a shape and of what the device sustains.
//
// Matrix product of `batch` pairs m x k, k x n, as one kernel. Tiles of bm x bn rows and columns are spread over the
// multiprocessors; the last wave may be partly empty, and smaller tiles run at a lower rate q^i:
//     t = max( min over tiles of ceil(batch ceil(m/bm) ceil(n/bn) / M) * 2 bm bn (k + k0) / (rate / M * q^i),  bytes /
//     memory ) + gap
// with tiles 128x256 and 256x128 (i = 0), 128x128 (1), 64x128 (2); k0 doubled below 16 bits.
// Fused attention of b sequences and H heads, queries Q against a span of keys K (half of them under a causal mask):
//     F = 4 b H d Q (K + s0),  forward F / rate_f, backward 2.5 F / rate_b
// Row-wise operators move bytes: those of their inputs and outputs, times a factor, through memory.
#pragma once

#include <cstdint>

#include "cost/rates.h"

namespace nest {

struct GemmShape {
  double m = 0;
  double n = 0;
  double k = 0;
  double batch = 1;
};

enum class GemmFormat : std::uint8_t { job, sixteen };  // the job's precision, or 16 bits whatever the job's is

double gemm_s(const DeviceRates& rates, const GemmShape& shape, GemmFormat format = GemmFormat::job);

struct AttentionSize {
  double sequences = 1;  // micro-batch
  double heads = 1;      // on this device
  double queries = 0;    // per sequence, on this device
  double keys = 0;       // per sequence, of all context-parallel ranks
  std::int64_t qk_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t window = 0;
  bool causal = true;
  bool fused = true;
  bool dropout = false;  // on the scores of unfused attention
};

struct Passes {
  double forward_s = 0;
  double backward_s = 0;
};

Passes attention_s(const DeviceRates& rates, const AttentionSize& size, bool deterministic);

double rowwise_s(const DeviceRates& rates, double bytes, bool fused);

}  // namespace nest
