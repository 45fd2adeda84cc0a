#include "sweep/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace nest::sweep {
namespace {

using html::coordinate;
using html::Markup;

constexpr double kWidth = 312, kHeight = 216;
constexpr double kLeft = 46, kRight = 12, kTop = 12, kBottom = 40;
constexpr double kLogFrom = 6;  // ranges of so many times are drawn by their logarithm
constexpr std::size_t kMostTicks = 7;
constexpr double kLetter = 6;  // pixels, about

// From values to places.
struct Scale {
  double low = 0, high = 1;
  double from = 0, to = 1;
  bool logarithmic = false;

  double at(double value) const {
    const auto f = [&](double v) { return logarithmic ? std::log(v) : v; };
    const double span = f(high) - f(low);
    return span > 0 ? from + (to - from) * (f(value) - f(low)) / span : (from + to) / 2;
  }
};

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_wide() const { return low > 0 && high / low >= kLogFrom; }
};

std::vector<double> round_ticks(const Scale& scale) {
  std::vector<double> ticks;
  if (scale.logarithmic) {
    const double decades = std::log10(scale.high / scale.low);
    for (double power = std::floor(std::log10(scale.low)); power <= std::log10(scale.high) + 1; ++power) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        if (decades > 3 && digit != 1) continue;
        const double tick = digit * std::pow(10, power);
        if (tick >= scale.low * 0.999 && tick <= scale.high * 1.001) ticks.push_back(tick);
      }
    }
    return ticks;
  }
  const double span = scale.high - scale.low;
  if (span <= 0) return {scale.low};
  double step = std::pow(10, std::floor(std::log10(span / 4)));
  for (const double times : {2.0, 2.5, 2.0}) {
    if (span / step > 6) step *= times;
  }
  for (double tick = std::ceil(scale.low / step - 1e-9) * step; tick <= scale.high + step * 1e-6; tick += step) {
    ticks.push_back(std::abs(tick) < step * 1e-6 ? 0 : tick);
  }
  return ticks;
}

// Every k-th, so that no more than kMostTicks are left.
std::vector<std::size_t> thinned(std::size_t count) {
  const std::size_t stride = (count + kMostTicks - 1) / kMostTicks;
  std::vector<std::size_t> kept;
  for (std::size_t k = 0; k < count; k += std::max<std::size_t>(1, stride)) kept.push_back(k);
  return kept;
}

std::string points_text(const std::vector<std::pair<double, double>>& places) {
  std::string text;
  for (const auto& [x, y] : places) text += (text.empty() ? "" : " ") + coordinate(x) + "," + coordinate(y);
  return text;
}

// A shape around a place; each differs from the others without colour.
void add_shape(Markup& out, int style, double x, double y) {
  constexpr double r = 3.6;
  const std::string name = fmt::format("s s{}", style);
  const auto polygon = [&](const std::vector<std::pair<double, double>>& corners) {
    std::vector<std::pair<double, double>> places;
    places.reserve(corners.size());
    for (const auto& [dx, dy] : corners) places.emplace_back(x + r * dx, y + r * dy);
    out.empty("polygon", {{"class", name}, {"points", points_text(places)}});
  };
  switch (style % 6) {
    case 0:
      out.empty("circle", {{"class", name}, {"cx", coordinate(x)}, {"cy", coordinate(y)}, {"r", coordinate(r)}});
      return;
    case 1: return polygon({{-.9, -.9}, {.9, -.9}, {.9, .9}, {-.9, .9}});
    case 2: return polygon({{0, -1.2}, {1.1, .9}, {-1.1, .9}});
    case 3: return polygon({{0, -1.3}, {1.3, 0}, {0, 1.3}, {-1.3, 0}});
    case 4: return polygon({{-1.1, -.9}, {1.1, -.9}, {0, 1.2}});
    default:
      return polygon({{-.4, -1.2},
                      {.4, -1.2},
                      {.4, -.4},
                      {1.2, -.4},
                      {1.2, .4},
                      {.4, .4},
                      {.4, 1.2},
                      {-.4, 1.2},
                      {-.4, .4},
                      {-1.2, .4},
                      {-1.2, -.4},
                      {-.4, -.4}});
  }
}

void add_mark(Markup& out, const Mark& mark, const std::optional<int>& style, double x, double y) {
  const bool linked = !mark.address.empty();
  if (linked) {
    out.open("a", {{"href", mark.address}, {"aria-label", mark.title}});
  } else {
    out.open("g");
  }
  out.element("title", mark.title);
  if (linked) out.empty("circle", {{"class", "hit"}, {"cx", coordinate(x)}, {"cy", coordinate(y)}, {"r", "9"}});
  if (style) {
    add_shape(out, *style, x, y);
  } else {
    out.empty("circle", {{"class", "faint"}, {"cx", coordinate(x)}, {"cy", coordinate(y)}, {"r", "2.4"}});
  }
  out.close();
}

void add_cross(Markup& out, const Mark& mark, double x, double y) {
  if (mark.address.empty()) {
    out.open("g");
  } else {
    out.open("a", {{"href", mark.address}, {"aria-label", mark.title}});
  }
  out.element("title", mark.title);
  out.empty("circle", {{"class", "hit"}, {"cx", coordinate(x)}, {"cy", coordinate(y)}, {"r", "7"}});
  out.empty("path",
            {{"class", "none"}, {"d", fmt::format("M{} {}l6 6m0 -6l-6 6", coordinate(x - 3), coordinate(y - 3))}});
  out.close();
}

void add_line(Markup& out, const Series& series, const Scale& x, const Scale& y) {
  std::vector<std::pair<double, double>> places;
  for (const Mark& mark : series.marks) {
    const double px = x.at(mark.x), py = y.at(mark.y);
    if (series.steps && !places.empty()) places.emplace_back(px, places.back().second);
    places.emplace_back(px, py);
  }
  if (places.size() < 2) return;
  out.empty("polyline", {{"class", fmt::format("l l{}", series.style.value_or(0))}, {"points", points_text(places)}});
}

struct Axes {
  Scale x, y;
};

Axes axes_of(const Chart& chart) {
  Extent x, y;
  for (const Series& series : chart.series) {
    for (const Mark& mark : series.marks) {
      x.add(mark.x);
      y.add(mark.y);
    }
  }
  for (const Mark& mark : chart.missing) x.add(mark.x);
  if (chart.x_ticks.size() > 1) {
    x.add(chart.x_ticks.front());
    x.add(chart.x_ticks.back());
  }
  if (!(x.low <= x.high)) x = {0, 1};
  if (!(y.low <= y.high)) y = {0, 1};
  Axes axes;
  axes.x = {x.low, x.high, kLeft + 8, kWidth - kRight - 6, x.is_wide()};
  axes.y = {y.low, y.high, kHeight - kBottom - 4, kTop + 4, y.is_wide()};
  if (!axes.y.logarithmic) {
    axes.y.low = std::min(0.0, y.low);
    if (axes.y.high <= axes.y.low) axes.y.high = axes.y.low + 1;
  }
  if (!axes.x.logarithmic && chart.x_ticks.empty()) {
    const double room = 0.04 * std::max(x.high - x.low, std::abs(x.high) * 0.1);
    axes.x.low -= room;
    axes.x.high += room;
  }
  return axes;
}

void add_frame(Markup& out, const Chart& chart, const Axes& axes) {
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  std::vector<double> y_ticks = round_ticks(axes.y);
  for (const std::size_t k : thinned(y_ticks.size())) {
    const double y = axes.y.at(y_ticks[k]);
    out.empty("line", {{"class", "rule"},
                       {"x1", coordinate(kLeft)},
                       {"x2", coordinate(right)},
                       {"y1", coordinate(y)},
                       {"y2", coordinate(y)}});
    out.element("text", short_number(y_ticks[k]),
                {{"class", "tick end"}, {"x", coordinate(kLeft - 5)}, {"y", coordinate(y + 3.5)}});
  }
  out.empty("line", {{"class", "base"},
                     {"x1", coordinate(kLeft)},
                     {"x2", coordinate(right)},
                     {"y1", coordinate(bottom)},
                     {"y2", coordinate(bottom)}});
  const std::vector<double> x_ticks = chart.x_ticks.empty() ? round_ticks(axes.x) : chart.x_ticks;
  double free_from = -1e9;
  for (std::size_t k = 0; k < x_ticks.size(); ++k) {
    const double x = axes.x.at(x_ticks[k]);
    const std::string name = k < chart.x_tick_names.size() ? chart.x_tick_names[k] : short_number(x_ticks[k]);
    const double half = kLetter * static_cast<double>(name.size()) / 2;
    if (x - half < free_from) continue;
    free_from = x + half + 6;
    out.empty("line", {{"class", "base"},
                       {"x1", coordinate(x)},
                       {"x2", coordinate(x)},
                       {"y1", coordinate(bottom)},
                       {"y2", coordinate(bottom + 3)}});
    out.element("text", name, {{"class", "tick mid"}, {"x", coordinate(x)}, {"y", coordinate(bottom + 14)}});
  }
  out.element("text", chart.x_title,
              {{"class", "tick mid name"}, {"x", coordinate((kLeft + right) / 2)}, {"y", coordinate(kHeight - 8)}});
  out.element("text", chart.y_title, {{"class", "tick name"}, {"x", "2"}, {"y", "9"}});
}

}  // namespace

const char* const kChartStyle = R"css(
.charts{display:flex;flex-wrap:wrap;gap:.4rem 1.2rem}
.chart{margin:.2rem 0}
.chart figcaption{margin:0;color:var(--ink);font-size:.85rem;max-width:19.5rem;min-height:1.3rem}
.chart svg{display:block;max-width:100%;height:auto;overflow:visible}
.rule{stroke:var(--line);stroke-width:1}
.base{stroke:var(--muted);stroke-width:1}
.tick{fill:var(--muted);font-size:10px;font-variant-numeric:tabular-nums}
.name{font-size:10.5px}
.end{text-anchor:end}.mid{text-anchor:middle}
.hit{fill:transparent}
.l{fill:none;stroke-width:1.6}
.faint{fill:var(--other);fill-opacity:.55}
.none{stroke:var(--over);stroke-width:1.4;fill:none}
.s{stroke:var(--back);stroke-width:.8}
.s0{fill:var(--compute)}.s1{fill:var(--tp)}.s2{fill:var(--zero)}.s3{fill:var(--ep)}.s4{fill:var(--optimizer)}.s5{fill:var(--other)}
.l0{stroke:var(--compute)}.l1{stroke:var(--tp)}.l2{stroke:var(--zero)}.l3{stroke:var(--ep)}.l4{stroke:var(--optimizer)}.l5{stroke:var(--other)}
.chart a:hover .s,.chart a:focus .s{stroke:var(--ink);stroke-width:1.6}
.chart a:hover .faint{fill-opacity:1}
.shape{width:14px;height:14px;vertical-align:-.1rem;margin-right:.3rem}
)css";

std::string short_number(double value) {
  const double size = std::abs(value);
  if (size == 0) return "0";
  static constexpr std::array<std::pair<double, const char*>, 5> kUnits = {
      std::pair{1e15, "P"}, std::pair{1e12, "T"}, std::pair{1e9, "G"}, std::pair{1e6, "M"}, std::pair{1e4, "k"}};
  for (const auto& [unit, name] : kUnits) {
    if (size >= unit * 0.9999) return fmt::format("{:.3g}{}", value / (unit == 1e4 ? 1e3 : unit), name);
  }
  return size >= 0.001 ? fmt::format("{:.4g}", value) : fmt::format("{:.0e}", value);
}

html::Markup series_key(int style, const std::string& name) {
  Markup out;
  out.open("span", {{"class", "key"}});
  out.open("svg", {{"class", "shape"}, {"viewBox", "0 0 14 14"}, {"aria-hidden", "true"}});
  add_shape(out, style, 7, 7);
  return out.close().text(name).close();
}

html::Markup draw(const Chart& chart) {
  const Axes axes = axes_of(chart);
  Markup out;
  out.open("svg", {{"viewBox", fmt::format("0 0 {} {}", kWidth, kHeight)},
                   {"width", coordinate(kWidth)},
                   {"height", coordinate(kHeight)},
                   {"role", "group"},
                   {"aria-label", chart.label}});
  add_frame(out, chart, axes);
  for (const Series& series : chart.series) {
    if (series.line) add_line(out, series, axes.x, axes.y);
  }
  for (const Series& series : chart.series) {
    for (const Mark& mark : series.marks) add_mark(out, mark, series.style, axes.x.at(mark.x), axes.y.at(mark.y));
  }
  for (const Mark& mark : chart.missing) add_cross(out, mark, axes.x.at(mark.x), kHeight - kBottom - 5);
  return out.close();
}

}  // namespace nest::sweep
