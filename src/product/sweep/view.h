// What reports of a study share: which points compare, which are on a front, and what its axes are drawn as.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nest/sweep.h"

namespace nest::sweep {

// Points whose axes that say what is trained have the same values, in the order of their first points: only they compare.
struct Task {
  std::string title;                       // "llama3-70b, seq 8192"; empty: there is only one
  std::vector<const SweepResult*> points;  // of the results, ascending
};
std::vector<Task> tasks_of(const SweepResults& results);

// Whether costs are money: every point with a plan has a price.
bool has_prices(const SweepResults& results);
// Money or device-hours for a billion tokens.
double cost_of(const SweepResult& result, bool money);

// Of the points of one task those of which nobody is faster and costs no more, or as fast and costs less; of equals the
// first. By falling cost.
std::vector<const SweepResult*> front_of(const Task& task, bool money);

// The axes that decide themselves and have several values: those that follow another (zip) are told with it.
std::vector<std::size_t> drawn_axes(const Study& study);

// Whether the axis takes its value from another (zip).
bool follows(const Study& study, std::size_t axis);

// An axis in a heading: "batch" for global_batch, "spine.bandwidth" for cluster.spine.bandwidth.
std::string short_name(const std::string& axis);

// What is drawn along which axis; indices of axes.
struct Roles {
  std::optional<std::size_t> x;
  std::optional<std::size_t> series;  // lines of a drawing, of which kMostSeries can be told apart
  std::optional<std::size_t> y;       // of heat maps
};
inline constexpr std::size_t kMostSeries = 6;
Roles roles_of(const Study& study);

// "devices 64", "llama3-70b": with the axis's name where the value alone says nothing, and with the values of axes that
// advance together.
std::string value_label(const Study& study, std::size_t axis, std::size_t value);
// The same of all axes of a point, commas between, without some.
std::string point_label(const Study& study, std::int64_t point, const std::vector<std::size_t>& without = {});

}  // namespace nest::sweep
