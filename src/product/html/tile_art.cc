#include "html/tile_art.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "base/text.h"
#include "html/colour.h"

namespace nest::html {
namespace {

constexpr double kLargeWidth = 66, kLargeHeight = 38;
constexpr double kLeastForGap = 2.5;  // width of a stripe that can do without some of it

struct Box {
  double x, y, width, height;
};

// A run of cells in rows of `columns`: the rest of a row, whole rows, the start of a row.
std::vector<Box> boxes_of(std::int64_t begin, std::int64_t end, std::int64_t columns, double cell) {
  std::vector<Box> boxes;
  const auto add = [&](std::int64_t column, std::int64_t row, std::int64_t width, std::int64_t height) {
    boxes.push_back({static_cast<double>(column) * cell, static_cast<double>(row) * cell,
                     static_cast<double>(width) * cell, static_cast<double>(height) * cell});
  };
  while (begin < end) {
    const std::int64_t column = begin % columns, row = begin / columns;
    if (column == 0 && end - begin >= columns) {
      const std::int64_t rows = (end - begin) / columns;
      add(0, row, columns, rows);
      begin += rows * columns;
    } else {
      const std::int64_t width = std::min(columns - column, end - begin);
      add(column, row, width, 1);
      begin += width;
    }
  }
  return boxes;
}

std::string times(std::int64_t count, double cell) { return coordinate(static_cast<double>(count) * cell); }

}  // namespace

Markup idle_pattern() {
  Markup out;
  out.open("svg", {{"class", "defs"}, {"aria-hidden", "true"}}).open("defs");
  out.open("pattern", {{"id", "idle"},
                       {"width", "6"},
                       {"height", "6"},
                       {"patternUnits", "userSpaceOnUse"},
                       {"patternTransform", "rotate(45)"}});
  out.empty("rect", {{"class", "hatch-back"}, {"width", "6"}, {"height", "6"}});
  out.empty("rect", {{"class", "hatch-line"}, {"width", "1.5"}, {"height", "6"}});
  return out.close().close().close();
}

std::string TileArt::fill(std::int64_t stage) const {
  return stage < 0 ? kIdleFill : to_hex(stage_colour(stage, ranks_.stages()));
}

void TileArt::draw_run(Markup& art, const DeviceRun& run, std::int64_t begin, double cell) const {
  const std::vector<Box> boxes = boxes_of(run.begin - begin, run.end - begin, columns_, cell);
  for (const Box& box : boxes) {
    art.empty("rect", {{"x", coordinate(box.x + 0.5)},
                       {"y", coordinate(box.y + 0.5)},
                       {"width", coordinate(box.width - 1)},
                       {"height", coordinate(box.height - 1)},
                       {"rx", "1.5"},
                       {"fill", fill(run.stage)}});
  }
  if (run.stage < 0 || ranks_.stages() == 1) return;
  const Box& room = *std::max_element(
      boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return a.width * a.height < b.width * b.height; });
  const std::string label = std::to_string(run.stage);
  if (room.width < 3 + 6.2 * static_cast<double>(label.size()) || room.height < 10) return;
  art.element("text", label,
              {{"x", coordinate(room.x + room.width / 2)},
               {"y", coordinate(room.y + room.height / 2 + 3.5)},
               {"class", "c"},
               {"fill", to_hex(ink_on(stage_colour(run.stage, ranks_.stages())))}});
}

Markup TileArt::tile(std::int64_t begin, std::int64_t end, double cell) const {
  Markup art;
  for (const DeviceRun& run : stage_runs(ranks_, begin, end)) draw_run(art, run, begin, cell);
  std::string lines;
  const std::int64_t size = end - begin;
  for (std::int64_t i = 1; i < std::min(size, columns_); ++i) {
    lines += fmt::format("M{} 0V{}", times(i, cell), times((size - i + columns_ - 1) / columns_, cell));
  }
  for (std::int64_t row = 1; row * columns_ < size; ++row) {
    lines += fmt::format("M0 {}H{}", times(row, cell), times(std::min(columns_, size - row * columns_), cell));
  }
  if (!lines.empty()) art.empty("path", {{"class", "grid"}, {"d", lines}});
  return art;
}

Size TileArt::tile_size(std::int64_t devices, double cell) const {
  const std::int64_t rows = ceil_div(devices, columns_);
  return {static_cast<double>(std::min(devices, columns_)) * cell, static_cast<double>(rows) * cell};
}

// "t0 c1 e3": its place in the groups that there are.
std::string TileArt::ranks_of(const groups::Place& at) const {
  const Split& split = ranks_.split_of(at.stage);
  std::string text;
  const auto add = [&](char letter, std::int64_t degree, std::int64_t rank) {
    if (degree > 1) text += fmt::format("{}{}{}", text.empty() ? "" : " ", letter, rank);
  };
  add('t', split.tp, at.inner % split.tp);
  add('c', split.cp, at.inner / split.tp % split.cp);
  const std::int64_t rank = at.replica * ranks_.replica_devices() + at.inner;
  add('e', split.ep, rank / split.expert_tp() % split.ep);
  return text;
}

std::string TileArt::title_of(std::int64_t device, const std::optional<groups::Place>& at) const {
  const auto index = static_cast<std::size_t>(device);
  std::string name = fmt::format("device {}", device);
  if (index < cluster_.device_names.size()) name += " (" + clip(cluster_.device_names[index], kLongestName) + ")";
  if (!at) return name + ": idle";
  const std::string ranks = ranks_of(*at);
  return fmt::format("{}: stage {}, replica {}{}", name, at->stage, at->replica, ranks.empty() ? "" : ", " + ranks);
}

void TileArt::draw_device(Markup& art, std::int64_t device, double x, double y) const {
  const std::optional<groups::Place> at = ranks_.place_of(device);
  art.open("g").element("title", title_of(device, at));
  art.empty("rect", {{"x", coordinate(x + 1)},
                     {"y", coordinate(y + 1)},
                     {"width", coordinate(kLargeWidth - 2)},
                     {"height", coordinate(kLargeHeight - 2)},
                     {"rx", "3"},
                     {"fill", fill(at ? at->stage : -1)}});
  const auto line = [&](const std::string& text, double down, const char* style) {
    art.element("text", text,
                {{"x", coordinate(x + kLargeWidth / 2)},
                 {"y", coordinate(y + down)},
                 {"class", style},
                 {"fill", to_hex(ink_on(stage_colour(at->stage, ranks_.stages())))}});
  };
  const std::string ranks = at ? ranks_of(*at) : std::string();
  if (at && ranks_.stages() > 1) {
    line(fmt::format("stage {}", at->stage), 16, "c strong");
    line(fmt::format("r{}{}{}", at->replica, ranks.empty() ? "" : " ", ranks), 30, "c");
  } else if (at) {
    line(fmt::format("replica {}", at->replica), ranks.empty() ? 23 : 16, "c strong");
    if (!ranks.empty()) line(ranks, 30, "c");
  }
  art.close();
}

Markup TileArt::large_tile(std::int64_t begin, std::int64_t end) const {
  const std::int64_t columns = std::min<std::int64_t>(4, end - begin);
  const std::int64_t rows = ceil_div(end - begin, columns);
  Markup svg;
  svg.open("svg",
           {{"width", times(columns, kLargeWidth)}, {"height", times(rows, kLargeHeight)}, {"aria-hidden", "true"}});
  for (std::int64_t device = begin; device < end; ++device) {
    const std::int64_t column = (device - begin) % columns, row = (device - begin) / columns;
    draw_device(svg, device, static_cast<double>(column) * kLargeWidth, static_cast<double>(row) * kLargeHeight);
  }
  return svg.close();
}

Markup TileArt::strip(std::int64_t begin, std::int64_t end, std::int64_t full, std::size_t stripes,
                      const Size& size) const {
  Markup art;
  const double scale = size.width / static_cast<double>(full);
  art.empty("rect", {{"class", "frame"}, {"width", coordinate(size.width)}, {"height", coordinate(size.height)}});
  std::vector<DeviceRun> runs = stage_runs(ranks_, begin, end);
  if (runs.size() > stripes) {  // look at as many places as can be drawn
    const auto place = [&](std::size_t k) {
      return begin + (end - begin) * static_cast<std::int64_t>(k) / static_cast<std::int64_t>(stripes);
    };
    runs.clear();
    for (std::size_t i = 0; i < stripes; ++i) {
      const std::optional<groups::Place> at = ranks_.place_of(place(i));
      runs.push_back({place(i), place(i + 1), at ? at->stage : -1});
    }
  }
  for (const DeviceRun& run : runs) {
    const double width = static_cast<double>(run.end - run.begin) * scale;
    art.empty("rect", {{"x", coordinate(static_cast<double>(run.begin - begin) * scale)},
                       {"width", coordinate(std::max(0.01, width - (width > kLeastForGap ? 0.6 : 0)))},
                       {"height", coordinate(size.height)},
                       {"fill", fill(run.stage)}});
  }
  return art;
}

}  // namespace nest::html
