// Pictures as SVG written by hand: no library, readable in light and dark, by shape and label as well as by colour.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "accuracy/report.h"
#include "base/index.h"
#include "base/units.h"

namespace nest::accuracy {
namespace {

constexpr const char* kStyle =
    "<style>\n"
    "  text { font: 13px system-ui, sans-serif; fill: #222 }\n"
    "  .small { font-size: 12px }\n"
    "  .title { font-size: 15px; font-weight: 600 }\n"
    "  .axis { stroke: #555; fill: none }\n"
    "  .grid { stroke: #ddd; fill: none }\n"
    "  .exact { stroke: #555; fill: none; stroke-dasharray: 6 4 }\n"
    "  .box { stroke: #555; fill: #8884 }\n"
    "  .middle { stroke: #222; stroke-width: 2 }\n"
    "  .back { fill: #fff }\n"
    "  .c0 { color: #0072b2 } .c1 { color: #d55e00 } .c2 { color: #009e73 } .c3 { color: #cc79a7 }\n"
    "  .c4 { color: #b58900 } .c5 { color: #2a9fd6 } .c6 { color: #7a5cc0 } .c7 { color: #666 }\n"
    "  .mark { fill: none; stroke: currentColor; stroke-width: 1.5 }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #ddd } .axis, .exact, .box { stroke: #aaa } .grid { stroke: #333 } .middle { stroke: #eee } "
    ".back { fill: #111 }\n"
    "    .c0 { color: #56b4e9 } .c1 { color: #ff8c42 } .c2 { color: #3ddc97 } .c7 { color: #aaa }\n"
    "  }\n"
    "</style>\n";

constexpr std::size_t kColours = 8;
constexpr std::size_t kShapes = 6;

std::string escape(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '&': safe += "&amp;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return safe;
}

// Colour and shape repeat with different periods, so that sources stay apart by both.
std::string marker(std::size_t source, double x, double y) {
  const std::string shape = [&] {
    switch ((source + source / kColours) % kShapes) {
      case 0: return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"", x, y);
      case 1: return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"6.4\" height=\"6.4\"", x - 3.2, y - 3.2);
      case 2: return fmt::format("<path d=\"M{:.1f} {:.1f}l4 7h-8z\"", x, y - 4.4);
      case 3: return fmt::format("<path d=\"M{:.1f} {:.1f}l4.4 4.4l-4.4 4.4l-4.4 -4.4z\"", x, y - 4.4);
      case 4: return fmt::format("<path d=\"M{:.1f} {:.1f}h8m-4 -4v8\"", x - 4, y);
      default: return fmt::format("<path d=\"M{:.1f} {:.1f}l7 7m0 -7l-7 7\"", x - 3.5, y - 3.5);
    }
  }();
  return fmt::format("{} class=\"mark c{}\"/>\n", shape, source % kColours);
}

std::string opening(double width, double height, const std::string& title, const std::string& description) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" role=\"img\" aria-labelledby=\"t d\">\n"
             "<title id=\"t\">{2}</title>\n<desc id=\"d\">{3}</desc>\n",
             width, height, escape(title), escape(description)) +
         kStyle + fmt::format("<rect class=\"back\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n", width, height);
}

std::string shown(double value, const std::string& unit) {
  if (unit == "s") return format_duration(value);
  if (unit == "bytes") return format_bytes(static_cast<std::int64_t>(value));
  return fmt::format("{:.3g}", value);
}

// Ticks at 1, 2 and 5 times powers of ten for times, at powers of two of a GiB for bytes.
std::vector<double> ticks(double low, double high, const std::string& unit) {
  std::vector<double> values;
  if (unit == "bytes") {
    for (double value = 1024; value < high * 2; value *= 2) {
      if (value >= low && value <= high) values.push_back(value);
    }
    while (values.size() > 8) {
      std::vector<double> thinned;
      for (std::size_t i = 0; i < values.size(); i += 2) thinned.push_back(values[i]);
      values = thinned;
    }
    return values;
  }
  const bool sparse = high / low > 2000;
  for (double power = 1e-9; power < high * 10; power *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      const double value = power * step;
      if (value >= low && value <= high && (!sparse || step == 1.0)) values.push_back(value);
    }
  }
  return values;
}

Picture scatter(const Set& set, const std::string& file) {
  constexpr double kLeft = 90;
  constexpr double kTop = 44;
  constexpr double kSide = 520;
  double low = 1e300;
  double high = 0;
  for (const Reading& reading : set.readings) {
    low = std::min({low, reading.point.measured, reading.point.predicted});
    high = std::max({high, reading.point.measured, reading.point.predicted});
  }
  low /= 1.15;
  high *= 1.15;
  const auto place = [&](double value) { return kSide * std::log(value / low) / std::log(high / low); };
  const auto x_of = [&](double value) { return kLeft + place(value); };
  const auto y_of = [&](double value) { return kTop + kSide - place(value); };

  std::vector<std::string> sources;
  for (const std::string& source : sources_of(set)) {
    if (errors_of(set, [&](const Reading& r) { return r.source == source; }).count > 0) sources.push_back(source);
  }
  const double height = std::max(kTop + kSide + 62, kTop + 20.0 * real(sources.size()) + 40);
  const Errors errors = errors_of(set);
  const std::string title = set.title + ": predicted against measured";
  std::string text = opening(
      kLeft + kSide + 210, height, title,
      fmt::format("{} readings on logarithmic axes; on the dashed line a prediction is exact. Mean error {:.1f} %.",
                  errors.count, 100 * errors.mean_absolute));
  text += fmt::format("<text class=\"title\" x=\"{:.0f}\" y=\"24\">{}</text>\n", kLeft, escape(title));
  for (const double tick : ticks(low, high, set.unit)) {
    const std::string label = shown(tick, set.unit);
    text += fmt::format("<path class=\"grid\" d=\"M{0:.1f} {1:.1f}v{2:.0f}M{3:.1f} {4:.1f}h{2:.0f}\"/>\n", x_of(tick),
                        kTop, kSide, kLeft, y_of(tick));
    text += fmt::format("<text class=\"small\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                        x_of(tick), kTop + kSide + 18, label);
    text += fmt::format("<text class=\"small\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 8,
                        y_of(tick) + 4, label);
  }
  text += fmt::format("<rect class=\"axis\" x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"{2:.0f}\" height=\"{2:.0f}\"/>\n",
                      kLeft, kTop, kSide);
  text +=
      fmt::format("<path class=\"exact\" d=\"M{:.0f} {:.0f}l{:.0f} -{:.0f}\"/>\n", kLeft, kTop + kSide, kSide, kSide);
  text += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">measured</text>\n", kLeft + kSide / 2,
                      kTop + kSide + 42);
  text += fmt::format("<text transform=\"translate(20 {:.0f}) rotate(-90)\" text-anchor=\"middle\">predicted</text>\n",
                      kTop + kSide / 2);
  for (std::size_t s = 0; s < sources.size(); ++s) {
    for (const Reading& reading : set.readings) {
      if (reading.source != sources[s]) continue;
      text += marker(s, x_of(reading.point.measured), y_of(reading.point.predicted));
    }
    const double y = kTop + 12 + 20.0 * real(s);
    text += marker(s, kLeft + kSide + 24, y);
    text += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\">{}</text>\n", kLeft + kSide + 38, y + 4.5, escape(sources[s]));
  }
  return {file, title, text + "</svg>\n"};
}

// One line per source: every error as a dot, the middle half as a box, the median as a bar.
std::string strip_row(const Set& set, const std::string& source, std::size_t index, double y,
                      const std::function<double(double)>& x_of) {
  std::vector<double> errors;
  std::string text;
  for (const Reading& reading : set.readings) {
    if (reading.source != source) continue;
    errors.push_back(reading.point.error());
    // Dots are spread up and down by a fixed pattern, so that equal errors stay visible and the picture is the same
    // every time.
    const double spread = real((errors.size() * 7) % 9) - 4;
    text += marker(index, x_of(errors.back()), y + spread);
  }
  const double first = x_of(quantile(errors, 0.25));
  const double last = x_of(quantile(errors, 0.75));
  const double middle = x_of(quantile(errors, 0.5));
  return fmt::format("<rect class=\"box\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"16\"/>\n", first, y - 8,
                     std::max(1.0, last - first)) +
         text + fmt::format("<path class=\"middle\" d=\"M{:.1f} {:.1f}v16\"/>\n", middle, y - 8);
}

Picture strip(const Set& set, const std::string& file) {
  constexpr double kLeft = 210;
  constexpr double kTop = 64;
  constexpr double kWidth = 560;
  constexpr double kRow = 28;
  std::vector<std::string> sources;
  std::vector<double> sizes;
  for (const std::string& source : sources_of(set)) {
    if (errors_of(set, [&](const Reading& r) { return r.source == source; }).count > 0) sources.push_back(source);
  }
  for (const Reading& reading : set.readings) sizes.push_back(std::abs(reading.point.error()));
  const double reach = std::clamp(quantile(sizes, 0.98) * 1.1, 0.01, 0.5);
  const std::function<double(double)> x_of = [&](double error) {
    return kLeft + kWidth * (0.5 + 0.5 * std::clamp(error / reach, -1.0, 1.0));
  };
  const double bottom = kTop + kRow * real(sources.size());
  const std::string title = set.title + ": error per source";
  std::string text = opening(kLeft + kWidth + 70, bottom + 50, title,
                             fmt::format("Every dot is one reading; boxes hold the middle half, bars are medians. "
                                         "Errors beyond {:.0f} % are drawn at the edge.",
                                         100 * reach));
  text += fmt::format("<text class=\"title\" x=\"16\" y=\"24\">{}</text>\n", escape(title));
  for (int k = -2; k <= 2; ++k) {
    const double error = reach * k / 2;
    text += fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.0f}V{:.0f}\"/>\n", k == 0 ? "axis" : "grid", x_of(error),
                        kTop - 16, bottom);
    text += fmt::format("<text class=\"small\" x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{:+.1f} %</text>\n",
                        x_of(error), bottom + 20, 100 * error);
  }
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const double y = kTop + kRow * (real(s) + 0.3);
    const Errors errors = errors_of(set, [&](const Reading& r) { return r.source == sources[s]; });
    text += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{} ({})</text>\n", kLeft - 14, y + 4.5,
                        escape(sources[s]), errors.count);
    text += strip_row(set, sources[s], s, y, x_of);
    text += fmt::format("<text class=\"small\" x=\"{:.0f}\" y=\"{:.1f}\">{:.1f} %</text>\n", kLeft + kWidth + 12,
                        y + 4.5, 100 * errors.mean_absolute);
  }
  text += fmt::format("<text class=\"small\" x=\"{:.0f}\" y=\"{:.0f}\">mean</text>\n", kLeft + kWidth + 12, kTop - 20);
  text += fmt::format(
      "<text class=\"small\" x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">predicted / measured − 1</text>\n",
      kLeft + kWidth / 2, bottom + 40);
  return {file, title, text + "</svg>\n"};
}

}  // namespace

std::vector<Picture> draw(const std::vector<Set>& sets) {
  constexpr std::size_t kEnough = 3;
  std::vector<Picture> pictures;
  for (const auto& [name, file] : {std::pair{"published_time", "time"},
                                   {"published_memory", "memory"},
                                   {"vtrain_single", "vtrain-single"},
                                   {"vtrain_multi", "vtrain-multi"}}) {
    const Set* set = find_set(sets, name);
    if (!set || set->readings.size() < kEnough) continue;
    pictures.push_back(scatter(*set, fmt::format("{}.svg", file)));
    pictures.push_back(strip(*set, fmt::format("{}-errors.svg", file)));
  }
  return pictures;
}

}  // namespace nest::accuracy
