#include "sweep/view.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "sweep/keys.h"

namespace nest::sweep {
namespace {

// Values of these are known by themselves.
bool speaks_for_itself(std::string_view name) {
  static constexpr std::array<std::string_view, 5> kNames = {"model", "cluster", "stack", "precision", "optimizer"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool all_numbers(const SweepAxis& axis) {
  return std::all_of(axis.values.begin(), axis.values.end(), [](const SweepValue& value) { return value.number; });
}

// The drawn axis that is best by `rank`, less being better; those for which it is negative are not taken.
template <class Rank>
std::optional<std::size_t> best_axis(const std::vector<std::size_t>& axes, Rank rank) {
  std::optional<std::size_t> best;
  for (const std::size_t axis : axes) {
    const double now = rank(axis);
    if (now >= 0 && (!best || now < rank(*best))) best = axis;
  }
  return best;
}

}  // namespace

std::vector<Task> tasks_of(const SweepResults& results) {
  const Study& study = results.study;
  std::vector<std::size_t> telling, silent;
  for (std::size_t a = 0; a < study.axes.size(); ++a) {
    (find_key(study.axes[a].name, study.source).of_task ? telling : silent).push_back(a);
  }
  std::vector<Task> tasks;
  std::map<std::vector<std::string>, std::size_t> known;
  for (const SweepResult& result : results.points) {
    const std::vector<std::size_t> choice = study.choice(result.point);
    std::vector<std::string> key;
    key.reserve(telling.size());
    for (const std::size_t a : telling) key.push_back(study.axes[a].values[choice[a]].text);
    const auto [place, is_new] = known.emplace(std::move(key), tasks.size());
    if (is_new) tasks.push_back({telling.empty() ? "" : point_label(study, result.point, silent), {}});
    tasks[place->second].points.push_back(&result);
  }
  return tasks;
}

bool has_prices(const SweepResults& results) {
  bool some = false;
  for (const SweepResult& result : results.points) {
    if (!result.has_plan) continue;
    if (!result.cost_per_gtoken) return false;
    some = true;
  }
  return some;
}

double cost_of(const SweepResult& result, bool money) {
  return money ? result.cost_per_gtoken.value_or(0) : result.device_hours_per_gtoken;
}

std::vector<const SweepResult*> front_of(const Task& task, bool money) {
  std::vector<const SweepResult*> order;
  for (const SweepResult* result : task.points) {
    if (result->has_plan) order.push_back(result);
  }
  std::sort(order.begin(), order.end(), [&](const SweepResult* a, const SweepResult* b) {
    if (a->tokens_per_s != b->tokens_per_s) return a->tokens_per_s > b->tokens_per_s;
    if (cost_of(*a, money) != cost_of(*b, money)) return cost_of(*a, money) < cost_of(*b, money);
    return a->point < b->point;
  });
  std::vector<const SweepResult*> front;
  for (const SweepResult* result : order) {
    if (front.empty() || cost_of(*result, money) < cost_of(*front.back(), money)) front.push_back(result);
  }
  return front;
}

bool follows(const Study& study, std::size_t axis) {
  return std::any_of(study.zip.begin(), study.zip.end(), [&](const std::vector<std::size_t>& together) {
    return std::find(together.begin() + 1, together.end(), axis) != together.end();
  });
}

std::string short_name(const std::string& axis) {
  if (axis == "global_batch") return "batch";
  for (const std::string_view prefix : {"cluster.", "device.", "model.", "set."}) {
    if (axis.starts_with(prefix)) return axis.substr(prefix.size());
  }
  return axis;
}

std::vector<std::size_t> drawn_axes(const Study& study) {
  std::vector<std::size_t> axes;
  for (std::size_t a = 0; a < study.axes.size(); ++a) {
    const SweepAxis& axis = study.axes[a];
    if (axis.values.size() > 1 && !follows(study, a) && !find_key(axis.name, study.source).of_answer) axes.push_back(a);
  }
  return axes;
}

Roles roles_of(const Study& study) {
  static constexpr std::array<std::string_view, 3> kAlong = {"devices", "global_batch", "seq"};
  std::vector<std::size_t> axes = drawn_axes(study);
  Roles roles;
  const auto values = [&](std::size_t a) { return static_cast<double>(study.axes[a].values.size()); };
  const auto take = [&](std::optional<std::size_t> chosen) {
    if (chosen) std::erase(axes, *chosen);
    return chosen;
  };
  roles.x = take(best_axis(axes, [&](std::size_t a) {
    const auto known = std::find(kAlong.begin(), kAlong.end(), study.axes[a].name);
    if (known != kAlong.end()) return static_cast<double>(known - kAlong.begin());
    return (all_numbers(study.axes[a]) ? 1e7 : 1e9) - values(a);
  }));
  const auto is_task = [&](std::size_t a) { return find_key(study.axes[a].name, study.source).of_task; };
  roles.series = best_axis(axes, [&](std::size_t a) {
    if (values(a) > static_cast<double>(kMostSeries)) return -1.0;
    return (is_task(a) ? 100.0 : 0.0) + (all_numbers(study.axes[a]) ? 10.0 : 0.0) + static_cast<double>(a) / 100;
  });
  roles.y = best_axis(axes, [&](std::size_t a) {
    return (all_numbers(study.axes[a]) ? 0.0 : 1e9) + (is_task(a) ? 1e8 : 0.0) + 1e7 - values(a);
  });
  return roles;
}

std::string value_label(const Study& study, std::size_t axis, std::size_t value) {
  const auto one = [&](std::size_t a) {
    const std::string text = clip(study.axes[a].values[value].text, 60);
    return speaks_for_itself(study.axes[a].name) ? text : short_name(study.axes[a].name) + " " + text;
  };
  std::string label = one(axis);
  for (const std::vector<std::size_t>& together : study.zip) {
    if (together.front() != axis) continue;
    for (std::size_t k = 1; k < together.size(); ++k) label += ", " + one(together[k]);
  }
  return label;
}

std::string point_label(const Study& study, std::int64_t point, const std::vector<std::size_t>& without) {
  const std::vector<std::size_t> choice = study.choice(point);
  std::string label;
  for (std::size_t a = 0; a < choice.size(); ++a) {
    if (follows(study, a) || study.axes[a].values.size() < 2) continue;
    if (std::find(without.begin(), without.end(), a) != without.end()) continue;
    label += (label.empty() ? "" : ", ") + value_label(study, a, choice[a]);
  }
  return label;
}

}  // namespace nest::sweep

namespace nest {

std::string_view to_string(SweepOutcome outcome) {
  switch (outcome) {
    case SweepOutcome::plan: return "plan";
    case SweepOutcome::limit: return "limit";
    case SweepOutcome::no_plan: return "no plan";
    case SweepOutcome::refused: return "refused";
  }
  throw InternalError("an outcome has a name");
}

std::vector<std::int64_t> pareto_front(const SweepResults& results) {
  const bool money = sweep::has_prices(results);
  std::vector<std::int64_t> numbers;
  for (const sweep::Task& task : sweep::tasks_of(results)) {
    for (const SweepResult* result : sweep::front_of(task, money)) numbers.push_back(result->point);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace nest
