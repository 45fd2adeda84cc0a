// nest help: what --help says, for those who ask first.
#include <fmt/format.h>

#include <memory>

#include "command.h"
#include "nest/error.h"
#include "nest/text.h"

namespace nest::app {
namespace {

// CLI::App::help() would explain the subcommand that was called, which is this one.
std::string explained(const CLI::App& app, const std::string& name) {
  return app.get_formatter()->make_help(&app, name, CLI::AppFormatMode::Normal);
}

}  // namespace

Command add_help(CLI::App& program) {
  CLI::App* app = program.add_subcommand("help", "explain nest or one of its subcommands");
  app->footer(
      "  nest help                                what there is\n"
      "  nest help plan                           the same as nest plan --help");
  const auto name = std::make_shared<std::string>();
  app->add_option("SUBCOMMAND", *name, "what to explain; without it all of nest")->group("Arguments");
  const auto run = [name, app](Session& session) {
    if (session.json) throw InputError("--json: help is for people; nest schema has what programs need");
    if (name->empty()) {
      session.out = explained(*app->get_parent(), "nest");
      return kExitOk;
    }
    std::vector<std::string> names;
    for (const Command& command : session.commands) names.push_back(command.app->get_name());
    const auto found = find_word(*name, names);
    if (!found) {
      const std::string meant = did_you_mean(*name, names);
      throw InputError(fmt::format("there is no subcommand \"{}\"{}", clip(*name, 40),
                                   meant.empty() ? "; there is " + join_words(names) : meant));
    }
    session.out = explained(*session.commands[*found].app, "nest " + names[*found]);
    return kExitOk;
  };
  const CLI::App& all = program;
  return {app, run, [&all] {
            std::vector<std::string> names;
            for (const CLI::App* sub : all.get_subcommands(std::function<bool(const CLI::App*)>{})) {
              names.push_back(sub->get_name());
            }
            return names;
          }};
}

}  // namespace nest::app
