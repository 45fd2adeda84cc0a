// Drawings of a study: lines over an axis, and points between two costs. Small, of fixed size, so that letters stay legible
// on a phone; series differ by the shape of their marks as well as by colour, and every mark opens its point.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "html/markup.h"

namespace nest::sweep {

struct Mark {
  double x = 0, y = 0;
  std::string address;  // "#p12"; empty: none
  std::string title;    // on hover, and to those who do not see it
};

struct Series {
  std::string name;
  std::vector<Mark> marks;   // by rising x
  bool line = true;          // between neighbours
  std::optional<int> style;  // which colour and shape; none: faint dots
  bool steps = false;        // the line goes along the axes: a front
};

struct Chart {
  std::string label;  // read to those who do not see it
  std::string x_title, y_title;
  std::vector<double> x_ticks;            // where the axis has values; empty: chosen
  std::vector<std::string> x_tick_names;  // of those; empty: as numbers
  std::vector<Series> series;
  std::vector<Mark> missing;  // crosses at the bottom: where there is no plan (y counts for nothing)
};

html::Markup draw(const Chart& chart);

// The shape of a series beside its name.
html::Markup series_key(int style, const std::string& name);

// "64", "1.5k", "2M": at most four characters.
std::string short_number(double value);

// Rules of the style sheet.
extern const char* const kChartStyle;

}  // namespace nest::sweep
