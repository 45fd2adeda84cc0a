// XML as NCCL writes it: elements with attributes, nothing else. Text, document types and processing instructions are
// refused, comments and a declaration passed over. Strict: what NCCL's own reader would misread is refused with its line.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doc/value.h"
#include "importer/line_reader.h"

namespace nest::importer {

struct XmlElement {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;
  TextLine line;  // where it begins

  // Nothing where there is no such attribute.
  const std::string* find(std::string_view attribute) const;
};

// The one outermost element. Throws InputError with the line.
XmlElement parse_xml(const doc::SourceText& source);

}  // namespace nest::importer
