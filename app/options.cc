#include "options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "nest/error.h"
#include "nest/text.h"

namespace nest::app {

namespace {

std::int64_t parse_integer(const std::string& name, const std::string& text, const IntegerRange& range) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, value);
  if (status != std::errc{} || rest != end || !range.holds(value)) fail_range(name, text, range);
  return value;
}

template <class Number>
CLI::Option* add_number(CLI::App& app, const std::string& name, Number& target, const IntegerRange& range,
                        const std::string& description) {
  const auto set = [&target, name, range](const std::string& text) { target = parse_integer(name, text, range); };
  return app.add_option_function<std::string>(name, set, description)->type_name("N");
}

}  // namespace

CLI::Option* add_integer(CLI::App& app, const std::string& name, std::int64_t& target, const IntegerRange& range,
                         const std::string& description) {
  return add_number(app, name, target, range, description);
}

CLI::Option* add_integer(CLI::App& app, const std::string& name, std::optional<std::int64_t>& target,
                         const IntegerRange& range, const std::string& description) {
  return add_number(app, name, target, range, description);
}

CLI::Option* add_word(CLI::App& app, const std::string& name, std::vector<std::string> words,
                      std::function<void(std::size_t)> choose, const std::string& description) {
  std::string shown;
  for (const std::string& word : words) shown += (shown.empty() ? "" : "|") + word;
  const auto set = [name = name.substr(0, name.find(',')), words = std::move(words),
                    choose = std::move(choose)](const std::string& text) {
    const auto found = std::find(words.begin(), words.end(), text);
    if (found == words.end()) {
      throw InputError(fmt::format("{}: \"{}\" is not one of {}{}", name, clip(text, 40), join_words(words, "or"),
                                   did_you_mean(text, words)));
    }
    choose(static_cast<std::size_t>(found - words.begin()));
  };
  return app.add_option_function<std::string>(name, set, description)->type_name(shown);
}

}  // namespace nest::app
