// The dimensions of a plan: everything about it that a search decides or a person may fix, one row each.
//
// A value is a whole number: a count, 0 or 1 for a flag, or the index of a word. What people write (strategy_text.h),
// what a search may consider (limits.h), the members of plan files (plan_json.h), help, completion and the table of
// docs/planning.md all read these rows. A new dimension is a field of Strategy or StagePlan, one of PlanLimits, a row
// here, and its prices.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/limits.h"
#include "plan/plan.h"

namespace nest::plan {

enum class DimensionKind : std::uint8_t { count, flag, word };

struct PlanDimension {
  const char* name;                        // in strategies, limits and reports
  std::array<const char*, 2> other_names;  // that strategies may use too; null where there are fewer
  const char* key;                         // in plan files: of `strategy`, or of each of `stages`
  const char* label;                       // for people: "tensor parallel"
  const char* noun;                        // before a number, where decisions are compared: "tensor" 4; null: never
  const char* meaning;
  const char* otherwise;  // where nobody says anything
  DimensionKind kind;
  std::int64_t low, high;              // of a count; of a word, its indices
  std::span<const char* const> words;  // of a word
  // Of a word that may say more than those: "block:4". Null where the words are all.
  std::string (*text)(std::int64_t value);
  std::optional<std::int64_t> (*parse)(std::string_view text);
  const char* allowed;  // for messages

  // Of the whole plan, or of each stage: the other two are null.
  std::int64_t (*of_strategy)(const Strategy& strategy);
  void (*set_strategy)(Strategy& strategy, std::int64_t value);
  std::int64_t (*of_stage)(const StagePlan& stage);
  void (*set_stage)(StagePlan& stage, std::int64_t value);

  bool (*is_shown)(const Strategy& strategy);    // in one line about a strategy; null: never
  bool (*is_written)(const Strategy& strategy);  // to plan files; null: always
  bool (*is_stage_written)(const StagePlan& stage);

  // How searches are limited, at most one of: a range or list of counts; some of the words; on and off.
  Limit PlanLimits::*limit;
  std::span<bool> (*admitted)(PlanLimits& limits);
  bool PlanLimits::*toggle;

  bool is_limited() const { return limit != nullptr || admitted != nullptr || toggle != nullptr; }
};

// In the order in which people read them; `etp` after `tp`, `pitch` last: what they are otherwise depends on the rest.
std::span<const PlanDimension> plan_dimensions();

// By name or other spelling; null for none.
const PlanDimension* find_dimension(std::string_view name);

std::vector<std::string> dimension_names();

// "8", "1", "selective", and back from what people write of a word.
std::string value_text(const PlanDimension& dimension, std::int64_t value);
std::optional<std::int64_t> parse_word(const PlanDimension& dimension, std::string_view text);

// "a whole number in 1 … 16777216", "0 or 1", "none, selective or full".
std::string allowed_text(const PlanDimension& dimension);

// Names and values such as "tp=8, sp=1, schedule=1f1b|interleaved|gpipe, …": for help.
std::string strategy_help();

}  // namespace nest::plan
