// Tables of text that fit a line.
//
// Columns are as wide as their widest cell. When the whole is wider than the line, the columns marked `flexible` give
// way and their cells are clipped; numbers are never cut.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/layout.h"
#include "report/style.h"

namespace nest::report {

enum class Align : std::uint8_t { left, right };

struct Column {
  std::string title;
  Align align = Align::right;
  bool flexible = false;
  Ink ink = Ink::plain;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Short rows are filled with empty cells.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Every line starts with `indent` spaces, has no trailing ones and ends with a newline. A table whose titles are all
  // empty has no heading.
  std::string render(const Style& style, std::size_t indent = 2, std::size_t line_width = kLineWidth) const;

 private:
  std::vector<std::size_t> widths(std::size_t available) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace nest::report
