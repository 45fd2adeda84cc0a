// A planned step as Chakra execution traces, one file per rank: what network simulators (ASTRA-sim) replay.
//
// The files follow schema 0.0.4 of MLCommons Chakra (schema/protobuf/et_def.proto) and the attributes that its feeder
// v3 looks up for ASTRA-sim 2: a GlobalMetadata message and Node messages, each after its length. A node has
//   compute     type 4, duration_micros, is_cpu_op (bool), num_ops (int64), tensor_size (uint64)
//   collective  type 7, is_cpu_op, comm_type (int64), comm_size (int64), pg_name (string), comm_priority (int32)
//   message     type 5 send, 6 receive, is_cpu_op, comm_src, comm_dst, comm_tag (int32), comm_size (int64)
// and data_deps, the only kind of dependency that all feeders honour. comm_size is what one rank puts in, as ASTRA-sim
// takes it: the whole buffer of an all-reduce, reduce-scatter or all-to-all, one rank's part of an all-gather. pg_name
// is a key of the communicator-group file, {"1": [ranks …], …}.
// What is in a trace, and in which order: chakra_program.h.
#pragma once

#include <nlohmann/json.hpp>

#include "exporter/chakra_program.h"

namespace nest::exporter {

inline constexpr const char* kChakraVersion = "0.0.4";
inline constexpr double kMostTraceBytes = 2.0 * 1024 * 1024 * 1024;  // of all files of one export
inline constexpr std::int64_t kMostTraceRanks = 1 << 20;             // of a plan; groups list them all
inline constexpr double kMostRankNodes = 4e6;  // held in memory while a stage is written: about 1 GiB

class ChakraExport {
 public:
  // The strategy must be sound; all three must outlive the export. Throws InputError above kMostTraceRanks.
  ChakraExport(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages);

  std::int64_t ranks() const { return ranks_.grid().world(); }
  groups::Place place(std::int64_t rank) const { return *ranks_.place_of(ranks_.device_number(rank)); }
  // About how many bytes the traces of these ranks have. Throws InputError when they pass `most`, or one rank
  // `most_nodes`.
  double refuse_size(const std::vector<std::int64_t>& ranks, double most = kMostTraceBytes,
                     double most_nodes = kMostRankNodes) const;

  const TracePlan& plan() const { return plan_; }
  const TraceGroups& groups() const { return groups_; }
  // What one rank of a stage executes (`nodes`: TracePlan::stage() of that stage) as the content of its file.
  std::string trace(const std::vector<TraceNode>& nodes, std::int64_t rank) const;

  nlohmann::ordered_json group_file() const;
  // Node, device and coordinates of the ranks, and which groups are of which kind (nest.chakra/1).
  nlohmann::ordered_json rank_file(const std::vector<std::int64_t>& ranks) const;

 private:
  const cost::Job& job_;
  groups::RankGroups ranks_;
  TracePlan plan_;
  TraceGroups groups_;
};

// "all", or ranks and ranges of ranks: "0,8,16-23". Rising, each once. Throws InputError for anything else.
std::vector<std::int64_t> parse_ranks(const std::string& text, std::int64_t ranks);

}  // namespace nest::exporter
