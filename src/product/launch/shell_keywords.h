// Characters and words that mean something to a shell. Internal to launch.
#pragma once

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launch/shell.h"

namespace nest::launch {

inline bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
inline bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

inline bool opens_block(std::string_view word) {
  static const std::set<std::string, std::less<>> kWords = {"if",   "for",    "while",   "until",
                                                            "case", "select", "function"};
  return kWords.contains(word);
}

inline bool closes_block(std::string_view word) { return word == "fi" || word == "done" || word == "esac"; }

// Words before a command that are no part of it.
inline bool is_structure(std::string_view word) {
  static const std::set<std::string, std::less<>> kWords = {"then", "else", "elif", "do", "{", "}", "!", "time"};
  return kWords.contains(word);
}

inline bool declares_variables(std::string_view program) {
  static const std::set<std::string, std::less<>> kWords = {"export", "declare", "local", "readonly", "typeset"};
  return kWords.contains(program);
}

// Whether assignments may follow the words of a command so far: none yet, words of program structure, or a declaration.
// Asked again with every word that is added.
class MayAssign {
 public:
  bool operator()(const std::vector<ShellWord>& words) {
    for (; structure_ && seen_ < words.size(); ++seen_) structure_ = is_structure(words[seen_].text);
    return structure_ || declares_variables(words.front().text);
  }

 private:
  std::size_t seen_ = 0;
  bool structure_ = true;  // all that were seen
};

// NAME= or NAME+=
inline bool starts_assignment(std::string_view text) {
  if (text.empty() || !is_name_start(text.front())) return false;
  const auto end =
      static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_name_character) - text.begin());
  const std::string_view rest = text.substr(end);
  return rest.starts_with('=') || rest.starts_with("+=");
}

}  // namespace nest::launch
