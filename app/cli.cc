#include "cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>

#include "command.h"
#include "failure.h"
#include "foreign.h"
#include "help.h"
#include "nest/check.h"
#include "nest/error.h"
#include "nest/option.h"
#include "nest/simulate.h"
#include "nest/text.h"
#include "nest/version.h"
#include "options.h"
#include "output.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "plans distributed training\n"
    "Give it a model, a cluster and a batch: it finds the fastest way to train that fits in memory, proves that no "
    "plan of "
    "its search space is faster, and says what the plan costs and why.";

constexpr const char* kExamples =
    "  nest plan llama3-70b --cluster dgx-h100 --gpus 64 --global-batch 512\n"
    "                                           the fastest plan that fits, and why\n"
    "  nest plan … -o plan.json --html page.html\n"
    "                                           for other commands, and with drawings\n"
    "  nest eval llama3-70b --gpus 64 --tp 8 --pp 4 --sp\n"
    "                                           its step time and memory\n"
    "  nest export plan.json --to megatron      how to tell the framework\n"
    "  nest show models                         models that nest knows; also clusters\n"
    "  nest show path/to/config.json            any Hugging Face model\n"
    "  source <(nest completion bash)           completion in this shell";

struct Program {
  Program() : app(kDescription, "nest") {
    app.formatter(std::make_shared<HelpFormatter>());
    app.footer(kExamples);
    app.require_subcommand(1);
    app.fallthrough();
    app.option_defaults()->group("Output");
    add_choice<ColorMode>(app, "--color", color,
                          {{"auto", ColorMode::automatic}, {"always", ColorMode::always}, {"never", ColorMode::never}},
                          "colours; auto (the default): only on a terminal, and never when NO_COLOR is set");
    app.add_flag("--json", session.json, "print one JSON object on standard output and nothing else");
    app.set_help_flag("-h,--help", "explain this and exit")->group("Output");
    app.set_version_flag("-V,--version", std::string("nest ") + version(), "print the version and exit")
        ->group("Other");
    app.option_defaults()->group("Options");
    for (const AddCommand add : command_table()) {
      commands.push_back(add(app));
      commands.back().app->fallthrough();
      commands.back().app->set_help_flag("-h,--help", "explain this and exit")->group("");
    }
    session.commands = commands;
  }

  CLI::App app;
  ColorMode color = ColorMode::automatic;
  Session session;
  std::vector<Command> commands;
};

// The subcommand whose arguments were being read, or the program itself.
const CLI::App& current_app(const Program& program) {
  const auto chosen = program.app.get_subcommands();
  return chosen.empty() ? program.app : *chosen.front();
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// `after`: the word behind it, which may tell what was meant.
std::string explain_unknown_flag(const CLI::App& app, const std::string& word, const std::string& after) {
  const std::string flag = word.substr(0, word.find('='));
  std::vector<std::string> flags = flags_of(app);
  if (app.get_parent() != nullptr) {
    for (const std::string& name : flags_of(*app.get_parent())) flags.push_back(name);
  }
  // Underscores in place of dashes, words of other tools, then what is mistyped.
  std::string dashed = to_lower(flag);
  std::replace(dashed.begin() + 1, dashed.end(), '_', '-');
  const auto has = [&](std::string_view name) { return std::find(flags.begin(), flags.end(), name) != flags.end(); };
  std::string_view own = has(dashed) ? std::string_view(dashed) : own_option(flag);
  if (own == "--cluster" && parse_whole(after)) own = "--gpus";  // so many, not which
  const std::string meant = has(own) ? fmt::format("; did you mean `{}`?", own) : did_you_mean(flag, flags);
  return fmt::format("unknown option {}{}", clip(flag, 60), meant);
}

std::vector<std::string> subcommand_names(const Program& program) {
  std::vector<std::string> names;
  for (const Command& command : program.commands) names.push_back(command.app->get_name());
  return names;
}

// A first word that is no subcommand: mistyped, or a name that some subcommand would have understood.
std::string explain_unknown_subcommand(const Program& program, const std::string& word) {
  const std::vector<std::string> names = subcommand_names(program);
  const std::string message = fmt::format("unknown subcommand \"{}\"", clip(word, 60));
  for (const Command& command : program.commands) {
    if (!command.words) continue;
    for (const std::string& known : command.words()) {
      if (known == to_lower(word))
        return fmt::format("{}; did you mean `nest {} {}`?", message, command.app->get_name(), known);
    }
  }
  if (const std::string_view own = own_subcommand(word); !own.empty()) {
    const bool list =
        own == "show" && (word == "models" || word == "clusters" || word == "devices" || word == "stacks");
    return fmt::format("{}; did you mean `nest {}{}`?", message, own, list ? " " + word : "");
  }
  const std::string meant = did_you_mean(word, names);
  return message + (meant.empty() ? fmt::format("; there is {}", join_words(names)) : meant);
}

std::string explain_extras(const Program& program) {
  const CLI::App& app = current_app(program);
  const std::vector<std::string> extras = program.app.remaining(true);
  for (std::size_t i = 0; i < extras.size(); ++i) {
    if (extras[i].size() < 2 || extras[i].front() != '-') continue;
    const std::size_t value = extras[i].find('=');
    const std::string after = value != std::string::npos ? extras[i].substr(value + 1)
                              : i + 1 < extras.size()    ? extras[i + 1]
                                                         : std::string();
    return explain_unknown_flag(app, extras[i], after);
  }
  const std::string word = extras.empty() ? std::string() : extras.front();
  if (app.get_parent() == nullptr) return explain_unknown_subcommand(program, word);
  return fmt::format("one argument too many: \"{}\"", clip(word, 60));
}

int report_usage(const Program& program, const std::string& message, bool json) {
  const CLI::App& app = current_app(program);
  const std::string name = app.get_parent() == nullptr ? "nest" : "nest " + app.get_name();
  return report_failure({kExitInput, message, {}, fmt::format("Try `{} --help`.", name)}, json);
}

std::string explain(const Program& program, const CLI::ParseError& error) {
  // Words that nobody took explain more than that a subcommand is missing.
  if (!program.app.remaining(true).empty()) return explain_extras(program);
  if (program.app.get_subcommands().empty()) {
    return fmt::format("a subcommand is missing; there is {}", join_words(subcommand_names(program)));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    // The library's text starts with the option's name; the rest speaks of types and counts.
    const std::string what = error.what();
    const bool missing = what.ends_with("missing") || what.find("At least") != std::string::npos;
    return what.substr(0, what.find(':')) + (missing ? ": a value must follow" : ": is given more than once");
  }
  return error.what();
}

int run_command(Program& program) {
  for (const Command& command : program.commands) {
    if (!command.app->parsed()) continue;
    program.session.style = Style(use_color(program.color));
    show_inks(use_color(program.color));
    const ExitCode code = command.run(program.session);
    // What failed comes before what explains it.
    if (!program.session.failure.empty()) {
      report_failure({code, program.session.failure}, program.session.json && program.session.out.empty());
    }
    write_stdout(program.session.out);
    return code;
  }
  throw InternalError("no subcommand took the arguments");
}

// Whether --json was asked for, also where the arguments could not be understood.
bool wants_json(int argc, const char* const* argv) {
  return std::any_of(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
}

int run_checked(Program& program, int argc, const char* const* argv) {
  if (argc <= 1) {
    write_stdout(program.app.help());
    return kExitOk;
  }
  program.session.arguments.assign(argv, argv + argc);
  watch_arguments(argc, argv);
  try {
    program.app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    write_stdout(program.app.help());
    return kExitOk;
  } catch (const CLI::CallForVersion& version) {
    std::string text = std::string(version.what()) + '\n';
    if (const std::vector<std::string> missing = left_out(); !missing.empty()) {
      text += wrap_after("without ", join_words(missing)) + '\n';
    }
    write_stdout(text);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return report_usage(program, explain(program, error), wants_json(argc, argv));
  }
  return run_command(program);
}

int report_bug(const std::string& what, bool json) {
  return report_failure(
      {kExitBug, "this is a bug in nest: " + what, {}, "Please report it with the command line and its input files."},
      json);
}

// The file that a bug report needs when the search returns a plan that the judge refuses: a clause that says where it
// is, or why it could not be written.
std::string write_reproducer(const InternalError& bug) {
  constexpr const char* kFile = "nest-unsound-plan.json";
  const std::string text = reproducer(bug);
  if (text.empty()) return {};
  try {
    write_file_atomically(kFile, text);
  } catch (const InputError& error) {
    return fmt::format(" ({})", error.what());
  }
  return fmt::format("; the plan is in {}, for `nest check`", kFile);
}

// Options have several names, of which messages know the first: they begin with the one that was typed. --tp 8 is one of
// those that --set or --strategy gather: where neither was typed, neither is named.
std::string in_typed_words(const Program& program, const std::string& message, int argc, const char* const* argv) {
  const auto typed = [&](const std::string& name) {
    return std::any_of(argv, argv + argc, [&](const char* word) {
      return std::string_view(word) == name || std::string_view(word).starts_with(name + '=');
    });
  };
  for (const std::string gathers : {"--set", "--strategy"}) {
    if (message.starts_with(gathers + ": ") && !typed(gathers)) return message.substr(gathers.size() + 2);
  }
  for (const CLI::Option* option : current_app(program).get_options()) {
    const std::vector<std::string>& names = option->get_lnames();
    if (names.size() < 2 || !message.starts_with("--" + names.front() + ':') || typed("--" + names.front())) continue;
    for (const std::string& name : names) {
      if (typed("--" + name)) return "--" + name + message.substr(2 + names.front().size());
    }
  }
  return message;
}

// Never throws.
int run_reported(int argc, const char* const* argv) {
  const bool json = wants_json(argc, argv);
  std::optional<Program> program;
  try {
    program.emplace();
    return run_checked(*program, argc, argv);
  } catch (const InputError& error) {
    std::string message = flag_options(error.marked());
    if (program) message = in_typed_words(*program, message, argc, argv);
    return report_failure({kExitInput, message, error.excerpt()}, json);
  } catch (const SimulatorUnavailable& error) {
    return report_failure({kExitInput, error.what()}, json);
  } catch (const SimulatorError& error) {
    return report_failure({kExitBug, error.what()}, json);
  } catch (const InternalError& bug) {
    return report_bug(bug.what() + write_reproducer(bug), json);
  } catch (const std::bad_alloc&) {
    return report_failure({kExitInput, "not enough memory"}, json);
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) return report_bug(error.what(), json);
    return report_failure({kExitInput, "no thread is to be had: the system's limits do not grant one"}, json);
  } catch (const std::exception& error) {
    return report_bug(error.what(), json);
  } catch (...) {
    return report_bug("an unknown exception", json);
  }
}

}  // namespace

int run_program(int argc, const char* const* argv) { return run_reported(argc, argv); }

}  // namespace nest::app
