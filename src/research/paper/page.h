// The evaluation as a page and its figures. Every sentence that states a result is made from the records.
#pragma once

#include <map>
#include <string>

#include "paper/record.h"

namespace nest::paper {

struct Page {
  std::string markdown;
  std::map<std::string, std::string> figures;  // by file name
};

// `folder`: where the page finds the figures. Points without a record are said to be missing.
Page make_page(const Records& records, const std::string& folder);

}  // namespace nest::paper
