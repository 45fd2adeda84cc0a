#include "launch/toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

// The library asserts (and to an optimiser promises) that a header's key begins like a key, then refuses one that does not:
// its assertions must neither stop the program nor be believed.
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
// Brackets within brackets. The library takes and frees nested tables by recursion, so that this and kMostDots bound
// the stack: 16 · 100 tables at the most.
#define TOML_MAX_NESTED_VALUES 16
#include <toml++/toml.h>

namespace nest::launch {
namespace {

constexpr std::int64_t kMostDots = 100;  // in one line: each part of a dotted key is a table within a table

// Dots of a line that may join the parts of a key: those outside strings. Where a string of several lines begins or ends,
// all of them count.
std::int64_t dots_of(std::string_view line) {
  const bool several = line.find("\"\"\"") != line.npos || line.find("'''") != line.npos;
  std::int64_t dots = 0;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '"' && c == '\\') {
      ++i;
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && !several && (c == '"' || c == '\'')) {
      quote = c;
    } else if (quote == 0 && c == '.') {
      ++dots;
    }
  }
  return dots;
}

class TomlTree {
 public:
  TomlTree(std::string name, std::string text, const doc::Limits& limits) : limits_(limits) {
    if (text.size() > limits.bytes) {
      throw InputError(fmt::format("{}: {} bytes are too many; allowed is up to {}", name, text.size(), limits.bytes));
    }
    source_ = std::make_shared<doc::SourceText>(doc::SourceText{std::move(name), std::move(text)});
    find_lines();
  }

  Document read() {
    try {
      const toml::table root = toml::parse(source_->text);
      return {source_, table_of(root, 0, 0)};
    } catch (const toml::parse_error& error) {
      fail(error.source().begin, in_short(error.description()));
    }
  }

 private:
  // The library's words without what it was doing and which of its settings it obeys.
  static std::string in_short(std::string_view words) {
    constexpr std::string_view kDoing = "Error while parsing ";
    if (words.starts_with(kDoing)) words.remove_prefix(std::min(words.size(), words.find(": ") + 2));
    return std::string(words.substr(0, words.find(" (TOML_")));
  }

  void find_lines() {
    const std::string_view text = source_->text;
    for (std::size_t begin = 0; begin <= text.size();) {
      lines_.push_back(begin);
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = text.substr(begin, end - begin);
      const std::size_t first = line.find_first_not_of(" \t");
      const bool comment = first != line.npos && line[first] == '#';
      if (!comment && dots_of(line) > kMostDots) {
        fail({static_cast<toml::source_index>(lines_.size()), 1},
             fmt::format("more than {} dots in a line", kMostDots));
      }
      begin = end + 1;
    }
  }

  std::size_t offset_of(toml::source_position place) const {
    const std::size_t line = std::clamp<std::size_t>(place.line, 1, lines_.size()) - 1;
    const std::size_t column = place.column > 0 ? place.column - 1 : 0;
    return std::min(lines_[line] + column, source_->text.size());
  }

  [[noreturn]] void fail(toml::source_position place, const std::string& message) const {
    throw InputError(fmt::format("{}: line {}: {}", source_->name, place.line, clip(message, 200)),
                     doc::excerpt_at(*source_, offset_of(place)));
  }

  doc::Value table_of(const toml::table& table, std::size_t depth, std::size_t offset) {
    struct Entry {
      const toml::key* key;
      const toml::node* node;
    };
    std::vector<Entry> entries;
    for (const auto& [key, node] : table) entries.push_back({&key, &node});
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.key->source().begin < b.key->source().begin; });
    auto object = std::make_shared<doc::Object>();
    for (const Entry& entry : entries) {
      const toml::source_position place = entry.key->source().begin;
      object->add(std::string(entry.key->str()), value_of(*entry.node, depth + 1, place));
    }
    return {std::move(object), offset};
  }

  doc::Value value_of(const toml::node& node, std::size_t depth, toml::source_position place) {
    if (depth > limits_.depth) fail(place, "values are nested too deeply");
    if (++values_ > limits_.values) fail(place, "there are too many values");
    const std::size_t offset = offset_of(place);
    if (const toml::table* table = node.as_table()) return table_of(*table, depth, offset);
    if (const toml::array* array = node.as_array()) {
      auto list = std::make_shared<doc::Array>();
      for (const toml::node& each : *array) list->push_back(value_of(each, depth + 1, each.source().begin));
      return {std::move(list), offset};
    }
    if (const auto* text = node.as_string()) return {text->get(), offset};
    if (const auto* integer = node.as_integer()) return {integer->get(), offset};
    if (const auto* flag = node.as_boolean()) return {flag->get(), offset};
    if (const auto* number = node.as_floating_point(); number != nullptr && std::isfinite(number->get())) {
      return {number->get(), offset};
    }
    fail(place, "a date, a time or a number that is not finite cannot stand here");
  }

  doc::Limits limits_;
  std::shared_ptr<const doc::SourceText> source_;
  std::vector<std::size_t> lines_;  // where each begins
  std::size_t values_ = 0;
};

}  // namespace

Document parse_toml(std::string name, std::string text, const doc::Limits& limits) {
  return TomlTree(std::move(name), std::move(text), limits).read();
}

}  // namespace nest::launch
