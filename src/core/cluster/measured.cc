#include "cluster/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/real.h"
#include "base/text.h"

namespace nest::cluster {
namespace {

constexpr std::size_t kMostPoints = 100'000;
constexpr std::size_t kMostTables = 256;

// What may stand for a collective, and how many of it make one.
struct StandIn {
  Collective of;
  Collective by;
  double times;
};
constexpr std::array kStandIns = {
    StandIn{Collective::all_reduce, Collective::reduce_scatter, 2},
    StandIn{Collective::all_reduce, Collective::all_gather, 2},
    StandIn{Collective::all_gather, Collective::reduce_scatter, 1},
    StandIn{Collective::all_gather, Collective::all_reduce, 0.5},
    StandIn{Collective::reduce_scatter, Collective::all_gather, 1},
    StandIn{Collective::reduce_scatter, Collective::all_reduce, 0.5},
};

std::optional<Collective> operation_of(doc::Reader& reader) {
  const auto named = reader.maybe_text("operation");
  if (!named) return std::nullopt;
  std::vector<std::string> known;
  for (const CollectiveFacts& row : kCollectiveTable) {
    if (*named == row.name) return row.collective;
    known.emplace_back(row.name);
  }
  reader.fail("operation", fmt::format("`{}` is not known; allowed are {}{}", clip(*named, 40), join_words(known),
                                       did_you_mean(*named, known)));
}

std::optional<double> number_of(std::string_view word) {
  double value = 0;
  const auto [rest, status] = real_from_chars(word.data(), word.data() + word.size(), value);
  if (status != std::errc{} || rest != word.data() + word.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

class LogReader {
 public:
  LogReader(std::string_view name, std::optional<Collective> collective) : name_(name), collective_(collective) {}

  void read(std::string_view line) {
    ++line_;
    const auto words = split_words(line);
    if (words.empty()) return;
    if (words[0].starts_with('#')) {
      read_comment(line, words);
    } else if (number_of(words[0])) {
      read_data(words);
    } else {
      find_operation(line);  // a command line before the output
    }
  }

  MeasuredCollective take() {
    if (!collective_) {
      std::vector<std::string> known;
      known.reserve(std::size(kCollectiveTable));
      for (const CollectiveFacts& row : kCollectiveTable) known.emplace_back(row.name);
      throw InputError(fmt::format("{}: the log does not name its operation; say which of {} it is", name_,
                                   join_words(known, "or")));
    }
    if (points_.empty())
      throw InputError(fmt::format("{}: no line with measured times; expected nccl-tests output", name_));
    if (ranks_ == 0)
      throw InputError(fmt::format("{}: no `# Rank` line; expected one per rank, as nccl-tests prints", name_));
    MeasuredCollective table{*collective_, ranks_, static_cast<std::int64_t>(hosts_.size()), std::move(points_), name_};
    std::stable_sort(table.points.begin(), table.points.end(),
                     [](const MeasuredPoint& a, const MeasuredPoint& b) { return a.bytes < b.bytes; });
    // A size that was run several times counts with the last run.
    std::vector<MeasuredPoint> distinct;
    for (const MeasuredPoint& point : table.points) {
      if (!distinct.empty() && distinct.back().bytes == point.bytes) distinct.pop_back();
      distinct.push_back(point);
    }
    table.points = std::move(distinct);
    return table;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(fmt::format("{}:{}: {}", name_, line_, message));
  }

  void find_operation(std::string_view line) {
    for (const CollectiveFacts& row : kCollectiveTable) {
      if (line.find(fmt::format("{}_perf", row.nccl_tests)) != std::string_view::npos && !collective_) {
        collective_ = row.collective;
      }
    }
  }

  void read_comment(std::string_view line, const std::vector<std::string_view>& words) {
    if (line.find("Collective test starting:") != std::string_view::npos) {
      find_operation(line);
    } else if (words.size() > 9 && words[1] == "Rank") {
      ++ranks_;
      const auto on = std::find(words.begin(), words.end(), "on");
      if (on != words.end() && on + 1 != words.end()) hosts_.emplace(*(on + 1));
    } else if (std::find(words.begin(), words.end(), "size") != words.end() &&
               std::find(words.begin(), words.end(), "count") != words.end()) {
      time_columns_.clear();
      for (std::size_t i = 1; i < words.size(); ++i) {
        if (words[i] == "time" || words[i] == "cputime") time_columns_.push_back(i - 1);  // the header starts with '#'
      }
    }
  }

  void read_data(const std::vector<std::string_view>& words) {
    if (time_columns_.empty()) fail("measured times before the line that names the columns (size, count, …, time)");
    const std::size_t column = time_columns_.back();
    if (words.size() <= column) {
      fail(fmt::format("{} columns; expected at least {} as the header line names them", words.size(), column + 1));
    }
    const auto bytes = number_of(words[0]);
    const auto micros = number_of(words[column]);
    if (!bytes || *bytes < 0) fail(fmt::format("`{}` is not a size in bytes", clip(words[0], 40)));
    if (!micros || *micros < 0) fail(fmt::format("`{}` is not a time in microseconds", clip(words[column], 40)));
    if (points_.size() >= kMostPoints) fail(fmt::format("more than {} lines of measurements", kMostPoints));
    if (*bytes > 0 && *micros > 0) points_.push_back({*bytes, *micros * 1e-6});
  }

  std::string name_;
  std::optional<Collective> collective_;
  std::size_t line_ = 0;
  std::int64_t ranks_ = 0;
  std::set<std::string, std::less<>> hosts_;
  std::vector<std::size_t> time_columns_;
  std::vector<MeasuredPoint> points_;
};

}  // namespace

double MeasuredCollective::seconds(double bytes) const {
  NEST_CHECK(!points.empty(), "a measured table has points");
  if (bytes <= points.front().bytes) return points.front().seconds;
  if (bytes >= points.back().bytes) return points.back().seconds * bytes / points.back().bytes;
  const auto above = std::upper_bound(points.begin(), points.end(), bytes,
                                      [](double wanted, const MeasuredPoint& point) { return wanted < point.bytes; });
  const MeasuredPoint& high = *above;
  const MeasuredPoint& low = *(above - 1);
  const double part = std::log(bytes / low.bytes) / std::log(high.bytes / low.bytes);
  return low.seconds * std::pow(high.seconds / low.seconds, part);
}

MeasuredCollective parse_nccl_tests(std::string_view name, std::string_view text,
                                    std::optional<Collective> collective) {
  LogReader reader(name, collective);
  for (const std::string_view line : split_text(text, '\n')) reader.read(line);
  return reader.take();
}

const MeasuredCollective* find_measured(std::span<const MeasuredCollective> tables, Collective collective,
                                        std::int64_t ranks, std::int64_t hosts) {
  for (const MeasuredCollective& table : tables) {
    if (table.collective == collective && table.ranks == ranks && (table.hosts == 0 || table.hosts == hosts))
      return &table;
  }
  return nullptr;
}

std::optional<MeasuredTime> measured_time(std::span<const MeasuredCollective> tables, Collective collective,
                                          std::int64_t ranks, std::int64_t hosts, double bytes) {
  const auto by = [&](Collective other, double times) -> std::optional<MeasuredTime> {
    const MeasuredCollective* table = find_measured(tables, other, ranks, hosts);
    if (!table) return std::nullopt;
    const double seconds = table->seconds(bytes);
    return MeasuredTime{table, times * seconds, times * std::min(table->points.front().seconds, seconds)};
  };
  if (const auto own = by(collective, 1)) return own;
  for (const StandIn& other : kStandIns) {
    if (other.of != collective) continue;
    if (const auto found = by(other.by, other.times)) return found;
  }
  return std::nullopt;
}

std::vector<MeasuredCollective> read_collectives(doc::Reader& root) {
  std::vector<MeasuredCollective> tables;
  if (!root.has("collectives")) return tables;
  std::vector<doc::Reader> readers = root.objects("collectives");
  if (readers.size() > kMostTables)
    root.fail("collectives", fmt::format("{} tables; at most {} are read", readers.size(), kMostTables));
  for (doc::Reader& reader : readers) {
    if (reader.has("file")) {
      reader.fail("file", "is read where the cluster is a file of its own; here give `log`, what nccl-tests printed");
    }
    const std::string source = reader.text_or("source", reader.path());
    const auto operation = operation_of(reader);
    const std::string log = reader.text("log");
    reader.refuse_unknown_keys();
    tables.push_back(parse_nccl_tests(source, log, operation));
  }
  return tables;
}

}  // namespace nest::cluster
