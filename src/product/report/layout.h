// Text that must fit a line: widths as a terminal shows them, wrapping, bars.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace nest {

// What every table and help text fits into.
inline constexpr std::size_t kLineWidth = 80;

// Columns that UTF-8 text takes on a terminal: East Asian wide characters and emoji take two, combining marks none.
std::size_t display_width(std::string_view text);

// At most `columns` wide, an ellipsis in place of what was cut off; control characters and broken UTF-8 shown as '?'.
std::string clip_to_width(std::string_view text, std::size_t columns);

// Padded with spaces to `columns`; longer text is left as it is.
std::string pad_right(std::string_view text, std::size_t columns);

// Lines of at most `columns`, broken at spaces; a longer word gets a line of its own. Newlines in the text are kept.
std::vector<std::string> wrap(std::string_view text, std::size_t columns);

// wrap() joined into one string, its first line after `first`, the others indented by as many columns as `first` has.
std::string wrap_after(std::string_view first, std::string_view text, std::size_t columns = kLineWidth);

// A bar of `columns` for a fraction in 0 … 1, in steps of an eighth of a column, without padding.
std::string bar(double fraction, std::size_t columns);

}  // namespace nest
