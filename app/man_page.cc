#include "man_page.h"

#include <fmt/format.h>

#include "help.h"
#include "nest/text.h"
#include "nest/version.h"

namespace nest::app {
namespace {

// Text for roff: its backslash, and hyphens that may be typed (a plain one may be printed as a dash).
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  return result;
}

// Lines of running text. One that begins with a dot or a quote would be a request.
std::string roff_lines(std::string_view text) {
  std::string result;
  for (const std::string_view line : split_text(text, '\n')) {
    if (line.starts_with('.') || line.starts_with('\'')) result += "\\&";
    result += roff(line) + '\n';
  }
  return result;
}

std::string heading(const std::string& page, std::string_view summary) {
  std::string upper = page;
  for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return fmt::format(".TH {} 1 \"\" \"nest {}\" \"nest\"\n.SH NAME\n{} \\- {}\n", upper, version(), roff(page),
                     roff(summary));
}

std::string description_section(const CLI::App& app) {
  const std::string text = app.get_description();
  const std::size_t more = text.find('\n');
  const std::string body = more == std::string::npos ? text : text.substr(more + 1);
  return ".SH DESCRIPTION\n" + roff_lines(body);
}

std::string examples_section(const CLI::App& app) {
  if (app.get_footer().empty()) return {};
  return ".SH EXAMPLES\n.EX\n" + roff_lines(app.get_footer()) + ".EE\n";
}

std::string option_entry(const CLI::Option& option) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}", roff(option_name(option)), roff_lines(option.get_description()));
}

std::string options_of(const CLI::App& app, const std::string& group) {
  std::string entries;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() == group) entries += option_entry(*option);
  }
  return entries;
}

std::string option_sections(const CLI::App& app) {
  std::string text;
  for (const std::string& group : app.get_groups()) {
    if (group.empty()) continue;
    if (const std::string entries = options_of(app, group); !entries.empty())
      text += fmt::format(".SS {}\n{}", roff(group), entries);
  }
  return text;
}

constexpr const char* kExitStatus =
    ".SH EXIT STATUS\n.TP\n0\nsuccess\n.TP\n1\na bug in nest\n.TP\n2\nbad input or usage\n.TP\n3\nno plan "
    "fits\n.TP\n4\na limit was "
    "reached before any plan was found\n";

constexpr const char* kEnvironment =
    ".SH ENVIRONMENT\n.TP\n\\fBNO_COLOR\\fR\nwhere it is set there are no colours\n.TP\n\\fBNEST_SIMULATE\\fR\nthe "
    "program that "
    "\\fBnest simulate \\-\\-engine simgrid\\fR starts\n";

}  // namespace

std::string program_page(const CLI::App& program, std::span<const Command> commands) {
  std::string text = heading("nest", summary_of(program));
  text += ".SH SYNOPSIS\n\\fBnest\\fR \\fISUBCOMMAND\\fR [\\fIoptions\\fR]\n";
  text += description_section(program) + ".SH SUBCOMMANDS\nEach has a page of its own.\n";
  for (const Command& command : commands) {
    text += fmt::format(".TP\n\\fBnest\\-{}\\fR(1)\n{}", roff(command.app->get_name()),
                        roff_lines(summary_of(*command.app)));
  }
  text += ".SH OPTIONS\n" + option_sections(program) + examples_section(program);
  return text + kExitStatus + kEnvironment;
}

std::string command_page(const CLI::App& command) {
  std::string text = heading("nest-" + command.get_name(), summary_of(command));
  text += fmt::format(".SH SYNOPSIS\n\\fBnest {}\\fR", roff(command.get_name()));
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const std::string shown = fmt::format("\\fI{}\\fR", roff(option->get_name(true)));
    text += option->get_required() ? ' ' + shown : " [" + shown + ']';
  }
  text += " [\\fIoptions\\fR]\n" + description_section(command) + ".SH OPTIONS\n" + option_sections(command);
  text += ".SS Output\n" + options_of(*command.get_parent(), "Output");  // understood behind every subcommand
  return text + examples_section(command) + ".SH SEE ALSO\n\\fBnest\\fR(1), for exit codes and the environment\n";
}

}  // namespace nest::app
