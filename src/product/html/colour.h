// Colours of stages: a ramp from dark blue over green to sand whose lightness rises evenly, so that neighbours differ
// for every kind of colour vision, and in grey.
#pragma once

#include <cstdint>
#include <string>

namespace nest::html {

struct Colour {
  double red = 0, green = 0, blue = 0;  // sRGB, 0 … 1
};

Colour stage_colour(std::int64_t stage, std::int64_t stages);

// "#1f3a5f"
std::string to_hex(const Colour& colour);

// Contrast ratio as the web content accessibility guidelines define it, 1 … 21.
double contrast(const Colour& a, const Colour& b);

// Black or white, whichever reads better on it; the contrast is at least 4.5.
Colour ink_on(const Colour& colour);

}  // namespace nest::html
