#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "base/real.h"
#include "base/text.h"

namespace nest {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array kByteUnits = {
    Unit{"", 1},         Unit{"B", 1},        Unit{"bytes", 1},    Unit{"kB", 1e3},     Unit{"KB", 1e3},
    Unit{"MB", 1e6},     Unit{"GB", 1e9},     Unit{"TB", 1e12},    Unit{"PB", 1e15},    Unit{"KiB", 0x1p10},
    Unit{"MiB", 0x1p20}, Unit{"GiB", 0x1p30}, Unit{"TiB", 0x1p40}, Unit{"PiB", 0x1p50},
};

constexpr std::array kBandwidthUnits = {
    Unit{"", 1},           Unit{"B/s", 1},        Unit{"kB/s", 1e3},     Unit{"KB/s", 1e3},     Unit{"MB/s", 1e6},
    Unit{"GB/s", 1e9},     Unit{"TB/s", 1e12},    Unit{"KiB/s", 0x1p10}, Unit{"MiB/s", 0x1p20}, Unit{"GiB/s", 0x1p30},
    Unit{"TiB/s", 0x1p40}, Unit{"bps", 0.125},    Unit{"kbps", 125},     Unit{"Mbps", 125e3},   Unit{"Gbps", 125e6},
    Unit{"Tbps", 125e9},   Unit{"Mb/s", 125e3},   Unit{"Gb/s", 125e6},   Unit{"Tb/s", 125e9},   Unit{"Gbit/s", 125e6},
    Unit{"Mbit/s", 125e3}, Unit{"Tbit/s", 125e9},
};

constexpr std::array kDurationUnits = {
    Unit{"", 1},      Unit{"s", 1},      Unit{"ms", 1e-3}, Unit{"us", 1e-6}, Unit{"µs", 1e-6},
    Unit{"ns", 1e-9}, Unit{"ps", 1e-12}, Unit{"min", 60},  Unit{"h", 3600},  Unit{"d", 86400},
};

constexpr std::array kComputeUnits = {
    Unit{"", 1},       Unit{"FLOPS", 1},     Unit{"GFLOPS", 1e9},   Unit{"TFLOPS", 1e12},  Unit{"PFLOPS", 1e15},
    Unit{"FLOP/s", 1}, Unit{"GFLOP/s", 1e9}, Unit{"TFLOP/s", 1e12}, Unit{"PFLOP/s", 1e15}, Unit{"EFLOP/s", 1e18},
};

constexpr std::array kCountUnits = {
    Unit{"", 1},     Unit{"k", 1e3},       Unit{"K", 1e3},       Unit{"M", 1e6},         Unit{"B", 1e9},
    Unit{"T", 1e12}, Unit{"million", 1e6}, Unit{"billion", 1e9}, Unit{"trillion", 1e12},
};

[[noreturn]] void fail_quantity(std::string_view text, std::string_view what, std::string_view example) {
  throw InputError(fmt::format("`{}` is not a {}; write for example {}", clip(text, 40), what, example));
}

double parse_quantity(std::string_view text, std::span<const Unit> units, std::string_view what,
                      std::string_view example) {
  const std::string_view trimmed = trim(text);
  double number = 0;
  const char* const begin = trimmed.data();
  const char* const end = begin + trimmed.size();
  const auto [rest, status] = real_from_chars(begin, end, number);
  if (status != std::errc{} || !std::isfinite(number) || number < 0) fail_quantity(text, what, example);
  const std::string_view suffix = trim(std::string_view(rest, static_cast<std::size_t>(end - rest)));
  for (const Unit& unit : units) {
    if (unit.name == suffix) return number * unit.factor;
  }
  fail_quantity(text, what, example);
}

struct Scale {
  double at_least;
  double factor;
  std::string_view name;
};

// Three significant digits, but never fewer than the integer part has, so that 1,024 GB does not turn into 1.02e+03.
std::string three_digits(double value) {
  const double magnitude = std::abs(value);
  constexpr double kReadable = 1e15;  // nobody counts the digits of more
  if (!(magnitude < kReadable)) return fmt::format("{:.3g}", value);
  const int decimals = magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string format_scaled(double value, std::span<const Scale> scales) {
  for (const Scale& scale : scales) {
    if (std::abs(value) >= scale.at_least) return fmt::format("{} {}", three_digits(value / scale.factor), scale.name);
  }
  const Scale& smallest = scales.back();
  return fmt::format("{} {}", three_digits(value / smallest.factor), smallest.name);
}

}  // namespace

std::int64_t parse_bytes(std::string_view text) {
  const double bytes = parse_quantity(text, kByteUnits, "size", "80GiB or 512 MB");
  if (bytes > 0x1p62) fail_quantity(text, "size that any machine has", "80GiB or 512 MB");
  return std::llround(bytes);
}

double parse_bandwidth(std::string_view text) {
  return parse_quantity(text, kBandwidthUnits, "bandwidth", "900GB/s or 400Gbps");
}

double parse_duration(std::string_view text) {
  return parse_quantity(text, kDurationUnits, "duration", "5us or 1.2 ms");
}

double parse_compute_rate(std::string_view text) {
  return parse_quantity(text, kComputeUnits, "compute rate", "989 TFLOPS");
}

double parse_count(std::string_view text) { return parse_quantity(text, kCountUnits, "count", "15T or 300e9"); }

double parse_price(std::string_view text) {
  std::string_view amount = trim(text);
  for (const std::string_view sign : {"$", "US$", "USD", "€", "EUR", "£"}) {
    if (amount.starts_with(sign)) amount = trim(amount.substr(sign.size()));
  }
  // "/h", "USD/GPU-hour": what follows the number says of what.
  static constexpr std::array kPriceUnits = {
      Unit{"", 1},     Unit{"$", 1},      Unit{"USD", 1},       Unit{"EUR", 1},       Unit{"€", 1},
      Unit{"/h", 1},   Unit{"/hour", 1},  Unit{"/gpu-hour", 1}, Unit{"/GPU-hour", 1}, Unit{"/device-hour", 1},
      Unit{"$/h", 1},  Unit{"$/hour", 1}, Unit{"USD/h", 1},     Unit{"USD/hour", 1},  Unit{"/GPUh", 1},
      Unit{"EUR/h", 1}};
  const double price = parse_quantity(amount, kPriceUnits, "price of a device-hour", "2.5 or $2.50");
  if (price <= 0) fail_quantity(text, "price above 0", "2.5 or $2.50");
  return price;
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array kScales = {Scale{0x1p50, 0x1p50, "PiB"}, Scale{0x1p40, 0x1p40, "TiB"},
                                         Scale{0x1p30, 0x1p30, "GiB"}, Scale{0x1p20, 0x1p20, "MiB"},
                                         Scale{0x1p10, 0x1p10, "KiB"}};
  if (std::llabs(bytes) < 1024) return fmt::format("{} B", bytes);
  return format_scaled(static_cast<double>(bytes), kScales);
}

std::string format_bandwidth(double bytes_per_s) {
  static constexpr std::array kScales = {Scale{1e12, 1e12, "TB/s"}, Scale{1e9, 1e9, "GB/s"}, Scale{1e6, 1e6, "MB/s"},
                                         Scale{0, 1e3, "kB/s"}};
  return format_scaled(bytes_per_s, kScales);
}

std::string format_duration(double seconds) {
  static constexpr std::array kScales = {
      Scale{2 * 86400, 86400, "days"}, Scale{2 * 3600, 3600, "h"},   Scale{120, 60, "min"}, Scale{0.9995, 1, "s"},
      Scale{0.9995e-3, 1e-3, "ms"},    Scale{0.9995e-6, 1e-6, "us"}, Scale{0, 1e-9, "ns"}};
  if (seconds == 0) return "0 s";
  return format_scaled(seconds, kScales);
}

std::string format_compute_rate(double flops_per_s) {
  static constexpr std::array kScales = {Scale{1e18, 1e18, "EFLOP/s"}, Scale{1e15, 1e15, "PFLOP/s"},
                                         Scale{1e12, 1e12, "TFLOP/s"}, Scale{0, 1e9, "GFLOP/s"}};
  return format_scaled(flops_per_s, kScales);
}

std::string format_count(double count) {
  static constexpr std::array kScales = {Scale{1e12, 1e12, "T"}, Scale{1e9, 1e9, "B"}, Scale{1e6, 1e6, "M"},
                                         Scale{0, 1e3, "K"}};
  if (std::abs(count) < 1000) return fmt::format("{:.0f}", count);
  return format_scaled(count, kScales);
}

std::string format_flops(double flops) {
  static constexpr std::array kScales = {Scale{1e18, 1e18, "EFLOP"}, Scale{1e15, 1e15, "PFLOP"},
                                         Scale{1e12, 1e12, "TFLOP"}, Scale{1e9, 1e9, "GFLOP"},
                                         Scale{1e6, 1e6, "MFLOP"},   Scale{0, 1e3, "kFLOP"}};
  if (flops == 0) return "0";
  return format_scaled(flops, kScales);
}

std::string format_integer(std::int64_t value) {
  const auto unsigned_value = static_cast<std::uint64_t>(value);
  const std::string digits = std::to_string(value < 0 ? 0 - unsigned_value : unsigned_value);
  std::string grouped = value < 0 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::string format_percent(double fraction) { return fmt::format("{:.1f} %", fraction * 100); }

}  // namespace nest
