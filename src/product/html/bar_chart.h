// Groups of bars as one SVG drawing that stands alone: a file, or a figure of a page.
//
// Readable in light and dark, by order and label as well as by colour; every bar says its value on hover and to those
// who do not see it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "html/markup.h"

namespace nest::html {

struct BarChart {
  struct Group {
    std::string name;
    std::vector<std::optional<double>> values;  // one per series; none: a cross in its place
    std::vector<std::string> labels;            // above the bars; one per series, or none at all
  };
  std::string title;
  std::string axis;                 // what the bars' height is
  std::vector<std::string> series;  // one colour each
  std::vector<Group> groups;
  std::string mark;       // what the dashed line says
  double mark_value = 0;  // its height; 0: none
};

Markup bar_chart(const BarChart& chart);

// As a file.
std::string bar_chart_svg(const BarChart& chart);

}  // namespace nest::html
