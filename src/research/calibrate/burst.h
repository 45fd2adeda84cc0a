// How long operators take in a burst: single calls and single layers on a cool device, as micro-benchmarks see them.
//
// Training runs for hours at the device's power cap and is priced elsewhere with sustained rates; these formulas
// explain measurements of a few milliseconds, and so tell a calibration which part of a time is arithmetic, memory,
// launch or the power cap. With peak rate P, S multiprocessors, memory bandwidth B (data sheet), and constants written
// in `code`:
//
//   memory           bytes / (B * `memory`), `cache` times faster where a call moves at most 32 MiB
//   GEMM m x n x k   the best of many tiles bm x bn (64, 128 or 256 rows; 64 … 256 columns in steps of 32; at most
//                    128 x 256 in all):
//                        waves = ceil(ceil(m/bm) ceil(n/bn) / S)
//                        t     = waves * 2 bm bn (k + `k_ramp`) / (P / S * `gemm` * `small_tile`^i)
//                    where i = log2(128 * 256 / (bm bn)); at least the time of its bytes through memory; plus `gap_us`.
//                    fp8 has its own peak, rate and ramp. Grouped: the tiles of all experts together, columns in steps
//                    of 128, times `grouped`; bytes at `grouped_memory` of the bandwidth; plus `grouped_us` to set up.
//   row-wise         starts * `gap_us` + the time of passes * 2 bytes * rows * h through memory; starts is 1 … 3 by
//                    operator
//   attention        blocks of 128 queries x 128 keys, each of
//                        4 * 128^3 * r / (P / S * `attention_forward`),
//                        r = `softmax_share` + (1 - `softmax_share`) hd / 128
//                    as exponentials cost the same for every head size hd. A tile of queries works through its keys'
//                    blocks and `tile_overhead` more. Causal: tiles are unequal, so the device is done after the mean
//                    load and `tail` times the longest tile; otherwise after ceil(tiles / S) tiles. Plus `gap_us`.
//                    Backward: 2.5 times the arithmetic, its own rate and share, two gaps, and `attention_bytes` per
//                    element through memory.
//   power cap        a time t measured with N repetitions is multiplied by
//                        1 + share * `throttle` / (1 + (`throttle_ms` / (N t))^3.4),
//                    share 1 for matmuls, 1/2 for attention, 0 for what memory bounds.
//   host             a call that starts on an idle device takes max(t + launch, `host_call_us` * calls). A layer is a
//                    queue: the host issues a kernel every `host_forward_us` (`host_backward_us`), the device runs them
//                    in order, and it idles for `host_turn_us` where the backward pass begins.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/index.h"
#include "cluster/device.h"

namespace nest::calibrate {

enum class BurstConstant : std::uint8_t {
  memory,
  cache,
  gap_us,
  gelu,
  silu_mul,
  rmsnorm,
  layernorm,
  softmax,
  softmax_power2,
  dropout,
  adamw,
  cross_entropy,
  launch_row_us,
  host_call_us,
  gemm,
  k_ramp,
  small_tile,
  throttle,
  throttle_ms,
  launch_gemm_us,
  gemm_fp8,
  k_ramp_fp8,
  launch_fp8_us,
  grouped,
  grouped_memory,
  grouped_us,
  launch_grouped_us,
  attention_forward,
  attention_backward,
  softmax_share_forward,
  softmax_share_backward,
  tile_overhead,
  tail,
  attention_bytes,
  launch_attention_forward_us,
  launch_attention_backward_us,
  flash2_forward,
  flash2_backward,
  row_backward,
  host_forward_us,
  host_backward_us,
  host_turn_us,
};
inline constexpr std::size_t kBurstConstants = 42;

struct BurstConstantInfo {
  const char* name;  // in a device's efficiency map, after "burst_"
  double otherwise;  // where a device says nothing
  double low;
  double high;
  const char* meaning;
};

const BurstConstantInfo& info(BurstConstant constant);

struct BurstConstants {
  std::array<double, kBurstConstants> values{};
  double operator[](BurstConstant constant) const { return values[at(constant)]; }
  double& operator[](BurstConstant constant) { return values[at(constant)]; }
};

// What the device's efficiency map holds under "burst_...", and the defaults for the rest.
BurstConstants burst_constants(const cluster::Device& device);

enum class RowwiseOperator : std::uint8_t {
  copy,
  add,
  gelu,
  silu_mul,
  rmsnorm,
  layernorm,
  softmax,
  dropout,
  adamw,
  cross_entropy
};
std::optional<RowwiseOperator> rowwise_operator(std::string_view name);
const char* to_string(RowwiseOperator op);

struct GemmCall {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t groups = 1;  // experts, each of m rows
  bool fp8 = false;
};

struct RowwiseShape {
  RowwiseOperator op = RowwiseOperator::copy;
  std::int64_t rows = 0, width = 0;
};

struct AttentionCall {
  std::int64_t batch = 0, heads = 0, sequence = 0, head_dim = 0;
  bool causal = true;
  bool backward = false;
  bool flash2 = false;  // FlashAttention-2 kernels instead of the device's own
};

// A transformer block as plain PyTorch modules run it on one tensor-parallel rank: fused QKV, no rotary, no dropout.
struct BlockShape {
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;  // of this rank, except hidden
  bool gated = true, causal = true;
  std::int64_t micro_batch = 0, sequence = 0;
};

// How a time was taken.
struct Protocol {
  bool queued = false;      // the device never waited for the host
  double repetitions = 20;  // back to back, for the power cap
};

// One device with its constants; all functions are pure and return seconds.
class BurstModel {
 public:
  BurstModel(const cluster::Device& device, const BurstConstants& constants) : device_(device), c_(constants) {}
  explicit BurstModel(const cluster::Device& device) : BurstModel(device, burst_constants(device)) {}

  double gemm(const GemmCall& shape, const Protocol& protocol) const;
  double rowwise(const RowwiseShape& shape, const Protocol& protocol) const;
  double attention(const AttentionCall& call, const Protocol& protocol) const;
  double block_forward(const BlockShape& block, const Protocol& protocol) const {
    return block_time(block, false, protocol);
  }
  double block_both(const BlockShape& block, const Protocol& protocol) const {
    return block_time(block, true, protocol);
  }
  // Host seconds to issue the kernels of a block.
  double host_forward(const BlockShape& block) const;
  double host_both(const BlockShape& block) const;

  // Device seconds on a cool device, without launch and power cap.
  double cool_gemm(const GemmCall& shape) const;
  double cool_rowwise(const RowwiseShape& shape) const;
  double cool_attention(const AttentionCall& call) const;

 private:
  struct Kernel {
    double seconds;
    double power_share;
  };
  std::vector<Kernel> forward_kernels(const BlockShape& block) const;
  std::vector<Kernel> backward_kernels(const BlockShape& block) const;
  double block_time(const BlockShape& block, bool backward, const Protocol& protocol) const;
  double traffic_s(double bytes) const;
  double throttle(double seconds, double share, const Protocol& protocol) const;
  double launched(double seconds, double launch_us, double calls, const Protocol& protocol) const;

  const cluster::Device& device_;
  BurstConstants c_;
};

}  // namespace nest::calibrate
