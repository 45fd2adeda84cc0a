#include "cluster/fluid.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace nest {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(Fluid, TwoFlowsShareALink) {
  // 100 B/s. The first has 100 B from 0 s, the second 100 B from 0.5 s: 50 B are gone, then both get 50 B/s; the first
  // ends at 1.5 s, and the second has the link to itself for its last 50 B.
  const std::vector<FluidTask> tasks = {{0, 1, 0, 100, {{0, 1}}, {}}, {0.5, 1, 0, 100, {{0, 1}}, {}}};
  EXPECT_THAT(play(std::vector<double>{100}, tasks), ElementsAre(DoubleNear(1.5, 1e-9), DoubleNear(2, 1e-9)));
}

TEST(Fluid, SharingIsMaxMin) {
  // Links of 10 and 100 B/s. A crosses both and is held to 10 B/s; B on the second link gets the other 90.
  const std::vector<FluidTask> tasks = {{0, 1, 0, 10, {{0, 1}, {1, 1}}, {}}, {0, 1, 0, 90, {{1, 1}}, {}}};
  EXPECT_THAT(play(std::vector<double>{10, 100}, tasks), ElementsAre(DoubleNear(1, 1e-9), DoubleNear(1, 1e-9)));
}

TEST(Fluid, StepsWaitForTheirLatency) {
  const std::vector<FluidTask> tasks = {{1, 3, 0.5, 100, {{0, 2}}, {}}};
  EXPECT_THAT(play(std::vector<double>{100}, tasks), ElementsAre(DoubleNear(1 + 3 * 2.5, 1e-9)));
}

TEST(Fluid, TasksFollowEachOther) {
  const std::vector<FluidTask> tasks = {
      {0, 1, 0.25, 100, {{0, 1}}, {}}, {0, 1, 0.5, 0, {}, {0}}, {0, 2, 0, 50, {{0, 1}}, {1}}};
  EXPECT_THAT(play(std::vector<double>{100}, tasks),
              ElementsAre(DoubleNear(1.25, 1e-9), DoubleNear(1.75, 1e-9), DoubleNear(2.75, 1e-9)));
}

TEST(Fluid, CirclesAreABug) {
  const std::vector<FluidTask> tasks = {{0, 1, 0, 1, {{0, 1}}, {1}}, {0, 1, 0, 1, {{0, 1}}, {0}}};
  EXPECT_THROW(play(std::vector<double>{1}, tasks), InternalError);
}

TEST(Fluid, QuickBoundIsExactForOneJobAndForEqualOnes) {
  const std::vector<double> links = {100, 1000};
  const FluidTask ring{0, 6, 0.1, 50, {{0, 1}, {1, 1}}, {}};
  EXPECT_NEAR(overlapped_s(links, std::vector<FluidTask>{ring}), play(links, std::vector<FluidTask>{ring})[0], 1e-9);
  const std::vector<FluidTask> three = {ring, ring, ring};
  EXPECT_NEAR(overlapped_s(links, three), play(links, three)[2], 1e-9);
}

}  // namespace
}  // namespace nest
