// Collective times that someone measured, as printed by nccl-tests (or rccl-tests); they override the formulas.
//
// Read are the data lines (13 columns, or more with -I and -S; columns are found by the header line), the name of the
// operation (`# Collective test starting:`, a command line, or given by the caller), and the `# Rank` lines: how many
// ranks on how many hosts. Where a line has both times, the in-place one is taken: so does training call collectives.
//
// A cluster file holds such tables under `collectives`: a list of {source, operation, log}, `log` being what the program
// printed. (Names of files are replaced by what the files hold before a cluster is read: load/cluster_file.h.)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/collective.h"
#include "doc/reader.h"

namespace nest::cluster {

struct MeasuredPoint {
  double bytes = 0;
  double seconds = 0;
};

struct MeasuredCollective {
  Collective collective = Collective::all_reduce;
  std::int64_t ranks = 0;
  std::int64_t hosts = 0;             // 0: not known
  std::vector<MeasuredPoint> points;  // by rising bytes, all times positive
  std::string source;                 // the file, for people

  // Straight lines between the points in log-log space; below the first point its time (latency), above the last one
  // its rate.
  double seconds(double bytes) const;
};

// Throws InputError with the line number. `collective` is needed for logs that do not name their operation.
MeasuredCollective parse_nccl_tests(std::string_view name, std::string_view text,
                                    std::optional<Collective> collective = std::nullopt);

// The table for this collective with as many ranks on as many hosts (where the table knows them), or nullptr.
const MeasuredCollective* find_measured(std::span<const MeasuredCollective> tables, Collective collective,
                                        std::int64_t ranks, std::int64_t hosts);

// Of a collective among `ranks` on `hosts`, by its own table, else by that of one that moves the same bytes: gathering
// and scattering stand for each other, each is half of an all-reduce, and a table of either is half of that.
struct MeasuredTime {
  const MeasuredCollective* table = nullptr;
  double seconds = 0;
  double latency_s = 0;
};
std::optional<MeasuredTime> measured_time(std::span<const MeasuredCollective> tables, Collective collective,
                                          std::int64_t ranks, std::int64_t hosts, double bytes);

// The key `collectives` of a cluster file; none where it is absent. Throws InputError.
std::vector<MeasuredCollective> read_collectives(doc::Reader& root);

}  // namespace nest::cluster
