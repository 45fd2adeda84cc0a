// The style sheet of every page.
#pragma once

#include <string>

namespace nest {

std::string style_sheet();

}  // namespace nest
