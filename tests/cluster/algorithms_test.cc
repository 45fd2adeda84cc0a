// The tables of collectives and algorithms: every row is reachable by its name, and sets hold every row.
#include "cluster/algorithms.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "cluster/cluster.h"
#include "test_support/data.h"

namespace nest::cluster {
namespace {

Cluster with_algorithms(const std::string& names) {
  return read_cluster(doc::parse_yaml("c.yaml", "device: h100\nlevels: [{group: 8, bandwidth: 1GB/s}]\n" + names), "c");
}

TEST(Algorithms, NamesAreUnique) {
  std::set<std::string> names, measured_by;
  for (const CollectiveFacts& row : kCollectiveTable) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(measured_by.insert(row.nccl_tests).second) << row.nccl_tests;
  }
  for (const AlgorithmFacts& row : kAlgorithmTable) EXPECT_TRUE(names.insert(row.name).second) << row.name;
}

TEST(Algorithms, SetsTellEveryRowFromTheOthers) {
  for (const AlgorithmFacts& row : kAlgorithmTable) {
    AlgorithmSet set;
    set.add(row.algorithm);
    for (const AlgorithmFacts& other : kAlgorithmTable) {
      EXPECT_EQ(set.has(other.algorithm), other.algorithm == row.algorithm) << row.name << " " << other.name;
    }
    EXPECT_TRUE(AlgorithmSet::all().has(row.algorithm)) << row.name;
    EXPECT_FALSE(AlgorithmSet().has(row.algorithm)) << row.name;
  }
}

TEST(Algorithms, ClusterFilesNameWhatIsListed) {
  std::string every;
  for (const AlgorithmFacts& row : kAlgorithmTable) {
    const std::string line = fmt::format("algorithms: [{}]\n", row.name);
    if (!row.is_listed) {
      EXPECT_THROW(with_algorithms(line), InputError) << row.name;
      continue;
    }
    every += (every.empty() ? "" : ", ") + std::string(row.name);
    AlgorithmSet alone;
    alone.add(row.algorithm);
    EXPECT_EQ(with_algorithms(line).algorithms.allowed(), alone) << row.name;
  }
  // Naming all of them is not the same as leaving the choice to NCCL.
  EXPECT_FALSE(with_algorithms("algorithms: [" + every + "]\n").algorithms.as_nccl());
  EXPECT_TRUE(with_algorithms("").algorithms.as_nccl());
  EXPECT_EQ(with_algorithms("").algorithms.allowed(), AlgorithmSet::all());
}

TEST(Algorithms, NcclRunsRingsInsideNodesAndTreesAcross) {
  AlgorithmSet inside;
  inside.add(Algorithm::ring);
  inside.add(Algorithm::multi_ring);
  inside.add(Algorithm::direct);
  EXPECT_EQ(AlgorithmSet::nccl(false), inside);
  inside.add(Algorithm::tree);
  EXPECT_EQ(AlgorithmSet::nccl(true), inside);
}

TEST(Algorithms, DocumentationListsThem) {
  std::string row = "| `algorithms` | of collectives, any of ";
  bool first = true;
  for (const AlgorithmFacts& facts : kAlgorithmTable) {
    if (!facts.is_listed) continue;
    row += fmt::format("{}`{}`", first ? "" : ", ", facts.name);
    first = false;
  }
  EXPECT_THAT(test::read_file(test::source_dir() / "docs/formats.md"), ::testing::HasSubstr(row + " |"));
}

}  // namespace
}  // namespace nest::cluster
