#include "options.h"

#include <fmt/format.h>

#include <optional>

#include "nest/error.h"
#include "nest/text.h"

namespace nest::app {

namespace {

std::int64_t parse_integer(const std::string& name, const std::string& text, const IntegerRange& range) {
  const std::optional<std::int64_t> value = parse_whole(text);
  if (!value || !range.holds(*value)) fail_range(name, text, range);
  return *value;
}

std::string first_name(const std::string& names) { return names.substr(0, names.find(',')); }

// Messages of what is parsed start with the option.
template <class Parse>
auto parse_named(const std::string& name, const std::string& text, Parse parse) {
  try {
    return parse(text);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", name, error.what()));
  }
}

template <class Number>
CLI::Option* add_number(CLI::App& app, const std::string& name, Number& target, const IntegerRange& range,
                        const std::string& description) {
  const auto set = [&target, shown = first_name(name), range](const std::string& text) {
    target = parse_integer(shown, text, range);
  };
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

CLI::Option* add_integers(CLI::App& app, const std::string& name, std::vector<std::int64_t>& target,
                          const IntegerRange& range, const std::string& description) {
  const auto set = [&target, name = first_name(name), range](const std::string& text) {
    for (const std::string_view part : split_text(text, ',')) {
      target.push_back(parse_integer(name, std::string(trim(part)), range));
    }
  };
  return app.add_option_function<std::string>(name, set, description)->type_name("N");
}

CLI::Option* add_words(CLI::App& app, const std::string& name, std::vector<std::string>& target,
                       const std::string& description) {
  const auto set = [&target, name = first_name(name)](const std::string& text) {
    for (const std::string_view part : split_text(text, ',')) {
      if (trim(part).empty()) throw InputError(fmt::format("{}: \"{}\" has an empty name", name, clip(text, 60)));
      target.emplace_back(trim(part));
    }
  };
  return app.add_option_function<std::string>(name, set, description);
}

CLI::Option* add_seconds(CLI::App& app, const std::string& name, double& target, const std::string& description) {
  const auto set = [&target, name](const std::string& text) {
    try {
      target = parse_duration(text);
    } catch (const InputError&) {
      target = 0;
    }
    if (!(target > 0)) {
      throw InputError(fmt::format("{}: `{}` is no time above 0; write for example 30 or 5min", name, clip(text, 40)));
    }
  };
  return app.add_option_function<std::string>(name, set, description)->type_name("SECONDS");
}

CLI::Option* add_price(CLI::App& app, double& target) {
  const auto set = [&target](const std::string& text) { target = parse_named("--price", text, parse_price); };
  return app
      .add_option_function<std::string>("--price", set,
                                        "what one device-hour costs, 2.5 or $2.50: adds the cost of --tokens")
      ->type_name("AMOUNT");
}

CLI::Option* add_tokens(CLI::App& app, double& target) {
  const auto set = [&target](const std::string& text) { target = parse_named("--tokens", text, parse_count); };
  return app
      .add_option_function<std::string>("--tokens", set,
                                        "tokens to train on, for example 15T: adds days and device-hours")
      ->type_name("COUNT");
}

CLI::Option* add_word(CLI::App& app, const std::string& name, std::vector<std::string> words,
                      std::function<void(std::size_t)> choose, const std::string& description) {
  std::string shown;
  for (const std::string& word : words) shown += (shown.empty() ? "" : "|") + word;
  const auto set = [name = first_name(name), words = std::move(words),
                    choose = std::move(choose)](const std::string& text) {
    const std::optional<std::size_t> found = find_word(text, words);
    if (!found) {
      throw InputError(fmt::format("{}: \"{}\" is not one of {}{}", name, clip(text, 40), join_words(words, "or"),
                                   did_you_mean(text, words)));
    }
    choose(*found);
  };
  return app.add_option_function<std::string>(name, set, description)->type_name(shown);
}

}  // namespace nest::app
