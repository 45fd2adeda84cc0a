#include "search/variants.h"

#include <gmock/gmock.h>

#include "model/config.h"

namespace nest::search {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Of a model with an embedding, blocks of one kind and a head.
cost::Job job_of_blocks(std::int64_t blocks) {
  const std::string config = R"({"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
    "num_attention_heads": 8, "vocab_size": 1000, "num_hidden_layers": )" +
                             std::to_string(blocks) + "}";
  const model::Architecture architecture = model::read_config(doc::parse_json("model.json", config), "model");
  Run run;
  run.global_batch = 8;
  run.sequence = 1024;
  return cost::make_job(architecture, run, cost::find_stack("megatron-core").value(),
                        cluster::find_cluster("dgx-h100", 8).value());
}

Plan plan_of_sizes(const std::vector<int>& sizes, std::int64_t chunks = 1) {
  Plan plan;
  plan.strategy.virtual_stages = chunks;
  plan.strategy.pp = static_cast<std::int64_t>(sizes.size());
  int first = 0;
  for (const int size : sizes) {
    StagePlan stage;
    stage.first = first;
    stage.last = first + size - 1;
    first += size;
    plan.stages.push_back(stage);
  }
  return plan;
}

std::vector<std::vector<int>> moved_sizes(const Plan& plan, MovedTo where = MovedTo::neighbours) {
  const cost::Job job = job_of_blocks(plan.stages.back().last - 1);
  const PlanSpace space(job, {}, 8);
  std::vector<std::vector<int>> sizes;
  for (const std::vector<StagePlan>& stages : moved_cuts(space, plan, where)) {
    std::vector<int>& each = sizes.emplace_back();
    int next = 0;
    for (const StagePlan& stage : stages) {
      EXPECT_EQ(stage.first, next);
      next = stage.last + 1;
      each.push_back(stage.last - stage.first + 1);
    }
  }
  return sizes;
}

TEST(MovedCuts, OneLayerEachWayAndTheMirror) {
  EXPECT_THAT(moved_sizes(plan_of_sizes({2, 1, 1})), UnorderedElementsAre(ElementsAre(1, 2, 1), ElementsAre(1, 1, 2)));
  EXPECT_THAT(moved_sizes(plan_of_sizes({2, 4})),
              UnorderedElementsAre(ElementsAre(1, 5), ElementsAre(3, 3), ElementsAre(4, 2)));
  EXPECT_THAT(moved_sizes(plan_of_sizes({2, 2})), UnorderedElementsAre(ElementsAre(1, 3), ElementsAre(3, 1)));
}

TEST(MovedCuts, FromAnyStageToAnyOther) {
  EXPECT_THAT(moved_sizes(plan_of_sizes({2, 2, 3}), MovedTo::anywhere),
              UnorderedElementsAre(ElementsAre(1, 3, 3), ElementsAre(3, 1, 3), ElementsAre(2, 1, 4),
                                   ElementsAre(2, 3, 2), ElementsAre(1, 2, 4), ElementsAre(3, 2, 2)));
}

TEST(MovedCuts, FromTheSlowestAndToTheFastest) {
  Plan plan = plan_of_sizes({3, 3, 3, 3});
  const double seconds[] = {1, 4, 2, 3};
  for (std::size_t s = 0; s < 4; ++s) plan.stages[s].time.total = seconds[s];
  EXPECT_THAT(moved_sizes(plan, MovedTo::ends),
              UnorderedElementsAre(ElementsAre(2, 4, 3, 3), ElementsAre(4, 2, 3, 3), ElementsAre(3, 2, 4, 3),
                                   ElementsAre(3, 4, 2, 3), ElementsAre(3, 3, 2, 4), ElementsAre(3, 3, 4, 2),
                                   ElementsAre(3, 2, 3, 4), ElementsAre(4, 3, 2, 3), ElementsAre(4, 3, 3, 2)));
}

// Two chunks each: with the embedding one block is enough for the first stage, with the head for the last, two between.
TEST(MovedCuts, ChunksKeepTheirLayers) {
  EXPECT_THAT(moved_sizes(plan_of_sizes({2, 2, 3}, 2), MovedTo::anywhere),
              UnorderedElementsAre(ElementsAre(2, 3, 2), ElementsAre(3, 2, 2)));
}

TEST(MovedCuts, NoneOfOneStageOrOfListedChunks) {
  EXPECT_THAT(moved_sizes(plan_of_sizes({4})), IsEmpty());
  Plan listed = plan_of_sizes({2, 4});
  listed.stages.front().chunks.resize(2);
  EXPECT_THAT(moved_sizes(listed), IsEmpty());
}

TEST(Resharded, AllStagesOrOne) {
  const cost::Job job = job_of_blocks(4);
  plan::PlanLimits limits;
  plan::set_limit(limits, "zero=0,1");
  const Plan plan = plan_of_sizes({2, 4});  // ZeRO 0
  const auto zeros = [&](ShardedOtherwise which) {
    std::vector<std::vector<int>> each;
    for (const auto& stages : resharded(PlanSpace(job, limits, 8), plan, which)) {
      EXPECT_EQ(stages[1].first, 2);
      each.push_back({stages[0].zero, stages[1].zero});
    }
    return each;
  };
  EXPECT_THAT(zeros(ShardedOtherwise::all_stages), UnorderedElementsAre(ElementsAre(0, 0), ElementsAre(1, 1)));
  EXPECT_THAT(zeros(ShardedOtherwise::also_one),
              UnorderedElementsAre(ElementsAre(0, 0), ElementsAre(0, 0), ElementsAre(0, 0), ElementsAre(1, 1),
                                   ElementsAre(1, 0), ElementsAre(0, 1)));
  plan::set_limit(limits, "uniform=1");
  EXPECT_THAT(zeros(ShardedOtherwise::also_one), UnorderedElementsAre(ElementsAre(0, 0), ElementsAre(1, 1)));
}

}  // namespace
}  // namespace nest::search
