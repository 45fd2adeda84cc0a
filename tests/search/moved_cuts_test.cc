#include "search/moved_cuts.h"

#include <gmock/gmock.h>

namespace nest::search {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Plan plan_of_sizes(const std::vector<int>& sizes) {
  Plan plan;
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

std::vector<std::vector<int>> moved_sizes(const Plan& plan) {
  std::vector<std::vector<int>> sizes;
  for (const std::vector<StagePlan>& stages : moved_cuts(plan)) {
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
  EXPECT_THAT(moved_sizes(plan_of_sizes({2, 3})),
              UnorderedElementsAre(ElementsAre(1, 4), ElementsAre(3, 2), ElementsAre(3, 2)));
  EXPECT_THAT(moved_sizes(plan_of_sizes({2, 2})), UnorderedElementsAre(ElementsAre(1, 3), ElementsAre(3, 1)));
}

TEST(MovedCuts, NoneOfOneStageOrOfChunks) {
  EXPECT_THAT(moved_cuts(plan_of_sizes({4})), IsEmpty());
  Plan interleaved = plan_of_sizes({2, 4});
  interleaved.strategy.virtual_stages = 2;
  EXPECT_THAT(moved_cuts(interleaved), IsEmpty());
}

}  // namespace
}  // namespace nest::search
