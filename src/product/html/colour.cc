#include "html/colour.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace nest::html {
namespace {

constexpr double kByte = 255;
constexpr std::array<Colour, 5> kRamp = {{{0x1f / kByte, 0x3c / kByte, 0x66 / kByte},
                                          {0x2f / kByte, 0x6c / kByte, 0x97 / kByte},
                                          {0x4b / kByte, 0x9b / kByte, 0xa4 / kByte},
                                          {0x97 / kByte, 0xc1 / kByte, 0x9b / kByte},
                                          {0xea / kByte, 0xdf / kByte, 0xa6 / kByte}}};
constexpr double kOnlyStage = 0.25;  // where on the ramp a single stage stands

double linear(double value) { return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4); }

double luminance(const Colour& c) {
  return 0.2126 * linear(c.red) + 0.7152 * linear(c.green) + 0.0722 * linear(c.blue);
}

double between(double a, double b, double t) { return a + (b - a) * t; }

}  // namespace

Colour stage_colour(std::int64_t stage, std::int64_t stages) {
  const double t = stages < 2 ? kOnlyStage : static_cast<double>(stage) / static_cast<double>(stages - 1);
  const double place = std::clamp(t, 0.0, 1.0) * static_cast<double>(kRamp.size() - 1);
  const auto low = std::min(static_cast<std::size_t>(place), kRamp.size() - 2);
  const double part = place - static_cast<double>(low);
  const Colour& a = kRamp[low];
  const Colour& b = kRamp[low + 1];
  return {between(a.red, b.red, part), between(a.green, b.green, part), between(a.blue, b.blue, part)};
}

std::string to_hex(const Colour& colour) {
  const auto byte = [](double value) { return static_cast<int>(std::lround(kByte * value)); };
  return fmt::format("#{:02x}{:02x}{:02x}", byte(colour.red), byte(colour.green), byte(colour.blue));
}

double contrast(const Colour& a, const Colour& b) {
  const double one = luminance(a) + 0.05, other = luminance(b) + 0.05;
  return std::max(one, other) / std::min(one, other);
}

Colour ink_on(const Colour& colour) {
  const Colour white{1, 1, 1}, black{0, 0, 0};
  return contrast(colour, white) >= contrast(colour, black) ? white : black;
}

}  // namespace nest::html
