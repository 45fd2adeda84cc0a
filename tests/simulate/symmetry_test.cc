#include "simulate/symmetry.h"

#include <gtest/gtest.h>

namespace nest::simulate {
namespace {

// Four replicas of one message each: two per node, all through their node's uplink.
TEST(Symmetry, ReplicasThatShareAlikeAreOne) {
  const std::vector<NetworkLink> links = {{"node 0", 10}, {"node 1", 10}};
  std::vector<PhysicalFlow> flows;
  for (std::int32_t r = 0; r < 4; ++r) flows.push_back({0, r, 1, 1, {{r / 2}, 1e-6}});
  const Quotient quotient = find_symmetry(links, flows, 4, 1);
  EXPECT_EQ(quotient.replica_classes(), 1U);
  ASSERT_EQ(quotient.routes.size(), 1U);
  EXPECT_EQ(quotient.routes[0].alike, 4);
  ASSERT_EQ(quotient.links.size(), 1U);
  EXPECT_EQ(quotient.links[0].alike, 2);
  // Two flows on a link of 10: one on a link of 5.
  EXPECT_DOUBLE_EQ(quotient.links[0].bytes_per_s, 5);
  EXPECT_EQ(quotient.links[0].parts, 2);
  EXPECT_EQ(quotient.routes[0].loads, (std::vector<RouteLoad>{{0, 1}}));
}

// Three on the first node, one on the second: those three are alike, the fourth is not.
TEST(Symmetry, WhoSharesMoreIsNotAlike) {
  const std::vector<NetworkLink> links = {{"node 0", 10}, {"node 1", 10}};
  std::vector<PhysicalFlow> flows;
  for (std::int32_t r = 0; r < 4; ++r) flows.push_back({0, r, 1, 1, {{r / 3}, 1e-6}});
  const Quotient quotient = find_symmetry(links, flows, 4, 1);
  EXPECT_EQ(quotient.replica_classes(), 2U);
  EXPECT_EQ(quotient.class_of_replica, (std::vector<std::int32_t>{0, 0, 0, 1}));
  EXPECT_EQ(quotient.flows[0].size(), 2U);
}

// Two exchanges on one link, three and two flows: neither divides the other.
TEST(Symmetry, RoutesLoadALinkAsOftenAsTheirFlowsDo) {
  const std::vector<NetworkLink> links = {{"wire", 60}};
  const std::vector<PhysicalFlow> flows = {{0, -1, 3, 1, {{0}, 0}}, {1, -1, 2, 1, {{0}, 0}}};
  const Quotient quotient = find_symmetry(links, flows, 1, 2);
  ASSERT_EQ(quotient.routes.size(), 2U);
  EXPECT_EQ(quotient.routes[0].loads, (std::vector<RouteLoad>{{0, 3}}));
  EXPECT_EQ(quotient.routes[1].loads, (std::vector<RouteLoad>{{0, 2}}));
  EXPECT_DOUBLE_EQ(quotient.links[0].bytes_per_s, 60);
}

// A difference far away reaches everybody who is affected by it, and nobody else.
TEST(Symmetry, DifferencesSpread) {
  // Replica r shares link r with replica r + 1, in a chain of 4; the ends are alike by reflection, the middle too.
  const std::vector<NetworkLink> links = {{"a", 10}, {"b", 10}, {"c", 10}};
  const std::vector<PhysicalFlow> flows = {
      {0, 0, 1, 1, {{0}, 0}}, {0, 1, 1, 1, {{0, 1}, 0}}, {0, 2, 1, 1, {{1, 2}, 0}}, {0, 3, 1, 1, {{2}, 0}}};
  const Quotient quotient = find_symmetry(links, flows, 4, 1);
  EXPECT_EQ(quotient.class_of_replica, (std::vector<std::int32_t>{0, 1, 1, 0}));
}

TEST(Symmetry, LinksThatNeverLimitAreLeftOut) {
  const std::vector<NetworkLink> links = {{"port 0", 10}, {"port 1", 10}, {"trunk", 20}, {"narrow trunk", 19}};
  std::vector<PhysicalFlow> flows = {{0, 0, 1, 1, {{0, 2}, 0}}, {0, 1, 1, 1, {{1, 2}, 0}}};
  const auto kept = [&] { return find_symmetry(links, flows, 2, 1).links.size(); };
  EXPECT_EQ(kept(), 2U);  // the trunk carries exactly what the ports bring: kept, as it may be full
  for (PhysicalFlow& flow : flows) flow.path.links[1] = 3;
  EXPECT_EQ(kept(), 2U);
  const std::vector<NetworkLink> wide = {{"port 0", 10}, {"port 1", 10}, {"trunk", 21}};
  for (PhysicalFlow& flow : flows) flow.path.links[1] = 2;
  EXPECT_EQ(find_symmetry(wide, flows, 2, 1).links.size(), 1U);
}

TEST(Symmetry, NothingMergedKeepsEverything) {
  const std::vector<NetworkLink> links = {{"node 0", 10}, {"node 1", 10}};
  std::vector<PhysicalFlow> flows;
  for (std::int32_t r = 0; r < 4; ++r) flows.push_back({0, r, 1, 1, {{r / 2}, 1e-6}});
  const Quotient quotient = find_symmetry(links, flows, 4, 1, Merge::nothing);
  EXPECT_EQ(quotient.replica_classes(), 4U);
  EXPECT_EQ(quotient.routes.size(), 4U);
  EXPECT_EQ(quotient.links.size(), 2U);
}

}  // namespace
}  // namespace nest::simulate
