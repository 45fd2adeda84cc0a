#include "completion_script.h"

#include <fmt/format.h>

#include "help.h"
#include "job_options.h"
#include "nest/show.h"
#include "nest/text.h"

namespace nest::app {
namespace {

// What an option that takes a preset or a file offers.
std::vector<std::string> preset_names(const std::string& option) {
  if (option == "model") return model_names();
  if (option == "cluster") return cluster_names();
  if (option == "stack") return stack_names();
  return {};
}

void collect_options(const CLI::App& app, std::vector<CompletionOption>& options) {
  for (const CLI::Option* option : app.get_options()) {
    CompletionOption found;
    for (const std::string& name : option->get_snames()) found.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) found.names.push_back("--" + name);
    if (found.names.empty()) continue;
    found.description = option->get_description();
    found.takes_value = option->get_expected_max() > 0;
    const std::string type = option->get_type_name();
    if (type == "NAME|FILE") {
      found.choices = preset_names(option->get_lnames().front());
      found.or_file = true;
    } else if (found.takes_value && type.find('|') != std::string::npos) {
      for (const std::string_view choice : split_text(type, '|')) found.choices.emplace_back(choice);
    }
    options.push_back(std::move(found));
  }
}

std::string joined(const std::vector<std::string>& words, std::string_view separator = " ") {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string all_names(const std::vector<CompletionOption>& options) {
  std::vector<std::string> names;
  for (const CompletionOption& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return joined(names);
}

// `text` with every character of `special` preceded by a backslash.
std::string escaped(std::string_view text, std::string_view special) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

// For single-quoted strings of sh and zsh, where a quote is written '\''.
std::string quote(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

std::vector<std::string> command_names(const CompletionWords& words) {
  std::vector<std::string> names;
  for (const CompletionCommand& command : words.commands) names.push_back(command.name);
  return names;
}

std::string bash_value_cases(const std::string& command, const std::vector<CompletionOption>& options) {
  std::string cases;
  for (const CompletionOption& option : options) {
    if (!option.takes_value) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names) patterns.push_back(fmt::format("{}:{}", command, name));
    const std::string reply = option.choices.empty() ? "return"
                                                     : fmt::format("COMPREPLY=($(compgen -W {} -- \"$word\")); return",
                                                                   quote(joined(option.choices)));
    cases += fmt::format("    {}) {} ;;\n", joined(patterns, "|"), reply);
  }
  return cases;
}

std::string zsh_options(const std::vector<CompletionOption>& options) {
  std::string lines;
  for (const CompletionOption& option : options) {
    for (const std::string& name : option.names) {
      std::string spec = fmt::format("{}[{}]", name, escaped(option.description, "[]"));
      if (option.takes_value)
        spec += option.choices.empty() ? ":value: "
                : option.or_file       ? fmt::format(":value: _alternative \"names:name:({})\" \"files:file:_files\"",
                                                     joined(option.choices))
                                       : fmt::format(":value:({})", joined(option.choices));
      lines += fmt::format("        {} \\\n", quote(spec));
    }
  }
  return lines;
}

std::string fish_options(const std::string& condition, const std::vector<CompletionOption>& options) {
  std::string lines;
  for (const CompletionOption& option : options) {
    lines += fmt::format("complete -c nest -n {}", quote(condition));
    for (const std::string& name : option.names) {
      lines += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (option.takes_value) lines += option.or_file ? " -r" : " -x";
    if (!option.choices.empty()) lines += fmt::format(" -a '{}'", joined(option.choices));
    lines += fmt::format(" -d '{}'\n", escaped(option.description, "'\\"));
  }
  return lines;
}

}  // namespace

CompletionWords collect_words(std::span<const Command> commands) {
  CompletionWords words;
  for (const Command& command : commands) {
    CompletionCommand found{command.app->get_name(), summary_of(*command.app), {}, {}};
    collect_options(*command.app, found.options);
    std::vector<CompletionOption> shared;
    collect_options(*command.app->get_parent(), shared);
    for (CompletionOption& option : shared) {
      // The subcommand has its own --help; --version belongs to the program alone.
      if (option.names.back() != "--help" && option.names.back() != "--version")
        found.options.push_back(std::move(option));
    }
    if (command.words) found.words = command.words();
    words.commands.push_back(std::move(found));
  }
  if (!commands.empty()) collect_options(*commands.front().app->get_parent(), words.options);
  return words;
}

std::string bash_script(const CompletionWords& words) {
  std::string value_cases = bash_value_cases("", words.options);
  std::string word_cases = fmt::format("    :-*) words={} ;;\n    :*) words={} ;;\n", quote(all_names(words.options)),
                                       quote(joined(command_names(words))));
  for (const CompletionCommand& command : words.commands) {
    value_cases += bash_value_cases(command.name, command.options);
    word_cases += fmt::format("    {0}:-*) words={1} ;;\n    {0}:*) words={2} ;;\n", command.name,
                              quote(all_names(command.options)), quote(joined(command.words)));
  }
  return fmt::format(R"(# bash completion for nest; load it with: source <(nest completion bash)
_nest() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before= command= words= i
  ((COMP_CWORD > 0)) && before=${{COMP_WORDS[COMP_CWORD - 1]}}
  # --option=value arrives as three words.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]] && ((COMP_CWORD > 1)); then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
    {}) command=${{COMP_WORDS[i]}}; break ;;
    esac
  done
  COMPREPLY=()
  case $command:$before in
{}  esac
  case $command:$word in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _nest nest
)",
                     joined(command_names(words), " | "), value_cases, word_cases);
}

std::string zsh_script(const CompletionWords& words) {
  std::string names;
  std::string cases;
  for (const CompletionCommand& command : words.commands) {
    names += fmt::format("        {}\n", quote(command.name + ":" + escaped(command.description, ":")));
    cases += fmt::format(
        "    {})\n      _arguments -s \\\n{}        {} && return\n      ;;\n", command.name,
        zsh_options(command.options),
        quote(fmt::format("*:name: _alternative \"names:name:({})\" \"files:file:_files\"", joined(command.words))));
  }
  return fmt::format(R"(#compdef nest
# zsh completion for nest; save it as _nest in a folder of $fpath, or load it with: source <(nest completion zsh)
_nest() {{
  local context state state_descr line
  typeset -A opt_args
  _arguments -C \
{}        '1:subcommand:->subcommand' \
        '*::argument:->argument' && return
  case $state in
  subcommand)
    local -a subcommands=(
{}    )
    _describe subcommand subcommands
    ;;
  argument)
    case $words[1] in
{}    esac
    ;;
  esac
}}
if [[ $funcstack[1] == _nest ]]; then
  _nest "$@"
else
  compdef _nest nest
fi
)",
                     zsh_options(words.options), names, cases);
}

std::string fish_script(const CompletionWords& words) {
  const std::string none = "__fish_use_subcommand";
  std::string script = "# fish completion for nest; save it as ~/.config/fish/completions/nest.fish\n";
  for (const CompletionCommand& command : words.commands) {
    script += fmt::format("complete -c nest -n '{}' -f -a {} -d '{}'\n", none, command.name,
                          escaped(command.description, "'\\"));
  }
  script += fish_options(none, words.options);
  for (const CompletionCommand& command : words.commands) {
    const std::string chosen = "__fish_seen_subcommand_from " + command.name;
    if (!command.words.empty()) {
      script += fmt::format("complete -c nest -n '{}' -a '{}'\n", chosen, joined(command.words));
    }
    script += fish_options(chosen, command.options);
  }
  return script;
}

}  // namespace nest::app
