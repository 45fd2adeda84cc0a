// Text that must fit a line: widths as a terminal shows them, wrapping, bars.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "nest/text.h"

namespace nest {

// At most `columns` wide, an ellipsis in place of what was cut off; control characters and broken UTF-8 shown as '?'.
std::string clip_to_width(std::string_view text, std::size_t columns);

// Lines of at most `columns`, broken at spaces; a longer word gets a line of its own. Newlines in the text are kept.
std::vector<std::string> wrap(std::string_view text, std::size_t columns);

// A bar of `columns` for a fraction in 0 … 1, in steps of an eighth of a column, without padding.
std::string bar(double fraction, std::size_t columns);

}  // namespace nest
