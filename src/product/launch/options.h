// Options of pretrain_gpt.py as argparse reads them: exact names, --opt value or --opt=value, the last one wins.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/shell.h"

namespace nest::launch {

enum class OptionKind : std::uint8_t { flag, value, list };

struct KnownOption {
  std::string_view name;
  OptionKind kind = OptionKind::flag;
  bool read = false;  // by nest
};

// Options that nest reads, and those of which it only knows whether values follow; sorted by name.
const std::vector<KnownOption>& megatron_option_table();

class LaunchOptions {
 public:
  // `source` names the text in messages. Throws InputError for options without their value, flags with one, options
  // that Megatron no longer takes, and names that nearly are those of options that matter.
  LaunchOptions(std::string source, const std::vector<ShellWord>& arguments);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  bool flag(std::string_view name) const { return has(name); }
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high) const;
  std::optional<double> number(std::string_view name, double low, double high) const;
  std::optional<std::string> text(std::string_view name) const;
  std::optional<std::string> choice(std::string_view name, const std::vector<std::string>& allowed) const;
  std::vector<std::string> texts(std::string_view name) const;
  // "127,0" or "(127,0)": so many whole numbers; none where the option is not given.
  std::vector<std::int64_t> tuple(std::string_view name, std::int64_t low, std::int64_t high, std::size_t count) const;

  // Options whose names nobody knows, and words that belong to none.
  const std::vector<std::string>& unknown() const { return unknown_; }
  // Variables in places that may hold whole options: "$EXTRA_ARGS".
  const std::vector<std::string>& unseen() const { return unseen_; }

  [[noreturn]] void fail(std::string_view name, const std::string& message) const;
  const std::string& source() const { return source_; }

 private:
  struct Given {
    std::vector<ShellWord> values;
    int line = 0;
  };
  const Given* find(std::string_view name) const;
  const ShellWord* single(std::string_view name) const;
  void read(const std::vector<ShellWord>& arguments);
  void check_name(const std::string& name, int line);

  std::string source_;
  std::map<std::string, Given, std::less<>> given_;
  std::vector<std::string> unknown_, unseen_;
};

}  // namespace nest::launch
