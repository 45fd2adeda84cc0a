#include "cluster/cluster.h"

#include <gmock/gmock.h>

#include <random>

#include "base/error.h"
#include "test_support/refusal.h"

namespace nest::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Cluster read(const std::string& text) { return read_cluster(doc::parse_yaml("c.yaml", text), "c"); }

std::string refusal(const std::string& text) {
  return test::refusal_of([&] { read(text); });
}

std::string resize_refusal(std::string_view name, std::int64_t devices) {
  return test::refusal_of([&] { find_cluster(name, devices); });
}

constexpr const char* kTwoLevels = R"(
device: h100
levels:
  - {name: node, group: 8, bandwidth: 450GB/s, latency: 3us}
  - {name: leaf, group: 4, bandwidth: 400Gbps, latency: 8us, oversubscription: 2}
)";

TEST(Cluster, ReadsLevels) {
  const Cluster cluster = read(kTwoLevels);
  EXPECT_EQ(cluster.devices, 32);
  EXPECT_EQ(cluster.device.name, "h100");
  EXPECT_EQ(cluster.fabric.unit[1], 8);
  EXPECT_DOUBLE_EQ(cluster.fabric.capacity[0], 450e9);
  EXPECT_DOUBLE_EQ(cluster.fabric.capacity[1], 25e9);  // 50 GB/s over 2
  EXPECT_EQ(cluster.fabric.level_between(0, 7), 0U);
  EXPECT_EQ(cluster.fabric.level_between(7, 8), 1U);
}

TEST(Cluster, LevelsThatSayNeitherLatencyNorEfficiencyHaveWhatWasMeasured) {
  const Cluster cluster = read(R"(
device: h100
levels:
  - {name: node, group: 8, bandwidth: 450GB/s}
  - {name: leaf, group: 4, bandwidth: 50GB/s, rails: true}
  - {name: spine, group: 4, bandwidth: 1TB/s, latency: 9us}
)");
  EXPECT_DOUBLE_EQ(cluster.fabric.capacity[0], 450e9 * 0.788);
  EXPECT_DOUBLE_EQ(cluster.fabric.latency_s[0], 3.2e-6);
  EXPECT_DOUBLE_EQ(cluster.fabric.capacity[1], 50e9 * 0.647);
  EXPECT_DOUBLE_EQ(cluster.fabric.latency_s[1], 8e-6);
  EXPECT_DOUBLE_EQ(cluster.fabric.capacity[2], 1e12);  // one of both is given: the other is as it always was
  EXPECT_EQ(assumed_links(cluster), "node: 79 % of 450 GB/s after 3.20 us, leaf: 65 % of 50.0 GB/s after 8.00 us");
  EXPECT_EQ(assumed_links(read(kTwoLevels)), "");
  // A farther switch is never closer.
  const Cluster slow = read(
      "device: h100\nlevels:\n  - {group: 2, bandwidth: 1GB/s, latency: 20us}\n  - {group: 2, bandwidth: 1GB/s}\n");
  EXPECT_DOUBLE_EQ(slow.fabric.latency_s[1], 20e-6);
}

TEST(Cluster, OversubscriptionAloneGivesTheUplinks) {
  const auto text = [](const std::string& leaf, const std::string& spine) {
    return "device: h100\nlevels:\n  - {name: node, group: 8, bandwidth: 450GB/s, latency: 1us}\n  - {name: leaf, "
           "group: 16, " +
           leaf + ", latency: 2us}\n  - {name: spine, group: 4, " + spine + ", latency: 3us}\n";
  };
  // 16 nodes with 8 ports of 50 GB/s, half of it.
  EXPECT_DOUBLE_EQ(read(text("bandwidth: 50GB/s, rails: true", "oversubscription: 2")).fabric.capacity[2], 3.2e12);
  // 16 nodes with one link of 100 GB/s each, a quarter of it; and of a leaf that is oversubscribed itself.
  EXPECT_DOUBLE_EQ(read(text("bandwidth: 100GB/s", "oversubscription: 4")).fabric.capacity[2], 0.4e12);
  EXPECT_DOUBLE_EQ(read(text("bandwidth: 100GB/s, oversubscription: 2", "oversubscription: 4")).fabric.capacity[2],
                   0.2e12);
  EXPECT_THAT(refusal(text("oversubscription: 2", "oversubscription: 2")), HasSubstr("levels[1].bandwidth: missing"));
  EXPECT_THAT(refusal(text("bandwidth: 50GB/s, rail_switches: true", "oversubscription: 2")),
              HasSubstr("levels[2].bandwidth: missing; uplinks of rail switches"));
}

TEST(Cluster, LinksAreNoFasterThanTheDevices) {
  const auto refused = [](const std::string& bandwidth) {
    return test::refusal_of([&] {
      refuse_fast_links(
          read("device: h100\nlevels: [{name: node, group: 8, bandwidth: " + bandwidth + ", latency: 1us}]\n"));
    });
  };
  EXPECT_EQ(refused("450GB/s"), "accepted");
  EXPECT_EQ(refused("900GB/s"),
            "c.yaml: levels[0].bandwidth: 900 GB/s is more than the 450 GB/s that the links of h100 carry in one "
            "direction; data sheets add up both directions: write 450GB/s");
  EXPECT_THAT(refused("2TB/s"), testing::EndsWith("in one direction"));
}

TEST(Cluster, EveryPresetReadsAndPricesACollective) {
  EXPECT_GE(cluster_presets().size(), 12U);
  for (const Cluster& cluster : cluster_presets()) {
    EXPECT_FALSE(cluster.source.empty()) << cluster.name;
    const GroupLayout all = place_group(cluster, {0, {{1, cluster.devices}}, {}});
    const CollectiveTime time = collective_time(cluster, all, Collective::all_reduce, 1e9);
    EXPECT_GT(time.seconds, 1e-3) << cluster.name;
    EXPECT_LT(time.seconds, 10) << cluster.name;
    EXPECT_FALSE(summarise(cluster).empty()) << cluster.name;
  }
}

TEST(Cluster, PresetsMatchTheirDescription) {
  const Cluster tpu = find_cluster("tpuv4-fat-tree", 1024).value();
  EXPECT_THAT(std::vector<std::int64_t>(tpu.fabric.unit.begin(), tpu.fabric.unit.begin() + 4),
              ElementsAre(1, 8, 32, 1024));
  EXPECT_DOUBLE_EQ(tpu.fabric.capacity[1], 100e9);
  EXPECT_DOUBLE_EQ(tpu.fabric.capacity[2], 400e9);
  const Cluster spine = find_cluster("h100-spine-leaf", 64).value();
  EXPECT_DOUBLE_EQ(spine.fabric.capacity[1], 12.5e9);
  EXPECT_EQ(find_cluster("v100-cluster", 8).value().levels.back().group, 4);
  EXPECT_EQ(find_cluster("DGX-H100-SuperPOD").value().name, "dgx-h100");
  EXPECT_FALSE(find_cluster("no-such-cluster"));
  const Cluster roce = find_cluster("h100-roce", 24576).value();
  EXPECT_DOUBLE_EQ(roce.fabric.capacity[2], 3072 * 50e9 / 7 * 0.647);
  for (const char* name : {"p5", "p5en", "a3-high", "a3-mega", "ndv5", "mi325x-cluster"})
    EXPECT_TRUE(find_cluster(name)) << name;
}

TEST(Cluster, ResizingDropsLevelsThatAreNotNeeded) {
  const Cluster node = find_cluster("dgx-h100", 8).value();
  EXPECT_EQ(node.levels.size(), 1U);
  const Cluster two = find_cluster("dgx-h100", 16).value();
  EXPECT_EQ(two.levels.size(), 2U);
  EXPECT_EQ(two.levels[1].group, 2);
  // Units of 256: the second one holds a single node.
  const Cluster uneven = find_cluster("dgx-h100", 264).value();
  EXPECT_EQ(uneven.devices, 264);
  EXPECT_EQ(uneven.levels[2].group, 2);
  EXPECT_EQ(uneven.fabric.unit_of(2, 255), 0);
  EXPECT_EQ(uneven.fabric.unit_of(2, 256), 1);
  EXPECT_EQ(find_cluster("dgx-h100", 4).value().levels[0].group, 4);
  EXPECT_EQ(find_cluster("dgx-h100", 131072).value().levels[2].group, 512);
}

TEST(Cluster, ResizingRefusesWhatDoesNotDivide) {
  EXPECT_THAT(resize_refusal("dgx-h100", 12), HasSubstr("nodes have 8 devices"));
  EXPECT_THAT(resize_refusal("dgx-h100", 0), HasSubstr("allowed are 1 … 131,072"));
  EXPECT_THAT(resize_refusal("v100-cluster", 32), HasSubstr("allowed are 2 … 16"));
  EXPECT_THAT(resize_refusal("tpuv4-fat-tree", 2048), HasSubstr("allowed are 8 … 1,024"));
  EXPECT_THAT(resize_refusal("tpuv4-torus", 127), HasSubstr("no box of similar sides"));
  EXPECT_THAT(resize_refusal("gb200-nvl64", 100), HasSubstr("nodes have 64 devices"));
}

TEST(Cluster, TorusSlicesAreCubic) {
  EXPECT_THAT(find_cluster("tpuv4-torus", 512).value().torus->dims, ElementsAre(8, 8, 8));
  EXPECT_THAT(find_cluster("tpuv4-torus", 128).value().torus->dims, ElementsAre(4, 4, 8));
  EXPECT_THAT(find_cluster("tpuv5p-torus", 8960).value().torus->dims, ElementsAre(16, 20, 28));
  const Cluster small = find_cluster("tpuv4-torus", 8).value();
  EXPECT_THAT(small.torus->dims, ElementsAre(2, 2, 2));
  EXPECT_THAT(small.torus->wrap, ElementsAre(false, false, false));
}

TEST(Cluster, BadFilesAreRefusedWithFileKeyAndReason) {
  EXPECT_EQ(refusal(kTwoLevels), "accepted");
  const auto level = [](const std::string& rest) {
    return "device: h100\nlevels:\n  - {group: 8, bandwidth: 1GB/s}\n  - {" + rest + "}\n";
  };
  EXPECT_THAT(refusal(level("group: 4, bandwidth: 0GB/s")),
              HasSubstr("c.yaml: levels[1].bandwidth: a link of no bandwidth"));
  EXPECT_THAT(refusal(level("group: 4, bandwidth: -3")), HasSubstr("levels[1].bandwidth: -3 is negative"));
  EXPECT_THAT(refusal(level("group: 0, bandwidth: 1GB/s")), HasSubstr("levels[1].group: 0 is out of range"));
  EXPECT_THAT(refusal(level("group: 4, bandwidth: 1GB/s, latencey: 3us")),
              HasSubstr("levels[1].latencey: unknown key; did you mean `latency`?"));
  EXPECT_THAT(refusal(level("bandwidth: 1GB/s")), HasSubstr("either `group`"));
  EXPECT_THAT(refusal(level("group: 4000000, bandwidth: 1GB/s")), HasSubstr("more than 16,777,216 devices"));
  EXPECT_THAT(refusal(level("group: 4, bandwidth: 1GB/s, efficiency: 2")), HasSubstr("efficiency: 2 is out of range"));
  EXPECT_THAT(refusal(level("counts: [4, 3], bandwidth: 1GB/s")),
              HasSubstr("2 switches are listed, but the levels outside have 1"));
  EXPECT_THAT(refusal(level("group: 4, bandwidth: 1GB/s, rail_switches: true")), HasSubstr("needs a level above"));
  EXPECT_THAT(refusal("device: h100\nlevels: []\n"), HasSubstr("levels: an empty list"));
  EXPECT_THAT(refusal("device: h100\n"), HasSubstr("exactly one of `levels`, `torus` and `graph`"));
  EXPECT_THAT(refusal("device: h1000\nlevels: [{group: 8, bandwidth: 1}]\n"), HasSubstr("did you mean `h100`"));
  EXPECT_THAT(refusal("levels: [{group: 8, bandwidth: 1}]\n"), HasSubstr("device: missing"));
  EXPECT_THAT(refusal("device: h100\ndevices: 9\nlevels: [{group: 8, bandwidth: 1}]\n"),
              HasSubstr("9 devices, but the levels hold 8"));
  EXPECT_THAT(refusal("device: h100\nlevels:\n  - {group: 2, bandwidth: 1, latency: 5us}\n  - {group: 2, bandwidth: 1, "
                      "latency: 1us}\n"),
              HasSubstr("a farther switch cannot be closer"));
  EXPECT_THAT(refusal("device: h100\nlevels: [{group: 8, bandwidth: 1, rails: true}]\n"), HasSubstr("levels[0].rails"));
  EXPECT_THAT(refusal("device: h100\nalgorithms: [rings]\nlevels: [{group: 8, bandwidth: 1}]\n"),
              HasSubstr("did you mean `ring`"));
  EXPECT_THAT(refusal("device: h100\nnode_names: [a]\nlevels: [{group: 8, bandwidth: 1}, {group: 2, bandwidth: 1}]\n"),
              HasSubstr("1 names for 2 nodes"));
  EXPECT_THAT(refusal("device: h100\ntorus: {dims: [100000, 100000], bandwidth: 1}\n"),
              HasSubstr("torus.dims: more than"));
  EXPECT_THAT(refusal("device: h100\ntorus: {dims: [4, 4], wrap: [true], bandwidth: 1}\n"), HasSubstr("torus.wrap"));
  EXPECT_THAT(refusal("[1, 2]"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal("a: &x [*x]"), HasSubstr("anchors are not supported"));
}

// Whatever is done to a file, it is read or refused with a message; never anything else.
TEST(Cluster, MutatedFilesAreReadOrRefused) {
  const std::string graph =
      "device: h100\ngraph:\n  devices: [a, b, c]\n  switches: [s, t]\n  links:\n    - {between: [a, s], bandwidth: "
      "1GB/s, latency: 1us}\n"
      "    - {between: [b, s], bandwidth: 1GB/s, latency: 1us}\n    - {between: [s, t], bandwidth: 1GB/s, latency: "
      "1us}\n"
      "    - {between: [c, t], bandwidth: 2GB/s, latency: 1us}\n";
  const std::string torus =
      "device: tpuv4\ntorus: {dims: [4, 4, 4], wrap: [true, true, false], bandwidth: 45GB/s, latency: 1us}\n";
  const std::vector<std::string> pieces = {
      "-1",     "0", "1e300", "[", "]", "{", "}",  ":",  "\n", "99999999999999999999", "null", "~", "true",
      "levels", " ", "\"",    "x", "2", "3", "16", "us", "G"};
  std::mt19937_64 random(11);
  const auto pick = [&](std::size_t size) { return std::uniform_int_distribution<std::size_t>(0, size - 1)(random); };
  int read_count = 0;
  for (const std::string& good : {std::string(kTwoLevels), graph, torus}) {
    for (int round = 0; round < 1500; ++round) {
      std::string text = good;
      for (std::size_t change = 0; change <= pick(2); ++change) {
        text.replace(pick(text.size()), pick(3), pieces[pick(pieces.size())]);
      }
      try {
        const Cluster cluster = read(text);
        summarise(cluster);
        const GroupLayout all = place_group(cluster, {0, {{1, cluster.devices}}, {}});
        EXPECT_GE(collective_time(cluster, all, Collective::all_reduce, 1e6).seconds, 0) << text;
        ++read_count;
      } catch (const InputError&) {}
    }
  }
  EXPECT_GT(read_count, 30);  // enough to exercise what follows the reading
}

TEST(Cluster, UnevenRacks) {
  const Cluster cluster = read(R"(
device: h100
levels:
  - {name: node, group: 2, bandwidth: 100GB/s, latency: 1us}
  - {name: rack, counts: [2, 1, 3], bandwidth: 10GB/s, latency: 5us}
  - {name: core, group: 3, bandwidth: 20GB/s, latency: 9us}
)");
  EXPECT_EQ(cluster.devices, 12);
  EXPECT_FALSE(cluster.fabric.regular);
  EXPECT_EQ(cluster.fabric.unit_of(2, 3), 0);
  EXPECT_EQ(cluster.fabric.unit_of(2, 4), 1);
  EXPECT_EQ(cluster.fabric.unit_of(2, 6), 2);
  EXPECT_EQ(cluster.fabric.level_between(4, 5), 0U);
  EXPECT_EQ(cluster.fabric.level_between(4, 6), 2U);
  EXPECT_EQ(cluster.fabric.level_between(6, 11), 1U);
  // Six nodes, one device of each: racks hold 2, 1 and 3 members.
  const GroupLayout layout = place_group(cluster, {0, {{2, 6}}, {{1, 2}}});
  EXPECT_EQ(layout.top, 2U);
  EXPECT_EQ(layout.inside[2], 3);
  EXPECT_EQ(layout.fewest[2], 1);
  EXPECT_EQ(layout.sharing[1][2], 2);
  EXPECT_GT(collective_time(cluster, layout, Collective::all_reduce, 1e6).seconds, 0);
}

TEST(Cluster, SummaryOfARailCluster) {
  const auto levels = summarise(find_cluster("dgx-h100").value());
  ASSERT_EQ(levels.size(), 3U);
  EXPECT_EQ(levels[0].name, "node");
  EXPECT_EQ(levels[0].units, 128);
  EXPECT_EQ(levels[0].devices_per_unit, 8);
  EXPECT_NEAR(levels[0].device_bytes_per_s, 354.6e9, 1e6);
  EXPECT_NEAR(levels[1].device_bytes_per_s, 32.35e9, 1e6);  // its own port: 50 GB/s · 0.647
  EXPECT_TRUE(levels[1].rails);
  EXPECT_NEAR(levels[2].device_bytes_per_s, 32.35e9, 1e6);  // 12.8 TB/s · 0.647 over 256
  EXPECT_NEAR(levels[2].oversubscription, 1, 1e-9);
}

TEST(Cluster, SummaryOfASharedUplink) {
  const auto levels = summarise(find_cluster("h100-spine-leaf", 64).value());
  ASSERT_EQ(levels.size(), 3U);
  EXPECT_NEAR(levels[1].device_bytes_per_s, 12.5e9 / 8, 1);
  EXPECT_NEAR(levels[2].device_bytes_per_s, 50e9 / 32, 1);
  EXPECT_EQ(levels[1].units, 2);
}

}  // namespace
}  // namespace nest::cluster
