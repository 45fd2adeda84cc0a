#include "launch/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/real.h"
#include "base/text.h"

namespace nest::launch {
namespace {

const KnownOption* find_known(std::string_view name) {
  const std::vector<KnownOption>& table = megatron_option_table();
  const auto found =
      std::lower_bound(table.begin(), table.end(), name,
                       [](const KnownOption& option, std::string_view wanted) { return option.name < wanted; });
  return found != table.end() && found->name == name ? &*found : nullptr;
}

struct OldSpelling {
  std::string_view name, now;
};
constexpr std::array kOldSpellings = {OldSpelling{"--model-parallel-size", "--tensor-model-parallel-size"},
                                      OldSpelling{"--batch-size", "--micro-batch-size"},
                                      OldSpelling{"--warmup", "--lr-warmup-fraction"}};

bool is_option(const ShellWord& word) {
  return word.text.size() > 2 && word.text.starts_with("--") && word.text[2] != '-';
}

}  // namespace

LaunchOptions::LaunchOptions(std::string source, const std::vector<ShellWord>& arguments) : source_(std::move(source)) {
  read(arguments);
}

void LaunchOptions::check_name(const std::string& name, int line) {
  for (const OldSpelling& old : kOldSpellings) {
    if (name == old.name) {
      throw InputError(
          fmt::format("{}: line {}: {} is refused by Megatron today; it is {} now", source_, line, name, old.now));
    }
  }
  // Abbreviations are refused, and so are typing mistakes: both would change the run silently.
  constexpr std::size_t kLongestName = 64;
  for (const KnownOption& option : megatron_option_table()) {
    if (!option.read || name.size() > kLongestName) continue;
    const bool abbreviated = name.size() > 12 && option.name.starts_with(name);
    if (abbreviated || (name.size() > 8 && edit_distance(name, option.name, 2) <= 2)) {
      throw InputError(fmt::format("{}: line {}: {} is no option of Megatron; did you mean `{}`?", source_, line,
                                   clip(name, 60), option.name));
    }
  }
  unknown_.push_back(clip(name, 60));
}

void LaunchOptions::read(const std::vector<ShellWord>& arguments) {
  for (std::size_t i = 0; i < arguments.size();) {
    const ShellWord& word = arguments[i++];
    if (!is_option(word)) {
      if (!word.unknown.empty()) {
        unseen_.push_back(word.unknown.front());
      } else {
        unknown_.push_back(clip(word.text, 60));
      }
      continue;
    }
    const std::size_t equals = word.text.find('=');
    const std::string name = word.text.substr(0, equals);
    Given given;
    given.line = word.line;
    if (equals != std::string::npos) {
      given.values.push_back({word.text.substr(equals + 1), word.unknown, word.line});
    }
    const KnownOption* known = find_known(name);
    if (known == nullptr) check_name(name, word.line);
    const OptionKind kind = known == nullptr ? OptionKind::list : known->kind;
    const bool glued = equals != std::string::npos;
    if (kind == OptionKind::flag && glued) {
      throw InputError(fmt::format("{}: line {}: {} is a flag and takes no value", source_, word.line, name));
    }
    if (kind == OptionKind::value && !glued) {
      if (i >= arguments.size() || is_option(arguments[i])) {
        throw InputError(fmt::format("{}: line {}: {}: a value must follow", source_, word.line, name));
      }
      given.values.push_back(arguments[i++]);
    }
    while (kind == OptionKind::list && !glued && i < arguments.size() && !is_option(arguments[i])) {
      given.values.push_back(arguments[i++]);
    }
    if (known != nullptr) given_[name] = std::move(given);
  }
}

const LaunchOptions::Given* LaunchOptions::find(std::string_view name) const {
  const auto found = given_.find(name);
  return found == given_.end() ? nullptr : &found->second;
}

void LaunchOptions::fail(std::string_view name, const std::string& message) const {
  const Given* given = find(name);
  throw InputError(given == nullptr ? fmt::format("{}: {}: {}", source_, name, message)
                                    : fmt::format("{}: line {}: {}: {}", source_, given->line, name, message));
}

const ShellWord* LaunchOptions::single(std::string_view name) const {
  const Given* given = find(name);
  if (given == nullptr) return nullptr;
  if (given->values.empty()) fail(name, "a value must follow");
  if (given->values.size() > 1) fail(name, "one value is allowed");
  const ShellWord& word = given->values.front();
  if (!word.unknown.empty()) {
    fail(name, fmt::format("{} is not set in the text; give it with --define", word.unknown.front()));
  }
  return &word;
}

std::optional<std::int64_t> LaunchOptions::integer(std::string_view name, std::int64_t low, std::int64_t high) const {
  const ShellWord* word = single(name);
  if (word == nullptr) return std::nullopt;
  std::int64_t value = 0;
  const char* end = word->text.data() + word->text.size();
  const auto [rest, error] = std::from_chars(word->text.data(), end, value);
  if (error != std::errc() || rest != end || value < low || value > high) {
    fail(name, fmt::format("found `{}`; expected a whole number in {} … {}", clip(word->text, 40), low, high));
  }
  return value;
}

std::optional<double> LaunchOptions::number(std::string_view name, double low, double high) const {
  const ShellWord* word = single(name);
  if (word == nullptr) return std::nullopt;
  double value = 0;
  const char* end = word->text.data() + word->text.size();
  const auto [rest, error] = real_from_chars(word->text.data(), end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value) || value < low || value > high) {
    fail(name, fmt::format("found `{}`; expected a number in {} … {}", clip(word->text, 40), low, high));
  }
  return value;
}

std::optional<std::string> LaunchOptions::text(std::string_view name) const {
  const ShellWord* word = single(name);
  return word == nullptr ? std::nullopt : std::optional(word->text);
}

std::optional<std::string> LaunchOptions::choice(std::string_view name, const std::vector<std::string>& allowed) const {
  auto value = text(name);
  if (value && std::find(allowed.begin(), allowed.end(), *value) == allowed.end()) {
    fail(name, fmt::format("found `{}`; expected {}{}", clip(*value, 40), join_words(allowed, "or"),
                           did_you_mean(*value, allowed)));
  }
  return value;
}

std::vector<std::string> LaunchOptions::texts(std::string_view name) const {
  const Given* given = find(name);
  if (given == nullptr) return {};
  if (given->values.empty()) fail(name, "a value must follow");
  std::vector<std::string> texts;
  for (const ShellWord& word : given->values) {
    if (!word.unknown.empty()) {
      fail(name, fmt::format("{} is not set in the text; give it with --define", word.unknown.front()));
    }
    texts.push_back(word.text);
  }
  return texts;
}

std::vector<std::int64_t> LaunchOptions::tuple(std::string_view name, std::int64_t low, std::int64_t high,
                                               std::size_t count) const {
  const ShellWord* word = single(name);
  if (word == nullptr) return {};
  std::string_view list = word->text;
  const auto is_parenthesis = [](char c) { return c == '(' || c == ')'; };
  while (!list.empty() && is_parenthesis(list.front())) list.remove_prefix(1);
  while (!list.empty() && is_parenthesis(list.back())) list.remove_suffix(1);
  std::vector<std::int64_t> numbers;
  for (const std::string_view part : split_text(list, ',')) {
    const std::string_view digits = trim(part);
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc() && rest == digits.data() + digits.size() && value >= low && value <= high) {
      numbers.push_back(value);
    }
  }
  if (numbers.size() != count || split_text(list, ',').size() != count) {
    fail(name, fmt::format("found `{}`; expected {} whole numbers in {} … {}, joined by commas", clip(word->text, 40),
                           count, low, high));
  }
  return numbers;
}

}  // namespace nest::launch
