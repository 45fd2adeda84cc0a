#include "launch/toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace nest {
namespace {

bool is_bare(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

// Tables grow while the file is read; they become Values at the end.
struct TomlTable;
struct TomlEntry {
  Value value;                       // of a leaf
  std::unique_ptr<TomlTable> table;  // else
  std::size_t offset = 0;
};
struct TomlTable {
  std::vector<std::pair<std::string, TomlEntry>> entries;
  bool defined = false;  // by a [header] or as an inline value: it may not be defined again
};

TomlEntry* find_entry(TomlTable& table, std::string_view key) {
  for (auto& [name, entry] : table.entries) {
    if (name == key) return &entry;
  }
  return nullptr;
}

Value to_value(const TomlTable& table, std::size_t offset) {
  auto object = std::make_shared<Object>();
  for (const auto& [name, entry] : table.entries) {
    object->add(name, entry.table ? to_value(*entry.table, entry.offset) : entry.value);
  }
  return Value(std::move(object), offset);
}

class TomlReader {
 public:
  TomlReader(std::string name, std::string text, const Limits& limits) : limits_(limits) {
    if (text.size() > limits.bytes) {
      throw InputError(fmt::format("{}: {} bytes are too many; allowed is up to {}", name, text.size(), limits.bytes));
    }
    auto source = std::make_shared<Source>();
    source->name = std::move(name);
    source->text = std::move(text);
    source_ = source;
    text_ = source_->text;
  }

  Document run() {
    TomlTable* table = &root_;
    for (skip_lines(); at_ < text_.size(); skip_lines()) {
      if (text_[at_] == '[') {
        table = read_header();
      } else {
        read_pair(*table, 0);
      }
      skip_blanks();
      if (at_ < text_.size() && text_[at_] == '#') skip_comment();
      if (at_ < text_.size() && text_[at_] != '\n') fail("the line should end here");
    }
    return {source_, to_value(root_, 0)};
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    const auto line =
        1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size())), '\n');
    throw InputError(fmt::format("{}: line {}: {}", source_->name, line, message), excerpt_at(*source_, at_));
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  void skip_comment() { at_ = std::min(text_.find('\n', at_), text_.size()); }
  void skip_lines() {
    while (at_ < text_.size()) {
      skip_blanks();
      if (at_ >= text_.size()) return;
      if (text_[at_] == '#') {
        skip_comment();
      } else if (text_[at_] == '\n') {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string read_key_part() {
    skip_blanks();
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return read_string();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_bare(text_[at_])) ++at_;
    if (at_ == begin) fail("a key is missing");
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::vector<std::string> read_key() {
    std::vector<std::string> parts = {read_key_part()};
    for (skip_blanks(); take('.'); skip_blanks()) {
      parts.push_back(read_key_part());
      if (parts.size() > limits_.depth) fail("keys are nested too deeply");
    }
    return parts;
  }

  TomlTable* descend(TomlTable& from, const std::string& key, std::size_t offset) {
    TomlEntry* entry = find_entry(from, key);
    if (entry == nullptr) {
      count_value();
      from.entries.emplace_back(key, TomlEntry{{}, std::make_unique<TomlTable>(), offset});
      entry = &from.entries.back().second;
    }
    if (!entry->table) fail(fmt::format("`{}` has a value already and is no table", clip(key, 40)));
    return entry->table.get();
  }

  TomlTable* read_header() {
    const std::size_t begin = at_;
    take('[');
    if (take('[')) fail("arrays of tables are not supported");
    TomlTable* table = &root_;
    for (const std::string& part : read_key()) table = descend(*table, part, begin);
    if (!take(']')) fail("the bracket ] is missing");
    if (table->defined) fail("this table is defined twice");
    table->defined = true;
    return table;
  }

  void read_pair(TomlTable& table, std::size_t depth) {
    const std::size_t begin = at_;
    const std::vector<std::string> key = read_key();
    TomlTable* at = &table;
    for (std::size_t i = 0; i + 1 < key.size(); ++i) at = descend(*at, key[i], begin);
    skip_blanks();
    if (!take('=')) fail(fmt::format("`=` is missing after `{}`", clip(key.back(), 40)));
    if (find_entry(*at, key.back()) != nullptr) fail(fmt::format("`{}` is given twice", clip(key.back(), 40)));
    skip_blanks();
    TomlEntry entry;
    entry.offset = begin;
    if (at_ < text_.size() && text_[at_] == '{') {
      entry.table = read_inline_table(depth + 1);
    } else {
      entry.value = read_value(depth, begin);
    }
    at->entries.emplace_back(key.back(), std::move(entry));
  }

  std::unique_ptr<TomlTable> read_inline_table(std::size_t depth) {
    if (depth > limits_.depth) fail("values are nested too deeply");
    take('{');
    auto table = std::make_unique<TomlTable>();
    table->defined = true;
    skip_blanks();
    if (take('}')) return table;
    do {
      skip_blanks();
      read_pair(*table, depth);
      skip_blanks();
    } while (take(','));
    if (!take('}')) fail("the bracket } is missing");
    return table;
  }

  void count_value() {
    if (++values_ > limits_.values) fail("there are too many values");
  }

  Value read_value(std::size_t depth, std::size_t offset) {
    if (depth > limits_.depth) fail("values are nested too deeply");
    count_value();
    if (at_ >= text_.size()) fail("a value is missing");
    const char c = text_[at_];
    if (c == '"' || c == '\'') return {read_string(), offset};
    if (c == '[') return read_list(depth, offset);
    if (c == '{') return to_value(*read_inline_table(depth + 1), offset);
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_bare(text_[at_]) || text_[at_] == '.' || text_[at_] == '+' || text_[at_] == ':'))
      ++at_;
    std::string word(text_.substr(begin, at_ - begin));
    if (word == "true" || word == "false") return {word == "true", offset};
    std::erase(word, '_');
    const std::string_view bare = word.starts_with('+') ? std::string_view(word).substr(1) : std::string_view(word);
    const char* end = bare.data() + bare.size();
    std::int64_t integer = 0;
    if (const auto [rest, error] = std::from_chars(bare.data(), end, integer); error == std::errc() && rest == end) {
      return {integer, offset};
    }
    double number = 0;
    const auto [rest, error] = std::from_chars(bare.data(), end, number);
    if (bare.empty() || error != std::errc() || rest != end || !std::isfinite(number)) {
      at_ = begin;
      fail(fmt::format("`{}` is no value", clip(text_.substr(begin, 40), 40)));
    }
    return {number, offset};
  }

  Value read_list(std::size_t depth, std::size_t offset) {
    take('[');
    auto list = std::make_shared<Array>();
    skip_lines();
    while (!take(']')) {
      list->push_back(read_value(depth + 1, at_));
      skip_lines();
      if (take(',')) {
        skip_lines();
      } else if (at_ >= text_.size() || text_[at_] != ']') {
        fail("`,` or `]` is missing");
      }
    }
    return {std::move(list), offset};
  }

  std::string read_string() {
    const char quote = text_[at_++];
    if (text_.substr(at_, 2) == std::string(2, quote)) fail("multi-line strings are not supported");
    std::string result;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      if (quote == '"' && text_[at_] == '\\') {
        ++at_;
        result += read_escape();
      } else {
        result += text_[at_++];
      }
    }
    if (!take(quote)) fail("the quote is never closed");
    return result;
  }

  char read_escape() {
    if (at_ >= text_.size()) fail("the quote is never closed");
    switch (text_[at_++]) {
      case 'n': return '\n';
      case 't': return '\t';
      case 'r': return '\r';
      case '"': return '"';
      case '\\': return '\\';
      default: fail("this escape is not supported");
    }
  }

  Limits limits_;
  std::shared_ptr<const Source> source_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
  TomlTable root_;
};

}  // namespace

Document parse_toml(std::string name, std::string text, const Limits& limits) {
  return TomlReader(std::move(name), std::move(text), limits).run();
}

}  // namespace nest
