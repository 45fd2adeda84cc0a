#include "report/table.h"

#include <algorithm>

#include "base/error.h"

namespace nest::report {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest = 4;  // of a flexible column

}  // namespace

void Table::add(std::vector<std::string> cells) {
  NEST_CHECK(cells.size() <= columns_.size(), "a row has more cells than the table has columns");
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths(std::size_t available) const {
  std::vector<std::size_t> widths;
  std::size_t total = 0;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = display_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    widths.push_back(width);
    total += width + (c > 0 ? kGap : 0);
  }
  // The widest flexible column gives way first, one column of the screen at a time; tables are small.
  while (total > available) {
    std::size_t widest = columns_.size();
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (!columns_[c].flexible || widths[c] <= kNarrowest) continue;
      if (widest == columns_.size() || widths[c] > widths[widest]) widest = c;
    }
    if (widest == columns_.size()) break;
    --widths[widest];
    --total;
  }
  return widths;
}

std::string Table::render(const Style& style, std::size_t indent, std::size_t line_width) const {
  const std::vector<std::size_t> width = widths(line_width > indent ? line_width - indent : 0);
  std::string text;
  const auto add_line = [&](auto cell, auto ink) {
    std::string line(indent, ' ');
    std::string gap;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string shown = clip_to_width(cell(c), width[c]);
      const std::string space(width[c] - std::min(width[c], display_width(shown)), ' ');
      if (columns_[c].align == Align::right) gap += space;
      if (!shown.empty()) {
        line += gap + style.paint(ink(c), shown);
        gap.clear();
      }
      if (columns_[c].align == Align::left) gap += space;
      gap += std::string(kGap, ' ');
    }
    text += line + '\n';
  };
  if (std::any_of(columns_.begin(), columns_.end(), [](const Column& column) { return !column.title.empty(); })) {
    add_line([&](std::size_t c) { return std::string_view(columns_[c].title); },
             [](std::size_t) { return Ink::faint; });
  }
  for (const auto& row : rows_) {
    add_line([&](std::size_t c) { return std::string_view(row[c]); }, [&](std::size_t c) { return columns_[c].ink; });
  }
  return text;
}

}  // namespace nest::report
