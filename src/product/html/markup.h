// HTML and SVG text that is well formed and escaped by construction.
//
// Names in a plan come from files that others wrote. The only ways into a Markup are open(), which escapes the values
// of attributes, and text(), which escapes everything; another Markup is taken as it is, because it was made in the
// same way. Elements are closed in the order they were opened, and empty ones as in XML (<rect …/>), so that the whole
// is HTML and well-formed XML at once.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nest::html {

// & < > as entities, in attributes " too; control characters other than line feed and tab, and broken UTF-8, as U+FFFD.
std::string escape_html(std::string_view text);
std::string escape_attribute(std::string_view text);

struct Attribute {
  std::string_view name;  // a literal of nest's own
  std::string value;
};
using Attributes = std::initializer_list<Attribute>;

class Markup {
 public:
  Markup& open(std::string_view tag, Attributes attributes = {});
  Markup& close();  // the innermost open element
  Markup& text(std::string_view text);
  // open, text, close.
  Markup& element(std::string_view tag, std::string_view text, Attributes attributes = {});
  // An element without content.
  Markup& empty(std::string_view tag, Attributes attributes = {});
  // What is complete in itself.
  Markup& add(const Markup& other);

  // Everything must be closed.
  const std::string& str() const;
  bool is_empty() const { return out_.empty(); }

 private:
  void start(std::string_view tag, Attributes attributes);

  std::string out_;
  std::vector<std::string> open_;
};

// A name from a file, isolated so that letters which run from right to left do not turn the line around it.
Markup name_of(std::string_view name);

// The shortest decimal for a coordinate: at most two digits after the point.
std::string coordinate(double value);

// The same as a percentage: 0.125 -> "12.5%".
std::string percentage(double fraction);

}  // namespace nest::html
