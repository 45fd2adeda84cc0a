// What the comparison of predictions with simulations draws, and what it says of it.
#include <gmock/gmock.h>

#include <set>

#include "base/error.h"
#include "plan/strategy_text.h"
#include "simulation_check/networks.h"
#include "simulation_check/writing.h"

namespace nest {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(SlowNetworks, AreReadInManySizes) {
  std::set<std::string> names;
  for (const Network& network : slow_networks()) {
    names.insert(network.name);
    for (const std::int64_t devices : {16, 64, 256}) {
      EXPECT_EQ(network_cluster(network.name, devices).devices, devices) << network.name;
    }
  }
  EXPECT_EQ(names.size(), slow_networks().size());
  EXPECT_EQ(network_cluster("dgx-h100", 64).name, "dgx-h100");
  EXPECT_THROW(network_cluster("token-ring", 64), InputError);
}

TEST(SlowNetworks, PlansGoRoundAllOfThem) {
  std::set<std::string> clusters;
  const auto networks = static_cast<std::uint32_t>(slow_networks().size());
  for (std::uint32_t seed = 0; seed < networks; ++seed) {
    const RandomPlan plan = random_plan(seed, DrawnFrom::slow), again = random_plan(seed, DrawnFrom::slow);
    clusters.insert(plan.job.cluster.name);
    EXPECT_EQ(plan::strategy_text(plan.strategy), plan::strategy_text(again.strategy));
    EXPECT_TRUE(plan.evaluation.fits);
  }
  EXPECT_EQ(clusters.size(), networks);
}

ComparedPlan row_of(DrawnFrom from, double simulated_s) {
  ComparedPlan row;
  row.from = from;
  row.cluster = from == DrawnFrom::slow ? "narrow" : "wide";
  row.summary.predicted_s = 1;
  row.summary.iteration_s = simulated_s;
  row.told_s = from == DrawnFrom::slow ? simulated_s / 1.001 : 1;  // executed where the formula is wrong
  return row;
}

// Of ten plans per kind the fifth is the median, the ninth the 90th percentile.
TEST(Comparison, KindsAreJudgedApart) {
  std::vector<ComparedPlan> rows;
  for (int k = 0; k < 10; ++k) {
    rows.push_back(row_of(DrawnFrom::presets, 1 + 0.0003 * k));
    rows.push_back(row_of(DrawnFrom::slow, 1 - 0.01 * k));
  }
  TopCase one;
  one.from = DrawnFrom::slow;
  one.plans = 2;
  one.predicted_s = 1;
  one.simulated_s = 1.25;
  one.told_s = 1.24;
  one.best_s = 1;
  one.best = 1;
  const std::vector<TopCase> cases = {one};
  const std::vector<Mark> list = marks(rows, cases);
  std::vector<std::string> reached;
  std::vector<bool> met;
  for (const Mark& mark : list) {
    reached.push_back(mark.reached);
    met.push_back(mark.met);
  }
  EXPECT_THAT(reached, ::testing::ElementsAre("0.12 %", "0.24 %", "0.12 %", "0.24 %", "0.10 %", "0.10 %", "4.00 %",
                                              "8.00 %", "0.81 %", "25.00 %", "0 of 1 (0 best)"));
  EXPECT_THAT(met, ::testing::ElementsAre(true, true, true, true, true, true, false, false, true, false, false));
  const std::string page = results_markdown(rows, cases);
  EXPECT_THAT(page, AllOf(HasSubstr("## Random plans: slow networks\n\n10 plans"), HasSubstr("| narrow | 10 | 4.00 %"),
                          HasSubstr("## The formula's choice under simulation: slow networks"),
                          Not(HasSubstr("under simulation: preset clusters"))));
}

}  // namespace
}  // namespace nest
