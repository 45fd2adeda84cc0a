#include "options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace nest {

CLI::Option* add_integer(CLI::App& app, const std::string& name, std::int64_t& target, std::int64_t low,
                         std::int64_t high, const std::string& description) {
  const auto set = [&target, name, low, high](const std::string& text) {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, status] = std::from_chars(text.data(), end, value);
    if (status != std::errc{} || rest != end || value < low || value > high) {
      throw InputError(fmt::format("{}: \"{}\" is not a whole number in {} … {}", name, clip(text, 40),
                                   format_integer(low), format_integer(high)));
    }
    target = value;
  };
  return app.add_option_function<std::string>(name, set, description)->type_name("N");
}

CLI::Option* add_word(CLI::App& app, const std::string& name, std::vector<std::string> words,
                      std::function<void(std::size_t)> choose, const std::string& description) {
  std::string shown;
  for (const std::string& word : words) shown += (shown.empty() ? "" : "|") + word;
  const auto set = [name, words = std::move(words), choose = std::move(choose)](const std::string& text) {
    const auto found = std::find(words.begin(), words.end(), text);
    if (found == words.end()) {
      throw InputError(fmt::format("{}: \"{}\" is not one of {}{}", name, clip(text, 40), join_words(words, "or"),
                                   did_you_mean(text, words)));
    }
    choose(static_cast<std::size_t>(found - words.begin()));
  };
  return app.add_option_function<std::string>(name, set, description)->type_name(shown);
}

}  // namespace nest
