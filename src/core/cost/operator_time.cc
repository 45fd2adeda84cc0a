#include "cost/operator_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/index.h"
#include "cost/constants.h"

namespace nest::cost {
namespace {

using namespace constants;

// Fitted to the 21 runs of one model (gpt-oss, on four kinds of device): with a learned logit per head fused kernels reach
// this share of their rate, and do not skip the keys outside of a window.
constexpr double kSinks = 0.55;

struct Tile {
  double rows;
  double columns;
  int halvings;
};
constexpr std::array kTiles = {Tile{128, 256, 0}, Tile{256, 128, 0}, Tile{128, 128, 1}, Tile{64, 128, 2}};

bool multiple_of_8(double value) { return std::fmod(value, 8) == 0; }

double tiled_s(const DeviceRates& rates, const GemmShape& shape, double rate, double k) {
  const auto units = real(rates.multiprocessors);
  double best = std::numeric_limits<double>::infinity();
  double tile_rate = rate / units;
  int halvings = 0;
  for (const Tile& tile : kTiles) {
    for (; halvings < tile.halvings; ++halvings) tile_rate *= rates.tile;
    const double tiles = shape.batch * std::ceil(shape.m / tile.rows) * std::ceil(shape.n / tile.columns);
    best = std::min(best, std::ceil(tiles / units) * 2 * tile.rows * tile.columns * k / tile_rate);
  }
  return best;
}

}  // namespace

double gemm_s(const DeviceRates& rates, const GemmShape& shape, GemmFormat format) {
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0) return 0;
  const bool narrow = format == GemmFormat::job && rates.element_bytes < 2;
  const double bytes_each = format == GemmFormat::job ? rates.element_bytes : rates.activation_bytes;
  double rate = format == GemmFormat::job ? rates.matrix_flops_per_s : rates.matrix16_flops_per_s;
  const double k = shape.k + kShortK * (narrow ? 2 : 1);
  const double bytes =
      shape.batch * (bytes_each * (shape.m * shape.k + shape.k * shape.n) + rates.activation_bytes * shape.m * shape.n);
  double compute_s = 0;
  if (rates.multiprocessors == 0) {
    compute_s = shape.batch * 2 * shape.m * shape.n * k / rate;
  } else {
    if (!multiple_of_8(shape.n) || !multiple_of_8(shape.k)) rate *= kMisaligned;
    compute_s = tiled_s(rates, shape, rate, k);
  }
  return std::max(compute_s, bytes / rates.memory_bytes_per_s) + rates.gap_s;
}

Passes attention_s(const DeviceRates& rates, const AttentionSize& size, bool deterministic) {
  const double dim = 0.5 * real(size.qk_dim + size.value_dim);
  const double pairs = size.sequences * size.heads * size.queries;  // times keys
  if (!size.fused) {
    const double rate = size.qk_dim % 8 == 0 ? kScoreProducts : kScoreProductsMisaligned;
    const double passes = kScorePasses + (size.dropout ? kScoreDropoutPasses : 0);
    const double bytes = pairs * size.keys * rates.activation_bytes * passes * kScoreMemory;
    const double forward_s = 4 * pairs * size.keys * dim / (rates.peak16_flops_per_s * rate) +
                             bytes / rates.memory_bytes_per_s + kUnfusedKernels * kGap_s;
    return {forward_s, 2 * forward_s};
  }
  if (size.masked) {
    const double flops = 4 * pairs * size.keys * dim / rates.peak16_flops_per_s;
    const bool small = size.qk_dim <= kSmallHeadDim;
    return {flops / (kMaskedForward * (small ? kMaskedSmall : 1)),
            kFlashBackward * flops / (kMaskedBackward * (small ? kMaskedSmallBack : 1))};
  }
  const double all = size.causal ? size.keys / 2 : size.keys;
  const bool skips = size.window > 0 && !size.sinks;
  const double seen = skips ? std::min(all, real(size.window) * (size.causal ? 1 : 2)) : all;
  const double sinks = size.sinks ? kSinks : 1;
  const AttentionRates& rate = rates.attention;
  const bool tiled = rates.multiprocessors > 0;
  const auto share = [&](double small, double middle, double wide) {
    if (size.qk_dim > kPlainHeadDim) return wide;
    if (!tiled || size.qk_dim == kPlainHeadDim) return 1.0;
    return size.qk_dim <= kSmallHeadDim ? small : middle;
  };
  const auto flops = [&](double span, double start) { return 4 * pairs * dim * (span + start) / sinks; };
  const double backward = kFlashBackward * (deterministic ? kDeterministic : 1);
  const double forward = rate.forward_flops_per_s * share(rate.small_forward, rate.middle_forward, rate.wide_forward);
  const double back = rate.backward_flops_per_s * share(rate.small_backward, rate.middle_backward, rate.wide_backward);
  return {flops(seen, rate.start_forward) / forward,
          backward * flops(rate.eight_bits ? all : seen, rate.start_backward) / back};
}

Passes scan_s(const DeviceRates& rates, double bytes, double flops) {
  const double forward_s = rowwise_s(rates, bytes, true) + flops / (rates.peak16_flops_per_s * kStateProducts);
  return {forward_s, 2 * forward_s};
}

double rowwise_s(const DeviceRates& rates, double bytes, bool fused) {
  return bytes * constants::kRowwise * (fused ? 1 : constants::kEager) / rates.memory_bytes_per_s;
}

}  // namespace nest::cost
