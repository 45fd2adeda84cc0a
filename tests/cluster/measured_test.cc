#include "cluster/measured.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "cluster/cluster.h"
#include "doc/value.h"
#include "test_support/refusal.h"

namespace nest::cluster {
namespace {

using testing::HasSubstr;

const std::string kHead =
    "# nccl-tests version 2.19.6\n"
    "# Collective test starting: all_reduce_perf\n"
    "#  Rank  0 Group  0 Pid   42 on    node1 device  0 [0000:18:00] NVIDIA H100\n"
    "#  Rank  1 Group  0 Pid   42 on    node1 device  1 [0000:28:00] NVIDIA H100\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)\n";
const std::string kRows =
    "     1000000        250000     float     sum      -1    33.21   31.57   55.25       0    20.00   31.87   55.78    "
    " N/A\n"
    "   100000000      25000000     float     sum      -1   118.40  141.70  247.97       0  2000.00  142.30  249.03    "
    "   0\n";

std::string refusal(const std::string& text) {
  return test::refusal_of([&] { parse_nccl_tests("log.txt", text); });
}

TEST(Measured, ReadsTheInPlaceTimes) {
  const MeasuredCollective table = parse_nccl_tests("log.txt", kHead + kRows);
  EXPECT_EQ(table.collective, Collective::all_reduce);
  EXPECT_EQ(table.ranks, 2);
  EXPECT_EQ(table.hosts, 1);
  ASSERT_EQ(table.points.size(), 2U);
  EXPECT_DOUBLE_EQ(table.points[0].seconds, 20e-6);
  EXPECT_DOUBLE_EQ(table.points[1].seconds, 2e-3);
}

TEST(Measured, InterpolatesOnStraightLinesInLogLogSpace) {
  const MeasuredCollective table = parse_nccl_tests("log.txt", kHead + kRows);
  EXPECT_NEAR(table.seconds(1e7), 200e-6, 1e-12);  // half way between 1e6 and 1e8 in logarithms
  EXPECT_DOUBLE_EQ(table.seconds(10), 20e-6);      // latency below
  EXPECT_DOUBLE_EQ(table.seconds(1e9), 20e-3);     // rate above
  EXPECT_DOUBLE_EQ(table.seconds(1e6), 20e-6);
  EXPECT_DOUBLE_EQ(table.seconds(1e8), 2e-3);
}

TEST(Measured, MoreColumnsAreFoundByTheHeader) {
  const std::string head =
      "# Collective test starting: alltoall_perf\n"
      "#  Rank  0 Group  0 Pid   42 on    a device  0 [0000:18:00] X\n#  Rank  1 Group  0 Pid   42 on    b device  0 "
      "[0000:18:00] X\n"
      "#  size  count  type  redop  root  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%  time  algbw  busbw  "
      "#wrong\n";
  const auto table = parse_nccl_tests("log.txt", head + "1024 4 float none -1 10.0 1 1 0 1 2 3 4 12.5 1 1 0\n");
  EXPECT_EQ(table.collective, Collective::all_to_all);
  EXPECT_EQ(table.hosts, 2);
  EXPECT_DOUBLE_EQ(table.points[0].seconds, 12.5e-6);
}

TEST(Measured, BadLogsAreRefusedWithTheLine) {
  EXPECT_THAT(refusal(kHead), HasSubstr("no line with measured times"));
  EXPECT_THAT(refusal(kHead + "1024 4 float sum -1 abc 1 1 0 xyz 1 1 0\n"),
              HasSubstr("log.txt:7: `xyz` is not a time"));
  EXPECT_THAT(refusal(kHead + "1024 4 float\n"), HasSubstr("log.txt:7: 3 columns; expected at least 10"));
  EXPECT_THAT(refusal("1024 4 float sum -1 1 1 1 0 1 1 1 0\n"), HasSubstr("log.txt:1: measured times before the line"));
  EXPECT_THAT(refusal(""), HasSubstr("does not name its operation"));
  EXPECT_THAT(refusal("hello\nworld\n"), HasSubstr("does not name its operation"));
}

TEST(Measured, OverridesTheFormulasWhereItFits) {
  Cluster cluster = find_cluster("dgx-h100", 16).value();
  cluster.measured.push_back(parse_nccl_tests("log.txt", kHead + kRows));
  const GroupLayout pair = place_group(cluster, {0, {{1, 2}}, {}});
  const GroupLayout across = place_group(cluster, {0, {{8, 2}}, {}});
  const CollectiveTime measured = collective_time(cluster, pair, Collective::all_reduce, 1e7);
  EXPECT_EQ(measured.algorithm, Algorithm::measured);
  EXPECT_NEAR(measured.seconds, 200e-6, 1e-12);
  EXPECT_NE(collective_time(cluster, across, Collective::all_reduce, 1e7).algorithm,
            Algorithm::measured);  // two hosts
  EXPECT_NE(collective_time(cluster, pair, Collective::all_to_all, 1e7).algorithm, Algorithm::measured);
  // Half of an all-reduce scatters.
  const CollectiveTime half = collective_time(cluster, pair, Collective::reduce_scatter, 1e7);
  EXPECT_EQ(half.algorithm, Algorithm::measured);
  EXPECT_NEAR(half.seconds, 100e-6, 1e-12);
  EXPECT_NEAR(half.latency_s, 10e-6, 1e-12);
}

TEST(Measured, HostsAreInnermostUnitsOrTheTraysOfARack) {
  const Cluster nodes = find_cluster("dgx-h100", 32).value();
  EXPECT_EQ(hosts_of(nodes, place_group(nodes, {0, {{1, 8}}, {}})), 1);
  EXPECT_EQ(hosts_of(nodes, place_group(nodes, {0, {{1, 16}}, {}})), 2);
  EXPECT_EQ(hosts_of(nodes, place_group(nodes, {0, {{8, 4}}, {}})), 4);
  const Cluster racks = find_cluster("gb200-nvl72", 64).value();
  ASSERT_EQ(devices_per_tray(racks), 4);
  EXPECT_EQ(hosts_of(racks, place_group(racks, {0, {{1, 64}}, {}})), 16);
  EXPECT_EQ(hosts_of(racks, place_group(racks, {0, {{1, 2}}, {}})), 1);
}

std::string indented(const std::string& text) {
  std::string lines = "      ";
  for (const char c : text) lines += c == '\n' ? std::string("\n      ") : std::string(1, c);
  return lines;
}

Cluster cluster_with(const std::string& tables) {
  const std::string yaml =
      "device: h100\nlevels:\n  - {name: node, group: 8, bandwidth: 450GB/s}\ncollectives:\n" + tables;
  return read_cluster(doc::parse_yaml("mine.yaml", yaml), "mine");
}

TEST(Measured, ClusterFilesHoldTables) {
  const Cluster cluster = cluster_with("  - source: pair.txt\n    log: |\n" + indented(kHead + kRows) + "\n");
  ASSERT_EQ(cluster.measured.size(), 1U);
  EXPECT_EQ(cluster.measured[0].source, "pair.txt");
  EXPECT_EQ(cluster.measured[0].ranks, 2);
  const auto refused = [](const std::string& tables) { return test::refusal_of([&] { cluster_with(tables); }); };
  EXPECT_THAT(refused("  - {file: pair.txt}\n"),
              HasSubstr("mine.yaml: collectives[0].file: is read where the cluster is"));
  EXPECT_THAT(refused("  - {source: pair.txt}\n"), HasSubstr("collectives[0].log"));
  EXPECT_THAT(refused("  - {source: pair.txt, log: hello}\n"),
              HasSubstr("pair.txt: the log does not name its operation"));
  EXPECT_THAT(refused("  - {operation: all_reduce, log: hello}\n"), HasSubstr("`all_reduce` is not known"));
  EXPECT_THAT(refused("  - {operation: all-reduce, log: hello}\n"), HasSubstr("no line with measured times"));
}

}  // namespace
}  // namespace nest::cluster
