#include "launch/pipeline_text.h"

#include <fmt/format.h>

#include <cctype>

namespace nest::launch {
namespace {

constexpr std::size_t kMostLayers = 1U << 16U;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::optional<std::size_t> take_number(std::string_view text, std::size_t& at) {
  if (at >= text.size() || !is_digit(text[at])) return std::nullopt;
  std::size_t value = 0;
  while (at < text.size() && is_digit(text[at])) {
    value = value * 10 + static_cast<std::size_t>(text[at++] - '0');
    if (value > kMostLayers) return std::nullopt;
  }
  return value;
}

// (BODY)*N -> BODY N times; brackets do not nest.
std::optional<std::string> unfold_groups(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '(') {
      result += text[at++];
      continue;
    }
    const std::size_t close = text.find(')', at);
    if (close == std::string_view::npos || close + 1 >= text.size() || text[close + 1] != '*') return std::nullopt;
    const std::string_view body = text.substr(at + 1, close - at - 1);
    at = close + 2;
    const auto times = take_number(text, at);
    if (!times || body.find('(') != std::string_view::npos) return std::nullopt;
    for (std::size_t k = 0; k < *times; ++k) {
      result += body;
      if (result.size() > 8 * kMostLayers) return std::nullopt;
    }
  }
  return result;
}

// C*N -> C N times.
std::optional<std::string> unfold_letters(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const char letter = text[at++];
    if (letter == '*') return std::nullopt;
    if (at >= text.size() || text[at] != '*') {
      result += letter;
      continue;
    }
    ++at;
    const auto times = take_number(text, at);
    if (!times) return std::nullopt;
    result.append(*times, letter);
    if (result.size() > 8 * kMostLayers) return std::nullopt;
  }
  return result;
}

// A list expression: [0,1]*3 + ([1]*2) …
class FrequencyParser {
 public:
  explicit FrequencyParser(std::string_view text) : text_(text) {}

  std::optional<std::vector<std::int64_t>> run() {
    auto list = sum(0);
    return at_ == text_.size() ? list : std::nullopt;
  }

 private:
  using List = std::optional<std::vector<std::int64_t>>;

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  List sum(int depth) {
    List left = product(depth);
    while (left && take('+')) {
      const List right = product(depth);
      if (!right || left->size() + right->size() > kMostLayers) return std::nullopt;
      left->insert(left->end(), right->begin(), right->end());
    }
    return left;
  }

  List product(int depth) {
    List list = factor(depth);
    while (list && take('*')) {
      const auto times = take_number(text_, at_);
      if (!times || list->size() * *times > kMostLayers) return std::nullopt;
      std::vector<std::int64_t> repeated;
      for (std::size_t k = 0; k < *times; ++k) repeated.insert(repeated.end(), list->begin(), list->end());
      list = std::move(repeated);
    }
    return list;
  }

  List factor(int depth) {
    if (depth > 16) return std::nullopt;
    if (take('(')) {
      List inside = sum(depth + 1);
      return take(')') ? inside : std::nullopt;
    }
    if (!take('[')) return std::nullopt;
    std::vector<std::int64_t> list;
    if (take(']')) return list;
    do {
      const auto value = take_number(text_, at_);
      if (!value || *value > 1 || list.size() >= kMostLayers) return std::nullopt;
      list.push_back(static_cast<std::int64_t>(*value));
    } while (take(','));
    return take(']') ? List(list) : std::nullopt;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<LaunchChunk>> parse_layout(std::string_view text, std::int64_t& mtp, std::string& reason) {
  std::string bare;
  for (const char c : text) {
    if (c != ',') bare += c;
  }
  const auto groups = unfold_groups(bare);
  const auto letters = groups ? unfold_letters(*groups) : std::nullopt;
  if (!letters) {
    reason = "its repetitions are not of the form (BODY)*N or C*N";
    return std::nullopt;
  }
  std::vector<LaunchChunk> chunks(1);
  mtp = 0;
  for (std::size_t i = 0; i < letters->size(); ++i) {
    LaunchChunk& chunk = chunks.back();
    switch ((*letters)[i]) {
      case '|': chunks.emplace_back(); break;
      case 't':
        if (mtp > 0) {
          reason = "t stands before m";
          return std::nullopt;
        }
        ++chunk.blocks;
        break;
      case 'm':
        ++mtp;
        ++chunk.mtp;
        break;
      case 'E':
        if (i != 0) {
          reason = "E stands once, at the beginning";
          return std::nullopt;
        }
        chunk.embedding = true;
        break;
      case 'L':
        if (i + 1 != letters->size()) {
          reason = "L stands once, at the end";
          return std::nullopt;
        }
        chunk.head = true;
        break;
      default: reason = fmt::format("`{}` is none of E, t, m, L and |", (*letters)[i]); return std::nullopt;
    }
  }
  if (!chunks.front().embedding || !chunks.back().head) {
    reason = "it begins with E and ends with L";
    return std::nullopt;
  }
  return chunks;
}

std::optional<std::vector<std::int64_t>> parse_layer_frequency(std::string_view text, std::int64_t layers) {
  std::size_t at = 0;
  if (const auto step = take_number(text, at); step && at == text.size()) {
    if (*step == 0) return std::nullopt;
    std::vector<std::int64_t> list;
    for (std::int64_t i = 0; i < layers; ++i) list.push_back(i % static_cast<std::int64_t>(*step) == 0 ? 1 : 0);
    return list;
  }
  std::string bare;
  for (const char c : text) {
    if (c != ' ') bare += c;
  }
  auto list = FrequencyParser(bare).run();
  if (!list || static_cast<std::int64_t>(list->size()) != layers) return std::nullopt;
  return list;
}

}  // namespace nest::launch
