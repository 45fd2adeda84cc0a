// What more of every resource would buy, drawn.
#pragma once

#include "html/page.h"
#include "nest/sensitivity.h"

namespace nest::html {

HtmlSection sensitivity_section(const Sensitivity& sensitivity);

}  // namespace nest::html
