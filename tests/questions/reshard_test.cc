#include "questions/reshard.h"

#include <gtest/gtest.h>

#include <random>

#include "test_support/scale.h"

namespace nest::questions {
namespace {

// One tensor of 120 bytes, halves on two devices; then a third on each of three, the third new: device 0 keeps its third,
// device 1 needs [1/3, 1/2) more (20 bytes), device 2 all of its third (40).
TEST(Reshard, ThirdsOfHalves) {
  const Layout before = {{{0, 0, 0.5}}, {{0, 0.5, 1}}};
  const Layout after = {{{0, 0, 1 / 3.0}}, {{0, 1 / 3.0, 2 / 3.0}}, {{0, 2 / 3.0, 1}}};
  const Movement moved = movement(before, after, {0, 1, -1}, {120});
  EXPECT_NEAR(moved.received_bytes, 60, 1e-9);
  EXPECT_NEAR(moved.from_storage_bytes, 0, 1e-9);
  EXPECT_NEAR(moved.most_received_bytes, 40, 1e-9);
}

// The second device is lost: its half is on nobody.
TEST(Reshard, WhatNobodyHasComesFromStorage) {
  const Layout before = {{{0, 0, 0.5}}, {{0, 0.5, 1}}};
  const Layout after = {{{0, 0, 1}}};
  const Movement moved = movement(before, after, {0}, {120});
  EXPECT_NEAR(moved.received_bytes, 60, 1e-9);
  EXPECT_NEAR(moved.from_storage_bytes, 60, 1e-9);
}

// The same with a replica of it that is left: moved, and from storage nothing.
TEST(Reshard, ReplicasSpareStorage) {
  const Layout before = {{{0, 0, 0.5}}, {{0, 0.5, 1}}, {{0, 0, 0.5}}, {{0, 0.5, 1}}};
  const Layout after = {{{0, 0, 0.5}}, {{0, 0.5, 1}}};
  const Movement moved = movement(before, after, {2, 0}, {120});
  EXPECT_NEAR(moved.received_bytes, 60, 1e-9);
  EXPECT_NEAR(moved.from_storage_bytes, 60, 1e-9);  // device 3 is lost too: nobody who is left had the second half
  const Movement spared = movement(before, {{{0, 0, 0.5}}, {{0, 0.5, 1}}}, {2, 3}, {120});
  EXPECT_NEAR(spared.received_bytes, 0, 1e-9);
}

// Against counting grains of tensors one by one.
TEST(Reshard, AgainstGrains) {
  constexpr int kGrains = 24;
  std::mt19937_64 random(11);
  for (std::uint32_t k = 0; k < test::scaled(300, 30); ++k) {
    const int tensors = 1 + static_cast<int>(random() % 3);
    using Grains = std::vector<std::vector<std::vector<char>>>;  // device, tensor, grain
    const auto layout = [&](std::size_t devices, Grains& grains) {
      Layout result(devices);
      grains.assign(devices,
                    std::vector<std::vector<char>>(static_cast<std::size_t>(tensors), std::vector<char>(kGrains, 0)));
      for (std::size_t d = 0; d < devices; ++d) {
        for (int t = 0; t < tensors; ++t) {
          for (int g = 0; g < kGrains;) {
            const int size = 1 + static_cast<int>(random() % 8), end = std::min(kGrains, g + size);
            if (random() % 2 == 0) {
              result[d].push_back({t, g / double{kGrains}, end / double{kGrains}});
              for (int i = g; i < end; ++i) grains[d][static_cast<std::size_t>(t)][static_cast<std::size_t>(i)] = 1;
            }
            g = end;
          }
        }
      }
      return result;
    };
    Grains had, needs;
    const Layout before = layout(1 + random() % 4, had), after = layout(1 + random() % 4, needs);
    std::vector<std::int64_t> before_of;
    for (std::size_t d = 0; d < after.size(); ++d) {
      before_of.push_back(static_cast<std::int64_t>(random() % (before.size() + 1)) - 1);
    }
    Movement expected;
    for (std::size_t d = 0; d < after.size(); ++d) {
      double received = 0;
      for (std::size_t t = 0; t < static_cast<std::size_t>(tensors); ++t) {
        for (std::size_t g = 0; g < kGrains; ++g) {
          if (needs[d][t][g] == 0) continue;
          if (before_of[d] >= 0 && had[static_cast<std::size_t>(before_of[d])][t][g] != 0) continue;
          received += 1;
          bool left = false;
          for (const std::int64_t device : before_of) {
            left = left || (device >= 0 && had[static_cast<std::size_t>(device)][t][g] != 0);
          }
          expected.from_storage_bytes += left ? 0 : 1;
        }
      }
      expected.received_bytes += received;
      expected.most_received_bytes = std::max(expected.most_received_bytes, received);
    }
    const Movement moved =
        movement(before, after, before_of, std::vector<double>(static_cast<std::size_t>(tensors), kGrains));
    EXPECT_NEAR(moved.received_bytes, expected.received_bytes, 1e-6);
    EXPECT_NEAR(moved.from_storage_bytes, expected.from_storage_bytes, 1e-6);
    EXPECT_NEAR(moved.most_received_bytes, expected.most_received_bytes, 1e-6);
  }
}

}  // namespace
}  // namespace nest::questions
