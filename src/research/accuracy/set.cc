#include "accuracy/set.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"

namespace nest::accuracy {

std::vector<Point> points_of(const Set& set, const std::function<bool(const Reading&)>& wanted) {
  std::vector<Point> points;
  for (const Reading& reading : set.readings) {
    if (wanted(reading)) points.push_back(reading.point);
  }
  return points;
}

Errors errors_of(const Set& set, const std::function<bool(const Reading&)>& wanted) {
  return errors_of(points_of(set, wanted));
}

std::vector<std::string> sources_of(const Set& set) {
  std::set<std::string> sources;
  for (const Reading& reading : set.readings) sources.insert(reading.source);
  for (const LeftOut& row : set.left_out) sources.insert(row.source);
  return {sources.begin(), sources.end()};
}

std::vector<std::pair<std::string, std::size_t>> reasons_of(const Set& set, const std::string& source) {
  std::map<std::string, std::size_t> counts;
  for (const LeftOut& row : set.left_out) {
    if (source.empty() || row.source == source) ++counts[row.reason];
  }
  std::vector<std::pair<std::string, std::size_t>> reasons(counts.begin(), counts.end());
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return reasons;
}

std::vector<const Reading*> worst_of(const Set& set, std::size_t at_most,
                                     const std::function<bool(const Reading&)>& wanted) {
  std::vector<const Reading*> worst;
  for (const Reading& reading : set.readings) {
    if (wanted(reading)) worst.push_back(&reading);
  }
  std::stable_sort(worst.begin(), worst.end(), [](const Reading* a, const Reading* b) {
    return std::abs(a->point.error()) > std::abs(b->point.error());
  });
  if (worst.size() > at_most) worst.resize(at_most);
  return worst;
}

std::optional<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<Document> read_list(const std::filesystem::path& path, Set& set) {
  const std::string name = path.filename().string();
  const auto text = read_text(path);
  if (!text) return std::nullopt;
  try {
    Document document = doc::parse_json(name, *text);
    if (document.root().as_array()) return document;
    set.leave_out(name, name, "file is not a list of rows");
  } catch (const InputError&) {
    set.leave_out(name, name, "file cannot be read as JSON");
  }
  return std::nullopt;
}

}  // namespace nest::accuracy
