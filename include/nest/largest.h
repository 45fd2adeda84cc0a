// The largest that fits: how long sequences may be, how many of them pass at once, how deep the model can get.
//
//   const LargestAnswer answer = find_largest(question, LargestOf::seq);
//   std::cout << to_text(answer);                   // the length, its plan, and what proves that no longer one fits
//
//   of      is made most                               with
//   seq     tokens of a sequence, multiples of a step  the question's batch in sequences; where it names none, as many as
//                                                      devices
//   batch   sequences of a step that pass at once:     any replicas and any sequences for each, one micro-batch
//           no gradients are accumulated
//   layers  blocks of the model, all else as it is     the question's batch and sequence
//
// Exactly, over the whole space of the search: with the value that is told a plan fits, and with no larger one does, each
// of which is a search that found a plan or proved that there is none. Which values need none of their own:
// a plan that fits fits with less of anything as long as it is a plan there, and questions/largest.h says where it is.
// Batches have no largest where gradients may be accumulated; that is why one pass is meant.
//
// Plans that keep state or activations on the host count where OffloadSearch::any asks for them, and else only where
// without them nothing fits at all.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nest/job.h"
#include "nest/report.h"
#include "nest/search.h"

namespace nest {

enum class LargestOf : std::uint8_t { batch, seq, layers };
inline constexpr std::array kLargestWords = {Word<LargestOf>{LargestOf::batch, "batch"},
                                             Word<LargestOf>{LargestOf::seq, "seq"},
                                             Word<LargestOf>{LargestOf::layers, "layers"}};

const char* to_string(LargestOf of);

// One search; that it was not needed because memory cannot hold the model's state alone is none.
struct LargestTry {
  std::int64_t value = 0;
  std::int64_t replicas = 0;  // of a batch: with so many, value / replicas sequences each; else 0
  bool fits = false;
};

struct LargestAnswer {
  LargestOf of = LargestOf::seq;
  std::int64_t step = 1;  // values are multiples of it
  std::int64_t most = 0;  // that is tried
  TrainingJob job;        // with that value; where nothing fits, with the smallest
  // optimal: proven; limit: stopped early, with the largest so far if there is one; no_plan: not even the smallest fits
  PlanOutcome outcome = PlanOutcome::limit;
  std::int64_t value = 0;
  std::optional<Answer> answer;  // the best plan with that value; where nothing fits none, and what the smallest lacks
  std::vector<LargestTry> tries;

  bool has_plan() const { return answer && !answer->plans.empty(); }
};

// `step` 0: 1,024 tokens of a sequence, 1 of everything else. What is asked for must not be given in the question, nor the
// batch in tokens where the sequence is asked for, nor sizes of micro-batches where it is the batch. Throws InputError.
LargestAnswer find_largest(const Question& question, LargestOf of, const SearchOptions& options = {},
                           std::int64_t step = 0);

std::string to_text(const LargestAnswer& answer, const ReportOptions& options = {});
// The plan's file with evaluation, why_not and `largest`; or nest.no-plan/1 with `largest`.
std::string to_json(const LargestAnswer& answer, const ReportOptions& options = {});
// The plan's page with a section of its own; or what would make the smallest fit.
std::string to_html(const LargestAnswer& answer, const ReportOptions& options = {});

}  // namespace nest
