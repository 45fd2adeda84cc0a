#include "help.h"

#include <fmt/format.h>

#include "nest/text.h"

namespace nest::app {
namespace {

constexpr std::size_t kLeft = 24;  // columns for names; longer ones have the description below

std::string entry(const std::string& name, const std::string& description) {
  std::string left = "  " + name;
  if (display_width(left) + 2 > kLeft) {
    left += '\n' + wrap_after(std::string(kLeft, ' '), description);
    return left + '\n';
  }
  return wrap_after(pad_right(left, kLeft), description) + '\n';
}

std::string option_groups(const CLI::App& app) {
  std::string text;
  for (const std::string& group : app.get_groups()) {
    if (group.empty()) continue;
    std::string entries;
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() == group) entries += entry(option_name(*option), option->get_description());
    }
    if (!entries.empty()) text += fmt::format("\n{}:\n{}", group, entries);
  }
  return text;
}

std::string usage(const CLI::App& app, const std::string& name) {
  std::string text = "Usage: " + name;
  if (app.get_parent() == nullptr) return text + " SUBCOMMAND [options]\n";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string shown = option->get_name(true);
    text += option->get_required() ? ' ' + shown : " [" + shown + ']';
  }
  return text + " [options]\n";
}

}  // namespace

std::string option_name(const CLI::Option& option) {
  if (option.get_positional() && option.get_lnames().empty()) return option.get_name(true);
  std::string name;
  for (const std::string& word : option.get_snames()) name += (name.empty() ? "-" : ", -") + word;
  for (const std::string& word : option.get_lnames()) name += (name.empty() ? "--" : ", --") + word;
  if (option.get_expected_max() > 0 && !option.get_type_name().empty()) name += ' ' + option.get_type_name();
  return name;
}

std::string summary_of(const CLI::App& app) {
  const std::string description = app.get_description();
  return description.substr(0, description.find('\n'));
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode /*mode*/) const {
  std::string text = wrap_after(name + " - ", summary_of(*app)) + '\n';
  const std::string description = app->get_description();
  if (const std::size_t more = description.find('\n'); more != std::string::npos) {
    text += '\n' + wrap_after("", description.substr(more + 1)) + '\n';
  }
  text += '\n' + usage(*app, name);
  if (!app->get_footer().empty()) text += "\nExamples:\n" + app->get_footer() + '\n';
  const auto subcommands = app->get_subcommands(std::function<bool(const CLI::App*)>{});
  if (!subcommands.empty()) {
    text += "\nSubcommands:\n";
    for (const CLI::App* sub : subcommands) text += entry(sub->get_name(), summary_of(*sub));
  }
  text += option_groups(*app);
  if (app->get_parent() != nullptr) {
    // Options of the program are understood behind every subcommand.
    std::string entries;
    for (const CLI::Option* option : app->get_parent()->get_options()) {
      if (option->get_group() == "Output") entries += entry(option_name(*option), option->get_description());
    }
    text += "\nOutput:\n" + entries;
  }
  return text;
}

}  // namespace nest::app
