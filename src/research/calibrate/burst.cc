#include "calibrate/burst.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"

namespace nest::calibrate {
namespace {

using C = BurstConstant;

constexpr double kMicro = 1e-6;

// Fitted on an H200: data/measurements/h200.json gives them again (a test sees to it), except for what only
// measurements without a queue determine (launch_*, host_call_us, host_turn_us): eager PyTorch 2.11 on a host of that
// machine.
constexpr std::array<BurstConstantInfo, kBurstConstants> kInfo = {{
    {"memory", 0.899, 0.3, 1.0, "share of the memory bandwidth that row-wise kernels reach"},
    {"cache", 1.21, 1, 8, "times faster when operands fit into the cache"},
    {"gap_us", 2.997, 0, 20, "device time to start a kernel"},
    {"gelu", 2.781, 2, 8, "passes over a [rows, h] tensor: GELU"},
    {"silu_mul", 5.127, 3, 12, "passes: SiLU, then product (two kernels)"},
    {"rmsnorm", 3.228, 2, 12, "passes: RMSNorm"},
    {"layernorm", 3.609, 2, 12, "passes: LayerNorm"},
    {"softmax", 4.197, 2, 20, "passes: softmax over the row"},
    {"softmax_power2", 6.721, 2, 20, "passes: softmax over rows of 2^n > 2048"},
    {"dropout", 3.569, 2, 12, "passes: dropout with its mask"},
    {"adamw", 16.95, 14, 60, "passes: fused AdamW, fp32 state"},
    {"cross_entropy", 13.23, 2, 60, "passes: softmax cross entropy in fp32"},
    {"launch_row_us", 6.929, 0, 100, "waiting for the host: row-wise call"},
    {"host_call_us", 14.99, 1, 200, "shortest time between two eager calls"},
    {"gemm", 0.8641, 0.1, 1.0, "share of the bf16 peak inside a wave"},
    {"k_ramp", 201.9, 1, 2000, "contraction length lost to filling a tile"},
    {"small_tile", 0.8714, 0.5, 1.0, "rate of the next smaller tile"},
    {"throttle", 0.2119, 0.001, 2, "slow-down at the power cap"},
    {"throttle_ms", 67.4, 1, 2000, "busy time after which the cap acts"},
    {"launch_gemm_us", 11.32, 0, 100, "waiting for the host: matmul"},
    {"gemm_fp8", 0.7632, 0.1, 1.0, "share of the fp8 peak inside a wave"},
    {"k_ramp_fp8", 186.2, 1, 3000, "contraction length lost, fp8"},
    {"launch_fp8_us", 28.59, 0, 200, "waiting for the host: fp8 matmul"},
    {"grouped", 1.04, 0.8, 2, "grouped matmul over one matmul of all its tiles"},
    {"grouped_memory", 0.7147, 0.2, 1.0, "share of the bandwidth that reading many experts' weights reaches"},
    {"grouped_us", 15.37, 0.1, 100, "device time to set up a grouped matmul"},
    {"launch_grouped_us", 21.4, 0, 200, "waiting for the host: grouped matmul"},
    {"attention_forward", 0.7358, 0.05, 1.0, "share of the bf16 peak, head size 128"},
    {"attention_backward", 0.657, 0.05, 1.0, "the same, backward"},
    {"softmax_share_forward", 0.4346, 0.01, 0.9, "share of a block's time that no head size changes"},
    {"softmax_share_backward", 0.3277, 0.01, 0.9, "the same, backward"},
    {"tile_overhead", 1.845, 0.01, 8, "blocks of work to begin and end a tile of queries"},
    {"tail", 0.6865, 0.01, 1.5, "longest tiles that run on after the mean load"},
    {"attention_bytes", 15.8, 1, 100, "memory traffic per element of the backward pass"},
    {"launch_attention_forward_us", 25.55, 0, 300, "waiting for the host: attention forward"},
    {"launch_attention_backward_us", 60, 0, 600, "waiting for the host: attention backward"},
    {"flash2_forward", 0.3957, 0.05, 1.0, "FlashAttention-2, share of the peak"},
    {"flash2_backward", 0.3567, 0.05, 1.0, "the same, backward"},
    {"row_backward", 1.067, 0.3, 3, "row-wise traffic of a block's backward over its count"},
    {"host_forward_us", 34.27, 1, 1000, "host time to issue a kernel of a block"},
    {"host_backward_us", 65.46, 1, 1000, "the same, backward"},
    {"host_turn_us", 250, 0, 2000, "idle time where backward begins"},
}};

constexpr std::array kOperatorNames = {"copy",      "add",     "gelu",    "silu_mul", "rmsnorm",
                                       "layernorm", "softmax", "dropout", "adamw",    "cross_entropy"};

constexpr double kElementBytes = 2;       // bf16
constexpr double kCacheBytes = 32 << 20;  // traffic of a call below which its operands stay in the cache
constexpr double kCapExponent = 3.4;
constexpr double kAttentionShare = 0.5;

// Eager calls that an operator makes, in units of a copy: what bounds it on an idle device.
double calls_of(RowwiseOperator op) {
  switch (op) {
    case RowwiseOperator::add:
    case RowwiseOperator::dropout: return 1.4;
    case RowwiseOperator::silu_mul: return 1.65;
    case RowwiseOperator::rmsnorm: return 1.7;
    case RowwiseOperator::layernorm: return 1.95;
    default: return 1;
  }
}

// Device starts that an operator costs; reductions over rows wait for their own ends.
double starts_of(RowwiseOperator op) {
  switch (op) {
    case RowwiseOperator::gelu: return 1.2;
    case RowwiseOperator::rmsnorm:
    case RowwiseOperator::dropout: return 1.4;
    case RowwiseOperator::layernorm: return 1.9;
    case RowwiseOperator::silu_mul:
    case RowwiseOperator::softmax: return 2;
    case RowwiseOperator::cross_entropy: return 3;
    default: return 1;
  }
}

double passes_of(const BurstConstants& c, const RowwiseShape& shape) {
  switch (shape.op) {
    case RowwiseOperator::copy: return 2;
    case RowwiseOperator::add: return 3;
    case RowwiseOperator::gelu: return c[C::gelu];
    case RowwiseOperator::silu_mul: return c[C::silu_mul];
    case RowwiseOperator::rmsnorm: return c[C::rmsnorm];
    case RowwiseOperator::layernorm: return c[C::layernorm];
    case RowwiseOperator::softmax: {
      const bool power2 = (shape.width & (shape.width - 1)) == 0 && shape.width > 2048;
      return c[power2 ? C::softmax_power2 : C::softmax];
    }
    case RowwiseOperator::dropout: return c[C::dropout];
    case RowwiseOperator::adamw: return c[C::adamw];
    case RowwiseOperator::cross_entropy: return c[C::cross_entropy];
  }
  return 2;
}

struct Tile {
  double rows, columns;
  double halvings;  // of the area, from the largest tile
};

constexpr double kLargestTile = 128 * 256;

std::vector<Tile> tiles_of(double column_step) {
  std::vector<Tile> tiles;
  for (const double rows : {64.0, 128.0, 256.0}) {
    for (double columns = column_step; rows * columns <= kLargestTile && columns <= 256; columns += column_step) {
      if (columns >= 64) tiles.push_back({rows, columns, std::log2(kLargestTile / (rows * columns))});
    }
  }
  return tiles;
}

const std::vector<Tile>& all_tiles() {
  static const std::vector<Tile> tiles = tiles_of(32);
  return tiles;
}

const std::vector<Tile>& grouped_tiles() {
  static const std::vector<Tile> tiles = tiles_of(128);
  return tiles;
}

double ceil_ratio(double a, double b) { return std::ceil(a / b); }

}  // namespace

const BurstConstantInfo& info(BurstConstant constant) { return kInfo[at(constant)]; }

const char* to_string(RowwiseOperator op) { return kOperatorNames[at(op)]; }

std::optional<RowwiseOperator> rowwise_operator(std::string_view name) {
  for (std::size_t i = 0; i < kOperatorNames.size(); ++i) {
    if (name == kOperatorNames[i]) return static_cast<RowwiseOperator>(i);
  }
  return std::nullopt;
}

BurstConstants burst_constants(const cluster::Device& device) {
  BurstConstants constants;
  for (std::size_t i = 0; i < kBurstConstants; ++i) {
    const auto found = device.efficiency_of(fmt::format("burst_{}", kInfo[i].name));
    constants.values[i] = found.value_or(kInfo[i].otherwise);
  }
  return constants;
}

double BurstModel::traffic_s(double bytes) const {
  const double speed = bytes <= kCacheBytes ? c_[C::cache] : 1;
  return bytes / (device_.memory_bytes_per_s * c_[C::memory] * speed);
}

double BurstModel::throttle(double seconds, double share, const Protocol& protocol) const {
  const double busy = std::max(seconds * protocol.repetitions, 1e-12);
  return 1 + share * c_[C::throttle] / (1 + std::pow(c_[C::throttle_ms] * 1e-3 / busy, kCapExponent));
}

double BurstModel::launched(double seconds, double launch_us, double calls, const Protocol& protocol) const {
  if (protocol.queued) return seconds;
  return std::max(seconds + launch_us * kMicro, calls * c_[C::host_call_us] * kMicro);
}

double BurstModel::cool_gemm(const GemmCall& shape) const {
  const double units = real(std::max<std::int64_t>(device_.multiprocessors, 1));
  const double peak = device_.peak(shape.fp8 ? Precision::fp8 : Precision::bf16);
  const double rate = peak / units * c_[shape.fp8 ? C::gemm_fp8 : C::gemm];
  const auto m = real(shape.m), n = real(shape.n), k = real(shape.k);
  const auto groups = real(shape.groups);
  const double ramp = c_[shape.fp8 ? C::k_ramp_fp8 : C::k_ramp];
  double best = HUGE_VAL;
  for (const Tile& tile : shape.groups > 1 ? grouped_tiles() : all_tiles()) {
    const double waves = ceil_ratio(groups * ceil_ratio(m, tile.rows) * ceil_ratio(n, tile.columns), units);
    const double work = 2 * tile.rows * tile.columns * (k + ramp);
    best = std::min(best, waves * work / (rate * std::pow(c_[C::small_tile], tile.halvings)));
  }
  const double bytes = groups * ((shape.fp8 ? 1 : kElementBytes) * (m * k + k * n) + kElementBytes * m * n);
  const double gap = c_[C::gap_us] * kMicro;
  if (shape.groups == 1) return gap + std::max(best, traffic_s(bytes));
  const double streamed = bytes / (device_.memory_bytes_per_s * c_[C::grouped_memory]);
  return gap + c_[C::grouped_us] * kMicro + std::max(c_[C::grouped] * best, streamed);
}

double BurstModel::cool_rowwise(const RowwiseShape& shape) const {
  const double bytes = passes_of(c_, shape) * real(shape.rows) * real(shape.width) * kElementBytes;
  return starts_of(shape.op) * c_[C::gap_us] * kMicro + traffic_s(bytes);
}

double BurstModel::cool_attention(const AttentionCall& call) const {
  constexpr double kBlock = 128;
  constexpr double kBackwardWork = 2.5;  // five matmuls instead of two
  const double units = real(std::max<std::int64_t>(device_.multiprocessors, 1));
  const double share = c_[call.backward ? C::softmax_share_backward : C::softmax_share_forward];
  const double rate = call.flash2 ? c_[call.backward ? C::flash2_backward : C::flash2_forward]
                                  : c_[call.backward ? C::attention_backward : C::attention_forward];
  const auto s = real(call.sequence), width = real(call.head_dim);
  const double relative = share + (1 - share) * width / kBlock;
  const double block_s = (call.backward ? kBackwardWork : 1) * 4 * kBlock * kBlock * kBlock * relative /
                         (device_.peak(Precision::bf16) / units * rate);
  const double lines = real(call.batch) * real(call.heads);
  const double tiles = lines * ceil_ratio(s, kBlock);
  const double longest = s / kBlock + c_[C::tile_overhead];
  const double mean = call.causal ? (s / kBlock + 1) / 2 + c_[C::tile_overhead] : longest;
  const double blocks = call.causal ? tiles * mean / units + c_[C::tail] * longest : ceil_ratio(tiles, units) * longest;
  const double bytes = call.backward ? lines * s * width * c_[C::attention_bytes] : 0;
  return (call.backward ? 2 : 1) * c_[C::gap_us] * kMicro + blocks * block_s + traffic_s(bytes);
}

double BurstModel::gemm(const GemmCall& shape, const Protocol& protocol) const {
  const double cool = cool_gemm(shape);
  const double launch = c_[shape.groups > 1 ? C::launch_grouped_us : shape.fp8 ? C::launch_fp8_us : C::launch_gemm_us];
  return launched(cool * throttle(cool, 1, protocol), launch, 1.3, protocol);
}

double BurstModel::rowwise(const RowwiseShape& shape, const Protocol& protocol) const {
  return launched(cool_rowwise(shape), c_[C::launch_row_us], calls_of(shape.op), protocol);
}

double BurstModel::attention(const AttentionCall& call, const Protocol& protocol) const {
  const double cool = cool_attention(call);
  const double launch = c_[call.backward ? C::launch_attention_backward_us : C::launch_attention_forward_us];
  return launched(cool * throttle(cool, kAttentionShare, protocol), launch, 1, protocol);
}

}  // namespace nest::calibrate
