#include "plan/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "plan/dimensions.h"

namespace nest::plan {
namespace {

struct Setting {
  std::string_view source, key, value;

  [[noreturn]] void refuse(std::string_view allowed) const {
    throw InputError(fmt::format("{}: {}={} is not understood; allowed is {}", source, key, clip(value, 40), allowed));
  }
};

std::int64_t parse_degree(const Setting& setting, std::string_view text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kMost) {
    setting.refuse("a number from 1, a range such as 2..16 or ..8, or a list such as 1,2,4");
  }
  return value;
}

Limit parse_limit(const Setting& setting) {
  Limit limit;
  if (const auto dots = setting.value.find(".."); dots != std::string_view::npos) {
    const std::string_view low = setting.value.substr(0, dots), high = setting.value.substr(dots + 2);
    if (!low.empty()) limit.low = parse_degree(setting, low);
    if (!high.empty()) limit.high = parse_degree(setting, high);
    if (limit.low > limit.high) setting.refuse("a range whose end is not before its beginning");
    return limit;
  }
  for (const std::string_view part : split_text(setting.value, ',')) {
    limit.only.push_back(parse_degree(setting, trim(part)));
  }
  limit.low = *std::min_element(limit.only.begin(), limit.only.end());
  limit.high = *std::max_element(limit.only.begin(), limit.only.end());
  return limit;
}

// Marks the words that the list names.
void parse_words(const Setting& setting, std::span<const std::string> words, std::span<bool> chosen) {
  std::fill(chosen.begin(), chosen.end(), false);
  for (const std::string_view part : split_text(setting.value, ',')) {
    const auto found = std::find(words.begin(), words.end(), to_lower(trim(part)));
    if (found == words.end()) setting.refuse(fmt::format("a list of {}", join_words(words)));
    chosen[at(found - words.begin())] = true;
  }
}

bool parse_switch(const Setting& setting) {
  const std::string word = to_lower(setting.value);
  if (word == "1" || word == "on" || word == "yes") return true;
  if (word == "0" || word == "off" || word == "no") return false;
  setting.refuse("0 or 1");
}

// What is not a dimension of a plan but of the search.
struct NamedSwitch {
  const char* name;
  bool PlanLimits::*field;
};
constexpr NamedSwitch kSwitches[] = {
    {"shard_in_node", &PlanLimits::shard_in_node}, {"uniform", &PlanLimits::uniform},
    {"uneven_batch", &PlanLimits::uneven_batch},   {"any_rounds", &PlanLimits::any_rounds},
    {"all_devices", &PlanLimits::all_devices},     {"even_cuts", &PlanLimits::even_cuts}};

// A list of kinds, and of single ones: "none,moe_act+layernorm,block".
void limit_recomputation(PlanLimits& limits, const Setting& setting, std::span<const std::string> words) {
  limits.recompute.fill(false);
  limits.recompute_only.clear();
  for (const std::string_view part : split_text(setting.value, ',')) {
    const std::string word = to_lower(trim(part));
    if (const auto found = std::find(words.begin(), words.end(), word); found != words.end()) {
      limits.recompute[at(found - words.begin())] = true;
    } else if (const auto single = parse_recomputation(word)) {
      limits.recompute[at(single->kind)] = true;
      limits.recompute_only.push_back(*single);
    } else {
      setting.refuse(
          fmt::format("a list of {}, of modules such as moe_act+layernorm, block:N or uniform:N", join_words(words)));
    }
  }
}

// "none,modules", and single sets.
void limit_offload(PlanLimits& limits, const Setting& setting) {
  limits.offload.fill(false);
  limits.offload_only.clear();
  limits.more_offloads = false;
  for (const std::string_view part : split_text(setting.value, ',')) {
    const std::string word = to_lower(trim(part));
    const auto named = parse_offload(word);
    if (word == "modules") {
      limits.offload[1] = true;
    } else if (!named) {
      setting.refuse("a list of none, modules (any of them) and of modules such as core_attn+attn_proj+expert_fc1");
    } else if (*named == 0) {
      limits.offload[0] = true;
    } else {
      limits.offload_only.push_back(*named);
    }
  }
}

constexpr std::array kDegrees = {
    &PlanLimits::tp, &PlanLimits::cp, &PlanLimits::cp_inner, &PlanLimits::ep,  &PlanLimits::etp,
    &PlanLimits::pp, &PlanLimits::dp, &PlanLimits::dp_inner, &PlanLimits::vpp, &PlanLimits::micro_batch};

void narrow_limit(Limit& limit, const Limit& by) {
  limit.low = std::max(limit.low, by.low);
  limit.high = std::min(limit.high, by.high);
  if (limit.only.empty()) {
    limit.only = by.only;
  } else {
    std::erase_if(limit.only, [&](std::int64_t value) { return !by.admits(value); });
    if (limit.only.empty()) limit.high = limit.low - 1;  // an empty list would admit all
  }
}

template <std::size_t n>
void keep_common(std::array<bool, n>& words, const std::array<bool, n>& by) {
  for (std::size_t i = 0; i < n; ++i) words[i] = words[i] && by[i];
}

void limit_dimension(PlanLimits& limits, const PlanDimension& row, const Setting& setting) {
  if (row.limit != nullptr) {
    limits.*row.limit = parse_limit(setting);
  } else if (row.toggle != nullptr) {
    limits.*row.toggle = parse_switch(setting);
  } else {
    std::vector<std::string> words(row.words.begin(), row.words.end());
    if (row.kind == DimensionKind::flag) words = {"0", "1"};
    if (row.admitted(limits).data() == limits.recompute.data()) return limit_recomputation(limits, setting, words);
    if (row.admitted(limits).data() == limits.offload.data()) return limit_offload(limits, setting);
    parse_words(setting, words, row.admitted(limits));
    if (std::string_view(row.name) == "schedule") limits.more_schedules = false;
  }
}

}  // namespace

bool PlanLimits::admits(const Recomputation& recomputation) const {
  if (!recompute[at(recomputation.kind)]) return false;
  const bool named = std::any_of(recompute_only.begin(), recompute_only.end(),
                                 [&](const Recomputation& one) { return one.kind == recomputation.kind; });
  return !named || std::find(recompute_only.begin(), recompute_only.end(), recomputation) != recompute_only.end();
}

void set_limit(PlanLimits& limits, std::string_view text, std::string_view source) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) {
    throw InputError(fmt::format("{}: `{}` has no value; write key=value, e.g. tp=8", source, clip(text, 40)));
  }
  const std::string key = to_lower(trim(text.substr(0, equals)));
  const Setting setting{source, key, trim(text.substr(equals + 1))};
  if (const PlanDimension* row = find_dimension(key); row != nullptr && row->is_limited()) {
    limit_dimension(limits, *row, setting);
    return;
  }
  for (const NamedSwitch& toggle : kSwitches) {
    if (key != toggle.name) continue;
    limits.*toggle.field = parse_switch(setting);
    return;
  }
  const std::vector<std::string> known = limit_names();
  throw InputError(fmt::format("{}: `{}` is no dimension of a plan; known are {}{}", source, clip(key, 40),
                               join_words(known), did_you_mean(key, known)));
}

void narrow(PlanLimits& limits, const PlanLimits& by) {
  for (const auto degree : kDegrees) narrow_limit(limits.*degree, by.*degree);
  keep_common(limits.sp, by.sp);
  keep_common(limits.defer_head, by.defer_head);
  keep_common(limits.zero, by.zero);
  keep_common(limits.zero_outer, by.zero_outer);
  keep_common(limits.cp_comm, by.cp_comm);
  keep_common(limits.recompute, by.recompute);
  if (limits.recompute_only.empty()) limits.recompute_only = by.recompute_only;
  // Until somebody names some, these lists are habits, not limits.
  if (!by.more_offloads) {
    if (limits.more_offloads) {
      limits.offload = by.offload;
    } else {
      keep_common(limits.offload, by.offload);
    }
    limits.offload_only = limits.more_offloads ? by.offload_only : std::vector<OffloadSet>{};
    limits.more_offloads = false;
  }
  if (!by.more_schedules) {
    if (limits.more_schedules) {
      limits.schedule = by.schedule;
    } else {
      keep_common(limits.schedule, by.schedule);
    }
    limits.more_schedules = false;
  }
  for (const auto admits :
       {&PlanLimits::pitch, &PlanLimits::shard_in_node, &PlanLimits::uneven_batch, &PlanLimits::any_rounds}) {
    limits.*admits = limits.*admits && by.*admits;
  }
  for (const auto demands : {&PlanLimits::uniform, &PlanLimits::whole_blocks_only, &PlanLimits::replicas_together,
                             &PlanLimits::all_devices, &PlanLimits::even_cuts}) {
    limits.*demands = limits.*demands || by.*demands;
  }
  if (by.runs != nullptr) {
    NEST_CHECK(limits.runs == nullptr || limits.runs == by.runs, "one framework runs a plan");
    limits.runs = by.runs;
  }
}

bool is_empty(const PlanLimits& limits) {
  const auto none = [](const auto& words) { return std::find(words.begin(), words.end(), true) == words.end(); };
  return none(limits.zero) || none(limits.zero_outer) || none(limits.cp_comm) || none(limits.recompute) ||
         (none(limits.offload) && limits.offload_only.empty() && !limits.more_offloads) ||
         (none(limits.schedule) && !limits.more_schedules) ||
         std::any_of(kDegrees.begin(), kDegrees.end(),
                     [&](const auto degree) { return (limits.*degree).low > (limits.*degree).high; });
}

std::vector<std::string> limit_names() {
  std::vector<std::string> names;
  for (const PlanDimension& row : plan_dimensions()) {
    if (row.is_limited()) names.emplace_back(row.name);
  }
  for (const NamedSwitch& toggle : kSwitches) names.emplace_back(toggle.name);
  std::sort(names.begin(), names.end());
  return names;
}

void restrict_to_megatron(PlanLimits& limits) {
  limits.uniform = true;
  limits.zero[2] = limits.zero[3] = false;  // its distributed optimizer is ZeRO 1
  limits.shard_in_node = false;
  limits.pitch = false;
  limits.whole_blocks_only = true;
  limits.uneven_batch = false;
  limits.any_rounds = false;
  limits.more_schedules = false;
}

}  // namespace nest::plan
