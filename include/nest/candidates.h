// Candidates side by side: strategies, plans, clusters, numbers of devices, stacks, all judged alike.
//
//   CandidateLists lists;
//   lists.question.model = "llama3-70b";
//   lists.clusters = {"dgx-h100", "dgx-b200"};
//   lists.devices = {64, 128};
//   lists.strategies = {"best", "tp=8,pp=4"};       // best: the plan that nest finds
//   std::cout << to_text(compare_candidates(lists));
//
// Every combination of the lists is a candidate, and so is every plan. All must train the same: model, sequence, adapters.
// Times are of the same number of tokens where batches differ. Whether a candidate is faster is a probability: errors that two
// predictions share cancel (the same devices, software and network), others add up.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nest/job.h"
#include "nest/plan.h"
#include "nest/report.h"
#include "nest/search.h"

namespace nest {

inline constexpr std::size_t kMostCandidates = 26;    // a letter each; a study (nest/sweep.h) holds more
inline constexpr const char* kBestStrategy = "best";  // as a strategy: whatever nest finds

struct CandidateLists {
  Question question = {};                    // what the lists leave open
  std::vector<Input> clusters = {};          // empty: the question's
  std::vector<std::int64_t> devices = {};    // empty: the question's
  std::vector<Input> stacks = {};            // empty: the question's
  std::vector<std::string> strategies = {};  // as of evaluate_plan, or "best"; empty: best alone
  std::vector<Input> plans = {};             // files of plans, priced anew with what they hold
  bool only_plans = false;                   // no combination of the lists
};

struct CandidateOptions {
  SearchOptions search = {};  // of candidates that are planned; its judge is the judge of all
  std::function<void(const std::string& label, const std::string& name)> begin = {};  // told of every candidate
};

enum class CandidateOutcome : std::uint8_t {
  plan,          // it fits
  does_not_fit,  // a strategy or a plan that needs more memory than there is
  no_plan,       // proven: nothing fits
  limit,         // nothing was found in time
  refused,       // there is no such job or strategy
};
std::string_view to_string(CandidateOutcome outcome);

struct ComparedCandidate {
  std::string label;  // "A"
  std::string name;   // what tells it from the others
  CandidateOutcome outcome = CandidateOutcome::refused;
  std::string note;                // why it is not compared
  bool planned = false;            // nest chose the strategy
  std::optional<TrainingJob> job;  // nothing where it was refused
  std::optional<Plan> plan;        // also one that does not fit
  // What it is compared by, where it fits: executed, or by the formula where one of the candidates could not be executed
  // or the formula is the judge.
  std::optional<Prediction> expected;
  double tokens_per_s = 0;
  double device_hours_per_gtoken = 0;  // of the devices used, for a billion tokens
  double times = 0;                    // of the fastest's time for the same tokens; 0: not compared
  double probability_slower = 0.5;     // than the fastest
};

struct CandidateComparison {
  std::vector<ComparedCandidate> candidates;
  PlanJudge judge = PlanJudge::simulation;
  std::string judge_note;              // why execution is not the judge, where it was asked to be
  std::optional<std::size_t> fastest;  // of candidates; nothing: none fits
  bool same_batch = true;

  // Seconds of a part of a candidate's breakdown, for the tokens of one step of the fastest. Both must be compared.
  double part_s(const ComparedCandidate& candidate, const BreakdownPart& part) const;
  double step_s(const ComparedCandidate& candidate) const;  // the same of all parts
  bool is_open() const;                                     // none fits, but for some the time was over
};

// Throws InputError where there are more than kMostCandidates, a name or a strategy is wrong in itself, candidates do not
// train the same, or all of them are refused.
CandidateComparison compare_candidates(const CandidateLists& lists, const CandidateOptions& options = {});

std::string to_text(const CandidateComparison& comparison, const Style& style = Style());
std::string to_json(const CandidateComparison& comparison);  // nest.candidates/1
// One page: the candidates, then the fastest one's plan.
std::string to_html(const CandidateComparison& comparison, const ReportOptions& options = {});
std::string to_svg(const CandidateComparison& comparison);  // a bar chart

}  // namespace nest
