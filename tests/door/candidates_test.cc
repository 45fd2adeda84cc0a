// Candidates side by side, through the front door: every one is what it would be alone.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "nest/nest.h"

namespace nest {
namespace {

using testing::HasSubstr;

CandidateLists lists_of_small_job() {
  CandidateLists lists;
  lists.question.model = "llama3.2-1b";
  lists.question.global_batch = 32;
  lists.question.seq = 2048;
  lists.devices = {8};
  return lists;
}

template <class Call>
std::string refusal_of(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Candidates, AreWhatTheyWouldBeAlone) {
  CandidateLists lists = lists_of_small_job();
  lists.clusters = {"dgx-h100", "h100-spine-leaf"};
  lists.devices = {8, 16};
  lists.strategies = {"best", "tp=2,sp=1,pp=2,mbs=1"};
  const CandidateComparison comparison = compare_candidates(lists);
  ASSERT_EQ(comparison.candidates.size(), 8U);
  std::size_t k = 0;
  double fastest = INFINITY;
  for (const char* cluster : {"dgx-h100", "h100-spine-leaf"}) {
    for (const std::int64_t devices : {8, 16}) {
      for (const std::string& strategy : lists.strategies) {
        const ComparedCandidate& candidate = comparison.candidates[k++];
        SCOPED_TRACE(candidate.name);
        EXPECT_EQ(candidate.label, std::string(1, static_cast<char>('A' + k - 1)));
        EXPECT_THAT(candidate.name, HasSubstr(cluster));
        Question question = lists.question;
        question.cluster = cluster;
        question.devices = devices;
        const TrainingJob job = read_job(question);
        SearchOptions options;
        options.why = false;
        const Plan alone = strategy == "best" ? find_plan(job, options).plans.front() : evaluate_plan(job, strategy);
        EXPECT_EQ(candidate.plan->strategy, alone.strategy);
        EXPECT_EQ(candidate.planned, strategy == "best");
        // Executed whether or not that is worth telling.
        EXPECT_NEAR(candidate.expected->iteration_s / alone.expected().iteration_s, 1, 0.0101);
        if (alone.executed) {
          EXPECT_NEAR(candidate.expected->iteration_s / alone.expected().iteration_s, 1, 1e-9);
        }
        EXPECT_NEAR(candidate.tokens_per_s, 32 * 2048 / candidate.expected->iteration_s, 1e-6);
        EXPECT_NEAR(candidate.device_hours_per_gtoken,
                    static_cast<double>(candidate.plan->strategy.devices_used()) * 1e9 / candidate.tokens_per_s / 3600,
                    1e-9);
        double parts = 0;
        for (const BreakdownPart& part : kBreakdownParts) parts += comparison.part_s(candidate, part);
        EXPECT_NEAR(parts, comparison.step_s(candidate), 1e-9 * parts);
        fastest = std::min(fastest, candidate.expected->iteration_s);
      }
    }
  }
  EXPECT_EQ(comparison.candidates[*comparison.fastest].expected->iteration_s, fastest);
  EXPECT_EQ(comparison.judge, PlanJudge::simulation);
  for (const ComparedCandidate& candidate : comparison.candidates) {
    EXPECT_GE(candidate.times, 1);
    EXPECT_GE(candidate.probability_slower, 0.5);
    EXPECT_LT(candidate.probability_slower, 1);
  }
}

TEST(Candidates, PlansOfOtherBatchesAreComparedByTokens) {
  CandidateLists lists = lists_of_small_job();
  lists.only_plans = true;
  Question question = lists.question;
  question.devices = 8;
  for (const std::int64_t batch : {32, 64}) {
    question.global_batch = batch;
    lists.plans.push_back(Input::memory("batch" + std::to_string(batch) + ".json",
                                        plan_file(evaluate_plan(read_job(question), "tp=2,sp=1,mbs=1"))));
  }
  const CandidateComparison comparison = compare_candidates(lists);
  ASSERT_EQ(comparison.candidates.size(), 2U);
  EXPECT_FALSE(comparison.same_batch);
  EXPECT_EQ(comparison.candidates[0].name, "batch32");
  // The larger batch exchanges gradients less often.
  EXPECT_EQ(*comparison.fastest, 1U);
  EXPECT_LT(comparison.candidates[0].times, 1.2);
  // Another model is no candidate.
  question.model = "llama3-8b";
  lists.plans.push_back(Input::memory("other.json", plan_file(evaluate_plan(read_job(question), "tp=8,sp=1,mbs=1"))));
  EXPECT_THAT(refusal_of([&] { compare_candidates(lists); }), HasSubstr("candidates must train the same"));
}

TEST(Candidates, WhatCannotBeIsThatCandidatesResult) {
  CandidateLists lists = lists_of_small_job();
  lists.question.model = "llama3-405b";
  lists.question.seq = 8192;
  lists.devices = {8, 12, 256};
  const CandidateComparison comparison = compare_candidates(lists);
  ASSERT_EQ(comparison.candidates.size(), 3U);
  EXPECT_EQ(comparison.candidates[0].outcome, CandidateOutcome::no_plan);
  EXPECT_EQ(comparison.candidates[1].outcome, CandidateOutcome::refused);
  EXPECT_FALSE(comparison.candidates[1].note.empty());
  EXPECT_EQ(comparison.candidates[2].outcome, CandidateOutcome::plan);
  lists.question.model = "llama3-70b";
  lists.devices = {64};
  lists.strategies = {"tp=2,mbs=1", "tp=8,pp=2,mbs=1,recompute=full"};
  const CandidateComparison two = compare_candidates(lists);
  EXPECT_EQ(two.candidates[0].outcome, CandidateOutcome::does_not_fit);
  EXPECT_THAT(two.candidates[0].note, HasSubstr("GiB"));
  EXPECT_EQ(*two.fastest, 1U);
}

TEST(Candidates, MistakesAreToldBeforeAnythingIsPlanned) {
  CandidateLists lists = lists_of_small_job();
  lists.strategies = {"best", "tp=8,qq=3"};
  EXPECT_THAT(refusal_of([&] { compare_candidates(lists); }), HasSubstr("qq"));
  lists.strategies = {};
  lists.clusters = {"dgx-h100", "dgx-h1000"};
  EXPECT_THAT(refusal_of([&] { compare_candidates(lists); }), HasSubstr("dgx-h1000"));
  lists.clusters = {};
  lists.devices = std::vector<std::int64_t>(27, 8);
  EXPECT_THAT(refusal_of([&] { compare_candidates(lists); }), HasSubstr("at most 26"));
  lists.devices = {12};
  lists.strategies = {"tp=8", "tp=8,pp=2"};
  EXPECT_NE(refusal_of([&] { compare_candidates(lists); }), "nothing was refused") << "all of them cannot be";
}

TEST(Candidates, JsonHoldsThePlans) {
  CandidateLists lists = lists_of_small_job();
  lists.strategies = {"best", "tp=4,mbs=1"};
  CandidateOptions options;
  options.search.judge = PlanJudge::formula;
  const CandidateComparison comparison = compare_candidates(lists, options);
  const auto json = nlohmann::json::parse(to_json(comparison));
  EXPECT_EQ(json.at("schema"), "nest.candidates/1");
  EXPECT_EQ(json.at("judge"), "formula");
  EXPECT_EQ(json.at("fastest"), "A") << "proven";
  const auto& second = json.at("candidates")[1];
  EXPECT_EQ(second.at("plan").at("strategy").at("tp"), 4);
  EXPECT_NEAR(second.at("step_s"), second.at("plan").at("prediction").at("iteration_s"), 1e-12);
  double more = 0;
  for (const auto& part : second.at("more_than_fastest_s")) more += part.get<double>();
  EXPECT_NEAR(more, comparison.step_s(comparison.candidates[1]) - comparison.step_s(comparison.candidates[0]), 1e-9);
}

}  // namespace
}  // namespace nest
