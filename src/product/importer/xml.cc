#include "importer/xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>

#include "base/error.h"
#include "base/text.h"

namespace nest::importer {
namespace {

constexpr std::size_t kLongestWord = 254;  // of a name or value
constexpr std::size_t kMostAttributes = 32;
constexpr std::size_t kMostElements = 1U << 16U;
constexpr std::size_t kDeepest = 32;

class XmlTree {
 public:
  explicit XmlTree(const doc::SourceText& source) : source_(source) {}

  XmlElement read() {
    // An element has one or two of these, so that a file above the limit is refused before it costs memory.
    if (static_cast<std::size_t>(std::count(source_.text.begin(), source_.text.end(), '<')) > 4 * kMostElements) {
      fail(0, fmt::format("more than {} elements", kMostElements));
    }
    pugi::xml_document document;
    const unsigned flags = pugi::parse_escapes | pugi::parse_doctype | pugi::parse_pi | pugi::parse_trim_pcdata;
    const pugi::xml_parse_result result =
        document.load_buffer(source_.text.data(), source_.text.size(), flags, pugi::encoding_utf8);
    if (!result) fail(place_of(result.offset), why(result));
    pugi::xml_node root;
    for (const pugi::xml_node& node : document.children()) {
      if (root) fail(place_of(node.offset_debug()), "something follows the outermost element");
      root = node;
    }
    return element(root, 0);
  }

 private:
  // The line of a place. Line numbers are counted on from the last place asked for.
  TextLine line_at(std::size_t at) {
    if (at < counted_to_) counted_to_ = counted_lines_ = 0;
    const char* text = source_.text.data();
    counted_lines_ += static_cast<std::size_t>(std::count(text + counted_to_, text + at, '\n'));
    counted_to_ = at;
    return {{}, counted_lines_ + 1, at};
  }
  std::size_t place_of(std::ptrdiff_t offset) const {
    return std::min(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, offset)), source_.text.size());
  }
  [[noreturn]] void fail(std::size_t at, const std::string& message) { fail_at_line(source_, line_at(at), message); }

  // The library's words, but for the two mistakes that people make.
  static std::string why(const pugi::xml_parse_result& result) {
    if (result.status == pugi::status_end_element_mismatch)
      return "an element is never closed, or another one is closed in its place";
    if (result.status == pugi::status_no_document_element) return "expected an element; there is none";
    return result.description();
  }

  XmlElement element(const pugi::xml_node& node, std::size_t depth) {
    const std::size_t at = place_of(node.offset_debug());
    if (node.type() != pugi::node_element) fail(at, "expected an element; text and document types are not read");
    if (depth >= kDeepest) fail(at, fmt::format("nested deeper than {} elements", kDeepest));
    if (++elements_ > kMostElements) fail(at, fmt::format("more than {} elements", kMostElements));
    XmlElement made;
    made.line = line_at(at);
    made.name = word(node.name(), at);
    for (const pugi::xml_attribute& attribute : node.attributes()) {
      std::string key = word(attribute.name(), at);
      if (made.find(key) != nullptr) fail(at, fmt::format("attribute `{}` is given twice", clip(key, 40)));
      if (made.attributes.size() >= kMostAttributes) fail(at, fmt::format("more than {} attributes", kMostAttributes));
      made.attributes.emplace_back(std::move(key), word(attribute.value(), at));
    }
    for (const pugi::xml_node& child : node.children()) made.children.push_back(element(child, depth + 1));
    return made;
  }

  std::string word(std::string_view text, std::size_t at) {
    if (text.size() > kLongestWord) fail(at, fmt::format("a name or value of more than {} characters", kLongestWord));
    return std::string(text);
  }

  const doc::SourceText& source_;
  std::size_t elements_ = 0;
  std::size_t counted_to_ = 0;
  std::size_t counted_lines_ = 0;
};

}  // namespace

const std::string* XmlElement::find(std::string_view attribute) const {
  for (const auto& [key, value] : attributes) {
    if (key == attribute) return &value;
  }
  return nullptr;
}

XmlElement parse_xml(const doc::SourceText& source) { return XmlTree(source).read(); }

}  // namespace nest::importer
