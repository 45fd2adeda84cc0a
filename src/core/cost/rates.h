// What one device sustains in long training runs: its peaks times its efficiencies (data/devices), with defaults by
// rule for devices that were never calibrated. Names of the constants in a device's `efficiency` map:
//
//   gemm_bf16, gemm_fp8, gemm_fp4, gemm_fp32   matrix products, share of that precision's peak; fp16, and what is
//                                              absent, as gemm_bf16
//   fp4_peak                                   peak at 4 bits over the peak at 8 bits; 0 or absent: no such arithmetic
//   triton_forward,  triton_backward           attention kernels by generation, share of the 16-bit peak; triton, where
//   flash2_forward,  flash2_backward           absent, as flash2; native at least as fast as flash2
//   native_forward,  native_backward
//   native8_forward, native8_backward          … of 8 bits (fp8_attention), still of the 16-bit peak; native8_wide_forward
//                                              and native8_wide_backward with heads of more than 128. Absent: as native
//   native_deterministic                       0: the native kernel has no deterministic backward; flash2 runs instead
//   tile                                       rate kept with every halving of the tile below 128 x 256
//   memory                                     share of the memory bandwidth
#pragma once

#include <cstdint>

#include "cluster/device.h"
#include "cost/constants.h"
#include "cost/job.h"

namespace nest::cost {

struct AttentionRates {
  double forward_flops_per_s = 0;
  double backward_flops_per_s = 0;
  // Times as fast with heads of more than kPlainHeadDim for queries and keys (latent attention).
  double wide_forward = 1;
  double wide_backward = 1;
  bool eight_bits = false;  // products of 8 bits; that backward kernel computes what lies outside a window too
  // At head sizes of at most 64 and between that and 128; and keys' worth of time per query beside those it sees.
  double small_forward = constants::kSmallHead, small_backward = constants::kSmallHead;
  double middle_forward = 1, middle_backward = 1;
  double start_forward = constants::kAttentionStart, start_backward = constants::kAttentionStart;
};

struct DeviceRates {
  double matrix_flops_per_s = 0;    // of the job's precision, sustained
  double matrix16_flops_per_s = 0;  // of what always runs in 16 bits (fp32 jobs: in 32)
  double peak16_flops_per_s = 0;    // of the data sheet
  double element_bytes = 2;         // of matrix inputs in the job's precision
  double activation_bytes = 2;
  double memory_bytes_per_s = 0;     // sustained
  std::int64_t multiprocessors = 0;  // 0: no tiles
  double tile = 0.97;
  double gap_s = constants::kGap_s;  // between kernels of one stream
  AttentionRates attention;          // of the stack's kernel; unused when attention is unfused
};

DeviceRates sustained_rates(const cluster::Device& device, Precision precision, const SoftwareStack& stack);

// Peak of the precision that a job computes in; 0 when the device has none.
double peak_flops_per_s(const cluster::Device& device, Precision precision);
// bf16 where the device has it, else fp16.
double peak16_flops_per_s(const cluster::Device& device);
// What MFU is measured against: the precision's own peak where it has fewer bits than 16, else the peak of 16.
double mfu_peak_flops_per_s(const cluster::Device& device, Precision precision);

}  // namespace nest::cost
