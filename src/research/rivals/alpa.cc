#include "rivals/alpa.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/index.h"
#include "base/units.h"
#include "rivals/alpa_ilp.h"
#include "rivals/alpa_layer.h"
#include "rivals/alpa_mesh.h"
#include "rivals/partition.h"
#include "rivals/settle.h"

namespace nest::rivals {
namespace {

constexpr std::int64_t kMostTensor = 64;  // as search/space.h
constexpr double kProgramSeconds = 10;    // of one integer program
constexpr double kCollecting = 0.8;       // share of the time for integer programs; the rest is for stages

plan::PlanLimits alpa_limits(const plan::PlanLimits& limits) {
  plan::PlanLimits alpa = limits;
  if (alpa.cp.admits(1)) alpa.cp = {1, 1, {}};
  alpa.refuse(Schedule::interleaved);
  alpa.refuse(Schedule::gpipe);
  alpa.pitch = alpa.shard_in_node = false;
  if (limits.dp_inner.is_free()) alpa.replicas_together = true;
  return alpa;
}

std::int64_t mesh_width(const cluster::Cluster& cluster) {
  return cluster.torus ? cluster.torus->dims.front() : cluster::devices_per_node(cluster).value();
}

// Devices of the submeshes: divisors of a node, and nodes.
std::vector<std::int64_t> submesh_sizes(const cluster::Cluster& cluster, std::int64_t devices) {
  const std::int64_t width = std::min(mesh_width(cluster), devices);
  std::vector<std::int64_t> sizes;
  for (std::int64_t part = 1; part < width; ++part) {
    if (width % part == 0) sizes.push_back(part);
  }
  const std::int64_t nodes = devices / width;
  for (std::int64_t count = 1; count <= nodes; ++count) {
    if (nodes % count == 0) sizes.push_back(count * width);
  }
  return sizes;
}

class Alpa {
 public:
  explicit Alpa(const RivalRequest& request)
      : job_(*request.job),
        deadline_(request),
        limit_s_(request.time_limit_s),
        space_(job_, alpa_limits(published_limits(request)), device_limit(request)),
        prices_(job_),
        partition_(space_, prices_, false),
        full_(job_, request.limits, device_limit(request)),
        best_(full_) {
    kind_count_.assign(job_.model.kinds.size(), 0);
    for (const int kind : job_.model.layers) ++kind_count_[at(kind)];
  }

  RivalAnswer plan(const RivalRequest& request) {
    for (const bool all_devices : {true, false}) {
      collect(all_devices);
      choose();
      if (!best_.is_empty() || !complete_) break;
    }
    std::string note;
    if (space_.schedules().empty()) {
      note = "the limits admit none of its plans: 1F1B";
    } else if (best_.is_empty() && considered_ > 0) {
      note = "none of its plans fits into memory";
    } else if (best_.is_empty()) {
      note = "no view of a submesh becomes a plan that the limits admit";
    }
    RivalAnswer answer = best_.answer(request, considered_, deadline_.elapsed_s(), !complete_, note);
    if (unproven_ > 0) {
      answer.stopped = true;
      answer.note += fmt::format("{}the solver gave up on {} integer programs", answer.note.empty() ? "" : "; ",
                                 format_integer(unproven_));
    }
    return answer;
  }

 private:
  using View = std::array<std::int64_t, 3>;  // x, y, sequences of a micro-batch

  // Whether this share of the time is spent, or somebody stops it.
  bool is_over(double share) {
    const bool over = deadline_.is_over() || (limit_s_ > 0 && deadline_.elapsed_s() > share * limit_s_);
    if (over) complete_ = false;
    return over;
  }

  // Strategies by the sequences of a micro-batch over all devices of a stage.
  void collect(bool all_devices) {
    std::vector<View> views;
    for (const std::int64_t size : submesh_sizes(job_.cluster, space_.devices())) {
      if (all_devices && space_.devices() / size > space_.layers()) continue;
      for (std::int64_t x = 1; x <= size; ++x) {
        if (size % x != 0) continue;
        for (const std::int64_t sequences : micro_batch_totals(x, size / x)) views.push_back({x, size / x, sequences});
      }
    }
    // Rows of one node first: where time is short, those matter.
    const auto node = real(mesh_width(job_.cluster));
    const auto distance = [&](const View& view) { return std::abs(std::log2(real(view[1]) / node)); };
    std::stable_sort(views.begin(), views.end(),
                     [&](const View& a, const View& b) { return distance(a) < distance(b); });
    for (const auto& [x, y, sequences] : views) {
      if (is_over(kCollecting)) return;
      const std::int64_t most = std::min(space_.devices() / (x * y), space_.layers());
      try_view(x, y, sequences, all_devices ? most : 1, most);
    }
  }

  // Whether the request may admit a plan with so many tensor-parallel ranks on so many devices per stage.
  bool may_admit(std::int64_t tp, std::int64_t size, std::int64_t fewest, std::int64_t most) const {
    const plan::PlanLimits& limits = space_.limits();
    if (!limits.tp.admits(tp) || !limits.dp.admits(size / tp)) return false;
    for (std::int64_t stages = fewest; stages <= most; ++stages) {
      if (limits.pp.admits(stages)) return true;
    }
    return false;
  }

  // Where the request excludes what the integer program would choose, it is told what to do along each axis.
  void try_view(std::int64_t x, std::int64_t y, std::int64_t sequences, std::int64_t fewest, std::int64_t most) {
    std::vector<AxisRules> told;
    for (const AxisRule outer : {AxisRule::data, AxisRule::tensor}) {
      for (const AxisRule inner : {AxisRule::data, AxisRule::tensor}) {
        if ((x == 1 && outer == AxisRule::tensor) || (y == 1 && inner == AxisRule::tensor)) continue;
        const std::int64_t tp = (outer == AxisRule::tensor ? x : 1) * (inner == AxisRule::tensor ? y : 1);
        if (may_admit(tp, x * y, fewest, most)) told.push_back({outer, inner});
      }
    }
    if (told.empty()) return;
    const auto is_admitted = [&](const AxisRules& rules) {
      const std::optional<Split> split = split_of(x, y, sequences, rules);
      bool any = false;
      for (std::int64_t stages = fewest; split && stages <= most; ++stages) {
        any = add(*split, x * y, stages, sequences) || any;
      }
      return any;
    };
    const plan::PlanLimits& limits = space_.limits();
    const bool free = limits.tp.is_free() && limits.ep.is_free() && limits.dp.is_free();
    if (is_admitted({AxisRule::open, AxisRule::open}) || free) return;
    for (const AxisRules& rules : told) is_admitted(rules);
  }

  std::set<std::int64_t> micro_batch_totals(std::int64_t x, std::int64_t y) const {
    std::set<std::int64_t> totals;
    for (const std::int64_t size : space_.micro_batches()) {
      for (const std::int64_t ranks : {std::int64_t{1}, x, y, x * y}) {
        const std::int64_t total = size * ranks;
        if (total <= job_.run.global_batch && x * y <= kMostTensor * total) totals.insert(total);
      }
    }
    return totals;
  }

  // What most of the work chose along each axis.
  std::optional<Split> split_of(std::int64_t x, std::int64_t y, std::int64_t sequences, const AxisRules& rules) {
    const auto [place, fresh] = splits_.try_emplace({View{x, y, sequences}, rules});
    if (!fresh) return place->second;
    const LogicalMesh mesh = logical_mesh(job_.cluster, x, y);
    std::array<AxisWork, 2> work;
    for (std::size_t kind = 0; kind < kind_count_.size(); ++kind) {
      if (is_over(kCollecting)) return std::nullopt;
      const double left = limit_s_ > 0 ? std::max(1e-3, limit_s_ - deadline_.elapsed_s()) : kProgramSeconds;
      const MeshAnswer answer =
          mesh_layer(job_, static_cast<int>(kind), mesh, sequences, rules, std::min(left, kProgramSeconds));
      unproven_ += answer.proven ? 0 : 1;
      if (!answer.layer) return std::nullopt;
      for (std::size_t a = 0; a < 2; ++a) work[a].add(answer.layer->work[a], real(kind_count_[kind]));
    }
    Split split;
    for (std::size_t a = 0; a < 2; ++a) {
      if (mesh[a].size == 1) continue;
      if (work[a].replicated > work[a].data + work[a].tensor) return std::nullopt;
      const bool tensor = work[a].tensor > work[a].data;
      const bool experts = work[a].expert_whole > std::max(work[a].expert_data, work[a].expert_tensor);
      if (tensor) split.tp *= mesh[a].size;
      if (tensor && experts) split.etp = 1;
      if (!tensor && experts) split.ep *= mesh[a].size;
    }
    if (split.etp == 1) split.ep *= split.tp;  // whole experts on the tensor-parallel ranks as well
    place->second = split;
    return split;
  }

  // Whether the space has such a plan.
  bool add(const Split& found, std::int64_t size, std::int64_t stages, std::int64_t sequences) {
    bool any = false;
    for (const bool sp : {false, true}) {
      if (sp && found.tp == 1) continue;
      Strategy strategy;
      strategy.split = found;
      strategy.split.sp = sp;
      strategy.pp = stages;
      strategy.dp = strategy.dp_inner = size / found.tp;
      if (strategy.dp * found.tp != size || strategy.dp < 1 || sequences % strategy.dp != 0) continue;
      strategy.micro_batch = sequences / strategy.dp;
      const std::optional<search::Key> key = key_of(space_, strategy);
      if (!key) continue;
      strategy = space_.strategy(*key);
      std::vector<Strategy>& known = strategies_[sequences];
      if (std::find(known.begin(), known.end(), strategy) == known.end()) known.push_back(strategy);
      any = true;
    }
    return any;
  }

  // Positions between `groups` groups of layers of about equal time.
  std::vector<std::int64_t> group_layers(std::int64_t groups) {
    std::vector<std::int64_t> positions;
    const auto pair = prices_.get(space_.splits().front(), space_.micro_batches().front());
    const std::vector<double>& prefix = pair->prefix(true);
    std::int64_t next = 0;
    for (std::int64_t g = 1; g < groups; ++g) {
      const double wanted = prefix.back() * real(g) / real(groups);
      const std::int64_t before = next;
      next = before + 1;
      while (next + (groups - g) < space_.layers() && prefix[at(next)] < wanted) ++next;
      positions.push_back(next);
    }
    return positions;
  }

  void choose() {
    if (strategies_.empty()) return;
    for (const std::int64_t groups :
         {std::int64_t{8}, std::int64_t{16}, std::int64_t{32}, std::int64_t{64}, std::int64_t{128}, space_.layers()}) {
      if (groups > space_.layers()) continue;
      partition_.cut_only_at(group_layers(groups));
      for (const auto& [sequences, strategies] : strategies_) choose_among(strategies, groups);
    }
  }

  // The best by Alpa's own prediction.
  void choose_among(const std::vector<Strategy>& strategies, std::int64_t groups) {
    double least_s = std::numeric_limits<double>::infinity();
    Strategy chosen;
    std::optional<Partition> best;
    for (const Strategy& strategy : strategies) {
      if (strategy.pp > groups) continue;
      if (is_over(1)) break;
      ++considered_;
      std::optional<Partition> partition = partition_.solve(strategy, least_s);
      if (!partition) continue;
      least_s = partition->time_s;
      chosen = strategy;
      best = std::move(partition);
    }
    if (best) best_.offer(chosen, best->stages);
  }

  const cost::Job& job_;
  Deadline deadline_;
  double limit_s_;
  search::PlanSpace space_;
  search::PriceCache prices_;
  ChainPartition partition_;
  search::PlanSpace full_;
  BestPlan best_;
  std::vector<std::int64_t> kind_count_;
  std::map<std::pair<View, AxisRules>, std::optional<Split>> splits_;
  std::map<std::int64_t, std::vector<Strategy>> strategies_;  // by sequences
  std::int64_t considered_ = 0;
  std::int64_t unproven_ = 0;  // integer programs that the solver gave up
  bool complete_ = true;
};

}  // namespace

RivalAnswer plan_alpa(const RivalRequest& request) { return Alpa(request).plan(request); }

}  // namespace nest::rivals
