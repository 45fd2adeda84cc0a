// The style sheet of every page.
#pragma once

#include <string>

namespace nest::html {

std::string style_sheet();

}  // namespace nest::html
