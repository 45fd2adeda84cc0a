#include "html/bar_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace nest::html {
namespace {

// Class names of its own: in a page the style applies to the page.
constexpr const char* kStyle =
    ".bc{font:13px system-ui,sans-serif;max-width:100%;height:auto}.bc text{fill:#222}.bc "
    ".bc-title{font-size:15px;font-weight:600}"
    ".bc .bc-small{font-size:11px}.bc .bc-back{fill:#fff}.bc .bc-axis{stroke:#555;fill:none}.bc .bc-grid{stroke:#ddd}"
    ".bc .bc-mark{stroke:#555;stroke-dasharray:6 4}.bc .bc-none{stroke:#a8321f;stroke-width:1.5}"
    ".bc-0{fill:#0072b2}.bc-1{fill:#d55e00}.bc-2{fill:#009e73}.bc-3{fill:#cc79a7}.bc-4{fill:#b58900}.bc-5{fill:#56b4e9}"
    ".bc-6{fill:#7a5cc0}.bc-7{fill:#777}"
    "@media screen and (prefers-color-scheme:dark){.bc text{fill:#ddd}.bc .bc-back{fill:#14171a}.bc .bc-axis,.bc "
    ".bc-mark{stroke:#aaa}.bc .bc-grid{stroke:#333}.bc .bc-none{stroke:#f0907d}}";
constexpr std::size_t kColours = 8;

constexpr double kLeft = 56, kRight = 16, kTop = 64, kBottom = 44, kHeight = 240;
constexpr double kBar = 17, kGap = 22;
constexpr double kLetter = 8.6;  // about, of the title
constexpr std::size_t kLongestTitle = 90;

std::string colour(std::size_t series) { return fmt::format("bc-{}", series % kColours); }

// 1, 2 or 5 times a power of ten, about five steps to the top.
double step_of(double top) {
  const double rough = top / 5, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (rough <= times * power) return times * power;
  }
  return 10 * power;
}

struct Frame {
  double top_value, bar, width, height;

  double y(double value) const { return kTop + kHeight * (1 - value / top_value); }
  double group_x(std::size_t group, std::size_t series) const {
    return kLeft + kGap / 2 + static_cast<double>(group) * (bar * static_cast<double>(series) + kGap);
  }
};

void draw_axes(const BarChart& chart, const Frame& frame, Markup& out) {
  const double right = frame.width - kRight, step = step_of(frame.top_value);
  for (int k = 0; k * step <= frame.top_value * 1.001; ++k) {
    const std::string y = coordinate(frame.y(k * step));
    out.empty("line", {{"class", k == 0 ? "bc-axis" : "bc-grid"},
                       {"x1", coordinate(kLeft)},
                       {"x2", coordinate(right)},
                       {"y1", y},
                       {"y2", y}});
    out.element("text", fmt::format("{:g}", k * step),
                {{"x", coordinate(kLeft - 6)}, {"y", coordinate(frame.y(k * step) + 4)}, {"text-anchor", "end"}});
  }
  if (chart.mark_value > 0) {
    const std::string y = coordinate(frame.y(chart.mark_value));
    out.open("line",
             {{"class", "bc-mark"}, {"x1", coordinate(kLeft)}, {"x2", coordinate(right)}, {"y1", y}, {"y2", y}});
    out.element("title", chart.mark).close();
  }
}

void draw_legend(const BarChart& chart, Markup& out) {
  if (chart.series.size() < 2) return;
  double x = kLeft;
  for (std::size_t k = 0; k < chart.series.size(); ++k) {
    out.empty("rect", {{"class", colour(k)}, {"x", coordinate(x)}, {"y", "32"}, {"width", "12"}, {"height", "12"}});
    out.element("text", chart.series[k], {{"x", coordinate(x + 16)}, {"y", "42"}});
    x += 30 + 7.5 * static_cast<double>(chart.series[k].size());
  }
}

void draw_bar(const BarChart& chart, const Frame& frame, std::size_t group, std::size_t series, Markup& out) {
  const BarChart::Group& bars = chart.groups[group];
  const double x = frame.group_x(group, chart.series.size()) + frame.bar * static_cast<double>(series);
  const double middle = x + frame.bar / 2;
  const std::optional<double>& there = bars.values[series];
  const std::string name = chart.series.size() < 2 ? bars.name : bars.name + ", " + chart.series[series];
  if (!there) {
    out.open("path", {{"class", "bc-none"},
                      {"fill", "none"},
                      {"d", fmt::format("M{:.1f} {:.1f}l6 6m0 -6l-6 6", middle - 3, kTop + kHeight - 9)}});
    out.element("title", name + ": no plan").close();
    return;
  }
  const double value = *there;
  const std::string label = series < bars.labels.size() ? bars.labels[series] : fmt::format("{:.3g}", value);
  out.open("rect", {{"class", chart.series.size() < 2 ? colour(group) : colour(series)},
                    {"x", coordinate(x)},
                    {"y", coordinate(frame.y(value))},
                    {"width", coordinate(frame.bar - 1)},
                    {"height", coordinate(kTop + kHeight - frame.y(value))}});
  out.element("title", fmt::format("{}: {}", name, label)).close();
  if (bars.labels.empty()) return;
  out.element("text", label,
              {{"class", "bc-small"},
               {"x", coordinate(middle)},
               {"y", coordinate(frame.y(value) - 4)},
               {"text-anchor", "middle"}});
}

}  // namespace

Markup bar_chart(const BarChart& chart) {
  double most = chart.mark_value;
  for (const BarChart::Group& group : chart.groups) {
    NEST_CHECK(group.values.size() == chart.series.size(), "every series has a bar in every group");
    for (const auto& value : group.values) most = std::max(most, value.value_or(0));
  }
  if (most <= 0) most = 1;
  const double step = step_of(most);
  const bool labelled = std::any_of(chart.groups.begin(), chart.groups.end(),
                                    [](const BarChart::Group& group) { return !group.labels.empty(); });
  Frame frame{step * std::ceil(most / step), labelled ? 4 * kBar : kBar, 0, kTop + kHeight + kBottom};
  const std::string title = clip(chart.title, kLongestTitle);
  frame.width = std::max({420.0, frame.group_x(chart.groups.size(), chart.series.size()) + kRight,
                          kLeft + kLetter * static_cast<double>(title.size()) + kRight});
  Markup out;
  out.open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                   {"class", "bc"},
                   {"viewBox", fmt::format("0 0 {:.0f} {:.0f}", frame.width, frame.height)},
                   {"width", fmt::format("{:.0f}", frame.width)},
                   {"height", fmt::format("{:.0f}", frame.height)},
                   {"role", "img"},
                   {"aria-label", chart.title + "; " + chart.axis}});
  out.element("title", chart.title).element("style", kStyle);
  out.empty("rect", {{"class", "bc-back"}, {"width", "100%"}, {"height", "100%"}});
  out.element("text", title, {{"class", "bc-title"}, {"x", coordinate(kLeft)}, {"y", "18"}});
  out.element("text", chart.axis, {{"class", "bc-small"}, {"x", "6"}, {"y", coordinate(kTop - 8)}});
  draw_legend(chart, out);
  draw_axes(chart, frame, out);
  for (std::size_t group = 0; group < chart.groups.size(); ++group) {
    for (std::size_t series = 0; series < chart.series.size(); ++series) draw_bar(chart, frame, group, series, out);
    const double middle =
        frame.group_x(group, chart.series.size()) + frame.bar * static_cast<double>(chart.series.size()) / 2;
    out.element("text", chart.groups[group].name,
                {{"x", coordinate(middle)}, {"y", coordinate(kTop + kHeight + 20)}, {"text-anchor", "middle"}});
  }
  return out.close();
}

std::string bar_chart_svg(const BarChart& chart) { return bar_chart(chart).str() + "\n"; }

}  // namespace nest::html
