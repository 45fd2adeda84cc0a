#include "cluster/link_graph.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "cluster/cluster.h"
#include "test_support/refusal.h"

namespace nest::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// `nodes` nodes of `per_node` devices on one switch each, joined by a core switch.
LinkGraph two_tiers(std::size_t nodes, std::size_t per_node) {
  LinkGraph graph;
  graph.devices = nodes * per_node;
  graph.switches = nodes + 1;
  const std::size_t core = graph.devices + nodes;
  for (std::size_t n = 0; n < nodes; ++n) {
    for (std::size_t d = 0; d < per_node; ++d)
      graph.links.push_back({n * per_node + d, graph.devices + n, 100e9, 1e-6});
    graph.links.push_back({graph.devices + n, core, 25e9, 2e-6});
  }
  return graph;
}

TEST(LinkGraph, TreeGivesBackItsLevels) {
  const DerivedLevels derived = derive_levels(two_tiers(3, 4));
  ASSERT_EQ(derived.levels.size(), 2U);
  EXPECT_EQ(derived.levels[0].group, 4);
  EXPECT_DOUBLE_EQ(derived.levels[0].bandwidth_bytes_per_s, 100e9);
  EXPECT_DOUBLE_EQ(derived.levels[0].latency_s, 2e-6);
  EXPECT_EQ(derived.levels[1].group, 3);
  EXPECT_DOUBLE_EQ(derived.levels[1].bandwidth_bytes_per_s, 25e9);
  EXPECT_DOUBLE_EQ(derived.levels[1].latency_s, 6e-6);
  EXPECT_FALSE(derived.levels[1].rails);
}

TEST(LinkGraph, ParallelUplinksAddUp) {
  LinkGraph graph = two_tiers(2, 2);
  graph.switches += 1;  // a second core switch
  const std::size_t second = graph.devices + 3;
  graph.links.push_back({graph.devices, second, 25e9, 2e-6});
  graph.links.push_back({graph.devices + 1, second, 25e9, 2e-6});
  EXPECT_DOUBLE_EQ(derive_levels(graph).levels[1].bandwidth_bytes_per_s, 50e9);
}

TEST(LinkGraph, OnePortPerDeviceIsRails) {
  LinkGraph graph;
  graph.devices = 4;   // two nodes of two
  graph.switches = 3;  // two node switches and a leaf
  for (std::size_t d = 0; d < 4; ++d) {
    graph.links.push_back({d, 4 + d / 2, 400e9, 1e-6});
    graph.links.push_back({d, 6, 50e9, 3e-6});
  }
  const DerivedLevels derived = derive_levels(graph);
  ASSERT_EQ(derived.levels.size(), 2U);
  // Inside a node both ways count: 400 GB/s by the node switch and 50 GB/s by the leaf.
  EXPECT_DOUBLE_EQ(derived.levels[0].bandwidth_bytes_per_s, 450e9);
  EXPECT_TRUE(derived.levels[1].rails);
  EXPECT_DOUBLE_EQ(derived.levels[1].bandwidth_bytes_per_s, 50e9);
}

TEST(LinkGraph, ListedInAnyOrder) {
  // Devices 0 and 2 share a switch, 1 and 3 the other: units become contiguous.
  LinkGraph graph;
  graph.devices = 4;
  graph.switches = 3;
  for (std::size_t d = 0; d < 4; ++d) graph.links.push_back({d, 4 + d % 2, 100e9, 1e-6});
  graph.links.push_back({4, 6, 10e9, 1e-6});
  graph.links.push_back({5, 6, 10e9, 1e-6});
  EXPECT_THAT(derive_levels(graph).order, ElementsAre(0, 2, 1, 3));
}

TEST(LinkGraph, UnevenUnitsAreCounted) {
  LinkGraph graph = two_tiers(2, 3);
  graph.devices = 5;  // the last device becomes a switch that leads nowhere
  graph.switches += 1;
  const DerivedLevels derived = derive_levels(graph);
  EXPECT_EQ(derived.levels[0].group, 3);
  EXPECT_THAT(derived.levels[0].counts, ElementsAre(3, 2));
}

TEST(LinkGraph, RingOfDirectLinksForwards) {
  LinkGraph graph;
  graph.devices = 4;
  for (std::size_t d = 0; d < 4; ++d) graph.links.push_back({d, (d + 1) % 4, 25e9, 1e-6});
  EXPECT_EQ(first_disconnected(graph), 4U);
  const DerivedLevels derived = derive_levels(graph);
  ASSERT_EQ(derived.levels.size(), 1U);
  EXPECT_DOUBLE_EQ(derived.levels[0].bandwidth_bytes_per_s, 50e9);
}

std::string refusal(const std::string& graph) {
  return test::refusal_of([&] { read_cluster(doc::parse_yaml("g.yaml", "device: h100\ngraph:\n" + graph), "g"); });
}

TEST(LinkGraph, YamlAndItsRefusals) {
  const std::string devices = "  devices: [a, b]\n  switches: [s]\n";
  const std::string first = "  links:\n    - {between: [a, s], bandwidth: 50GB/s, latency: 1us}\n";
  EXPECT_EQ(refusal(devices + first + "    - {between: [b, s], bandwidth: 50GB/s, latency: 1us}\n"), "accepted");
  EXPECT_THAT(refusal(devices + first), HasSubstr("no path leads from `a` to `b`"));
  EXPECT_THAT(refusal(devices + first + "    - {between: [b, t], bandwidth: 1, latency: 1us}\n"),
              HasSubstr("graph.links[1].between: `t` is neither a device nor a switch"));
  EXPECT_THAT(refusal(devices + first + "    - {between: [b, b], bandwidth: 1, latency: 1us}\n"),
              HasSubstr("linked to itself"));
  EXPECT_THAT(refusal(devices + first + "    - {between: [b, s], bandwidth: 0, latency: 1us}\n"),
              HasSubstr("no bandwidth"));
  EXPECT_THAT(refusal(devices + first + "    - {between: [b, s], bandwidth: 1}\n"), HasSubstr("links[1].latency"));
  EXPECT_THAT(refusal("  devices: [a, a]\n  links: []\n"), HasSubstr("`a` is named twice"));
  EXPECT_THAT(refusal("  links: []\n"), HasSubstr("expected the names of the devices"));
}

}  // namespace
}  // namespace nest::cluster
