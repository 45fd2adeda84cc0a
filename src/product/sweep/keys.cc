#include "sweep/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/real.h"
#include "base/text.h"
#include "base/units.h"
#include "nest/job.h"
#include "nest/range.h"
#include "nest/search.h"
#include "plan/limits.h"

namespace nest::sweep {
namespace {

struct Known {
  const char* name;
  KeyKind kind;
  IntegerRange range = {};
  bool of_answer = false;
  bool of_task = false;
};

constexpr std::array kKnown = {
    Known{"model", KeyKind::input, {}, false, true},
    Known{"cluster", KeyKind::input},
    Known{"devices", KeyKind::integer, kDevices},
    Known{"global_batch", KeyKind::integer, kBatches},
    Known{"seq", KeyKind::integer, kSequences, false, true},
    Known{"encoder_seq", KeyKind::integer, kSequences, false, true},
    Known{"mtp_layers", KeyKind::integer, kMtpLayers, false, true},
    Known{"freeze", KeyKind::text, {}, false, true},
    Known{"lora", KeyKind::text, {}, false, true},
    Known{"stack", KeyKind::input},
    Known{"routing", KeyKind::text},
    Known{"precision", KeyKind::word},
    Known{"optimizer", KeyKind::word},
    Known{"optimizer_offload", KeyKind::integer, kPercent},
    Known{"oom_risk", KeyKind::text},
    Known{"profile", KeyKind::input},
    Known{"micro_batch", KeyKind::text},
    Known{"target", KeyKind::text},
    Known{"objective", KeyKind::word},
    Known{"offload", KeyKind::word},
    Known{"judge", KeyKind::word},
    Known{"max_devices", KeyKind::integer, kDevices},
    Known{"tie", KeyKind::number},
    Known{"time_limit", KeyKind::number},
    Known{"price", KeyKind::number, {}, true},
    Known{"tokens", KeyKind::count, {}, true},
};

struct Alias {
  const char* word;
  const char* name;
};
constexpr std::array kAliases = {Alias{"batch", "global_batch"}, Alias{"sequence", "seq"},
                                 Alias{"memory", "device.memory"}, Alias{"domain", "cluster.1.group"},
                                 Alias{"experts", "model.experts"}};

const Known* find_known(std::string_view name) {
  const auto found = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& known) { return name == known.name; });
  return found == kKnown.end() ? nullptr : &*found;
}

template <class Words>
std::vector<std::string> texts_of(const Words& words) {
  std::vector<std::string> texts;
  texts.reserve(std::size(words));
  for (const auto& word : words) texts.emplace_back(word.text);
  return texts;
}

std::vector<std::string> words_of(std::string_view name) {
  if (name == "precision") return texts_of(kPrecisionWords);
  if (name == "optimizer") return texts_of(kOptimizerWords);
  if (name == "offload") return texts_of(kOffloadWords);
  if (name == "judge") return texts_of(kJudgeWords);
  return {"time", "device-hours"};
}

bool is_path(std::string_view rest) {
  if (rest.empty() || rest.size() > 120) return false;
  for (const std::string_view part : split_text(rest, '.')) {
    if (part.empty()) return false;
  }
  return true;
}

void check_integer(const Key& key, const SweepValue& value, const std::string& where) {
  const IntegerRange& range = find_known(key.name)->range;
  const bool whole = value.is_plain && value.number && *value.number == std::floor(*value.number) &&
                     std::abs(*value.number) < 0x1p53 && range.holds(static_cast<std::int64_t>(*value.number));
  if (whole) return;
  throw InputError(fmt::format("{}: \"{}\" is not a whole number in {} … {}", where, clip(value.text, 40),
                               format_integer(range.low), format_integer(range.high)));
}

void check_number(const Key& key, const SweepValue& value, const std::string& where) {
  const bool zero = key.name == "tie";
  const double most = key.name == "tie" ? 100 : 1e15;
  const bool good = value.number && (zero ? *value.number >= 0 : *value.number > 0) && *value.number <= most;
  if (!good) {
    throw InputError(fmt::format("{}: \"{}\" is no {}", where, clip(value.text, 40),
                                 zero ? "number of percent in 0 … 100" : "positive number"));
  }
}

void check_word(const Key& key, const SweepValue& value, const std::string& where) {
  const std::vector<std::string> words = words_of(key.name);
  if (std::find(words.begin(), words.end(), value.text) != words.end()) return;
  throw InputError(fmt::format("{}: \"{}\" is not one of {}{}", where, clip(value.text, 40), join_words(words, "or"),
                               did_you_mean(value.text, words)));
}

std::optional<double> plain_number(std::string_view text) {
  double number = 0;
  const auto [rest, status] = real_from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || rest != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

template <class Parse>
std::optional<double> parsed(Parse parse, std::string_view text) {
  try {
    return static_cast<double>(parse(text));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

Key find_key(std::string_view word, const std::string& where) {
  const auto alias = std::find_if(kAliases.begin(), kAliases.end(), [&](const Alias& a) { return word == a.word; });
  const std::string name(alias == kAliases.end() ? word : alias->name);
  if (const Known* known = find_known(name)) return {name, known->kind, known->of_answer, known->of_task};
  const std::size_t dot = name.find('.');
  if (dot != std::string::npos && is_path(std::string_view(name).substr(dot + 1))) {
    const std::string_view first = std::string_view(name).substr(0, dot);
    if (first == "set") return {name, KeyKind::limit, false, false};
    if (first == "cluster" || first == "device" || first == "stack") return {name, KeyKind::change, false, false};
    if (first == "model") return {name, KeyKind::change, false, true};
  }
  std::vector<std::string> words;
  words.reserve(kKnown.size() + kAliases.size() + 5);
  for (const Known& known : kKnown) words.emplace_back(known.name);
  for (const Alias& a : kAliases) words.emplace_back(a.word);
  const std::string meant = did_you_mean(word, words);
  words.insert(words.end(), {"set.KEY", "cluster.LEVEL.KEY", "device.KEY", "model.KEY", "stack.KEY"});
  throw InputError(fmt::format("{}: `{}` is nothing that a study can say{}", where, clip(word, 60),
                               meant.empty() ? "; there is " + join_words(words) : meant));
}

void check_value(const Key& key, const SweepValue& value, const std::string& where) {
  switch (key.kind) {
    case KeyKind::integer: return check_integer(key, value, where);
    case KeyKind::number: return check_number(key, value, where);
    case KeyKind::word: return check_word(key, value, where);
    case KeyKind::count: {
      const double count = parse_count(value.text);
      if (!(count > 0)) throw InputError(fmt::format("{}: \"{}\" is no positive number", where, clip(value.text, 40)));
      return;
    }
    case KeyKind::limit: {
      plan::PlanLimits limits;
      plan::set_limit(limits, key.name.substr(4) + "=" + value.text, where);
      return;
    }
    case KeyKind::text:
      if (key.name == "micro_batch" && value.text != "auto") {
        plan::PlanLimits limits;
        plan::set_limit(limits, "mbs=" + value.text, where);
      }
      return;
    case KeyKind::input:
      if (value.text.empty() || value.text == "-") {
        throw InputError(fmt::format("{}: \"{}\" is neither a name nor a file", where, clip(value.text, 40)));
      }
      return;
    case KeyKind::change: return;
  }
}

std::optional<double> number_of(const Key& key, std::string_view text) {
  if (const std::optional<double> plain = plain_number(text)) return plain;
  if (text.empty() || text.size() > 60 || key.kind == KeyKind::input || key.kind == KeyKind::word) return std::nullopt;
  if (key.kind == KeyKind::count) return parsed(parse_count, text);
  if (key.kind != KeyKind::change) return std::nullopt;
  for (const auto parse : {parse_bandwidth, parse_duration, parse_compute_rate}) {
    if (const std::optional<double> number = parsed(parse, text)) return number;
  }
  return parsed(parse_bytes, text);
}

}  // namespace nest::sweep
