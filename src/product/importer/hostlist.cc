#include "importer/hostlist.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace nest::importer {
namespace {

constexpr std::size_t kLongestNumber = 18;
constexpr std::size_t kMostGroups = 8;  // bracket groups of one item

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct NumberRange {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::size_t width = 0;

  std::size_t size() const { return static_cast<std::size_t>(high - low) + 1; }
};

// Text, or a bracket group.
struct Piece {
  std::string text;
  std::vector<NumberRange> ranges;

  std::size_t size() const {
    std::size_t numbers = 0;
    for (const NumberRange& range : ranges) numbers += range.size();
    return ranges.empty() ? 1 : numbers;
  }
};

[[noreturn]] void fail_item(std::string_view item, std::string_view why) {
  throw InputError(fmt::format("host list `{}`: {}", clip(item, 60), why));
}

std::uint64_t parse_number(std::string_view item, std::string_view text) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) {
    fail_item(item, fmt::format("`{}` is not a number; brackets hold numbers and ranges, for example [001-128,130]",
                                clip(text, 20)));
  }
  if (text.size() > kLongestNumber) fail_item(item, fmt::format("`{}` has too many digits", clip(text, 30)));
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

NumberRange parse_range(std::string_view item, std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::string_view low = text.substr(0, dash);
  NumberRange range;
  range.low = range.high = parse_number(item, low);
  range.width = low.size();
  if (dash != std::string_view::npos) range.high = parse_number(item, text.substr(dash + 1));
  if (range.high < range.low) fail_item(item, fmt::format("`{}` counts down", clip(text, 40)));
  if (range.high - range.low >= kMostHostsOfRange) {
    fail_item(item, fmt::format("`{}` is more than {} hosts", clip(text, 40), kMostHostsOfRange));
  }
  return range;
}

std::vector<Piece> parse_item(std::string_view item) {
  std::vector<Piece> pieces;
  std::size_t groups = 0;
  for (std::size_t at = 0; at < item.size();) {
    if (item[at] == ']') fail_item(item, "`]` without `[`");
    if (item[at] == '{' || item[at] == '}') fail_item(item, "functions such as block{...} cannot be used here");
    if (item[at] != '[') {
      const std::size_t end = std::min(item.find_first_of("[]{}", at), item.size());
      pieces.push_back({std::string(item.substr(at, end - at)), {}});
      at = end;
      continue;
    }
    const std::size_t close = item.find_first_of("[]", at + 1);
    if (close == std::string_view::npos) fail_item(item, "`[` is never closed");
    if (item[close] == '[') fail_item(item, "brackets inside brackets");
    if (++groups > kMostGroups) fail_item(item, fmt::format("more than {} bracket groups", kMostGroups));
    Piece group;
    for (const std::string_view part : split_text(item.substr(at + 1, close - at - 1), ',')) {
      group.ranges.push_back(parse_range(item, part));
    }
    pieces.push_back(std::move(group));
    at = close + 1;
  }
  return pieces;
}

void write_out(const std::vector<Piece>& pieces, std::size_t index, std::string& name, std::vector<std::string>& names,
               std::string_view item) {
  if (index == pieces.size()) {
    if (name.size() > kLongestHostName) fail_item(item, fmt::format("names longer than {}", kLongestHostName));
    names.push_back(name);
    return;
  }
  const std::size_t length = name.size();
  const Piece& piece = pieces[index];
  if (piece.ranges.empty()) {
    name += piece.text;
    write_out(pieces, index + 1, name, names, item);
    name.resize(length);
  }
  for (const NumberRange& range : piece.ranges) {
    for (std::uint64_t number = range.low; number <= range.high; ++number) {
      name += fmt::format("{:0{}}", number, range.width);
      write_out(pieces, index + 1, name, names, item);
      name.resize(length);
    }
  }
}

void expand_item(std::string_view item, std::vector<std::string>& names) {
  const bool clean = std::all_of(item.begin(), item.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && static_cast<unsigned char>(c) < 0x7F && c != '"' && c != '=';
  });
  if (!clean) fail_item(item, "host names are plain ASCII without quotes, blanks and `=`");
  if (item.size() > 64 * kLongestHostName) fail_item(item, "is too long");
  const std::vector<Piece> pieces = parse_item(item);
  std::size_t product = 1;
  for (const Piece& piece : pieces) {
    if (piece.size() > kMostHosts / product) fail_item(item, fmt::format("stands for more than {} hosts", kMostHosts));
    product *= piece.size();
  }
  if (names.size() + product > kMostHosts) fail_item(item, fmt::format("the list has more than {} hosts", kMostHosts));
  std::string name;
  write_out(pieces, 0, name, names, item);
}

// A name cut at its last number.
struct Numbered {
  std::string_view before;
  std::string_view digits;
  std::string_view after;
};

std::optional<Numbered> cut_at_number(std::string_view name) {
  std::size_t end = name.size();
  while (end > 0 && !is_digit(name[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  if (begin == end || end - begin > kLongestNumber) return std::nullopt;
  return Numbered{name.substr(0, begin), name.substr(begin, end - begin), name.substr(end)};
}

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// Whether a range that begins with `first` may go on with `next`: numbers keep the width of the first.
bool continues(std::string_view first, std::string_view last, std::string_view next) {
  return number_of(next) == number_of(last) + 1 && next == fmt::format("{:0{}}", number_of(next), first.size());
}

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view text) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const bool end = at == text.size();
    if (!end && text[at] == '[') ++depth;
    if (!end && text[at] == ']') --depth;
    const bool separator = end || (depth <= 0 && (text[at] == ',' || text[at] == ' ' || text[at] == '\t'));
    if (!separator) continue;
    const std::string_view item = text.substr(begin, at - begin);
    if (item.empty() && (end ? begin > 0 && text[begin - 1] == ',' : text[at] == ',')) {
      fail_item(text, "a name is missing beside a comma");
    }
    if (!item.empty()) expand_item(item, names);
    begin = at + 1;
  }
  if (names.empty()) fail_item(text, "names no host");
  return names;
}

std::string compress_hostlist(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < names.size();) {
    if (!list.empty()) list += ',';
    const auto head = cut_at_number(names[i]);
    if (!head) {
      list += names[i++];
      continue;
    }
    std::vector<std::string> ranges;
    std::size_t numbers = 0;
    while (i < names.size()) {
      const auto first = cut_at_number(names[i]);
      if (!first || first->before != head->before || first->after != head->after) break;
      std::string_view last = first->digits;
      std::size_t end = i + 1;
      for (; end < names.size(); ++end) {
        const auto next = cut_at_number(names[end]);
        if (!next || next->before != head->before || next->after != head->after) break;
        if (!continues(first->digits, last, next->digits)) break;
        last = next->digits;
      }
      ranges.push_back(end == i + 1 ? std::string(last) : fmt::format("{}-{}", first->digits, last));
      numbers += end - i;
      i = end;
    }
    const std::string inside = fmt::format("{}", fmt::join(ranges, ","));
    list += fmt::format(fmt::runtime(numbers == 1 ? "{}{}{}" : "{}[{}]{}"), head->before, inside, head->after);
  }
  return list;
}

}  // namespace nest::importer
