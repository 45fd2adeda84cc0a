// nest completion: scripts that teach a shell nest's words.
#include <fmt/format.h>

#include "command.h"
#include "completion_script.h"
#include "nest/error.h"
#include "nest/text.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "print a completion script for a shell\n"
    "It completes subcommands, options, their choices, and the names of models, devices and clusters.";

constexpr const char* kExamples =
    "  source <(nest completion bash)           in this shell, or in ~/.bashrc\n"
    "  nest completion zsh > ~/.zfunc/_nest     a folder of $fpath\n"
    "  nest completion fish > ~/.config/fish/completions/nest.fish";

const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

}  // namespace

Command add_completion(CLI::App& program) {
  CLI::App* app = program.add_subcommand("completion", kDescription);
  app->footer(kExamples);
  const auto shell = std::make_shared<std::string>();
  app->add_option("SHELL", *shell, "bash, zsh or fish")->group("Arguments");
  const auto run = [shell](Session& session) {
    const CompletionWords words = collect_words(session.commands);
    std::string script;
    if (*shell == "bash") script = bash_script(words);
    if (*shell == "zsh") script = zsh_script(words);
    if (*shell == "fish") script = fish_script(words);
    if (shell->empty()) throw InputError(fmt::format("SHELL is missing; allowed is {}", join_words(kShells, "or")));
    if (script.empty()) {
      throw InputError(fmt::format("there is no completion for \"{}\"; allowed is {}{}", clip(*shell, 40),
                                   join_words(kShells, "or"), did_you_mean(*shell, kShells)));
    }
    session.out =
        session.json ? fmt::format("{{\n  \"schema\": \"nest.completion/1\",\n  \"shell\": {},\n  \"script\": {}\n}}\n",
                                   json_string(*shell), json_string(script))
                     : script;
    return kExitOk;
  };
  return {app, run, [] { return kShells; }};
}

}  // namespace nest::app
