// Help that teaches: what it is for, how to call it, examples, then the options. Fits 80 columns.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace nest::app {

// The first line of a description is the summary that lists show; the footer holds the examples.
class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

// The part of a description before its first line break.
std::string summary_of(const CLI::App& app);

// "-o, --output FILE", or the name of a positional argument.
std::string option_name(const CLI::Option& option);

}  // namespace nest::app
