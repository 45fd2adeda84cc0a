// Who holds which part of the state.
#include "door/state_layout.h"

#include <gtest/gtest.h>

#include "door/job_data.h"
#include "nest/evaluate.h"
#include "nest/job.h"

namespace nest {
namespace {

TrainingJob small_job(const char* model) {
  Question question;
  question.model = model;
  question.devices = 16;
  question.global_batch = 64;
  question.seq = 2048;
  return read_job(question);
}

double held(const questions::Layout& layout, const std::vector<double>& bytes) {
  double sum = 0;
  for (const auto& device : layout) {
    for (const questions::Piece& piece : device) {
      sum += (piece.end - piece.begin) * bytes[static_cast<std::size_t>(piece.tensor)];
    }
  }
  return sum;
}

double sum_of(const std::vector<double>& bytes) {
  double sum = 0;
  for (const double each : bytes) sum += each;
  return sum;
}

// Every replica holds all weights once, all of them together the optimizer's state once (ZeRO 1).
TEST(StateLayout, HoldsEverythingOnce) {
  const TrainingJob job = small_job("llama3-8b");
  const Plan plan = evaluate_plan(job, "tp=2,pp=2,mbs=1,zero=1", PlanJudge::formula);
  ASSERT_EQ(plan.strategy.dp, 4);
  const StateLayout layout = state_layout(unwrap(job), plan);
  EXPECT_EQ(layout.weights.size(), 16U);
  EXPECT_NEAR(sum_of(layout.weight_bytes), 2.0 * 8'030'261'248, 1);
  EXPECT_NEAR(held(layout.weights, layout.weight_bytes) / (4 * sum_of(layout.weight_bytes)), 1, 1e-12);
  EXPECT_NEAR(held(layout.optimizer, layout.optimizer_bytes) / sum_of(layout.optimizer_bytes), 1, 1e-12);
  EXPECT_NEAR(checkpoint_bytes(unwrap(job)), sum_of(layout.weight_bytes) + sum_of(layout.optimizer_bytes), 1);
}

// Experts over 8 ranks, of which there are two sets; everything else on all 16.
TEST(StateLayout, HoldsExpertsOncePerSet) {
  const TrainingJob job = small_job("mixtral-8x7b");
  const Plan plan = evaluate_plan(job, "ep=8,mbs=1,zero=1", PlanJudge::formula);
  const StateLayout layout = state_layout(unwrap(job), plan);
  double dense = 0, expert = 0;
  for (std::size_t t = 0; t < layout.weight_bytes.size(); ++t) (t % 2 == 0 ? dense : expert) += layout.weight_bytes[t];
  EXPECT_GT(expert, 10 * dense);
  EXPECT_NEAR(held(layout.weights, layout.weight_bytes) / (16 * dense + 2 * expert), 1, 1e-12);
  EXPECT_NEAR(held(layout.optimizer, layout.optimizer_bytes) / sum_of(layout.optimizer_bytes), 1, 1e-12);
}

// The same plan on the same devices moves nothing.
TEST(StateLayout, NothingMovesWhereNothingChanges) {
  const TrainingJob job = small_job("llama3-8b");
  const StateLayout layout =
      state_layout(unwrap(job), evaluate_plan(job, "tp=2,pp=2,mbs=1,zero=1", PlanJudge::formula));
  const auto same = survivors(16, 8, 0);
  EXPECT_EQ(questions::movement(layout.optimizer, layout.optimizer, same, layout.optimizer_bytes).received_bytes, 0);
}

// Of five nodes of two devices the third is lost: the fifth takes its place. Where the second and the fourth are lost, three
// are left, and the fifth takes the second's.
TEST(StateLayout, LastNodesTakeThePlaceOfLostOnes) {
  EXPECT_EQ(survivors(10, 2, 1), (std::vector<std::int64_t>{0, 1, 2, 3, 8, 9, 6, 7}));
  EXPECT_EQ(survivors(10, 2, 2), (std::vector<std::int64_t>{0, 1, 8, 9, 4, 5}));
}

}  // namespace
}  // namespace nest
