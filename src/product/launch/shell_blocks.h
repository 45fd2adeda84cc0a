// Which part of a script runs: the branches of its conditions, where all that they compare is known. Internal to launch.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/shell.h"
#include "launch/shell_keywords.h"

namespace nest::launch {

// [ A = B ], [[ A == B ]], test A -eq B, with != < and the rest of test's comparisons of words and numbers, -n A, -z A;
// nothing where it is something else or a word is not known.
inline std::optional<bool> known_test(std::vector<ShellWord> words) {
  for (const ShellWord& word : words) {
    if (!word.unknown.empty()) return std::nullopt;
  }
  if (words.size() < 2) return std::nullopt;
  const std::string program = words.front().text;
  if (program != "test" && program != "[" && program != "[[") return std::nullopt;
  if (program != "test") {
    if (words.back().text != (program == "[" ? "]" : "]]")) return std::nullopt;
    words.pop_back();
  }
  words.erase(words.begin());
  const bool negated = !words.empty() && words.front().text == "!";
  if (negated) words.erase(words.begin());
  if (words.size() == 2) {
    const std::string_view kind = words[0].text;
    if (kind != "-n" && kind != "-z") return std::nullopt;
    return ((kind == "-z") == words[1].text.empty()) != negated;
  }
  if (words.size() != 3) return std::nullopt;
  const std::string_view left = words[0].text, kind = words[1].text, right = words[2].text;
  if (kind == "=" || kind == "==" || kind == "!=") {
    if (program == "[[" && right.find_first_of("*?[") != std::string_view::npos) return std::nullopt;
    return ((left == right) == (kind != "!=")) != negated;
  }
  const auto number = [](std::string_view text) -> std::optional<long long> {
    long long value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && rest == text.data() + text.size() ? std::optional(value) : std::nullopt;
  };
  const auto a = number(left), b = number(right);
  if (!a || !b) return std::nullopt;
  const auto holds = [&]() -> std::optional<bool> {
    if (kind == "-eq") return *a == *b;
    if (kind == "-ne") return *a != *b;
    if (kind == "-lt") return *a < *b;
    if (kind == "-le") return *a <= *b;
    if (kind == "-gt") return *a > *b;
    if (kind == "-ge") return *a >= *b;
    return std::nullopt;
  }();
  return holds ? std::optional(*holds != negated) : std::nullopt;
}

// Blocks that are open, from the words that begin simple commands.
class ShellBlocks {
 public:
  bool is_certain() const { return doubted_ == 0; }
  bool is_skipped() const { return skipped_ > 0; }

  // A keyword, or a word that gives structure.
  void see(std::string_view word) {
    if (opens_block(word)) {
      open_.push_back({.conditional = word == "if", .awaits = word == "if"});
      count(open_.back(), 1);
    } else if (open_.empty()) {
      return;
    } else if (closes_block(word)) {
      count(open_.back(), -1);
      open_.pop_back();
    } else if (open_.back().conditional) {
      count(open_.back(), -1);
      branch(open_.back(), word);
      count(open_.back(), 1);
    }
  }

  // A simple command after what see() was given: the condition, where one is awaited.
  void see_command(const std::vector<ShellWord>& words) {
    if (open_.empty() || !open_.back().awaits) return;
    Block& block = open_.back();
    block.condition = block.commands++ == 0 ? known_test(words) : std::nullopt;  // one of several says nothing
  }

 private:
  enum class Runs { unknown, yes, no, over };  // over: an earlier branch ran
  struct Block {
    bool conditional = false;
    bool awaits = false;  // commands of its condition
    std::optional<bool> condition = {};
    Runs runs = Runs::unknown;
    int commands = 0;
    bool doubtful = false;  // a branch may have run
  };

  // All open blocks are asked for after every command: they are counted.
  void count(const Block& block, int one) {
    if (block.runs != Runs::yes) doubted_ += one;
    if (block.runs == Runs::no || block.runs == Runs::over) skipped_ += one;
  }

  static void branch(Block& block, std::string_view word) {
    if (word == "elif") {
      block.awaits = true;
      block.commands = 0;
      block.condition.reset();
      if (block.runs == Runs::yes) block.runs = Runs::over;
    } else if (word == "then" && block.awaits) {
      block.awaits = false;
      if (block.runs == Runs::over || block.doubtful) return;
      block.runs = !block.condition ? Runs::unknown : *block.condition ? Runs::yes : Runs::no;
      block.doubtful = !block.condition;
    } else if (word == "else") {
      if (block.runs == Runs::yes) {
        block.runs = Runs::over;
      } else if (block.runs == Runs::no) {
        block.runs = Runs::yes;
      }
    }
  }

  std::vector<Block> open_;
  std::ptrdiff_t doubted_ = 0, skipped_ = 0;  // of them: may not run, do not
};

}  // namespace nest::launch
