// What a subcommand is. A new one is one file that defines `Command add_name(CLI::App&)`, and its line in commands.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli.h"
#include "nest/report.h"
#include "nest/style.h"

namespace nest::app {

struct Command;

// What a running subcommand sees of the world.
struct Session {
  bool json = false;    // --json: one object on standard output
  Style style;          // for standard output
  std::string out;      // the result; written to standard output when the subcommand returns
  std::string failure;  // why there is none, for standard error; with --json an object where `out` is empty
  std::span<const Command> commands;   // all of them, for the completion scripts
  std::vector<std::string> arguments;  // the command line, the program's name first

  ReportOptions report() const { return {style, 0, 0, arguments}; }
};

struct Command {
  CLI::App* app = nullptr;
  std::function<ExitCode(Session&)> run;
  // Words that its positional argument may be, for completion and suggestions; besides, it may be a file.
  std::function<std::vector<std::string>()> words;
};

using AddCommand = Command (*)(CLI::App& program);

// In the order in which help lists them.
std::span<const AddCommand> command_table();

Command add_plan(CLI::App& program);
Command add_show(CLI::App& program);
Command add_eval(CLI::App& program);
Command add_compare(CLI::App& program);
Command add_sweep(CLI::App& program);
Command add_export(CLI::App& program);
Command add_check(CLI::App& program);
Command add_simulate(CLI::App& program);
Command add_import(CLI::App& program);
Command add_calibrate(CLI::App& program);
Command add_schema(CLI::App& program);
Command add_mcp(CLI::App& program);
Command add_help(CLI::App& program);
Command add_completion(CLI::App& program);
Command add_man(CLI::App& program);

}  // namespace nest::app
