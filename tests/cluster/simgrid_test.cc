// Our formulas against collectives simulated flow by flow, row by row and algorithm by algorithm.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <iostream>
#include <map>
#include <set>

#include "cluster/fluid.h"
#include "cluster/torus_collective.h"
#include "simgrid_rows.h"
#include "test_support/data.h"

namespace nest::test {
namespace {

constexpr const char* kFile = "collectives/simgrid.json";

struct Errors {
  int rows = 0;
  double sum = 0;
  double worst = 0;
};

// Relative errors per topology and algorithm; prints its table at the end.
class Table {
 public:
  void add(const std::string& topology, const std::string& algorithm, double predicted, double simulated) {
    const double error = std::abs(predicted / simulated - 1);
    for (Errors* errors : {&cells_[{topology, algorithm}], &total_}) {
      ++errors->rows;
      errors->sum += error;
      errors->worst = std::max(errors->worst, error);
    }
  }

  void print(const std::string& title) const {
    for (const auto& [key, errors] : cells_) {
      std::cout << fmt::format("  {:18} {:26} {:4} rows  max {:6.2f} %  mean {:6.3f} %\n", key.first, key.second,
                               errors.rows, 100 * errors.worst, 100 * errors.sum / errors.rows);
    }
    std::cout << fmt::format("{}: {} rows, max {:.2f} %, mean {:.3f} %\n", title, total_.rows, 100 * total_.worst,
                             100 * total_.sum / std::max(1, total_.rows));
  }

  const Errors& total() const { return total_; }

 private:
  std::map<std::pair<std::string, std::string>, Errors> cells_;
  Errors total_;
};

// Point-to-point messages of different lengths of way, each on its own links.
double mixed_messages_s(const SimulatedRow& row) {
  const Fabric& fabric = *row.fabric;
  std::map<std::tuple<std::size_t, std::int64_t, bool>, std::size_t> ids;
  std::vector<double> capacity;
  std::vector<FluidTask> tasks;
  for (const auto& pair : row.listed) {
    FluidTask task;
    const std::size_t top = fabric.level_between(pair[0], pair[1]);
    task.latency_s = fabric.latency_s[top];
    task.bytes = row.bytes;
    for (std::size_t l = 0; l <= top; ++l) {
      for (const bool up : {true, false}) {
        const auto [at, fresh] = ids.try_emplace({l, fabric.unit_of(l, pair[up ? 0 : 1]), up}, capacity.size());
        if (fresh) capacity.push_back(fabric.capacity[l]);
        task.loads.push_back({at->second, 1});
      }
    }
    tasks.push_back(task);
  }
  const auto ends = play(capacity, tasks);
  return *std::max_element(ends.begin(), ends.end());
}

std::optional<CollectiveTime> tree_time(const SimulatedRow& row) {
  const GroupLayout layout = row.layout();
  const Collective collective = row.our_collective();
  const auto with = [&](Algorithm algorithm) {
    return algorithm_time(*row.fabric, layout, collective, row.bytes, algorithm);
  };
  if (row.algorithm == "ring") return with(Algorithm::ring);
  if (row.algorithm == "hd_near") return with(Algorithm::halving_doubling);
  if (row.algorithm == "hd_far") return halving_doubling_far_first(*row.fabric, layout, row.bytes);
  if (row.algorithm == "hier2" || row.algorithm == "hier3") {
    return hierarchical_time(*row.fabric, layout, collective, row.bytes, row.hier_dims);
  }
  if (row.algorithm == "direct" || row.algorithm == "p2p") return with(Algorithm::direct);
  if (row.algorithm == "pairwise") return with(Algorithm::pairwise);
  return std::nullopt;
}

// A ring in a given order, whatever it is: as long as its longest hop (no link carries two of its messages in one
// step).
double listed_ring_s(const SimulatedRow& row) {
  const auto& order = row.listed[0];
  std::int64_t hops = 0;
  for (std::size_t i = 0; i < order.size(); ++i)
    hops = std::max(hops, row.torus->hops(order[i], order[(i + 1) % order.size()]));
  const double n = static_cast<double>(row.members);
  return 2 * (n - 1) * (static_cast<double>(hops) * row.torus->latency_s + row.bytes / n / row.torus->link_bytes_per_s);
}

std::optional<CollectiveTime> torus_time(const SimulatedRow& row) {
  const TorusPlace place = row.layout().torus;
  const Torus& torus = *row.torus;
  const Collective collective = row.our_collective();
  const auto with = [&](Algorithm a) { return torus_algorithm_time(torus, place, collective, row.bytes, a); };
  const auto rings = [&](std::size_t rotations, std::size_t directions) {
    return torus_dimension_rings(torus, place, collective, row.bytes, rotations, directions);
  };
  if (row.algorithm == "ring" || row.algorithm == "ring_snake") return with(Algorithm::ring);
  if (row.algorithm == "ring_rowmajor") return CollectiveTime{.seconds = listed_ring_s(row)};
  if (row.algorithm == "ring_bidir" || row.algorithm == "hier3_bidir") return rings(1, 2);
  if (row.algorithm == "hier2_xy" || row.algorithm == "hier3_xyz") return rings(1, 1);
  if (row.algorithm == "hier3_rot3") return rings(3, 1);
  if (row.algorithm == "hier3_rot3_bidir") return rings(3, 2);
  if (row.algorithm == "hd_near") return with(Algorithm::halving_doubling);
  if (row.algorithm == "hd_far") return torus_halving_far_first(torus, place, row.bytes);
  if (row.algorithm == "direct") return with(Algorithm::direct);
  if (row.algorithm == "pairwise") return with(Algorithm::pairwise);
  if (row.algorithm == "p2p") {
    const double hops = static_cast<double>(torus.hops(row.listed[0][0], row.listed[0][1]));
    return CollectiveTime{.seconds = hops * torus.latency_s + row.bytes / torus.link_bytes_per_s};
  }
  return std::nullopt;
}

double lockstep_s(const SimulatedRow& row) {
  if (row.torus) return torus_time(row).value().seconds;
  if (row.ids.starts_with("mix")) return mixed_messages_s(row);
  return tree_time(row).value().seconds;
}

Errors check_lockstep(const std::string& title, const std::set<char>& first_letters, bool pods) {
  Table table;
  for (const SimulatedRow& row : read_rows(read_json(data_dir() / kFile), "rows")) {
    const bool pod = row.fabric && row.fabric->has_rails();
    if (pod != pods || !first_letters.contains(row.topology[0])) continue;
    table.add(row.topology, row.collective + " " + row.algorithm, lockstep_s(row), row.seconds);
  }
  table.print(title);
  return table.total();
}

TEST(SimulatedCollectives, LockstepOnTreesIsExact) {
  NEST_REQUIRE_DATA(kFile);
  const Errors errors = check_lockstep("lockstep on trees", {'A', 'B', 'D'}, false);
  EXPECT_GT(errors.rows, 0);
  EXPECT_LE(errors.worst, 0.01);
}

TEST(SimulatedCollectives, LockstepOnPods) {
  NEST_REQUIRE_DATA(kFile);
  const Errors errors = check_lockstep("lockstep on pods", {'C', 'D'}, true);
  EXPECT_GT(errors.rows, 0);
  EXPECT_LE(errors.worst, 0.05);
}

TEST(SimulatedCollectives, LockstepOnTori) {
  NEST_REQUIRE_DATA(kFile);
  const Errors errors = check_lockstep("lockstep on tori", {'E'}, false);
  EXPECT_GT(errors.rows, 0);
  EXPECT_LE(errors.worst, 0.05);
}

// Jobs of the mixed rows as tasks: links 0 … levels−1 are shared uplinks of each level, further ones belong to single
// devices.
class Jobs {
 public:
  explicit Jobs(const SimulatedRow& row) : fabric_(*row.fabric) {
    capacity_.assign(fabric_.capacity.begin(), fabric_.capacity.begin() + static_cast<std::ptrdiff_t>(fabric_.levels));
  }

  // A ring over one device per node on device position `lane`.
  void ring(std::int64_t lane, std::size_t top, double steps, double bytes, double start_s) {
    add({start_s, static_cast<std::int64_t>(steps), fabric_.latency_s[top], bytes, way(lane, top, 1), {}});
  }

  void message(std::int64_t lane, std::size_t top, double bytes) {
    add({0, 1, fabric_.latency_s[top], bytes, way(lane, top, 1), {}});
  }

  // All messages of one direct all-to-all over four full nodes that climb to `top`, by the links of a device and of its
  // node.
  void all_to_all(std::size_t top, double messages, double bytes) {
    FluidTask task{0, 1, fabric_.latency_s[top], bytes, {}, {}};
    for (std::int64_t lane = 0; lane < 8; ++lane) {
      for (const LinkLoad& load : way(lane, top, messages)) {
        const auto same = std::find_if(task.loads.begin(), task.loads.end(),
                                       [&](const LinkLoad& other) { return other.link == load.link; });
        if (same == task.loads.end()) {
          task.loads.push_back(load);
        } else {
          same->flows += load.flows;
        }
      }
    }
    add(task);
  }

  double played_s() const {
    const auto ends = play(capacity_, tasks_);
    return *std::max_element(ends.begin(), ends.end());
  }
  double bound_s() const { return overlapped_s(capacity_, tasks_); }

 private:
  void add(FluidTask task) { tasks_.push_back(std::move(task)); }

  std::size_t own_link(std::int64_t lane, std::size_t level) {
    const auto [at, fresh] = own_.try_emplace({lane, level}, capacity_.size());
    if (fresh) capacity_.push_back(fabric_.capacity[level]);
    return at->second;
  }

  std::vector<LinkLoad> way(std::int64_t lane, std::size_t top, double flows) {
    std::vector<LinkLoad> loads;
    const std::size_t first = fabric_.has_rails() && top >= fabric_.rail_level ? fabric_.rail_level : 0;
    for (std::size_t l = first; l <= top; ++l) {
      const bool own = l == 0 || fabric_.lanes(l);
      loads.push_back({own ? own_link(lane, l) : l, flows});
    }
    return loads;
  }

  const Fabric& fabric_;
  std::vector<double> capacity_;
  std::vector<FluidTask> tasks_;
  std::map<std::pair<std::int64_t, std::size_t>, std::size_t> own_;
};

double after(const std::string& text, const std::string& mark) {
  const auto at = text.find(mark);
  return at == std::string::npos ? 1 : std::stod(text.substr(at + mark.size()));
}

Jobs concurrent_jobs(const SimulatedRow& row) {
  Jobs jobs(row);
  const double m = row.bytes;
  const double n = static_cast<double>(row.members);
  if (row.kind == "dp_plus_pp") {
    for (std::int64_t i = 0; i < 8; ++i) jobs.ring(i, 2, 2 * (n - 1), m / n, 0);
    for (std::int64_t i = 0; i < 8; ++i) jobs.message(i, 1, m / 4);
  } else if (row.kind == "ep_plus_dp") {
    for (std::int64_t i = 0; i < 8; ++i) jobs.ring(i, 2, 14, m / 8, 0);
    jobs.all_to_all(0, 7, m / 32);
    jobs.all_to_all(1, 24, m / 32);
  } else if (row.kind == "tp_plus_dp") {
    for (std::int64_t i = 0; i < 8; ++i) jobs.ring(i, 0, 14, m / 8, 0);
    for (std::int64_t i = 0; i < 8; ++i) jobs.ring(i, 2, 62, m / 8 / 32, 0);
  } else {
    const std::size_t top = row.members > 4 ? 2 : 1;
    const std::int64_t starts = row.spec->groups();
    const bool gather_and_scatter = row.kind == "fsdp_ag_rs";
    const double fraction = row.kind == "two_sizes" ? after(row.note, "256MB/") : 1;
    for (std::int64_t i = 0; i < starts; ++i) {
      const double part = i >= 4 ? m / n / fraction : m / n;
      for (int job = 0; job < (gather_and_scatter ? 2 : 1); ++job) {
        jobs.ring(i, top, gather_and_scatter ? n - 1 : 2 * (n - 1), part, static_cast<double>(i) * row.offset_s);
      }
    }
  }
  return jobs;
}

double mixed_s(const SimulatedRow& row) {
  if (row.kind == "misaligned") return tree_time(row).value().seconds;
  if (row.kind == "hier_pipelined") {
    return pipelined_hierarchical_s(*row.fabric, row.layout(), row.bytes, row.hier_dims, row.chunks);
  }
  if (row.kind == "multiring8") {
    return algorithm_time(*row.fabric, row.layout(), Collective::all_reduce, row.bytes, Algorithm::multi_ring)
        .value()
        .seconds;
  }
  return concurrent_jobs(row).played_s();
}

TEST(SimulatedCollectives, Mixed) {
  NEST_REQUIRE_DATA(kFile);
  Table table;
  for (const SimulatedRow& row : read_rows(read_json(data_dir() / kFile), "mixed")) {
    const double predicted = mixed_s(row);
    table.add(row.kind, row.collective + " " + row.algorithm, predicted, row.seconds);
    EXPECT_NEAR(predicted / row.seconds, 1, 0.10)
        << row.kind << " " << row.topology << " " << row.collective << " " << row.algorithm << " n=" << row.members
        << " groups=" << row.groups << " bytes=" << row.bytes << " " << (row.spec ? row.spec->first : -1)
        << " simulated " << row.seconds << " predicted " << predicted;
  }
  table.print("mixed");
  EXPECT_GT(table.total().rows, 0);
}

TEST(SimulatedCollectives, QuickBoundOfConcurrentJobs) {
  NEST_REQUIRE_DATA(kFile);
  Table table;
  for (const SimulatedRow& row : read_rows(read_json(data_dir() / kFile), "mixed")) {
    if (row.kind == "misaligned" || row.kind == "hier_pipelined" || row.kind == "multiring8") continue;
    table.add(row.kind, row.collective + " " + row.algorithm, concurrent_jobs(row).bound_s(), row.seconds);
  }
  table.print("quick bound of concurrent jobs");
  EXPECT_LE(table.total().worst, 0.06);
}

}  // namespace
}  // namespace nest::test
