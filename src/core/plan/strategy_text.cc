#include "plan/strategy_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "plan/dimensions.h"
#include "schedule/rules.h"

namespace nest::plan {
namespace {

// A value as people write it.
std::int64_t parse_value(std::string_view source, const PlanDimension& row, std::string_view value) {
  switch (row.kind) {
    case DimensionKind::count: {
      std::int64_t parsed = 0;
      const auto [rest, status] = std::from_chars(value.data(), value.data() + value.size(), parsed);
      const bool whole = status == std::errc{} && rest == value.data() + value.size();
      if (whole && parsed >= row.low && parsed <= row.high) return parsed;
      break;
    }
    case DimensionKind::flag:
      if (value == "1" || value == "true" || value == "on" || value.empty()) return 1;
      if (value == "0" || value == "false" || value == "off") return 0;
      break;
    case DimensionKind::word:
      if (const auto parsed = parse_word(row, value)) return *parsed;
      break;
  }
  throw InputError(
      fmt::format("{}: {}: found `{}`; expected {}", source, row.name, clip(value, 40), allowed_text(row)));
}

// What stands between commas, blanks or both; blanks around "=" divide nothing.
std::vector<std::string> entries_of(std::string_view text) {
  std::vector<std::string> entries;
  for (const std::string_view part : split_text(text, ',')) {
    bool open = false;  // "=" came last
    for (const std::string_view word : split_words(part)) {
      if (!entries.empty() && (open || (word.starts_with('=') && !part.starts_with(word)))) {
        entries.back() += word;
      } else {
        entries.emplace_back(word);
      }
      open = word.ends_with('=');
    }
  }
  return entries;
}

// "zb-v", "a2a": words that say by themselves what they are of.
const PlanDimension* dimension_of_word(std::string_view word) {
  for (const PlanDimension& row : plan_dimensions()) {
    if (row.kind == DimensionKind::word && row.parse == nullptr && parse_word(row, word)) return &row;
  }
  return nullptr;
}

bool has_expert_grid(const Strategy& s) { return s.split.ep > 1 || s.split.expert_tp() != s.split.tp; }

}  // namespace

StrategyRequest parse_strategy(std::string_view text, std::string_view source) {
  StrategyRequest request;
  StagePlan stage;
  std::vector<const PlanDimension*> seen;
  std::optional<std::int64_t> edp;
  for (const std::string& written : entries_of(text)) {
    const std::string_view entry = written;
    const std::size_t equals = entry.find('=');
    std::string_view key = entry.substr(0, equals);
    std::string_view value = equals == std::string_view::npos ? "" : entry.substr(equals + 1);
    if (key == "edp") {  // follows from the others; what is printed says it
      edp = parse_value(source, *find_dimension("dp"), value);
      continue;
    }
    const PlanDimension* row = find_dimension(key);
    if (row == nullptr && equals == std::string_view::npos) {
      row = dimension_of_word(key);
      if (row != nullptr) value = std::exchange(key, row->name);
    }
    if (row == nullptr) {
      const std::vector<std::string> known = dimension_names();
      throw InputError(fmt::format("{}: `{}` is not known; allowed are {}{}", source, clip(key, 40), join_words(known),
                                   did_you_mean(key, known)));
    }
    if (std::find(seen.begin(), seen.end(), row) != seen.end()) {
      throw InputError(fmt::format("{}: {} is given twice", source, row->name));
    }
    seen.push_back(row);
    const std::int64_t parsed = parse_value(source, *row, value);
    if (row->set_strategy != nullptr) {
      row->set_strategy(request.strategy, parsed);
    } else {
      row->set_stage(stage, parsed);
    }
  }
  const auto given = [&](std::string_view name) {
    return std::any_of(seen.begin(), seen.end(), [&](const PlanDimension* row) { return name == row->name; });
  };
  request.dp_given = given("dp");
  request.edp = edp.value_or(0);
  request.exchange_given = given("cp_comm");
  request.inner_given = given("dp_inner");
  request.recompute = stage.recompute;
  if (given("zero")) request.zero = stage.zero;
  if (given("zero_degree")) request.zero_degree = stage.zero_degree;
  request.zero_outer = stage.zero_outer;
  Strategy& s = request.strategy;
  if (!given("schedule") && s.virtual_stages > 1) s.schedule = Schedule::interleaved;
  if (s.group == s.pp) s.group = 0;
  const schedule::Rule& rule = schedule::rule_of(s.schedule);
  if (!given("vpp") && rule.is_v()) s.virtual_stages = 2;
  if (s.virtual_stages < rule.fewest_chunks || s.virtual_stages > rule.most_chunks) {
    throw InputError(fmt::format("{}: vpp={} contradicts schedule={}; {}", source, s.virtual_stages,
                                 to_string(s.schedule),
                                 rule.is_v() ? "a V has 2 chunks" : "interleaving is what vpp > 1 means"));
  }
  return request;
}

void fill_devices(StrategyRequest& request, std::int64_t devices) {
  Strategy& s = request.strategy;
  const std::int64_t one = checked_product({s.pp, s.split.tp, s.split.cp});
  const std::int64_t experts = checked_product({s.split.expert_tp(), s.split.ep});
  const std::int64_t team = experts / std::gcd(s.split.replica_devices(), experts);
  if (!request.dp_given) s.dp = devices / one / team * team;
  if (s.dp < 1) {
    throw InputError(fmt::format("--strategy: {} = {} devices are needed and {} are there",
                                 team == 1 ? "tp·cp·pp" : "pp·lcm(tp·cp, etp·ep)", checked_product({one, team}),
                                 devices));
  }
  if (checked_product({one, s.dp}) > devices) {
    throw InputError(fmt::format("--strategy: tp·cp·pp·dp = {} devices are needed and {} are there",
                                 checked_product({one, s.dp}), devices));
  }
  if (request.edp > 0 && request.edp != s.edp()) {
    throw InputError(fmt::format("--strategy: edp={} contradicts the rest: tp·cp·dp / (etp·ep) = {}; leave it out",
                                 request.edp, s.edp()));
  }
}

std::string strategy_text(const Strategy& s) {
  std::string text;
  for (const PlanDimension& row : plan_dimensions()) {
    if (row.is_shown == nullptr || !row.is_shown(s)) continue;
    const std::int64_t value = row.of_strategy(s);
    if (!text.empty()) text += ' ';
    switch (row.kind) {
      case DimensionKind::count: text += fmt::format("{}={}", row.name, value); break;
      case DimensionKind::flag: text += value != 0 ? row.name : fmt::format("{}=0", row.name); break;
      case DimensionKind::word:
        if (row.parse != nullptr) text += fmt::format("{}=", row.name);  // words that others use too
        text += value_text(row, value);
        break;
    }
    if (std::string_view(row.name) == "dp" && has_expert_grid(s)) text += fmt::format(" edp={}", s.edp());
  }
  return text;
}

std::string strategy_text(const Plan& plan) {
  const Strategy& s = plan.strategy;
  std::string text = strategy_text(s);
  if (s.pp > 1 && s.dp > 1 && s.dp_inner != s.dp) text += fmt::format(" dp_inner={}", s.dp_inner);
  if (s.pitch > 0) text += fmt::format(" pitch={}", s.pitch);
  if (plan.stages.empty()) return text;
  const StagePlan& first = plan.stages.front();
  const auto all = [&](auto same) { return std::all_of(plan.stages.begin(), plan.stages.end(), same); };
  const bool sharded_alike = all([&](const StagePlan& stage) {
    return stage.zero == first.zero && stage.zero_degree == first.zero_degree && stage.zero_outer == first.zero_outer;
  });
  if (sharded_alike && s.dp * s.split.cp > 1) {
    text += fmt::format(" zero={}", first.zero);
    const bool all_ranks = first.zero_degree == 0 || first.zero_degree == s.dp * s.split.cp;
    if (first.zero > 0 && !all_ranks) text += fmt::format(" zero_degree={}", first.zero_degree);
    if (first.zero_outer) text += " zero_outer";
  }
  const bool recomputed_alike = all([&](const StagePlan& stage) { return stage.recompute == first.recompute; });
  if (recomputed_alike && first.recompute != Recomputation()) {
    text += fmt::format(" recompute={}", to_string(first.recompute));
  }
  return text;
}

}  // namespace nest::plan
