#include "paper/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <sstream>

#include "rivals/side_by_side.h"

namespace nest::paper {
namespace {

// tp=8 -> {tp, 8}, sp -> {sp, on}; "recompute none", "ZeRO 1" after the commas.
std::map<std::string, std::string> fields(const std::string& strategy) {
  std::map<std::string, std::string> found;
  std::istringstream parts(strategy);
  bool first = true;
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream words(part);
    if (first) {
      for (std::string word; words >> word;) {
        const auto equals = word.find('=');
        found[word.substr(0, equals)] = equals == std::string::npos ? "on" : word.substr(equals + 1);
      }
    } else {
      std::string name, value;
      words >> name >> value;
      found[name] = value;
    }
    first = false;
  }
  return found;
}

}  // namespace

std::optional<Published> published(const std::string& planner) {
  constexpr std::array<Published, 5> kPublished = {
      {{"manual", 1.59, 1.47}, {"mcmc", 1.71, 1.40}, {"alpa", 2.43, 0}, {"phaze", 1.19, 1.16}, {"mist", 0, 1.49}}};
  for (const Published& one : kPublished) {
    if (planner == one.planner) return one;
  }
  return std::nullopt;
}

Tally tally(const Records& records, const std::string& planner, const std::string& group) {
  constexpr double kAsFast = 1e-3;
  Tally sum;
  double logarithms = 0, predicted = 0;
  std::vector<double> searches;
  for (const Point& point : distinct_points(group)) {
    const auto record = records.find(point.id());
    if (record == records.end()) continue;
    if (const PlannerResult* result = record->second.find(planner)) searches.push_back(result->search_s);
    const PlannerResult* own = record->second.find(rivals::kOwnPlanner);
    if (own == nullptr || !own->has_plan()) continue;
    ++sum.points;
    const std::optional<double> ratio = record->second.ratio(planner);
    if (!ratio) continue;
    ++sum.plans;
    logarithms += std::log(*ratio);
    predicted += std::log(record->second.predicted_ratio(planner).value());
    if (std::abs(*ratio - 1) <= kAsFast) ++sum.as_fast;
    if (*ratio > sum.largest) {
      sum.largest = *ratio;
      sum.largest_id = point.id();
    }
  }
  if (sum.plans > 0) sum.mean = std::exp(logarithms / sum.plans);
  if (sum.plans > 0) sum.predicted_mean = std::exp(predicted / sum.plans);
  std::sort(searches.begin(), searches.end());
  if (!searches.empty()) {
    sum.longest_search_s = searches.back();
    sum.median_search_s = searches[searches.size() / 2];
  }
  return sum;
}

std::vector<std::string> lost_points(const Records& records) {
  constexpr double kFaster = 0.01;  // what execution calls worth a change
  std::vector<std::string> lost;
  for (const auto& [id, record] : records) {
    for (const PlannerResult& result : record.planners) {
      const std::optional<double> ratio = record.ratio(result.planner);
      const PlannerResult* own = record.find(rivals::kOwnPlanner);
      const bool alone = result.has_plan() && own != nullptr && !own->has_plan();
      if (alone || (ratio && *ratio < 1 - kFaster)) lost.push_back(id + " (" + result.planner + ")");
    }
  }
  return lost;
}

std::string differences(const std::string& ours, const std::string& theirs) {
  const auto own = fields(ours), other = fields(theirs);
  std::set<std::string> names;
  for (const auto& [name, value] : own) names.insert(name);
  for (const auto& [name, value] : other) names.insert(name);
  std::string text;
  for (const std::string& name : names) {
    const auto a = own.find(name), b = other.find(name);
    const bool same = (a == own.end()) == (b == other.end()) && (a == own.end() || a->second == b->second);
    if (!same) text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "cuts" : text;
}

std::vector<std::string> rival_names(const Records& records) {
  std::vector<std::string> names;
  for (const auto& [id, record] : records) {
    for (const PlannerResult& result : record.planners) {
      const bool known = std::find(names.begin(), names.end(), result.planner) != names.end();
      if (!known && result.planner != rivals::kOwnPlanner) names.push_back(result.planner);
    }
  }
  return names;
}

}  // namespace nest::paper
