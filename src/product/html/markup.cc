#include "html/markup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace nest::html {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Length of the UTF-8 sequence at the start of `text`; 0 when it is broken, overlong, a surrogate or out of range.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  const unsigned lead = byte(0);
  const std::size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
  const bool beyond = lead == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

// U+FFFE and U+FFFF are no characters, and no XML.
bool is_noncharacter(std::string_view sequence) { return sequence == "\xEF\xBF\xBE" || sequence == "\xEF\xBF\xBF"; }

std::string_view entity(char c, bool attribute) {
  switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return attribute ? "&quot;" : std::string_view();
    default: return {};
  }
}

// After these a line break does not show, and makes the source readable.
bool ends_line(std::string_view tag) {
  static constexpr std::array<std::string_view, 24> kTags = {
      "html",  "head", "body", "header", "main",       "nav", "section", "footer", "div", "table", "thead",   "tbody",
      "tfoot", "tr",   "ul",   "ol",     "figcaption", "h1",  "h2",      "h3",     "dl",  "style", "details", "figure"};
  return std::find(kTags.begin(), kTags.end(), tag) != kTags.end();
}

std::string escape(std::string_view text, bool attribute) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const char first = text.front();
    const auto code = static_cast<unsigned char>(first);
    if (length == 0 || (code < 0x20 && first != '\n' && first != '\t') || code == 0x7F ||
        is_noncharacter(text.substr(0, length))) {
      out += kReplacement;
    } else if (const std::string_view named = entity(first, attribute); !named.empty()) {
      out += named;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace

std::string escape_html(std::string_view text) { return escape(text, false); }
std::string escape_attribute(std::string_view text) { return escape(text, true); }

void Markup::start(std::string_view tag, Attributes attributes) {
  out_ += '<';
  out_ += tag;
  for (const Attribute& attribute : attributes) {
    out_ += ' ';
    out_ += attribute.name;
    out_ += "=\"";
    out_ += escape_attribute(attribute.value);
    out_ += '"';
  }
}

Markup& Markup::open(std::string_view tag, Attributes attributes) {
  start(tag, attributes);
  out_ += '>';
  open_.emplace_back(tag);
  return *this;
}

Markup& Markup::close() {
  NEST_CHECK(!open_.empty(), "an element is closed that was opened");
  out_ += "</" + open_.back() + '>';
  if (ends_line(open_.back())) out_ += '\n';
  open_.pop_back();
  return *this;
}

Markup& Markup::text(std::string_view text) {
  out_ += escape_html(text);
  return *this;
}

Markup& Markup::element(std::string_view tag, std::string_view content, Attributes attributes) {
  return open(tag, attributes).text(content).close();
}

Markup& Markup::empty(std::string_view tag, Attributes attributes) {
  start(tag, attributes);
  out_ += "/>";
  return *this;
}

Markup& Markup::add(const Markup& other) {
  out_ += other.str();
  return *this;
}

const std::string& Markup::str() const {
  NEST_CHECK(open_.empty(), "every element is closed");
  return out_;
}

Markup name_of(std::string_view name) {
  Markup markup;
  markup.element("bdi", name);
  return markup;
}

std::string coordinate(double value) {
  const double rounded = std::round(value * 100) / 100;
  return fmt::format("{:g}", rounded == 0 ? 0.0 : rounded);
}

std::string percentage(double fraction) { return coordinate(100 * fraction) + "%"; }

}  // namespace nest::html
