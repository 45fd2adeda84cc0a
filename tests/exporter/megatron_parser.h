// pretrain_gpt.py's argument parser and its checks, written from their documentation and independent of the exporter:
// whatever it accepts, Megatron-LM is documented to accept.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace nest::test {

struct MegatronArguments {
  std::map<std::string, std::vector<std::string>> values;  // by option; flags have none

  bool has(const std::string& name) const { return values.contains(name); }
  long number(const std::string& name, long otherwise) const;
  std::string word(const std::string& name, const std::string& otherwise) const;
};

// The text has one option per line. Problems are added as sentences.
MegatronArguments parse_megatron(const std::string& text, std::vector<std::string>& problems);

// What validate_args and the configuration refuse for this many ranks.
void validate_megatron(const MegatronArguments& arguments, long world, bool before_blackwell,
                       const std::map<std::string, std::string>& environment, std::vector<std::string>& problems);

// Characters of every stage of a layout, by its grammar; empty with a problem when it is wrong.
std::vector<std::string> expand_layout(std::string text, std::vector<std::string>& problems);

}  // namespace nest::test
