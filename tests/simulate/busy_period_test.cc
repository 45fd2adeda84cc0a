#include "simulate/busy_period.h"

#include <gtest/gtest.h>

namespace nest::simulate {
namespace {

struct OnLink {
  double begin_s, work_s, after_s = 0;
};

// Exchange k is a flow of its work in bytes over one link of a byte per second; every begin is tried.
double busy_end_s(const std::vector<OnLink>& transfers) {
  Quotient network;
  network.links = {{"link", 1}};
  network.routes = {{{{0, 1}}}};
  std::vector<double> begins_s;
  for (const OnLink& each : transfers) {
    network.flows.push_back({{{0, 0, each.work_s}}});
    begins_s.push_back(each.begin_s);
  }
  BusyPeriods busy(network, begins_s);
  for (std::size_t k = 0; k < transfers.size(); ++k) {
    busy.add(static_cast<std::int32_t>(k), {1}, transfers[k].begin_s, transfers[k].after_s);
  }
  return busy.end_s();
}

TEST(BusyPeriods, ByHand) {
  EXPECT_DOUBLE_EQ(busy_end_s({{0, 4}, {3, 2}, {10, 1}}), 11);  // idle from 6 to 10
  EXPECT_DOUBLE_EQ(busy_end_s({{0, 4}, {3, 2}, {5, 1}}), 7);
  EXPECT_DOUBLE_EQ(busy_end_s({{2, 3}, {2, 3}}), 8);
  EXPECT_DOUBLE_EQ(busy_end_s({}), 0);
}

TEST(BusyPeriods, WhatFollowsAll) {
  EXPECT_DOUBLE_EQ(busy_end_s({{0, 4, 5}, {3, 2, 1}}), 0 + 6 + 1);
  EXPECT_DOUBLE_EQ(busy_end_s({{0, 1, 5}, {3, 2, 4}}), 3 + 2 + 4);
}

// Two flows of an exchange over a link of 5 bytes per second, one of which stands for three; twice their bytes, then once.
TEST(BusyPeriods, FlowsAddUp) {
  Quotient network;
  network.links = {{"idle", 1}, {"link", 5}};
  network.routes = {{{{1, 1}}}, {{{1, 3}}}};
  network.flows = {{{{0, 0, 10}, {1, 0, 5}}}};
  BusyPeriods busy(network, {1});
  busy.add(0, {2}, 1.5, 0);
  EXPECT_DOUBLE_EQ(busy.end_s(), 1.5 + 2 * (10 + 3 * 5) / 5.0);
  busy.add(0, {1}, 0.5, 0);
  EXPECT_DOUBLE_EQ(busy.end_s(), 0.5 + 3 * (10 + 3 * 5) / 5.0);
}

}  // namespace
}  // namespace nest::simulate
