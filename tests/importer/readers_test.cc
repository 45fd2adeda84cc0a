// The readers of the single formats: own samples by hand, foreign samples against what other readers found in them.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "doc/reader.h"
#include "importer/hostlist.h"
#include "importer/ibnetdiscover.h"
#include "importer/import_cluster.h"
#include "importer/nccl_topology.h"
#include "importer/nvidia_smi.h"
#include "importer/slurm.h"
#include "importer/xml.h"
#include "test_support/data.h"
#include "test_support/refusal.h"
#include "uneven_topology.h"

namespace nest::importer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

doc::SourceText sample(const std::string& name) {
  return {name, test::read_file(test::source_dir() / "tests" / "importer" / "samples" / name)};
}

doc::SourceText foreign(const std::string& name) {
  return {name, test::read_file(test::data_dir() / "../formats/samples/import" / name)};
}

doc::SourceText text(const std::string& content) { return {"given", content}; }

template <class Read>
std::string refusal(Read read) {
  return test::refusal_of([&] { read(); });
}

std::string conf_refusal(const std::string& content) {
  return refusal([&] { read_slurm_conf(text(content), {}); });
}

std::vector<std::vector<std::int64_t>> children(const ImportedFabric& fabric) {
  std::vector<std::vector<std::int64_t>> all;
  for (const FabricLevel& level : fabric.levels) all.push_back(level.children);
  return all;
}

// --- Slurm

TEST(Slurm, UnevenTree) {
  const ImportedFabric fabric = read_slurm_conf(sample("racks.conf"), {});
  EXPECT_THAT(fabric.nodes, ElementsAre("gpu01", "gpu02", "gpu03", "gpu04", "gpu05", "gpu06", "gpu07", "old8", "old9"));
  ASSERT_EQ(fabric.levels.size(), 3U);
  EXPECT_EQ(fabric.levels[0].name, "leaf");
  EXPECT_THAT(fabric.levels[0].children, ElementsAre(4, 3, 2));
  EXPECT_THAT(fabric.levels[1].children, ElementsAre(2, 1));  // rack3 hangs directly below the hall
  EXPECT_THAT(fabric.levels[2].children, ElementsAre(2));
}

TEST(Slurm, PartsOfATree) {
  EXPECT_THAT(read_slurm_conf(sample("racks.conf"), {"rack2", {}}).nodes, ElementsAre("gpu05", "gpu06", "gpu07"));
  const ImportedFabric row = read_slurm_conf(sample("racks.conf"), {"row1", {"gpu03"}});
  ASSERT_EQ(row.levels.size(), 2U);
  EXPECT_THAT(row.levels[0].children, ElementsAre(3, 3));
  EXPECT_THAT(refusal([] { read_slurm_conf(sample("racks.conf"), {"rakc2", {}}); }), HasSubstr("did you mean `rack2`"));
  EXPECT_THAT(refusal([] { read_slurm_conf(sample("racks.conf"), {"", {"gpu99"}}); }), HasSubstr("no host `gpu99`"));
}

TEST(Slurm, SeveralParentsMakeOneUnit) {
  // Four spines that each list all leaves, in an order that crosses.
  const ImportedFabric fabric = read_slurm_conf(text("SwitchName=s1 Switches=l[1-3]\nSwitchName=s2 Switches=l[1-3]\n"
                                                     "SwitchName=l2 Nodes=c[1-2]\nSwitchName=l1 Nodes=a[1-3]\n"
                                                     "SwitchName=l3 Nodes=b1\n"),
                                                {});
  ASSERT_EQ(fabric.levels.size(), 2U);
  EXPECT_THAT(fabric.levels[0].children, ElementsAre(2, 3, 1));
  EXPECT_THAT(fabric.levels[1].children, ElementsAre(3));
  EXPECT_THAT(fabric.nodes, ElementsAre("c1", "c2", "a1", "a2", "a3", "b1"));
}

TEST(Slurm, HostsBelowSeveralLeavesAreJoined) {
  const ImportedFabric fabric =
      read_slurm_conf(text("SwitchName=r1 Nodes=n[1-4]\nSwitchName=r2 Nodes=n[1-4]\nSwitchName=r3 Nodes=n[5-8]\n"
                           "SwitchName=top Switches=r[1-3]\n"),
                      {});
  EXPECT_THAT(children(fabric), ElementsAre(ElementsAre(4, 4), ElementsAre(2)));
  ASSERT_EQ(fabric.notes.size(), 1U);
  EXPECT_THAT(fabric.notes[0], HasSubstr("4 hosts are below more than one leaf switch"));
}

TEST(Slurm, WhatScontrolPrints) {
  const ImportedFabric fabric = read_slurm_conf(
      text("SwitchName=l1 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=l2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
           "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=l[1-2]\n"),
      {});
  EXPECT_THAT(children(fabric), ElementsAre(ElementsAre(2, 2), ElementsAre(2)));
}

TEST(Slurm, ContinuedLinesQuotesAndComments) {
  const ImportedFabric fabric =
      read_slurm_conf(text("\xEF\xBB\xBF# c\r\nSwitchName=\"l1\" \\\n  Nodes=\"n[1-2] n7\"\r\n\n  \n"), {});
  EXPECT_THAT(fabric.nodes, ElementsAre("n1", "n2", "n7"));
}

TEST(Slurm, Blocks) {
  const ImportedFabric fabric = read_slurm_conf(sample("blocks.conf"), {});
  ASSERT_EQ(fabric.levels.size(), 3U);
  EXPECT_EQ(fabric.levels[0].name, "block");
  EXPECT_THAT(fabric.levels[0].children, ElementsAre(4, 4, 4, 3));
  EXPECT_EQ(fabric.levels[1].name, "block2");
  EXPECT_TRUE(fabric.levels[1].only_if_asked);
  EXPECT_THAT(fabric.levels[1].children, ElementsAre(2, 2));
  EXPECT_EQ(fabric.levels[2].name, "cluster");
  EXPECT_FALSE(fabric.levels[2].only_if_asked);
  EXPECT_THAT(fabric.levels[2].children, ElementsAre(2));
  EXPECT_THAT(children(read_slurm_conf(sample("blocks.conf"), {"b4", {}})), ElementsAre(ElementsAre(3)));
}

TEST(Slurm, Yaml) {
  EXPECT_THAT(children(read_slurm_yaml(sample("topologies.yaml"), {})),
              ElementsAre(ElementsAre(3, 2, 3), ElementsAre(3)));
  EXPECT_THAT(children(read_slurm_yaml(sample("topologies.yaml"), {"racks", {}})),
              ElementsAre(ElementsAre(3, 3), ElementsAre(2)));
  EXPECT_THAT(read_slurm_yaml(sample("topologies.yaml"), {"tor2", {}}).nodes, ElementsAre("w4", "w5"));
  EXPECT_THAT(refusal([] { read_slurm_yaml(text("a: 1\n"), {}); }), HasSubstr("expected a list of topologies"));
  EXPECT_THAT(refusal([] { read_slurm_yaml(text("- topology: x\n  flat: true\n"), {}); }),
              HasSubstr("nothing to import"));
  EXPECT_THAT(
      refusal([] { read_slurm_yaml(text("- topology: x\n  tree: {switches: [{switch: a, nodes: 'n[1-'}]}\n"), {}); }),
      HasSubstr("never closed"));
  EXPECT_THAT(
      refusal([] { read_slurm_yaml(text("- topology: x\n  tree: {switches: [{switch: a, node: n1}]}\n"), {}); }),
      HasSubstr("nodes"));
}

TEST(Slurm, RefusesWithTheLine) {
  EXPECT_THAT(conf_refusal("SwitchName=a Nodes=n1\nSwitchName=b Nodez=n2\n"), HasSubstr("given:2: `Nodez`"));
  EXPECT_THAT(conf_refusal("SwitchName=a Nodes=n[1-\n"), HasSubstr("given:1: host list `n[1-`"));
  EXPECT_THAT(conf_refusal("SwitchName=a Nodes=n1\n\nSwitchName=a Nodes=n2\n"),
              HasSubstr("given:3: `a` is defined twice"));
  EXPECT_THAT(conf_refusal("SwitchName=a Nodes=n1 Switches=b\n"), HasSubstr("given:1: has both"));
  EXPECT_THAT(conf_refusal("SwitchName=a\n"), HasSubstr("given:1: has neither"));
  EXPECT_THAT(conf_refusal("SwitchName=a Switches=b\n"), HasSubstr("given:1: switch `b` is defined nowhere"));
  EXPECT_THAT(conf_refusal("SwitchName=a Switches=b\nSwitchName=b Switches=a\n"), HasSubstr("above or beside itself"));
  EXPECT_THAT(conf_refusal("SwitchName=a Nodes=n1,n1\n"), HasSubstr("host `n1` is listed twice"));
  EXPECT_THAT(conf_refusal("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n"), HasSubstr("no switch joins all hosts"));
  EXPECT_THAT(conf_refusal("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n"), HasSubstr("one kind of topology"));
  EXPECT_THAT(conf_refusal("BlockName=b Nodes=n[1-4]\nBlockSizes=4,12\n"), HasSubstr("given:2: block size 12"));
  EXPECT_THAT(conf_refusal("BlockSizes=4\n"), HasSubstr("no SwitchName"));
  EXPECT_THAT(conf_refusal("include other.conf\n"), HasSubstr("includes are not followed"));
  EXPECT_THAT(conf_refusal("SwitchName=a Nodes=n1 LinkSpeed=fast\n"), HasSubstr("given:1: LinkSpeed"));
  EXPECT_THAT(conf_refusal("SwitchName=" + std::string(65, 'x') + " Nodes=n1\n"), HasSubstr("64 characters"));
}

TEST(Slurm, ForeignSamples) {
  NEST_REQUIRE_DATA("../formats/samples/expected.json");
  const Document expected = test::read_json(test::data_dir() / "../formats/samples/expected.json");
  doc::Reader tree = doc::Reader(expected).object("slurm_tree.topology.conf");
  const auto leaf1 = tree.maybe_texts("leaf1", 100).value();
  const auto leaf2 = tree.maybe_texts("leaf2", 100).value();
  for (const char* name : {"slurm_tree.topology.conf", "scontrol_show_topology_tree.txt"}) {
    EXPECT_EQ(children(read_slurm_conf(foreign(name), {})).at(0).size(), 2U) << name;
    EXPECT_EQ(read_slurm_conf(foreign(name), {"leaf1", {}}).nodes, leaf1) << name;
    auto sorted = read_slurm_conf(foreign(name), {"leaf2", {}}).nodes;
    std::sort(sorted.begin(), sorted.end());
    auto wanted = leaf2;
    std::sort(wanted.begin(), wanted.end());
    EXPECT_EQ(sorted, wanted) << name;
  }
  EXPECT_EQ(read_slurm_yaml(foreign("slurm_topology.yaml"), {"leaf2", {}}).nodes, leaf2);
  doc::Reader block = doc::Reader(expected).object("slurm_block.topology.conf");
  for (const ImportedFabric& fabric : {read_slurm_conf(foreign("slurm_block.topology.conf"), {}),
                                       read_slurm_yaml(foreign("slurm_topology.yaml"), {"nvl", {}})}) {
    EXPECT_EQ(static_cast<std::int64_t>(fabric.nodes.size()), block.integer("nodes", {0, 1e6}));
    EXPECT_EQ(static_cast<std::int64_t>(fabric.levels[0].children.size()), block.integer("blocks", {0, 1e6}));
  }
}

TEST(Slurm, AThousandNodes) {
  const test::UnevenTopology topology = test::uneven_topology(1000, 7);
  const ImportedFabric fabric = read_slurm_conf(text(topology.conf), {});
  EXPECT_EQ(fabric.nodes.size(), 1000U);
  EXPECT_EQ(compress_hostlist(fabric.nodes), "gpu[0001-1000]");
  ASSERT_EQ(fabric.levels.size(), 3U);
  EXPECT_EQ(static_cast<std::int64_t>(fabric.levels[0].children.size()), topology.racks);
  EXPECT_EQ(static_cast<std::int64_t>(fabric.levels[1].children.size()), topology.pods);
  std::int64_t sum = 0;
  for (const std::int64_t count : fabric.levels[0].children) sum += count;
  EXPECT_EQ(sum, 1000);
}

// --- nvidia-smi

TEST(NvidiaSmi, SwitchedNode) {
  const NvidiaSmiTopology topology = parse_nvidia_smi(sample("switched.txt"));
  EXPECT_EQ(topology.gpus, 4U);
  EXPECT_EQ(topology.adapters.size(), 4U);
  EXPECT_THAT(topology.closest_adapters(2), ElementsAre(2U));
  const NodeInside inside = inside_of(topology);
  ASSERT_EQ(inside.levels.size(), 1U);
  EXPECT_EQ(inside.levels[0].name, "node");
  EXPECT_EQ(inside.nvlinks_of_pair, 12);
  EXPECT_TRUE(inside.adapter_per_device);
}

TEST(NvidiaSmi, PcieOnly) {
  const NodeInside inside = inside_of(parse_nvidia_smi(sample("pcie.txt")));
  ASSERT_EQ(inside.levels.size(), 3U);
  EXPECT_EQ(inside.levels[0].name, "bridge");
  EXPECT_THAT(inside.levels[0].children, ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(inside.levels[1].name, "socket");
  EXPECT_THAT(inside.levels[1].children, ElementsAre(2, 2));
  EXPECT_EQ(inside.levels[2].name, "node");
  EXPECT_EQ(inside.nvlinks, 0);
  EXPECT_FALSE(inside.adapter_per_device);
}

TEST(NvidiaSmi, PairsThatAreNoNeighboursAreNotGrouped) {
  const NodeInside inside =
      inside_of(parse_nvidia_smi(text("\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n"
                                      "GPU0\t X \tSYS\tNV4\tSYS\t0\n"
                                      "GPU1\tSYS\t X \tSYS\tNV4\t0\n"
                                      "GPU2\tNV4\tSYS\t X \tSYS\t0\n"
                                      "GPU3\tSYS\tNV4\tSYS\t X \t0\n")));
  ASSERT_EQ(inside.levels.size(), 1U);
  EXPECT_THAT(inside.levels[0].children, ElementsAre(4));
  EXPECT_FALSE(inside.notes.empty());
}

TEST(NvidiaSmi, RefusesWithTheLine) {
  const auto refused = [](const std::string& content) { return refusal([&] { parse_nvidia_smi(text(content)); }); };
  EXPECT_THAT(refused("nothing\n"), HasSubstr("no header line"));
  EXPECT_THAT(refused("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV2\t X \n"), HasSubstr("given:3: GPU1 to GPU0 is NV2"));
  EXPECT_THAT(refused("\tGPU0\tGPU1\nGPU0\t X \n"), HasSubstr("given:2: 1 cells"));
  EXPECT_THAT(refused("\tGPU0\tGPU1\nGPU0\t X \tNV\nGPU1\tNV\t X \n"), HasSubstr("given:2: GPU0 to GPU1: `NV`"));
  EXPECT_THAT(refused("\tGPU0\tGPU1\nGPU1\t X \tSYS\n"), HasSubstr("given:2: expected the row of GPU0"));
  EXPECT_THAT(refused("\tGPU0\tGPU1\nGPU0\t X \tSYS\n"), HasSubstr("1 rows of the matrix"));
  EXPECT_THAT(refused("\tGPU0\tGPU2\n"), HasSubstr("given:1: `GPU2` is out of order"));
}

TEST(NvidiaSmi, ForeignSamples) {
  NEST_REQUIRE_DATA("../formats/samples/expected.json");
  const Document expected = test::read_json(test::data_dir() / "../formats/samples/expected.json");
  for (const char* name :
       {"nvidia_smi_topo_8xH100_raw.txt", "nvidia_smi_topo_8xA100_spaces.txt", "nvidia_smi_topo_4gpu_pcie_mixed.txt"}) {
    doc::Reader wanted = doc::Reader(expected).object(name);
    const NvidiaSmiTopology topology = parse_nvidia_smi(foreign(name));
    EXPECT_EQ(static_cast<std::int64_t>(topology.gpus), wanted.integer("gpus", {0, 99})) << name;
    EXPECT_EQ(static_cast<std::int64_t>(topology.adapters.size()), wanted.integer("nics", {0, 99})) << name;
    EXPECT_EQ(topology.cells[0][1], wanted.text("gpu01")) << name;
    doc::Reader best = wanted.object("best_nics");
    for (std::size_t gpu = 0; gpu < topology.gpus; ++gpu) {
      std::vector<std::string> closest;
      for (const std::size_t adapter : topology.closest_adapters(gpu)) closest.push_back(topology.adapters[adapter]);
      EXPECT_EQ(closest, best.maybe_texts("GPU" + std::to_string(gpu), 16).value()) << name;
    }
  }
}

// --- ibnetdiscover

TEST(IbNetDiscover, RailOptimisedSubnet) {
  const IbSubnet subnet = parse_ibnetdiscover(sample("rails.ibnet"));
  EXPECT_EQ(subnet.links.size(), 16U + 16U);
  EXPECT_EQ(subnet.port_lines, 64U);
  const ImportedFabric fabric = fabric_of_subnet(subnet, {}, "rails.ibnet");
  EXPECT_THAT(fabric.nodes, ElementsAre("n1", "n2", "n3", "n4"));
  EXPECT_THAT(children(fabric), ElementsAre(ElementsAre(2, 2), ElementsAre(2)));
  EXPECT_THAT(fabric.ports, ElementsAre(4, 4, 4, 4));
  EXPECT_EQ(fabric.port_bytes_per_s, 25e9);
  EXPECT_TRUE(fabric.ports_of_node_apart);
  EXPECT_EQ(fabric.lane_bytes_per_s, 50e9);                     // one link to each of two spines
  EXPECT_EQ(fabric.levels[1].bandwidth_bytes_per_s, 4 * 50e9);  // of the four rail switches together
}

TEST(IbNetDiscover, LeavesLinkedToEachOther) {
  const ImportedFabric fabric = fabric_of_subnet(parse_ibnetdiscover(sample("ports.ibnet")), {}, "ports.ibnet");
  EXPECT_THAT(children(fabric), ElementsAre(ElementsAre(2, 1), ElementsAre(2)));
  EXPECT_EQ(fabric.levels[1].name, "global");
  EXPECT_EQ(fabric.levels[1].bandwidth_bytes_per_s, 25e9);
  EXPECT_THAT(fabric_of_subnet(parse_ibnetdiscover(sample("ports.ibnet")), {"", {"c1"}}, "x").nodes,
              ElementsAre("c2", "c3"));
}

TEST(IbNetDiscover, RefusesWithTheLine) {
  const auto refused = [](const std::string& content) { return refusal([&] { parse_ibnetdiscover(text(content)); }); };
  EXPECT_THAT(refused("hello\n"), HasSubstr("given:1: this is not a line of ibnetdiscover"));
  EXPECT_THAT(refused("[1]\t\"S-1\"[1]\t# \"x\" lid 1 4xHDR\n"), HasSubstr("given:1: a port before any"));
  EXPECT_THAT(refused("Switch\t4 \"S-1\"\t# \"a\"\n[1]\t\"H-2\"[1]\t# \"h\" lid 1 4xWDR\n"),
              HasSubstr("given:2: `WDR`"));
  EXPECT_THAT(
      refused(
          "Switch\t4 \"S-1\"\t# \"a\"\n[1]\t\"H-2\"[1]\t# \"h\" lid 1 4xHDR\n[1]\t\"H-3\"[1]\t# \"h\" lid 1 4xHDR\n"),
      HasSubstr("given:3: a port that has another peer"));
  EXPECT_THAT(refused("Switch\t4 \"S-zz\"\t# \"a\"\n"), HasSubstr("given:1: `zz` is not a GUID"));
  EXPECT_THAT(refused("Switch\t4 \"S-1\"\t# \"a\"\n"), HasSubstr("no link"));
  EXPECT_THAT(refusal([] {
                fabric_of_subnet(parse_ibnetdiscover(text("Switch\t4 \"S-1\"\t# \"a\"\n"
                                                          "[1]\t\"H-2\"[1](2) \t# \"localhost mlx5_0\" lid 1 4xHDR\n"
                                                          "[2]\t\"H-3\"[1](3) \t# \"localhost mlx5_0\" lid 1 4xHDR\n")),
                                 {}, "given");
              }),
              HasSubstr("both called `localhost mlx5_0`"));
}

TEST(IbNetDiscover, UnknownSpeedsStayUnknown) {
  const ImportedFabric fabric = fabric_of_subnet(
      parse_ibnetdiscover(text("Switch\t4 \"S-1\"\t# \"a\"\n[1]\t\"H-2\"[1](2) \t# \"x mlx5_0\" lid 1 4x???\n"
                               "[2]\t\"H-3\"[1](3) \t# \"y mlx5_0\" lid 1 ??HDR\n")),
      {}, "given");
  EXPECT_EQ(fabric.port_bytes_per_s, 0);
}

TEST(IbNetDiscover, ForeignSamples) {
  NEST_REQUIRE_DATA("../formats/samples/expected.json");
  const Document expected = test::read_json(test::data_dir() / "../formats/samples/expected.json");
  doc::Reader wanted = doc::Reader(expected).object("ibnetdiscover_2leaf_2spine.txt");
  const IbSubnet subnet = parse_ibnetdiscover(foreign("ibnetdiscover_2leaf_2spine.txt"));
  std::int64_t switches = 0;
  std::int64_t between_switches = 0;
  std::set<std::string> rates;
  for (const IbNode& node : subnet.nodes) switches += node.kind == IbNode::Kind::switch_ ? 1 : 0;
  for (const IbLink& link : subnet.links) {
    rates.insert(link.rate);
    const bool both =
        subnet.nodes[link.a].kind == IbNode::Kind::switch_ && subnet.nodes[link.b].kind == IbNode::Kind::switch_;
    between_switches += both ? 1 : 0;
  }
  EXPECT_EQ(switches, wanted.integer("switches", {0, 99}));
  EXPECT_EQ(static_cast<std::int64_t>(subnet.nodes.size()) - switches, wanted.integer("cas", {0, 99}));
  EXPECT_EQ(static_cast<std::int64_t>(subnet.links.size()), wanted.integer("links_total", {0, 99}));
  EXPECT_EQ(between_switches, wanted.integer("switch_switch_links", {0, 99}));
  EXPECT_EQ(std::vector<std::string>(rates.begin(), rates.end()), wanted.maybe_texts("rates", 9).value());
  doc::Reader ports = doc::Reader(expected).object("ibnetdiscover_p_2leaf_2spine.txt");
  const IbSubnet by_port = parse_ibnetdiscover(foreign("ibnetdiscover_p_2leaf_2spine.txt"));
  EXPECT_EQ(static_cast<std::int64_t>(by_port.port_lines), ports.integer("connected_port_lines", {0, 99}));
  EXPECT_EQ(static_cast<std::int64_t>(by_port.links.size()), ports.integer("links", {0, 99}));
  for (const IbSubnet& one : {subnet, by_port}) {
    const ImportedFabric fabric = fabric_of_subnet(one, {}, "sample");
    EXPECT_EQ(fabric.nodes, wanted.maybe_texts("hosts", 99).value());
    EXPECT_NEAR(fabric.levels.at(1).bandwidth_bytes_per_s.value() * 8 / 1e9,
                wanted.number("leaf_uplink_gbps", {0, 1e6}), 1e-6);
    EXPECT_NEAR(static_cast<double>(fabric.ports.at(0)) * fabric.port_bytes_per_s * 8 / 1e9,
                wanted.number("host_injection_gbps_total", {0, 1e6}), 1e-6);
  }
}

// --- NCCL

TEST(NcclTopology, DirectLinks) {
  const NcclTopology topology = parse_nccl_topology(sample("direct.xml"));
  const NodeInside inside = inside_of(topology, "direct.xml");
  EXPECT_EQ(inside.devices, 4);
  EXPECT_EQ(inside.nvlinks, 12);
  ASSERT_EQ(inside.levels.size(), 1U);
  EXPECT_FALSE(inside.adapter_per_device);  // two GPUs share the adapter of their socket
  EXPECT_EQ(inside.adapter_bytes_per_s, 25e9);
  EXPECT_THAT(inside.device_candidates, ElementsAre("a100-40", "a100-80", "a800"));
}

TEST(NcclTopology, CardsWithoutNvlink) {
  const NodeInside inside = inside_of(parse_nccl_topology(sample("cards.xml")), "cards.xml");
  ASSERT_EQ(inside.levels.size(), 2U);
  EXPECT_EQ(inside.levels[0].name, "bridge");
  EXPECT_EQ(inside.levels[0].bandwidth_bytes_per_s, 48e9);
  EXPECT_EQ(inside.levels[1].name, "node");
  EXPECT_EQ(inside.levels[1].bandwidth_bytes_per_s, 22e9);
}

// As clouds hand it to NCCL: functions of PCI, their class, and where they are plugged.
TEST(NcclTopology, FunctionsKnownByTheirClass) {
  std::string content = "<system version=\"1\">";
  for (int socket = 0; socket < 2; ++socket) {
    content += "<cpu numaid=\"" + std::to_string(socket) + "\">";
    for (int bridge = 0; bridge < 2; ++bridge) {
      content += R"(<pci busid="ffff:ff:01.0" class="0x060400" link_speed="8 GT/s" link_width="16">)";
      for (const char* device : {"1c", "1d"}) {
        content += std::string("<pci busid=\"0000:10:") + device +
                   R"(.0" class="0x030200" vendor="0x10de" device="0x20b0" link_speed="8 GT/s" link_width="16"/>)";
      }
      content += R"(<pci busid="0000:10:1b.0" class="0x020000" vendor="0x1d0f" device="0xefa0"/></pci>)";
    }
    content += "</cpu>";
  }
  const NodeInside inside = inside_of(parse_nccl_topology(text(content + "</system>")), "cloud.xml");
  EXPECT_EQ(inside.devices, 8);
  ASSERT_EQ(inside.levels.size(), 1U);
  EXPECT_EQ(inside.levels[0].closeness, Closeness::nvlink);
  EXPECT_EQ(inside.nvlinks, 0);  // as many as the device has
  EXPECT_EQ(inside.adapters, 4);
  EXPECT_FALSE(inside.adapter_per_device);
  EXPECT_FALSE(inside.adapter_bytes_per_s.has_value());
  EXPECT_THAT(inside.device_candidates, ElementsAre("a100-40", "a100-80", "a800"));
  ASSERT_FALSE(inside.notes.empty());
  EXPECT_THAT(inside.notes.back(), HasSubstr("cloud.xml does not list NVLinks"));
}

// Two GPUs and two adapters behind every bridge: one for each.
TEST(NcclTopology, AsManyAdaptersAsDevicesBehindABridge) {
  const auto node = [](int adapters) {
    std::string content = "<system version=\"1\"><cpu>";
    for (int bridge = 0; bridge < 4; ++bridge) {
      content += R"(<pci class="0x060400"><pci class="0x030200"/><pci class="0x030200"/>)";
      for (int k = 0; k < adapters; ++k) content += R"(<pci class="0x020700"/>)";
      content += "</pci>";
    }
    return inside_of(parse_nccl_topology(text(content + "</cpu></system>")), "cloud.xml");
  };
  EXPECT_TRUE(node(2).adapter_per_device);
  EXPECT_FALSE(node(1).adapter_per_device);
  EXPECT_EQ(node(2).adapters, 8);
  EXPECT_TRUE(node(2).device_candidates.empty());  // classes alone do not tell
}

TEST(NcclTopology, RefusesWithTheLine) {
  const auto refused = [](const std::string& content) {
    return refusal([&] { inside_of(parse_nccl_topology(text(content)), "given"); });
  };
  EXPECT_THAT(refused("<graphs version=\"1\"/>"), HasSubstr("NCCL_TOPO_DUMP_FILE"));
  EXPECT_THAT(refused("<system version=\"1\">\n<cpu>\n</system>"), HasSubstr("given:3: an element is never closed"));
  EXPECT_THAT(refused("<system version=\"1\">\n text</system>"), HasSubstr("given:2: expected an element"));
  EXPECT_THAT(refused("<system version=\"1\" version=\"1\"/>"), HasSubstr("given twice"));
  EXPECT_THAT(refused("<system version=\"7\"/>"), HasSubstr("version 7"));
  EXPECT_THAT(refused("<system version=\"1\"/>"), HasSubstr("no <gpu>"));
  EXPECT_THAT(refused("<system version=\"1\"><cpu><pci><gpu dev=\"x\"/></pci></cpu></system>"), HasSubstr("dev: `x`"));
  EXPECT_THAT(refused("<system version=\"1\"><cpu><pci link_speed=\"7 GT/s\"/></cpu></system>"),
              HasSubstr("link_speed"));
  EXPECT_THAT(
      refused("<system version=\"1\"><cpu host_hash=\"a\"><pci><gpu/></pci></cpu><cpu host_hash=\"b\"/></system>"),
      HasSubstr("covers 2 hosts"));
  EXPECT_THAT(refused("<!DOCTYPE x><system/>"), HasSubstr("given:1"));
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "<pci>";
  EXPECT_THAT(refused(deep), HasSubstr("never closed"));
  for (int i = 0; i < 100000; ++i) deep += "</pci>";
  EXPECT_THAT(refused(deep), HasSubstr("nested deeper"));
}

TEST(NcclTopology, ForeignSample) {
  NEST_REQUIRE_DATA("../formats/samples/expected.json");
  const Document expected = test::read_json(test::data_dir() / "../formats/samples/expected.json");
  doc::Reader wanted = doc::Reader(expected).object("nccl_topo_8xH100.xml");
  const NcclTopology topology = parse_nccl_topology(foreign("nccl_topo_8xH100.xml"));
  const NodeInside inside = inside_of(topology, "sample");
  EXPECT_EQ(inside.devices, wanted.integer("gpus", {0, 99}));
  EXPECT_EQ(inside.nvlinks, wanted.integer("nvlinks_per_gpu", {0, 99}));
  EXPECT_NEAR(topology.gpus[0].pci_bytes_per_s / 1e9, wanted.number("pci_gbs", {0, 1e4}), 1e-9);
  EXPECT_EQ(inside.adapters, wanted.integer("nets", {0, 99}));
  EXPECT_NEAR(inside.adapter_bytes_per_s.value() / 1e9, wanted.number("net_gbs", {0, 1e4}), 1e-9);
  EXPECT_EQ(static_cast<std::int64_t>(topology.cpus.size()), wanted.integer("numa", {0, 99}));
  EXPECT_TRUE(inside.adapter_per_device);
}

// --- which is which

TEST(RecogniseFormat, ByContent) {
  EXPECT_EQ(recognise_format(sample("racks.conf")), ImportFormat::slurm);
  EXPECT_EQ(recognise_format(sample("blocks.conf")), ImportFormat::slurm);
  EXPECT_EQ(recognise_format(sample("topologies.yaml")), ImportFormat::slurm_yaml);
  EXPECT_EQ(recognise_format(sample("switched.txt")), ImportFormat::nvidia_smi);
  EXPECT_EQ(recognise_format(sample("pcie.txt")), ImportFormat::nvidia_smi);
  EXPECT_EQ(recognise_format(sample("rails.ibnet")), ImportFormat::ibnetdiscover);
  EXPECT_EQ(recognise_format(sample("ports.ibnet")), ImportFormat::ibnetdiscover);
  EXPECT_EQ(recognise_format(sample("direct.xml")), ImportFormat::nccl);
  EXPECT_THAT(refusal([] { recognise_format(text("hello\n")); }), HasSubstr("not recognised"));
  EXPECT_THAT(refusal([] { recognise_format(text("")); }), HasSubstr("not recognised"));
}

}  // namespace
}  // namespace nest::importer
