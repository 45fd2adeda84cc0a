#include "cost/rates.h"

#include <algorithm>
#include <string>

#include "cost/eager_time.h"
#include "cost/facts.h"

namespace nest::cost {
namespace {

// Defaults for devices that nobody calibrated: middling values of those that were.
struct Fallback {
  double gemm;
  double native_forward, native_backward;
  double flash2_forward, flash2_backward;
};
constexpr Fallback kTiled = {0.65, 0.48, 0.34, 0.36, 0.19};
constexpr Fallback kSystolic = {0.95, 0.38, 0.093, 0.38, 0.093};  // no tiles: TPU
constexpr double kTile = 0.97;
constexpr double kMemory = 0.85;

double constant(const cluster::Device& device, std::string_view name, double otherwise) {
  return device.efficiency_of(name).value_or(otherwise);
}

AttentionRates attention_rates(const cluster::Device& device, const SoftwareStack& stack, const Fallback& fallback,
                               double peak) {
  AttentionKernel kernel = stack.attention;
  if (stack.deterministic && kernel == AttentionKernel::native && constant(device, "native_deterministic", 1) == 0) {
    kernel = AttentionKernel::flash2;
  }
  const double forward2 = constant(device, "flash2_forward", fallback.flash2_forward);
  const double backward2 = constant(device, "flash2_backward", fallback.flash2_backward);
  switch (kernel) {
    case AttentionKernel::unfused: return {};
    case AttentionKernel::triton:
      return {peak * constant(device, "triton_forward", forward2),
              peak * constant(device, "triton_backward", backward2)};
    case AttentionKernel::flash2: return {peak * forward2, peak * backward2};
    case AttentionKernel::native: break;
  }
  const double forward = constant(device, "native_forward", std::max(forward2, fallback.native_forward));
  const double backward = constant(device, "native_backward", std::max(backward2, fallback.native_backward));
  if (!stack.fp8_attention) return {peak * forward, peak * backward};
  // A device on which nobody measured kernels of 8 bits gains nothing by them.
  const double forward8 = constant(device, "native8_forward", forward);
  const double backward8 = constant(device, "native8_backward", backward);
  return {peak * forward8, peak * backward8, constant(device, "native8_wide_forward", forward8) / forward8,
          constant(device, "native8_wide_backward", backward8) / backward8, true};
}

// Kernels of modules that run as written, one after the other.
void write_out(const SoftwareStack& stack, DeviceRates& rates) {
  rates.gap_s = constants::kWrittenGap_s;
  rates.matrix_flops_per_s *= constants::kWrittenProducts;
  rates.matrix16_flops_per_s *= constants::kWrittenProducts;
  if (stack.attention != AttentionKernel::native) return;
  AttentionRates& attention = rates.attention;
  attention.forward_flops_per_s *= constants::kWrittenForward;
  attention.backward_flops_per_s *= constants::kWrittenBackward;
  attention.start_forward = constants::kWrittenStart;
  attention.start_backward = constants::kWrittenStartBack;
  attention.small_forward = constants::kWrittenSmall;
  attention.small_backward = constants::kWrittenSmallBack;
  attention.middle_forward = constants::kWrittenMiddle;
  attention.middle_backward = constants::kWrittenMiddleBack;
  attention.wide_forward = constants::kWrittenWide;
  attention.wide_backward = constants::kWrittenWideBack;
}

}  // namespace

double peak16_flops_per_s(const cluster::Device& device) {
  const double bf16 = device.peak(Precision::bf16);
  return bf16 > 0 ? bf16 : device.peak(Precision::fp16);
}

double peak_flops_per_s(const cluster::Device& device, Precision precision) {
  if (precision == Precision::fp4) return device.peak(Precision::fp8) * constant(device, "fp4_peak", 0);
  if (precision == Precision::fp32) return std::max(device.peak(Precision::tf32), device.peak(Precision::fp32));
  return device.peak(precision);
}

double mfu_peak_flops_per_s(const cluster::Device& device, Precision precision) {
  constexpr double kSixteenBits = 2;
  const bool narrow = facts_of(precision).element_bytes < kSixteenBits;
  return narrow ? peak_flops_per_s(device, precision) : peak16_flops_per_s(device);
}

DeviceRates sustained_rates(const cluster::Device& device, Precision precision, const SoftwareStack& stack) {
  const Fallback& fallback = device.multiprocessors > 0 ? kTiled : kSystolic;
  const double gemm16 = constant(device, "gemm_bf16", fallback.gemm);
  const PrecisionFacts& facts = facts_of(precision);
  DeviceRates rates;
  rates.matrix_flops_per_s = peak_flops_per_s(device, precision) * constant(device, facts.gemm, gemm16);
  rates.element_bytes = facts.element_bytes;
  rates.activation_bytes = facts.activation_bytes;
  // Where everything is fp32, so are router, head and attention.
  const bool full = precision == Precision::fp32;
  rates.peak16_flops_per_s = full ? peak_flops_per_s(device, precision) : peak16_flops_per_s(device);
  rates.matrix16_flops_per_s = full ? rates.matrix_flops_per_s : rates.peak16_flops_per_s * gemm16;
  rates.memory_bytes_per_s = device.memory_bytes_per_s * constant(device, "memory", kMemory);
  rates.multiprocessors = device.multiprocessors;
  rates.tile = constant(device, "tile", kTile);
  rates.attention = attention_rates(device, stack, fallback, rates.peak16_flops_per_s);
  if (runs_as_written(stack) && device.multiprocessors > 0) write_out(stack, rates);
  return rates;
}

}  // namespace nest::cost
