// What the reports of plans may say besides.
#pragma once

#include <string>
#include <vector>

#include "nest/style.h"

namespace nest {

struct ReportOptions {
  Style style = Style();                  // of text
  double tokens = 0;                      // to train on in all: adds days and device-hours; 0: not asked
  double price_per_device_hour = 0;       // adds the cost of the tokens; 0: not asked
  std::vector<std::string> command = {};  // of pages: the command line that made them, word by word
};

}  // namespace nest
