// Words of a shell command while they are being put together. Internal to launch.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "launch/shell.h"

namespace nest::launch {

// What stands in a word for something that cannot be known: what was written, without blanks.
inline ShellWord unknown_word(std::string_view written, int line) {
  std::string shown = clip(written, 60);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c == ' ' || c == '\t' || c == '\n'; }, '_');
  return {shown, {shown}, line};
}

// An unquoted expansion may end one word and begin the next.
class WordBuilder {
 public:
  explicit WordBuilder(std::vector<ShellWord>& out) : out_(out) {}

  void start(int line) {
    if (!started_) current_ = {"", {}, line};
    started_ = true;
  }
  void add(char c) { current_.text += c; }
  void add(const ShellWord& word) {
    current_.text += word.text;
    current_.unknown.insert(current_.unknown.end(), word.unknown.begin(), word.unknown.end());
  }
  // An expansion outside quotes: blanks in it separate words. What is unknown stands in the text in the order of the
  // names, and none has a blank in it: one look at each is enough.
  void add_split(const ShellWord& word, int line) {
    bool first = true;
    auto name = word.unknown.begin();
    std::size_t at = 0;
    const std::string& text = word.text;
    while (at < text.size()) {
      const std::size_t begin = text.find_first_not_of(" \t\n", at);
      if (begin == std::string::npos) break;
      const std::size_t end = std::min(text.find_first_of(" \t\n", begin), text.size());
      if (!first || begin > at) end_word(line);
      start(line);
      current_.text.append(text, begin, end - begin);
      std::string_view rest = std::string_view(text).substr(begin, end - begin);
      for (; name != word.unknown.end(); ++name) {
        const std::size_t found = rest.find(*name);
        if (found == std::string_view::npos) break;
        current_.unknown.push_back(*name);
        rest.remove_prefix(found + name->size());
      }
      first = false;
      at = end;
    }
    if (!text.empty() && is_blank_or_newline(text.back()) && !current_.text.empty()) end_word(line);
  }
  // Ends the word and begins another; nothing is added for an empty one.
  void end_word(int line) {
    if (started_ && (!current_.text.empty() || quoted_)) out_.push_back(std::move(current_));
    current_ = {"", {}, line};
    quoted_ = false;
  }
  void quote() { quoted_ = true; }  // "" is a word
  void unquote() { quoted_ = quoted_ && !current_.text.empty(); }
  void finish() {
    if (started_) end_word(current_.line);
    started_ = false;
  }
  // Forgets a word that turns out to be the number of a redirected stream.
  void drop_number() {
    const std::string& text = current_.text;
    if (started_ && !text.empty() && text.find_first_not_of("0123456789") == std::string::npos) started_ = false;
  }
  bool started() const { return started_; }
  const std::string& text() const { return current_.text; }

 private:
  static bool is_blank_or_newline(char c) { return c == ' ' || c == '\t' || c == '\n'; }

  std::vector<ShellWord>& out_;
  ShellWord current_;
  bool started_ = false;
  bool quoted_ = false;
};

}  // namespace nest::launch
