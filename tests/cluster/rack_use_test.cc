// Racks with spares: which of them are used at which size, and what an exchange across them takes.
#include "cluster/rack_use.h"

#include <gmock/gmock.h>

#include "cluster/cluster.h"
#include "test_support/refusal.h"

namespace nest::cluster {
namespace {

using testing::HasSubstr;

Cluster racks(std::int64_t devices) { return find_cluster("gb200-nvl72", devices).value(); }

std::string rack_refusal(std::int64_t devices) {
  return test::refusal_of([&] { racks(devices); });
}

Cluster read_racks(const std::string& rack, const std::string& rest = "") {
  const std::string text = "device: gb200\nlevels:\n  - {name: rack, bandwidth: 900GB/s, latency: 1us, " + rack +
                           "}\n  - {name: hall, group: 4, bandwidth: 50GB/s, latency: 5us, rails: true}\n" + rest;
  return read_cluster(doc::parse_yaml("c.yaml", text), "c");
}

std::string racks_refusal(const std::string& rack, const std::string& rest = "") {
  return test::refusal_of([&] { read_racks(rack, rest); });
}

TEST(RackUse, TheLargerOfBothThatDivides) {
  struct Used {
    std::int64_t devices, unit, racks;
    const char* text;
  };
  for (const Used& c : {Used{256, 64, 4, "4 racks, 64 of 72 devices used in each"}, Used{144, 72, 2, ""},
                        Used{576, 72, 8, ""}, Used{512, 64, 8, "8 racks, 64 of 72 devices used in each"},
                        Used{64, 64, 1, "1 rack, 64 of 72 devices used"}, Used{72, 72, 1, ""},
                        Used{8, 8, 1, "1 rack, 8 of 72 devices used"}, Used{2, 2, 1, "1 rack, 2 of 72 devices used"},
                        Used{16384, 64, 256, "256 racks, 64 of 72 devices used in each"}}) {
    const Cluster cluster = racks(c.devices);
    EXPECT_EQ(cluster.devices, c.devices);
    EXPECT_EQ(cluster.levels[0].group, c.unit) << c.devices;
    EXPECT_EQ(summarise(cluster)[0].units, c.racks) << c.devices;
    EXPECT_EQ(use_text(cluster), c.text) << c.devices;
    EXPECT_EQ(devices_per_tray(cluster), 4);
  }
  EXPECT_EQ(find_cluster("gb200-nvl72").value().devices, 576);  // 72 of 72 unless asked
  EXPECT_EQ(racks(256).fabric.level_between(0, 63), 0U);
  EXPECT_EQ(racks(256).fabric.level_between(63, 64), 1U);
}

TEST(RackUse, GrowingAgainFindsTheLevelsThatASmallSizeDropped) {
  const Cluster small = racks(8);
  EXPECT_EQ(small.levels.size(), 1U);
  const Cluster grown = resized(small, 256);
  ASSERT_EQ(grown.levels.size(), 2U);
  EXPECT_EQ(grown.levels[0].group, 64);
  EXPECT_EQ(grown.levels[1].group, 4);
}

TEST(RackUse, RefusalsNameTheWaysOut) {
  EXPECT_THAT(rack_refusal(100),
              HasSubstr("racks hold 72 devices, of which 64 or 72 are used; give a multiple of 64 or "
                        "of 72 (the nearest are 72 and 128), or less than one rack holds"));
  EXPECT_THAT(rack_refusal(70), HasSubstr("trays of the rack have 4 devices"));
  EXPECT_THAT(racks_refusal("group: 72, use: 73"), HasSubstr("levels[0].use: 73 is out of range"));
  EXPECT_THAT(racks_refusal("counts: [8, 8, 8, 6], use: 6"), HasSubstr("levels[0].use: needs `group`"));
  EXPECT_THAT(racks_refusal("group: 72, use: 64, tray: 5"), HasSubstr("levels[0].tray: units of 64"));
  EXPECT_THAT(racks_refusal("group: 72, use: 64", "devices: 100\n"), HasSubstr("devices: 100 devices: racks hold 72"));
  EXPECT_THAT(racks_refusal("group: 8, planes: 0"), HasSubstr("levels[0].planes: 0 is out of range"));
  EXPECT_THAT(racks_refusal("group: 8, use: 4", "node_names: [a, b]\n"), HasSubstr("2 names for 4 nodes"));
  EXPECT_THAT(racks_refusal("group: 8, use: 4, tray: 2", "node_names: [a, b]\n"), HasSubstr("2 names for 8 nodes"));
  EXPECT_THAT(test::refusal_of([] {
                read_cluster(doc::parse_yaml("c.yaml",
                                             "device: h100\nlevels:\n  - {group: 8, use: 4, bandwidth: 1}\n"
                                             "  - {group: 4, use: 2, bandwidth: 1}\n"),
                             "c");
              }),
              HasSubstr("levels[1].use: one level has it already"));
  EXPECT_THAT(test::refusal_of([] {
                const Cluster alone = read_cluster(
                    doc::parse_yaml("c.yaml", "device: h100\nlevels: [{group: 8, use: 4, bandwidth: 1}]\n"), "c");
                resized(alone, 16);
              }),
              HasSubstr("no level that joins several"));
}

TEST(RackUse, FilesUseWhatTheySay) {
  EXPECT_EQ(read_racks("group: 72, use: 64").devices, 256);
  EXPECT_EQ(read_racks("group: 72, use: 64", "devices: 288\n").levels[0].group, 72);
  EXPECT_EQ(read_racks("group: 72, use: 64", "devices: 128\n").levels[0].group, 64);
}

// Twice as many planes, twice the capacity.
TEST(RackUse, PlanesAdd) {
  const Cluster cluster = find_cluster("gb300-nvl72", 128).value();
  EXPECT_EQ(cluster.levels[1].planes, 2);
  EXPECT_DOUBLE_EQ(cluster.fabric.capacity[1], 2 * 50e9 * 0.647);
  EXPECT_EQ(summarise(cluster)[1].planes, 2);
}

// One gigabyte from each of 128 members of an all-to-all over two racks of 64: 64 of the 128 parts leave through the
// member's own port of 50 GB/s, which takes longer than the 63 that stay take through its NVLinks of 900 GB/s.
TEST(RackUse, AcrossRacksByHand) {
  const Cluster cluster = read_racks("group: 72, use: 64", "devices: 128\n");
  const GroupLayout both = place_group(cluster, {0, {{1, 128}}, {}});
  const CollectiveTime time =
      algorithm_time(cluster.fabric, both, Collective::all_to_all, 1e9, Algorithm::direct).value();
  EXPECT_NEAR(time.seconds, 5e-6 + 1e9 / 128 * 64 / 50e9, 1e-12);
  // The same members in one rack of 128 would need 127 parts of NVLink.
  const GroupLayout one = place_group(cluster, {0, {{1, 64}}, {{64, 2}}});
  const CollectiveTime inside =
      algorithm_time(cluster.fabric, one, Collective::all_to_all, 1e9, Algorithm::direct).value();
  EXPECT_NEAR(inside.seconds, 1e-6 + 1e9 / 64 * 63 / 900e9, 1e-12);
  // A ring over both racks: two of its 128 hops leave a rack, and each of the 127 steps waits for them.
  const CollectiveTime ring =
      algorithm_time(cluster.fabric, both, Collective::all_gather, 1e9, Algorithm::ring).value();
  EXPECT_NEAR(ring.seconds, 127 * (5e-6 + 1e9 / 128 / 50e9), 1e-9);
}

}  // namespace
}  // namespace nest::cluster
