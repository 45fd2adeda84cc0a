#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "importer/import_cluster.h"

namespace nest::importer {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kCommentColumn = 28;

// JSON strings are YAML strings.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Comments are one line whatever file names hold.
std::string comment(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  }
  return text;
}

std::string line(const std::string& key, const std::string& value, const std::string& from) {
  const std::string text = fmt::format("    {}: {}", key, value);
  if (from.empty()) return text + '\n';
  return fmt::format("{:<{}} # {}\n", text, kCommentColumn, comment(from));
}

// A list over as many lines as it takes.
std::string wrapped_list(const std::vector<std::string>& items, std::string_view indent) {
  if (std::string line = fmt::format("[{}]\n", fmt::join(items, ", ")); line.size() < kWidth - 20) return line;
  std::string text = "[";
  std::size_t column = kWidth;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : "]");
    if (column + item.size() + 1 > kWidth) {
      text += fmt::format("\n{}{}", indent, item);
      column = indent.size() + item.size();
    } else {
      text += ' ' + item;
      column += item.size() + 1;
    }
  }
  return text + '\n';
}

std::string children_lines(const ImportedLevel& level) {
  if (level.even()) return line("group", std::to_string(level.children.front()), level.children_from);
  std::vector<std::string> counts;
  for (const std::int64_t count : level.children) counts.push_back(std::to_string(count));
  return fmt::format("    # children of each of the {} units, in order ({})\n    counts: {}", counts.size(),
                     comment(level.children_from), wrapped_list(counts, "      "));
}

std::string level_lines(const ImportedLevel& level) {
  std::string text = fmt::format("  - name: {}\n", quoted(level.name)) + children_lines(level);
  text += line("bandwidth", exact_bandwidth(*level.bandwidth_bytes_per_s),
               fmt::format("{}; {}", level.link, level.bandwidth_from));
  text += line("latency", exact_duration(level.latency_s), level.latency_from);
  if (level.efficiency < 1) text += line("efficiency", fmt::format("{}", level.efficiency), level.efficiency_from);
  if (level.rail_switches) {
    text += line("rail_switches", "true", level.rails_from);
  } else if (level.rails) {
    text += line("rails", "true", level.rails_from);
  }
  return text;
}

}  // namespace

std::string exact_bandwidth(double bytes_per_s) {
  const std::string short_form = fmt::format("{}GB/s", bytes_per_s / 1e9);
  return parse_bandwidth(short_form) == bytes_per_s ? short_form : fmt::format("{}B/s", bytes_per_s);
}

std::string exact_duration(double seconds) {
  // Units scale by powers of ten, so the short form may be off in the last digit; then plain seconds are exact.
  const std::string short_form = fmt::format("{:.12g}us", seconds * 1e6);
  return parse_duration(short_form) == seconds ? short_form : fmt::format("{}s", seconds);
}

std::string cluster_yaml(const ImportedCluster& imported) {
  NEST_CHECK(imported.missing.empty(), "a cluster file needs every bandwidth");
  std::string text =
      "# Written by nest import. Comments say where each number comes from; change what is assumed where you know "
      "better.\n";
  text += fmt::format("name: {}\ndescription: {}\nsource: {}\n", quoted(imported.name), quoted(imported.description),
                      quoted(imported.source));
  text += fmt::format("device: {}\n", imported.device_yaml);
  text += "levels:\n";
  for (const ImportedLevel& level : imported.levels) text += level_lines(level);
  if (!imported.node_names.empty()) {
    std::vector<std::string> names;
    for (const std::string& name : imported.node_names) names.push_back(quoted(name));
    text += "node_names: " + wrapped_list(names, "  ");
  }
  return text;
}

}  // namespace nest::importer
