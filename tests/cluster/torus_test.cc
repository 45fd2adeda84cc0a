// Torus collectives: values by hand, and all-to-all against routing every message.
#include "cluster/torus_collective.h"

#include <gmock/gmock.h>

#include <map>

#include "cluster/layout.h"

namespace nest::cluster {
namespace {

Torus torus_of(std::vector<std::int64_t> dims, bool wrap = true) {
  Torus torus;
  torus.wrap.assign(dims.size(), wrap);
  torus.dims = std::move(dims);
  torus.link_bytes_per_s = 50e9;
  torus.latency_s = 1e-6;
  return torus;
}

TEST(Torus, HopsTakeTheShortWayRound) {
  const Torus torus = torus_of({4, 4, 4});
  EXPECT_EQ(torus.hops(0, 3), 1);
  EXPECT_EQ(torus.hops(0, 42), 6);  // (2, 2, 2)
  EXPECT_EQ(torus_of({4, 4, 4}, false).hops(0, 3), 3);
}

TEST(Torus, GroupsBecomeBoxes) {
  const Torus torus = torus_of({4, 4, 8});
  const TorusPlace all = make_torus_place(torus, {0, {{1, 128}}, {}});
  EXPECT_TRUE(all.boxed);
  EXPECT_EQ(all.extent, (std::array<std::int64_t, 4>{4, 4, 8, 1}));
  const TorusPlace plane = make_torus_place(torus, {16, {{1, 16}}, {{16, 7}}});
  EXPECT_EQ(plane.extent, (std::array<std::int64_t, 4>{4, 4, 1, 1}));
  const TorusPlace columns = make_torus_place(torus, {3, {{16, 8}}, {{1, 13}}});
  EXPECT_EQ(columns.extent, (std::array<std::int64_t, 4>{1, 1, 8, 1}));
  EXPECT_EQ(columns.stride[2], 1);
  const TorusPlace every_second = make_torus_place(torus, {0, {{32, 4}}, {{1, 32}}});
  EXPECT_EQ(every_second.extent[2], 4);
  EXPECT_EQ(every_second.stride[2], 2);
  EXPECT_EQ(every_second.sharing[2], 2);  // two groups interleave on each line
  EXPECT_FALSE(make_torus_place(torus, {0, {{1, 6}}, {}}).boxed);
  EXPECT_FALSE(make_torus_place(torus, {2, {{1, 4}}, {}}).boxed);  // straddles two lines
}

// 0 1 2 3 | 4 5: the step from 3 to 4 goes round the line and up, the one from 5 to 0 back and down.
TEST(Torus, RingsWithoutABoxAreRouted) {
  const Torus torus = torus_of({4, 4});
  const TorusPlace one = make_torus_place(torus, {0, {{1, 6}}, {}});
  EXPECT_FALSE(one.boxed);
  EXPECT_EQ(one.ring_hops, 2);
  EXPECT_EQ(one.ring_load, 1);
  const double m = 1e9;
  EXPECT_NEAR(torus_algorithm_time(torus, one, Collective::all_reduce, m, Algorithm::ring)->seconds,
              10 * (2 * 1e-6 + m / 6 / 50e9), 1e-12);
  // 0 3 | 6 | 9 | 12 15: one hop to the left along the line, or one up.
  const TorusPlace thirds = make_torus_place(torus, {0, {{3, 6}}, {}});
  EXPECT_FALSE(thirds.boxed);
  EXPECT_EQ(thirds.ring_hops, 2);
  EXPECT_GE(make_torus_place(torus, {0, {{3, 5}}, {{1, 3}}}).ring_load, thirds.ring_load);
}

TEST(Torus, RingsByHand) {
  const Torus torus = torus_of({4, 4, 4});
  const double m = 1e9;
  const TorusPlace line = make_torus_place(torus, {0, {{1, 4}}, {}});
  EXPECT_NEAR(torus_algorithm_time(torus, line, Collective::all_gather, m, Algorithm::ring)->seconds,
              3 * (1e-6 + m / 4 / 50e9), 1e-12);
  const TorusPlace cube = make_torus_place(torus, {0, {{1, 64}}, {}});
  const double three = 2 * (3 * 1e-6 * 3 + (m * 3 / 4 + m / 4 * 3 / 4 + m / 16 * 3 / 4) / 50e9);
  EXPECT_NEAR(torus_algorithm_time(torus, cube, Collective::all_reduce, m, Algorithm::hierarchical)->seconds, three,
              1e-9);
  // Three dimensions and two directions at once: six links of every device.
  const double parts = 2 * (3 * 1e-6 * 3 + (m * 3 / 4 + m / 4 * 3 / 4 + m / 16 * 3 / 4) / 6 / 50e9);
  EXPECT_NEAR(torus_algorithm_time(torus, cube, Collective::all_reduce, m, Algorithm::multi_ring)->seconds, parts,
              1e-9);
}

TEST(Torus, OpenLinesCloseByALongHop) {
  const Torus mesh = torus_of({4, 4}, false);
  const TorusPlace line = make_torus_place(mesh, {0, {{1, 4}}, {}});
  EXPECT_NEAR(torus_algorithm_time(mesh, line, Collective::all_gather, 1e9, Algorithm::ring)->seconds,
              3 * (3e-6 + 0.25e9 / 50e9), 1e-12);
  EXPECT_FALSE(torus_dimension_rings(mesh, line, Collective::all_reduce, 1e9, 1, 2));
}

// Every message routed link by link: x, then y, then z, the short way, half way round towards rising coordinates.
double routed_all_to_all_s(const Torus& torus, double bytes) {
  const std::int64_t n = torus.devices();
  std::map<std::tuple<std::int64_t, std::size_t, int>, std::map<std::int64_t, double>>
      flows;  // link -> hops -> messages
  for (std::int64_t from = 0; from < n; ++from) {
    for (std::int64_t to = 0; to < n; ++to) {
      const std::int64_t hops = torus.hops(from, to);
      std::int64_t at = from;
      std::int64_t block = 1;
      for (std::size_t k = 0; k < torus.dims.size(); ++k) {
        const std::int64_t size = torus.dims[k];
        const std::int64_t goal = to / block % size;
        for (std::int64_t x = at / block % size; x != goal;) {
          const std::int64_t rising = (goal - x + size) % size;
          const bool up = torus.wrap[k] ? rising <= size - rising : goal > x;
          flows[{at, k, up ? 1 : -1}][hops] += 1;
          const std::int64_t next = (x + (up ? 1 : size - 1)) % size;
          at += (next - x) * block;
          x = next;
        }
        block *= size;
      }
    }
  }
  double slowest_s = 0;
  for (const auto& [link, by_hops] : flows) {
    double farther = 0;
    for (auto it = by_hops.rbegin(); it != by_hops.rend(); ++it) {
      farther += it->second;
      slowest_s = std::max(slowest_s, static_cast<double>(it->first) * torus.latency_s +
                                          bytes / static_cast<double>(n) * farther / torus.link_bytes_per_s);
    }
  }
  return slowest_s;
}

TEST(Torus, DirectAllToAllEqualsRoutingEveryMessage) {
  for (const bool wrap : {true, false}) {
    for (const auto& dims : {std::vector<std::int64_t>{5}, {8}, {3, 4}, {4, 4, 4}, {2, 3, 5}, {2, 2, 2, 3}}) {
      const Torus torus = torus_of(dims, wrap);
      const TorusPlace all = make_torus_place(torus, {0, {{1, torus.devices()}}, {}});
      for (const double bytes : {1e3, 1e6, 1e9}) {
        const double seconds =
            torus_algorithm_time(torus, all, Collective::all_to_all, bytes, Algorithm::direct)->seconds;
        EXPECT_NEAR(seconds, routed_all_to_all_s(torus, bytes), 1e-9 * seconds)
            << testing::PrintToString(dims) << wrap << " " << bytes;
      }
    }
  }
}

TEST(Torus, MessagesBetweenTwoDevices) {
  const Torus torus = torus_of({4, 4, 4});
  const auto send = [&](const GroupSpec& spec) {
    return torus_best_time(torus, make_torus_place(torus, spec), Collective::send_recv, 50e6).seconds;
  };
  EXPECT_NEAR(send({0, {{3, 2}}, {}}), 1e-6 + 1e-3, 1e-12);        // round the corner
  EXPECT_NEAR(send({0, {{42, 2}}, {}}), 6e-6 + 1e-3, 1e-12);       // (2, 2, 2)
  EXPECT_NEAR(send({0, {{2, 2}}, {{1, 2}}}), 2e-6 + 2e-3, 1e-12);  // two routes of two links overlap
}

TEST(Torus, Properties) {
  for (const auto& dims : {std::vector<std::int64_t>{4, 4, 8}, {6, 3}, {16}}) {
    const Torus torus = torus_of(dims);
    Torus faster = torus;
    faster.link_bytes_per_s *= 2;
    for (std::int64_t count = 1; count <= torus.devices(); ++count) {
      const TorusPlace place = make_torus_place(torus, {0, {{1, count}}, {}});
      for (std::size_t c = 0; c < kCollectives; ++c) {
        const auto collective = static_cast<Collective>(c);
        for (const double bytes : {0.0, 1e5, 1e9}) {
          const CollectiveTime best = torus_best_time(torus, place, collective, bytes);
          EXPECT_LE(torus_best_time(faster, place, collective, bytes).seconds, best.seconds * (1 + 1e-12));
          EXPECT_NEAR(best.seconds, best.latency_s + best.bandwidth_s, 1e-12);
          if (bytes == 0) {
            EXPECT_EQ(best.bandwidth_s, 0);
          }
        }
      }
      EXPECT_GE(torus_best_time(torus, place, Collective::all_reduce, 1e8).seconds,
                torus_best_time(torus, place, Collective::reduce_scatter, 1e8).seconds);
    }
  }
}

}  // namespace
}  // namespace nest::cluster
