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

}  // namespace

const char* to_string(Schedule schedule) { return word_of(kScheduleWords, schedule); }
const char* to_string(Recompute mode) { return word_of(kRecomputeWords, mode); }
const char* to_string(Optimizer optimizer) { return word_of(kOptimizerWords, optimizer); }

const char* to_string(Precision precision) {
  return precision == Precision::tf32 ? "tf32" : word_of(kPrecisionWords, precision);
}

}  // namespace nest
