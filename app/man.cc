// nest man: the manual pages, for packages and for machines where nothing was installed.
#include <fmt/format.h>

#include <memory>

#include "command.h"
#include "man_page.h"
#include "nest/error.h"
#include "nest/text.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "print a manual page\n"
    "In the form that man(1) reads. Without a name the page of the program itself.";

constexpr const char* kExamples =
    "  nest man plan | man -l -                 read it, though nothing is installed\n"
    "  nest man > ~/.local/share/man/man1/nest.1";

std::vector<std::string> names_of(std::span<const Command> commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.app->get_name());
  return names;
}

std::string page_of(const std::string& name, std::span<const Command> commands) {
  if (name.empty()) return program_page(*commands.front().app->get_parent(), commands);
  for (const Command& command : commands) {
    if (command.app->get_name() == name) return command_page(*command.app);
  }
  const std::vector<std::string> names = names_of(commands);
  throw InputError(fmt::format("there is no page \"{}\"; allowed is {}{}", clip(name, 40), join_words(names, "or"),
                               did_you_mean(name, names)));
}

}  // namespace

Command add_man(CLI::App& program) {
  CLI::App* app = program.add_subcommand("man", kDescription);
  app->footer(kExamples);
  const auto name = std::make_shared<std::string>();
  app->add_option("NAME", *name, "of a subcommand")->group("Arguments");
  const auto run = [name](Session& session) {
    const std::string page = page_of(*name, session.commands);
    session.out = session.json ? fmt::format("{{\n  \"schema\": \"nest.man/1\",\n  \"page\": {},\n  \"roff\": {}\n}}\n",
                                             json_string(name->empty() ? "nest" : "nest-" + *name), json_string(page))
                               : page;
    return kExitOk;
  };
  return {app, run, {}};
}

}  // namespace nest::app
