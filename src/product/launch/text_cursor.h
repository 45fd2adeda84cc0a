// A place in a text, with its line. Internal to launch.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace nest::launch {

struct HereDocument {
  std::string end;
  bool quoted = false;  // nothing in it is expanded
};

class TextCursor {
 public:
  TextCursor(std::string_view source, std::string_view text) : source_(source), text_(text) {}

 protected:
  [[noreturn]] void fail(int line, const std::string& message) const {
    throw InputError(fmt::format("{}: line {}: {}", source_, line, message));
  }

  bool more() const { return at_ < text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  char next() {
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    return c;
  }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    for (std::size_t i = 0; i < word.size(); ++i) next();
    return true;
  }

  // Text up to the closing bracket that belongs to one already read; quotes are skipped over.
  std::string read_bracketed(char open, char close, int begin) {
    std::string inside;
    int depth = 1;
    while (more()) {
      const char c = next();
      if (c == '\'' || (c == '"' && close != '}')) {
        inside += c;
        while (more() && peek() != c) inside += next();
        if (more()) inside += next();
        continue;
      }
      if (c == open) ++depth;
      if (c == close && --depth == 0) return inside;
      inside += c;
    }
    fail(begin, fmt::format("the bracket {} is never closed", open));
  }

  // Here-documents, which begin after the line that announces them.
  std::vector<std::string> read_documents(const std::vector<HereDocument>& announced) {
    std::vector<std::string> bodies;
    for (const HereDocument& document : announced) {
      std::string body;
      while (more()) {
        const std::size_t newline = std::min(text_.find('\n', at_), text_.size());
        const std::string_view line = text_.substr(at_, newline - at_);
        while (at_ < newline) next();
        if (more()) next();
        if (trim(line) == document.end) break;
        body.append(line).append("\n");
      }
      bodies.push_back(document.quoted ? std::move(body) : for_inner_shell(body));
    }
    return bodies;
  }

  // What the script keeps from its own shell (\$) is for the one that it starts.
  static std::string for_inner_shell(std::string_view body) {
    std::string text;
    text.reserve(body.size());
    for (std::size_t at = 0; at < body.size(); ++at) {
      if (!body.substr(at).starts_with("\\$")) text += body[at];
    }
    return text;
  }

  std::string_view source_;
  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace nest::launch
