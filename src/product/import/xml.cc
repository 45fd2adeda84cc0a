#include "import/xml.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace nest {
namespace {

constexpr std::size_t kLongestWord = 254;  // of a name or value
constexpr std::size_t kMostAttributes = 32;
constexpr std::size_t kMostElements = 1U << 16U;
constexpr std::size_t kDeepest = 32;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

class XmlReader {
 public:
  explicit XmlReader(const Source& source) : source_(source), text_(source.text) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  XmlElement read() {
    skip();
    if (text_.substr(at_).starts_with("<?")) {  // a declaration is harmless
      const std::size_t end = text_.find("?>", at_);
      if (end == text_.npos) fail("`?>` is missing");
      at_ = end + 2;
      skip();
    }
    XmlElement root = element(0);
    skip();
    if (at_ < text_.size()) fail("something follows the outermost element");
    return root;
  }

 private:
  // The line of the current place. Line numbers are counted on from the last place asked for.
  TextLine here() {
    const std::size_t at = std::min(at_, text_.size());
    counted_lines_ += static_cast<std::size_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_to_),
                                                          text_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    counted_to_ = at;
    TextLine line;
    line.number = counted_lines_ + 1;
    line.offset = at;
    return line;
  }
  [[noreturn]] void fail(const std::string& message) { fail_at_line(source_, here(), message); }

  bool at(std::string_view text) const { return text_.substr(std::min(at_, text_.size())).starts_with(text); }

  // Blanks and comments.
  void skip() {
    for (;;) {
      while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
      if (!at("<!--")) return;
      const std::size_t end = text_.find("-->", at_);
      if (end == text_.npos) fail("a comment is never closed");
      at_ = end + 3;
    }
  }

  std::string name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == begin) fail("a name is missing");
    if (at_ - begin > kLongestWord) fail(fmt::format("a name of more than {} characters", kLongestWord));
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string value() {
    if (!at("\"") && !at("'")) fail("an attribute's value must be quoted");
    const char quote = text_[at_++];
    const std::size_t end = text_.find(quote, at_);
    if (end == text_.npos) fail("a value is never closed");
    const std::string_view found = text_.substr(at_, end - at_);
    if (found.size() > kLongestWord) fail(fmt::format("a value of more than {} characters", kLongestWord));
    if (found.find_first_of("<&\n") != found.npos) fail("a value with `<`, `&` or a line break");
    at_ = end + 1;
    return std::string(found);
  }

  XmlElement element(std::size_t depth) {
    if (!at("<"))
      fail(at_ < text_.size() ? "expected an element; text between elements is not read" : "the file ends early");
    if (depth >= kDeepest) fail(fmt::format("nested deeper than {} elements", kDeepest));
    if (++elements_ > kMostElements) fail(fmt::format("more than {} elements", kMostElements));
    XmlElement made;
    made.line = here();
    ++at_;
    made.name = name();
    for (;;) {
      const std::size_t before = at_;
      while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
      if (at("/>")) {
        at_ += 2;
        return made;
      }
      if (at(">")) break;
      if (at_ == before) fail("expected a blank, `>` or `/>`");
      std::string key = name();
      if (!at("=")) fail("expected `=` behind an attribute's name");
      ++at_;
      if (made.find(key)) fail(fmt::format("attribute `{}` is given twice", clip(key, 40)));
      if (made.attributes.size() >= kMostAttributes) fail(fmt::format("more than {} attributes", kMostAttributes));
      made.attributes.emplace_back(std::move(key), value());
    }
    ++at_;
    for (skip(); !at("</"); skip()) made.children.push_back(element(depth + 1));
    at_ += 2;
    const std::string closed = name();
    if (closed != made.name) {
      fail(fmt::format("</{}> closes <{}> of line {}", clip(closed, 40), clip(made.name, 40), made.line.number));
    }
    if (!at(">")) fail("`>` is missing");
    ++at_;
    return made;
  }

  const Source& source_;
  std::string_view text_;
  std::size_t at_ = 0;
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

XmlElement parse_xml(const Source& source) { return XmlReader(source).read(); }

}  // namespace nest
