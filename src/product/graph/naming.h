// Names of operators and weights that are the same in layers that are the same. Internal to graph.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "graph/raw_graph.h"

namespace nest::graph {

class LocalNames {
 public:
  LocalNames(std::string prefix, bool repeated) : prefix_(std::move(prefix)), repeated_(repeated) {}

  // The module path inside the layer, or what follows the last modules of it; numbered when it occurs again.
  std::string op(const std::string& name, const char* kind);
  // "self_attn.q_proj.weight"
  std::string weight(const std::string& name, const std::string& op) const;

 private:
  std::string prefix_;
  bool repeated_;
  std::map<std::string, int> seen_;
};

// How the user wants modules divided ("splits"), the longest pattern first. Throws InputError for a pattern that no
// operator's module matches, and where there are too many of both to compare.
class Annotations {
 public:
  explicit Annotations(const RawGraph& graph);
  const std::string& of(const std::string& module) const;  // empty: as found

 private:
  std::map<std::string, std::string> wanted_;  // per module that has one
};

// Whether the path is the pattern, lies below it, or matches it with * and ?.
bool matches(std::string_view pattern, std::string_view path);

}  // namespace nest::graph
