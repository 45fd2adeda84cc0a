#include "launch/arithmetic.h"

#include <cctype>
#include <limits>

namespace nest::launch {
namespace {

constexpr int kDeepest = 64;

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Parser {
 public:
  Parser(std::string_view text, const NumberOf& number_of) : text_(text), number_of_(number_of) {}

  std::optional<std::int64_t> run() {
    const auto value = sum(0);
    skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  using Number = std::optional<std::int64_t>;

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Number sum(int depth) {
    Number left = product(depth);
    while (left) {
      const bool plus = take('+');
      if (!plus && !take('-')) break;
      const Number right = product(depth);
      if (!right) return std::nullopt;
      std::int64_t result = 0;
      const bool bad =
          plus ? __builtin_add_overflow(*left, *right, &result) : __builtin_sub_overflow(*left, *right, &result);
      if (bad) return std::nullopt;
      left = result;
    }
    return left;
  }

  Number product(int depth) {
    Number left = factor(depth);
    while (left) {
      const bool times = take('*');
      const bool over = !times && take('/');
      if (!times && !over && !take('%')) break;
      const Number right = factor(depth);
      if (!right) return std::nullopt;
      if (times) {
        std::int64_t result = 0;
        if (__builtin_mul_overflow(*left, *right, &result)) return std::nullopt;
        left = result;
        continue;
      }
      if (*right == 0 || (*right == -1 && *left == std::numeric_limits<std::int64_t>::min())) return std::nullopt;
      left = over ? *left / *right : *left % *right;
    }
    return left;
  }

  Number factor(int depth) {
    if (depth > kDeepest) return std::nullopt;
    if (take('(')) {
      const Number inside = sum(depth + 1);
      return take(')') ? inside : std::nullopt;
    }
    if (take('-')) {
      const Number value = factor(depth + 1);
      if (!value || *value == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
      return -*value;
    }
    return atom();
  }

  Number atom() {
    skip();
    if (at_ < text_.size() && text_[at_] == '$') ++at_;
    const bool braces = at_ < text_.size() && text_[at_] == '{';
    if (braces) ++at_;
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (braces && !take('}')) return std::nullopt;
    if (word.empty()) return std::nullopt;
    if (std::isdigit(static_cast<unsigned char>(word.front())) == 0) return number_of_(word);
    std::int64_t value = 0;
    for (const char digit : word) {
      if (std::isdigit(static_cast<unsigned char>(digit)) == 0) return std::nullopt;
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit - '0', &value)) {
        return std::nullopt;
      }
    }
    return value;
  }

  std::string_view text_;
  const NumberOf& number_of_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> evaluate_arithmetic(std::string_view text, const NumberOf& number_of) {
  return Parser(text, number_of).run();
}

}  // namespace nest::launch
