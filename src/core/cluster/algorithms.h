// The collectives and the algorithms that run them: one row each, by name and with the facts that others ask for.
//
// A new algorithm is a word of the enumeration, a row of kAlgorithmTable, and its formula in algorithm_time()
// (collective.cc, torus_collective.cc: the compiler names the switches). Cluster files, messages and sets follow.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>

namespace nest::cluster {

enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_recv };

struct CollectiveFacts {
  Collective collective;
  const char* name;        // in messages and reports
  const char* nccl_tests;  // the program of nccl-tests that measures it, less `_perf`
};
inline constexpr std::array kCollectiveTable = {
    CollectiveFacts{Collective::all_reduce, "all-reduce", "all_reduce"},
    CollectiveFacts{Collective::all_gather, "all-gather", "all_gather"},
    CollectiveFacts{Collective::reduce_scatter, "reduce-scatter", "reduce_scatter"},
    CollectiveFacts{Collective::all_to_all, "all-to-all", "alltoall"},
    CollectiveFacts{Collective::broadcast, "broadcast", "broadcast"},
    CollectiveFacts{Collective::send_recv, "send-recv", "sendrecv"},
};
inline constexpr std::size_t kCollectives = kCollectiveTable.size();

enum class Algorithm : std::uint8_t {
  ring,
  multi_ring,
  hierarchical,
  halving_doubling,
  tree,
  direct,
  pairwise,
  measured,  // no formula: the time of a table of measurements
};

// Where NCCL, left alone, considers an algorithm.
enum class NcclUse : std::uint8_t { never, always, across_nodes };

struct AlgorithmFacts {
  Algorithm algorithm;
  const char* name;  // in cluster files, messages and reports
  bool is_listed;    // the key `algorithms` of a cluster file may name it
  bool is_tried;     // where the best is looked for (pairwise is never faster than direct)
  NcclUse nccl;
};
// clang-format off
inline constexpr std::array kAlgorithmTable = {
    //             algorithm                     name                listed tried  NCCL
    AlgorithmFacts{Algorithm::ring,              "ring",             true,  true,  NcclUse::always},
    AlgorithmFacts{Algorithm::multi_ring,        "multi-ring",       true,  true,  NcclUse::always},
    AlgorithmFacts{Algorithm::hierarchical,      "hierarchical",     true,  true,  NcclUse::never},
    AlgorithmFacts{Algorithm::halving_doubling,  "halving-doubling", true,  true,  NcclUse::never},
    AlgorithmFacts{Algorithm::tree,              "tree",             true,  true,  NcclUse::across_nodes},
    AlgorithmFacts{Algorithm::direct,            "direct",           true,  true,  NcclUse::always},
    AlgorithmFacts{Algorithm::pairwise,          "pairwise",         true,  false, NcclUse::never},
    AlgorithmFacts{Algorithm::measured,          "measured",         false, false, NcclUse::never},
};
// clang-format on
inline constexpr std::size_t kAlgorithms = kAlgorithmTable.size();

// Rows stand in the order of their enumerations, so that a word finds its row.
consteval bool rows_in_order() {
  for (std::size_t i = 0; i < kCollectives; ++i) {
    if (static_cast<std::size_t>(kCollectiveTable[i].collective) != i) return false;
  }
  for (std::size_t i = 0; i < kAlgorithms; ++i) {
    if (static_cast<std::size_t>(kAlgorithmTable[i].algorithm) != i) return false;
  }
  return true;
}
static_assert(rows_in_order());

constexpr const char* to_string(Collective collective) {
  return kCollectiveTable[static_cast<std::size_t>(collective)].name;
}
constexpr const char* to_string(Algorithm algorithm) {
  return kAlgorithmTable[static_cast<std::size_t>(algorithm)].name;
}

// A set of algorithms that may be chosen; there is room for every row of the table.
class AlgorithmSet {
 public:
  AlgorithmSet() = default;
  static AlgorithmSet all() { return AlgorithmSet(std::bitset<kAlgorithms>().set()); }
  // What NCCL considers for a group that lies inside one node, or that crosses nodes.
  static AlgorithmSet nccl(bool crosses_nodes) {
    AlgorithmSet set;
    for (const AlgorithmFacts& row : kAlgorithmTable) {
      if (row.nccl == NcclUse::always || (row.nccl == NcclUse::across_nodes && crosses_nodes)) set.add(row.algorithm);
    }
    return set;
  }

  void add(Algorithm algorithm) { bits_.set(static_cast<std::size_t>(algorithm)); }
  bool has(Algorithm algorithm) const { return bits_.test(static_cast<std::size_t>(algorithm)); }
  bool operator==(const AlgorithmSet&) const = default;

 private:
  explicit AlgorithmSet(std::bitset<kAlgorithms> bits) : bits_(bits) {}
  std::bitset<kAlgorithms> bits_;
};

// Which algorithms a cluster runs: the few that its description names, or, where it names none, what its library
// (NCCL) would choose. The two stay apart even where the few are all that there are.
class AlgorithmChoice {
 public:
  AlgorithmChoice() = default;  // as NCCL chooses
  explicit AlgorithmChoice(AlgorithmSet only) : only_(only), as_nccl_(false) {}

  bool as_nccl() const { return as_nccl_; }
  // Those that may be used at all: under NCCL's choice every one, because other libraries know more than NCCL.
  AlgorithmSet allowed() const { return as_nccl_ ? AlgorithmSet::all() : only_; }

 private:
  AlgorithmSet only_;
  bool as_nccl_ = true;
};

}  // namespace nest::cluster
