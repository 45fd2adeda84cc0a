// Fronts against the definition, point by point; what is drawn along which axis.
#include "sweep/view.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "sweep/study.h"
#include "test_support/scale.h"

namespace nest::test {
namespace {

using ::testing::ElementsAre;

Study viewed(const std::string& text) { return sweep::read_study(doc::parse_yaml("v.yaml", text), "v"); }

// Nobody of the same model is at least as good in both and better in one; of equals the first.
std::vector<std::int64_t> dumb_front(const SweepResults& results, bool money) {
  std::vector<std::int64_t> front;
  for (const SweepResult& a : results.points) {
    bool beaten = !a.has_plan;
    for (const SweepResult& b : results.points) {
      if (!b.has_plan || results.study.choice(a.point)[0] != results.study.choice(b.point)[0]) continue;
      const double cost_a = money ? *a.cost_per_gtoken : a.device_hours_per_gtoken;
      const double cost_b = money ? *b.cost_per_gtoken : b.device_hours_per_gtoken;
      const bool no_worse = b.tokens_per_s >= a.tokens_per_s && cost_b <= cost_a;
      const bool better = b.tokens_per_s > a.tokens_per_s || cost_b < cost_a;
      if (no_worse && (better || b.point < a.point)) beaten = true;
    }
    if (!beaten) front.push_back(a.point);
  }
  return front;
}

TEST(Front, IsTheDefinition) {
  std::mt19937 random(7);
  const Study study = viewed("axes: {model: [llama3-8b, llama3-70b], devices: {from: 1, to: 20, step: 1}}");
  const std::uint32_t rounds = scaled(2000, 20);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    SweepResults results{study, "none", {}};
    const bool money = round % 2 == 0;
    for (const std::int64_t point : study.points) {
      if (random() % 5 == 0) continue;
      SweepResult r;
      r.point = point;
      r.has_plan = random() % 6 != 0;
      // Few values, so that many are equal.
      r.tokens_per_s = 1 + static_cast<double>(random() % 8);
      r.device_hours_per_gtoken = 1 + static_cast<double>(random() % 8);
      if (money) r.cost_per_gtoken = 1 + static_cast<double>(random() % 8);
      results.points.push_back(r);
    }
    ASSERT_EQ(pareto_front(results), dumb_front(results, money)) << "round " << round;
  }
}

TEST(Roles, DevicesGoAcrossClustersAreLines) {
  const Study study = viewed(
      "axes: {model: [llama3-8b, llama3-70b], cluster: [dgx-h100, dgx-a100], price: [1, 2], devices: [8, 16, 32], "
      "batch: [8, 16], seq: [2048]}\nzip: [cluster, price]");
  EXPECT_THAT(sweep::drawn_axes(study), ElementsAre(0U, 1U, 3U, 4U));
  const sweep::Roles roles = sweep::roles_of(study);
  EXPECT_EQ(roles.x, 3U);
  EXPECT_EQ(roles.series, 1U);
  EXPECT_EQ(roles.y, 4U);
  EXPECT_EQ(sweep::point_label(study, 0), "llama3-8b, dgx-h100, price 1, devices 8, batch 8");
  EXPECT_EQ(sweep::point_label(study, 0, {1, 3}), "llama3-8b, batch 8");
}

TEST(Roles, OneAxisIsEnough) {
  const sweep::Roles roles = sweep::roles_of(viewed("axes: {cluster: [dgx-h100, dgx-a100]}"));
  EXPECT_EQ(roles.x, 0U);
  EXPECT_FALSE(roles.series);
  EXPECT_FALSE(roles.y);
}

}  // namespace
}  // namespace nest::test
