#include <charconv>

#include "base/text.h"
#include "nest/strategy.h"

namespace nest {
namespace {

template <class Words, class Enum>
const char* word_of(const Words& words, Enum value) {
  for (const auto& word : words) {
    if (word.value == value) return word.text;
  }
  return "?";
}

// "moe_act+layernorm", and back: no module twice, and some.
template <class Words>
std::string set_text(const Words& words, std::uint8_t set) {
  std::string text;
  for (const auto& word : words) {
    if ((set & set_of(word.value)) == 0) continue;
    if (!text.empty()) text += '+';
    text += word.text;
  }
  return text;
}

template <class Words>
std::optional<std::uint8_t> parse_set(const Words& words, std::string_view text) {
  std::uint8_t set = 0;
  for (const std::string_view part : split_text(text, '+')) {
    std::uint8_t found = 0;
    for (const auto& word : words) {
      if (part == word.text) found = set_of(word.value);
    }
    if (found == 0 || (set & found) != 0) return std::nullopt;
    set |= found;
  }
  return set;
}

}  // namespace

const char* to_string(Schedule schedule) { return word_of(kScheduleWords, schedule); }
const char* to_string(Recompute kind) { return word_of(kRecomputeWords, kind); }
const char* to_string(RecomputeModule module) { return word_of(kRecomputeModuleWords, module); }
const char* to_string(ContextExchange exchange) { return word_of(kContextWords, exchange); }
const char* to_string(Optimizer optimizer) { return word_of(kOptimizerWords, optimizer); }

const char* to_string(Precision precision) {
  return precision == Precision::tf32 ? "tf32" : word_of(kPrecisionWords, precision);
}

std::string to_string(const Recomputation& recomputation) {
  switch (recomputation.kind) {
    case Recompute::none:
    case Recompute::selective:
    case Recompute::full: return to_string(recomputation.kind);
    case Recompute::modules: return set_text(kRecomputeModuleWords, recomputation.modules);
    case Recompute::block:
    case Recompute::uniform: break;
  }
  return std::string(to_string(recomputation.kind)) + ':' + std::to_string(recomputation.layers);
}

std::optional<Recomputation> parse_recomputation(std::string_view text) {
  for (const Recompute simple : {Recompute::none, Recompute::selective, Recompute::full}) {
    if (text == to_string(simple)) return simple;
  }
  for (const Recompute counted : {Recompute::block, Recompute::uniform}) {
    const std::string prefix = std::string(to_string(counted)) + ':';
    if (!text.starts_with(prefix)) continue;
    const std::string_view number = text.substr(prefix.size());
    std::int32_t layers = 0;
    const auto [rest, status] = std::from_chars(number.data(), number.data() + number.size(), layers);
    const bool whole = status == std::errc{} && rest == number.data() + number.size();
    return whole && layers >= 1 ? std::optional(Recomputation::of_layers(counted, layers)) : std::nullopt;
  }
  const auto modules = parse_set(kRecomputeModuleWords, text);
  return modules ? std::optional(Recomputation::of_modules(*modules)) : std::nullopt;
}

std::string offload_text(OffloadSet modules) { return modules == 0 ? "none" : set_text(kOffloadModuleWords, modules); }

std::optional<OffloadSet> parse_offload(std::string_view text) {
  if (text == "none") return OffloadSet{0};
  return parse_set(kOffloadModuleWords, text);
}

}  // namespace nest
