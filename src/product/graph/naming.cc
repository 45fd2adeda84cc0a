#include "graph/naming.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace nest::graph {
namespace {

// The last `count` components of a path.
std::string tail(const std::string& path, int count) {
  std::size_t begin = path.size();
  while (count-- > 0 && begin > 0) {
    const std::size_t dot = path.rfind('.', begin - 1);
    if (dot == std::string::npos) return path;
    begin = dot;
  }
  return path.substr(std::min(path.size(), begin + 1));
}

bool glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

std::string LocalNames::op(const std::string& name, const char* kind) {
  std::string base = name.substr(0, name.find('#'));
  if (!prefix_.empty() && base.starts_with(prefix_ + ".")) {
    base = base.substr(prefix_.size() + 1);
  } else if (prefix_.empty()) {
    base = repeated_ ? kind : tail(base, 1);
  } else {
    base = tail(base, 1);
  }
  const int again = ++seen_[base];
  return again == 1 ? base : fmt::format("{} {}", base, again);
}

std::string LocalNames::weight(const std::string& name, const std::string& op) const {
  if (!prefix_.empty() && name.starts_with(prefix_ + ".")) {
    const std::string inside = name.substr(prefix_.size() + 1);
    // A numbered module that is an operator itself: named after the list it is in.
    return inside.find('.') != std::string::npos ? inside
                                                 : tail(prefix_.substr(0, prefix_.rfind('.')), 1) + "." + inside;
  }
  const bool path = name.find('.') != std::string::npos;
  // Absolute names differ from layer to layer.
  if (repeated_ || name.find("::") != std::string::npos) return op + ".weight";
  return path ? tail(name, 2) : name;
}

bool matches(std::string_view pattern, std::string_view path) {
  if (path == pattern) return true;
  if (path.size() > pattern.size() && path.starts_with(pattern) && path[pattern.size()] == '.') return true;
  return pattern.find_first_of("*?") != std::string_view::npos && glob(pattern, path);
}

Annotations::Annotations(const RawGraph& graph) {
  if (graph.splits.empty()) return;
  std::set<std::string> modules;
  for (const RawOperator& op : graph.operators) modules.insert(op.module);
  constexpr std::size_t kMostComparisons = 10'000'000;
  if (modules.size() > kMostComparisons / graph.splits.size()) {
    throw InputError(fmt::format("{}: splits: {} patterns for {} modules are too many; allowed are {} pairs",
                                 graph.origin(), graph.splits.size(), modules.size(), kMostComparisons));
  }
  std::map<std::string, std::size_t> longest;  // per module: of the patterns that match it
  for (const auto& [pattern, way] : graph.splits) {
    bool used = false;
    for (const std::string& module : modules) {
      if (!matches(pattern, module)) continue;
      used = true;
      const auto [place, fresh] = longest.try_emplace(module, pattern.size());
      if (!fresh && place->second >= pattern.size()) continue;
      place->second = pattern.size();
      wanted_[module] = way;
    }
    if (!used) {
      throw InputError(fmt::format("{}: splits: no operator belongs to a module that matches \"{}\"", graph.origin(),
                                   clip(pattern, 60)));
    }
  }
}

const std::string& Annotations::of(const std::string& module) const {
  static const std::string kAsFound;
  const auto found = wanted_.find(module);
  return found == wanted_.end() ? kAsFound : found->second;
}

}  // namespace nest::graph
