// Whole imports: files and options to a cluster that read_cluster accepts, number by number.
#include <gmock/gmock.h>

#include <chrono>

#include "base/error.h"
#include "base/units.h"
#include "cluster/cluster.h"
#include "importer/import_cluster.h"
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

ImportRequest request_for(const char* device) {
  ImportRequest request;
  request.name = "made";
  request.device = cluster::find_device(device);
  request.device_yaml = device;
  return request;
}

ImportedCluster import_samples(const std::vector<std::string>& names, const ImportRequest& request) {
  std::vector<doc::SourceText> files;
  for (const std::string& name : names) files.push_back(sample(name));
  return import_cluster(files, std::nullopt, request);
}

cluster::Cluster cluster_of(const ImportedCluster& imported) {
  EXPECT_TRUE(imported.missing.empty());
  return cluster::read_cluster(doc::parse_yaml("made.yaml", cluster_yaml(imported)), "made");
}

std::string refusal(const std::vector<std::string>& names, const ImportRequest& request) {
  return test::refusal_of([&] { import_samples(names, request); });
}

TEST(ImportCluster, UnevenRacks) {
  ImportRequest request = request_for("h100");
  request.devices_per_node = 8;
  request.devices_of_hosts = {{{"old8", "old9"}, 4}};
  request.bandwidth_bytes_per_s = {{"leaf", 50e9}, {"spine", 200e9}, {"core", 100e9}};
  request.latency_s = {{"spine", 6e-6}};
  const cluster::Cluster cluster = cluster_of(import_samples({"racks.conf"}, request));
  EXPECT_EQ(cluster.devices, 7 * 8 + 2 * 4);
  ASSERT_EQ(cluster.levels.size(), 4U);
  EXPECT_EQ(cluster.levels[0].counts.size(), 9U);
  EXPECT_EQ(cluster.levels[0].bandwidth_bytes_per_s, 450e9);
  EXPECT_THAT(cluster.levels[1].counts, ElementsAre(4, 3, 2));
  EXPECT_THAT(cluster.levels[2].counts, ElementsAre(2, 1));
  EXPECT_EQ(cluster.levels[1].latency_s, 6e-6);  // the assumed 8 us would lie beyond the next level
  EXPECT_EQ(cluster.levels[2].latency_s, 6e-6);
  EXPECT_EQ(cluster.levels[3].latency_s, 8e-6);
  EXPECT_EQ(cluster.node_names.size(), 9U);
  EXPECT_EQ(cluster.node_names.back(), "old9");
  EXPECT_EQ(cluster.fabric.unit_of(1, 63), 8);
  EXPECT_EQ(cluster.fabric.unit_of(2, 55), 1);
}

TEST(ImportCluster, AsksByNameForWhatIsNotThere) {
  const ImportedCluster imported = import_samples({"racks.conf"}, {});
  std::vector<std::string> options;
  for (const MissingFact& fact : imported.missing) options.push_back(fact.option + " " + fact.prefix);
  EXPECT_THAT(options,
              ElementsAre("device ", "devices_per_node ", "bandwidth leaf=", "bandwidth spine=", "bandwidth core="));
}

TEST(ImportCluster, RailsFromPorts) {
  ImportRequest request = request_for("a100-80");
  request.devices_per_node = 4;
  const cluster::Cluster cluster = cluster_of(import_samples({"rails.ibnet"}, request));
  EXPECT_EQ(cluster.devices, 16);
  EXPECT_TRUE(cluster.levels[1].rails);
  EXPECT_TRUE(cluster.levels[1].rail_switches);
  EXPECT_EQ(cluster.levels[1].bandwidth_bytes_per_s, 25e9);
  EXPECT_EQ(cluster.levels[2].bandwidth_bytes_per_s, 50e9);
  request.rails = "none";
  const cluster::Cluster shared = cluster_of(import_samples({"rails.ibnet"}, request));
  EXPECT_FALSE(shared.levels[1].rails);
  EXPECT_EQ(shared.levels[1].bandwidth_bytes_per_s, 100e9);
  EXPECT_EQ(shared.levels[2].bandwidth_bytes_per_s, 200e9);
  request.rails.clear();
  request.devices_per_node = 8;  // two share a port: no rails
  EXPECT_EQ(cluster_of(import_samples({"rails.ibnet"}, request)).levels[1].bandwidth_bytes_per_s, 100e9);
}

TEST(ImportCluster, InsideAndOutside) {
  ImportRequest request = request_for("a100-80");
  request.bandwidth_bytes_per_s = {{"spine", 100e9}, {"core", 100e9}};
  const cluster::Cluster cluster = cluster_of(import_samples({"direct.xml", "racks.conf"}, request));
  EXPECT_EQ(cluster.devices, 36);
  EXPECT_EQ(cluster.levels[0].bandwidth_bytes_per_s, 300e9);  // 12 NVLinks
  EXPECT_EQ(cluster.levels[1].bandwidth_bytes_per_s, 50e9);   // two adapters of 200 Gb/s
  EXPECT_FALSE(cluster.levels[1].rails);
  const ImportedCluster switched = import_samples({"switched.txt", "racks.conf"}, request);
  ASSERT_EQ(switched.missing.size(), 1U);
  EXPECT_EQ(switched.missing[0].option, "bandwidth");
  EXPECT_EQ(switched.missing[0].prefix, "leaf=");
  EXPECT_THAT(switched.missing[0].question, HasSubstr("one device's own port"));
}

TEST(ImportCluster, NodesWithAnInsideStructureKeepTheirNames) {
  ImportRequest request = request_for("h100");
  request.bandwidth_bytes_per_s = {{"leaf", 50e9}, {"spine", 200e9}, {"core", 100e9}};
  const cluster::Cluster cluster = cluster_of(import_samples({"cards.xml", "racks.conf"}, request));
  ASSERT_EQ(cluster.levels.size(), 5U);
  EXPECT_EQ(cluster.node_level, 1U);
  EXPECT_EQ(cluster.node_names.size(), 9U);
  EXPECT_EQ(cluster.devices, 36);
}

TEST(ImportCluster, AggregatedBlocksOnlyWhereAsked) {
  ImportRequest request = request_for("gb200");
  request.devices_per_node = 4;
  request.bandwidth_bytes_per_s = {{"block", 50e9}, {"cluster", 100e9}};
  const cluster::Cluster plain = cluster_of(import_samples({"blocks.conf"}, request));
  ASSERT_EQ(plain.levels.size(), 3U);
  EXPECT_EQ(plain.levels[2].group, 4);
  request.bandwidth_bytes_per_s["block2"] = 80e9;
  const cluster::Cluster aggregated = cluster_of(import_samples({"blocks.conf"}, request));
  ASSERT_EQ(aggregated.levels.size(), 4U);
  EXPECT_EQ(aggregated.levels[2].group, 2);
  EXPECT_EQ(aggregated.devices, plain.devices);
}

TEST(ImportCluster, RefusesContradictions) {
  ImportRequest request = request_for("h100");
  EXPECT_THAT(refusal({"racks.conf", "rails.ibnet"}, request), HasSubstr("both about the network between nodes"));
  EXPECT_THAT(refusal({"direct.xml", "pcie.txt"}, request), HasSubstr("both about the inside of a node"));
  request.devices_per_node = 8;
  EXPECT_THAT(refusal({"direct.xml"}, request), HasSubstr("direct.xml shows 4 devices"));
  request.bandwidth_bytes_per_s = {{"laef", 1e9}};
  EXPECT_THAT(refusal({"racks.conf"}, request), HasSubstr("did you mean `leaf`"));
  request.bandwidth_bytes_per_s.clear();
  request.latency_s = {{"leaf", 9e-6}, {"spine", 5e-6}};
  EXPECT_THAT(refusal({"racks.conf"}, request), HasSubstr("a level further out"));
  request.latency_s.clear();
  request.rails = "node";
  EXPECT_THAT(refusal({"racks.conf"}, request), HasSubstr("inside a node"));
  request.rails.clear();
  request.devices_of_hosts = {{{"gpu99"}, 4}};
  EXPECT_THAT(refusal({"racks.conf"}, request), HasSubstr("no host `gpu99`"));
}

TEST(ImportCluster, NumbersSurviveTheFile) {
  for (const double rate : {50e9, 12.5e9, 370.8e9, 1.0 / 3 * 1e9, 123456789.0, 54.5e9 / 8}) {
    EXPECT_EQ(parse_bandwidth(exact_bandwidth(rate)), rate);
  }
  for (const double time : {3.2e-6, 8e-6, 1e-9, 1.0 / 3, 0.0}) EXPECT_EQ(parse_duration(exact_duration(time)), time);
}

TEST(ImportCluster, AThousandUnevenNodesInNoTime) {
  const test::UnevenTopology topology = test::uneven_topology(1000, 7);
  ImportRequest request = request_for("h100");
  request.devices_per_node = 8;
  request.rails = "leaf";
  request.bandwidth_bytes_per_s = {{"leaf", 50e9}, {"spine", 3.2e12}, {"core", 12.5e12}};
  const auto begin = std::chrono::steady_clock::now();
  const cluster::Cluster cluster =
      cluster_of(import_cluster({{"topology.conf", topology.conf}}, std::nullopt, request));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_LT(seconds, 1.0);  // a few milliseconds, unless somebody multiplies out what is a range
  EXPECT_EQ(cluster.devices, 8000);
  EXPECT_EQ(cluster.fabric.unit_of(2, 7999) + 1, topology.racks);
  EXPECT_EQ(cluster.fabric.unit_of(3, 7999) + 1, topology.pods);
  EXPECT_EQ(cluster.node_names.front(), "gpu0001");
}

}  // namespace
}  // namespace nest::importer
