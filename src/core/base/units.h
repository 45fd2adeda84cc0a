// Quantities as people write them, parsed and printed in one place.
//
// Inside nest every quantity is a plain number whose name carries its unit: `_bytes` (int64), `_s` (seconds, double),
// `_bytes_per_s`, `_flops` (operations), `_flops_per_s`. Conversions to and from text happen only here.
// Decimal prefixes are powers of 1000 (GB, Gbps), binary ones powers of 1024 (GiB); the two are never mixed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "nest/text.h"

namespace nest {

// "80GiB", "80 GB", "512", "1.5 TiB" -> bytes. Throws InputError.
std::int64_t parse_bytes(std::string_view text);

// "989 TFLOPS", "1.98 PFLOP/s", "312e12" -> operations per second. Throws InputError.
double parse_compute_rate(std::string_view text);

std::string format_bandwidth(double bytes_per_s);     // "12.5 GB/s"
std::string format_compute_rate(double flops_per_s);  // "989 TFLOP/s"
std::string format_count(double count);               // "70.6 B" (thousand K, million M, billion B, trillion T)
std::string format_flops(double flops);               // "421 GFLOP"
std::string format_percent(double fraction);          // 0.389 -> "38.9 %"

}  // namespace nest
