// What was measured on a device: files of schema nest.measurements/1 (tools/measure/measure.py writes them), or plain
// JSON lists of the same entries.
//
// A file is { "schema": "nest.measurements/1", "device": {...}, "software": {...}, "protocol": {...}, "entries": [ ...
// ] }. Entries that this program has a formula for are listed below; all others ("device", "sustained_gemm" with its
// own use, kinds of newer files) are counted and left out.
//   gemm          m n k                        s       bf16, [m, k] x [k, n]
//   gemm_fp8      m n k                        s
//   gemm_grouped  experts rows n k             s       one GEMM of `rows` per expert
//   memop         op rows h                    s       row-wise operators
//   sdpa          b heads kv seq hd causal     fwd bwd
//   sdpa_backend  the same and backend         fwd bwd CUDNN_ATTENTION, FLASH_ATTENTION
//   layer         model tp seq mbs [shape]     fwd fwd_bwd [host_fwd host_fwd_bwd]
//   sustained_gemm m n k                       last_tflops
// Seconds everywhere. `layer` takes its shape from h, heads, kv, ffn, gated, causal, or from a model preset of that
// name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/burst.h"
#include "doc/value.h"

namespace nest::calibrate {

// Which formula a measurement tests, and under which name its errors are reported.
enum class MeasuredKind : std::uint8_t {
  gemm,
  gemm_fp8,
  gemm_grouped,
  rowwise,
  attention_forward,
  attention_backward,
  flash2_forward,
  flash2_backward,
  layer_forward,
  layer_both,
  small_layer_forward,  // hidden size below 2048: the host's time rather than the device's
  small_layer_both,
  host_forward,  // host seconds to issue a layer's kernels
  host_both,
};
inline constexpr std::size_t kMeasuredKinds = 14;
const char* to_string(MeasuredKind kind);

struct Measurement {
  MeasuredKind kind = MeasuredKind::gemm;
  double seconds = 0;   // measured
  bool queued = false;  // the device never waited for the host
  double repetitions = 20;

  GemmCall gemm;            // gemm, gemm_fp8, gemm_grouped
  RowwiseShape rowwise;     // rowwise
  AttentionCall attention;  // attention_*, flash2_*
  BlockShape block;         // layer_*, host_*

  std::string label;  // "512 x 1024 x 4096", for messages
};

struct Measurements {
  std::string device;    // name as the driver gives it; empty in plain lists
  std::string software;  // "torch 2.11.0+cu130"
  std::string date;
  std::vector<Measurement> rows;
  std::vector<double> sustained_flops_per_s;  // of long GEMM loops
  std::size_t left_out = 0;                   // entries without a formula here
};

// Throws InputError that names file, entry, key and value.
Measurements read_measurements(const Document& document);

}  // namespace nest::calibrate
