// Options whose mistakes are explained the way nest explains mistakes in files: the option, the value seen, what is
// allowed, and what was probably meant. All throw InputError while the arguments are parsed.
//
// The type name that help shows is also what completion offers: "none|selective|full" is a list of choices.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nest/range.h"

namespace nest::app {

// A whole number in the range.
CLI::Option* add_integer(CLI::App& app, const std::string& name, std::int64_t& target, const IntegerRange& range,
                         const std::string& description);
CLI::Option* add_integer(CLI::App& app, const std::string& name, std::optional<std::int64_t>& target,
                         const IntegerRange& range, const std::string& description);

// Several of them, with commas between.
CLI::Option* add_integers(CLI::App& app, const std::string& name, std::vector<std::int64_t>& target,
                          const IntegerRange& range, const std::string& description);
// The same of words; none is empty.
CLI::Option* add_words(CLI::App& app, const std::string& name, std::vector<std::string>& target,
                       const std::string& description);

// Seconds: "30", "5min".
CLI::Option* add_seconds(CLI::App& app, const std::string& name, double& target, const std::string& description);

// Money for a device-hour: "2.5", "$2.50".
CLI::Option* add_price(CLI::App& app, double& target);

// How many tokens are trained on: "15T".
CLI::Option* add_tokens(CLI::App& app, double& target);

// One of `words`, in any case or by another usual name; `choose` gets its index.
CLI::Option* add_word(CLI::App& app, const std::string& name, std::vector<std::string> words,
                      std::function<void(std::size_t)> choose, const std::string& description);

// One of `words`, as it is written.
template <class Text>  // std::string, or an optional one
CLI::Option* add_word(CLI::App& app, const std::string& name, const std::vector<std::string>& words, Text& target,
                      const std::string& description) {
  return add_word(
      app, name, words, [&target, words](std::size_t index) { target = words[index]; }, description);
}

// One of a few named values.
template <class T>
CLI::Option* add_choice(CLI::App& app, const std::string& name, T& target,
                        const std::vector<std::pair<std::string, T>>& choices, const std::string& description) {
  std::vector<std::string> words;
  std::vector<T> values;
  for (const auto& [word, value] : choices) {
    words.push_back(word);
    values.push_back(value);
  }
  return add_word(
      app, name, std::move(words), [&target, values](std::size_t index) { target = values[index]; }, description);
}

// One of the words of an enumeration (nest/strategy.h).
template <class T, class Words>
CLI::Option* add_enum(CLI::App& app, const std::string& name, T& target, const Words& words,
                      const std::string& description) {
  std::vector<std::pair<std::string, T>> choices;
  for (const auto& word : words) choices.emplace_back(word.text, word.value);
  return add_choice(app, name, target, choices, description);
}

}  // namespace nest::app
