// Seconds of single operators on one device. Pure functions of a shape and of what the device sustains (rates.h); the
// constants are those of constants.h.
//
// Matrix product of `batch` pairs m x k, k x n, as one kernel. Tiles of bm rows and bn columns are spread over the M
// multiprocessors; the last wave may be partly empty, and smaller tiles run at a lower rate:
//
//     compute = min over tiles of  ceil(batch ceil(m/bm) ceil(n/bn) / M) * 2 bm bn (k + k0) / (rate / M * q^i)
//     t       = max(compute, bytes / memory) + gap
//
//     bm x bn   128x256   256x128   128x128   64x128
//     i         0         0         1         2
//
// with k0 = 208, doubled below 16 bits; q = `tile`; rate times 0.284 where n or k is no multiple of 8; bytes of both
// inputs and of the output. Without multiprocessors (TPU): compute = batch * 2 m n (k + k0) / rate.
//
// Attention of b sequences and H heads, Q queries against K keys, d the mean of the query's and the value's head size:
//
//     fused     F = 4 b H d Q (span + 64),  forward F / rate_f,  backward 2.5 F / rate_b (3.75 where deterministic)
//               span = K, or K/2 under a causal mask; at most the window (twice the window where not causal);
//               F / 0.6 for heads of at most 64; with sinks F / 0.55, and span is no window's
//     masked    4 b H d Q K / (0.32 peak), backward 2.5 of that at 0.287; heads of at most 64 at 0.78 and 0.86 of these
//     unfused   forward 4 b H d Q K / (0.7 peak) + the passes over the scores (4, with dropout 6.5) through memory
//               + 4 gaps, backward twice that; 0.0318 instead of 0.7 for heads of no multiple of 8
//
// Row-wise operators move bytes: those of their inputs and outputs, times a factor, through memory.
#pragma once

#include <cstdint>

#include "cost/rates.h"

namespace nest::cost {

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
  bool sinks = false;    // one learned logit per head
  bool masked = false;   // by a tensor that the kernel reads
  bool dropout = false;  // on the scores of unfused attention
};

struct Passes {
  double forward_s = 0;
  double backward_s = 0;
};

Passes attention_s(const DeviceRates& rates, const AttentionSize& size, bool deterministic);

// A scan: its bytes at the memory's rate and, for states, its FLOPs at kStateProducts of the peak; twice that backward.
Passes scan_s(const DeviceRates& rates, double bytes, double flops);

double rowwise_s(const DeviceRates& rates, double bytes, bool fused);

}  // namespace nest::cost
