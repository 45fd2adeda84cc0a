// Which plans there are.
#include <algorithm>
#include <functional>

#include "cost/group_time.h"
#include "cost/tables.h"
#include "oracle.h"

namespace nest::test {
namespace {

using Visit = std::function<void(const Strategy&)>;

struct Enumeration {
  const cost::Job& job;
  const plan::PlanLimits& limits;
  std::int64_t devices;
  ChainPattern pattern;

  std::int64_t layers() const { return static_cast<std::int64_t>(job.model.layers.size()); }
  std::int64_t batch() const { return job.run.global_batch; }

  bool experts() const {
    return std::any_of(job.model.kinds.begin(), job.model.kinds.end(),
                       [](const model::Layer& l) { return l.experts > 0; });
  }

  static bool open(const plan::Limit& limit) {
    const plan::Limit none;
    return limit.low == none.low && limit.high == none.high && limit.only.empty();
  }

  // The cuts of docs/planning.md, for whoever asks for nothing.
  bool is_usual(std::int64_t tp, std::int64_t cp, std::int64_t etp, std::int64_t ep) const {
    if (!experts()) return etp == tp && ep == 1;
    if (open(limits.etp) && etp != 1 && etp != 2 && etp != tp) return false;
    if (!open(limits.ep) || etp * ep >= tp * cp) return true;
    const std::int64_t unit = job.cluster.torus ? tp * cp : job.cluster.fabric.unit[1];
    return unit % (etp * ep) == 0;
  }

  // How context ranks may exchange, with cp_inner.
  std::vector<std::pair<ContextExchange, std::int64_t>> exchanges(std::int64_t tp, std::int64_t cp) const {
    if (cp == 1) return {{ContextExchange::p2p, 1}};
    std::vector<std::pair<ContextExchange, std::int64_t>> list;
    const bool asked = limits.cp_comm != decltype(limits.cp_comm){true, true, true, true};
    for (const ContextExchange kind :
         {ContextExchange::p2p, ContextExchange::all_gather, ContextExchange::a2a, ContextExchange::a2a_p2p}) {
      const auto& run = job.stack.context_exchange;
      if (asked ? !limits.admits(kind) : std::count(run.begin(), run.end(), kind) == 0) continue;
      if (kind != ContextExchange::a2a_p2p) {
        if (limits.cp_inner.admits(1)) list.emplace_back(kind, 1);
        continue;
      }
      std::int64_t most = 1;
      for (std::int64_t inner = 2; inner < cp; inner *= 2) {
        const Split split{tp, false, cp, 1, 0, kind, inner};
        const bool legal = split::refuse_context(job.model, split).empty();
        if (!open(limits.cp_inner)) {
          if (legal && limits.cp_inner.admits(inner)) list.emplace_back(kind, inner);
        } else if (!job.cluster.torus && tp * cp > job.cluster.fabric.unit[1] &&
                   tp * inner <= job.cluster.fabric.unit[1] && legal) {
          most = inner;
        }
      }
      if (most > 1) list.emplace_back(kind, most);
    }
    return list;
  }

  // Whether a ring may be chosen, and is as fast in every pass of every layer.
  bool loses_to_a_ring(const Split& split, std::int64_t size) const {
    if (split.cp_comm == ContextExchange::p2p || split.team_devices() > devices) return false;
    bool may_ring = false;
    for (const auto& [comm, inner] : exchanges(split.tp, split.cp)) may_ring = may_ring || comm == ContextExchange::p2p;
    if (!may_ring) return false;
    Split ring = split;
    ring.cp_comm = ContextExchange::p2p;
    ring.cp_inner = 1;
    cost::Treatments sets;  // every one that stages may choose
    for (const Recomputation& one : all_recomputations(job, {})) {
      if (one.kind == Recompute::modules) sets.sets.push_back(one.modules);
    }
    const auto own = cost::price_table(job, split, size, sets).kinds;
    const auto other = cost::price_table(job, ring, size, sets).kinds;
    for (std::size_t k = 0; k < own.size(); ++k) {
      const cost::LayerPrice &a = own[k], &b = other[k];
      if (a.forward_s < b.forward_s || a.backward_s < b.backward_s) return false;
      if (a.alone_forward_s < b.alone_forward_s || a.alone_backward_s < b.alone_backward_s) return false;
      for (std::size_t mode = 0; mode < a.recompute_s.size(); ++mode) {
        if (a.recompute_s[mode] < b.recompute_s[mode]) return false;
      }
    }
    return true;
  }

  // Both grids in full: every number of ranks for each, the second as large as all devices of a stage.
  std::vector<Split> splits() const {
    std::vector<Split> list;
    const split::RunShape shape{1, job.run.sequence, job.run.encoder_sequence, 1.0};
    const std::vector<OffloadSet> offloads = all_offloads(job, limits);
    for (std::int64_t tp = 1; tp <= std::min<std::int64_t>(64, devices); ++tp) {
      for (std::int64_t cp = 1; cp <= 64 && tp * cp <= devices; cp *= 2) {
        for (std::int64_t etp = 1; etp <= std::min<std::int64_t>(64, devices); ++etp) {
          for (std::int64_t ep = 1; etp * ep <= devices; ++ep) {
            for (const bool sp : {false, true}) {
              if (!limits.tp.admits(tp) || !limits.cp.admits(cp) || !limits.ep.admits(ep) || !limits.etp.admits(etp)) {
                continue;
              }
              if (tp > 1 && !limits.sp[sp ? 1 : 0]) continue;
              if (tp == 1 && sp) continue;  // the same as without
              if (!is_usual(tp, cp, etp, ep)) continue;
              for (const auto& [comm, inner] : exchanges(tp, cp)) {
                Split split{tp, sp, cp, ep, etp == tp ? 0 : etp, comm, inner};
                if (!split::refuse_split(job.model, shape, split).empty()) continue;
                for (const OffloadSet modules : offloads) {
                  split.offload = modules;
                  list.push_back(split);
                }
              }
            }
          }
        }
      }
    }
    return list;
  }

  std::vector<std::int64_t> micro_batches_admitted() const {
    std::vector<std::int64_t> list;
    for (std::int64_t size = 1; size <= batch(); ++size) {
      const bool named = !limits.micro_batch.only.empty();
      const bool usual = (size & (size - 1)) == 0 && size <= 64;
      if (limits.micro_batch.admits(size) && (named || usual)) list.push_back(size);
    }
    return list;
  }

  // Named, or run by the stack where nobody names any.
  bool admits_split(Schedule kind) const {
    const auto& runs = job.stack.schedules;
    return limits.admits(kind) || (limits.more_schedules && std::find(runs.begin(), runs.end(), kind) != runs.end());
  }

  std::vector<Strategy> schedules(std::int64_t pp) const {
    std::vector<Strategy> list;
    Strategy strategy;
    strategy.pp = pp;
    if (limits.vpp.admits(1)) {
      if (limits.admits(Schedule::one_f_one_b)) list.push_back(strategy);
      strategy.schedule = Schedule::gpipe;
      if (limits.admits(Schedule::gpipe)) list.push_back(strategy);
      strategy.schedule = Schedule::zb_h1;
      if (admits_split(Schedule::zb_h1)) list.push_back(strategy);
    }
    if (pp == 1 || pattern.repeats == 0) return list;
    strategy.virtual_stages = 2;
    for (const Schedule folded : {Schedule::zbv, Schedule::v_half, Schedule::v_min, Schedule::dualpipev}) {
      strategy.schedule = folded;
      if (admits_split(folded) && limits.vpp.admits(2) && 2 * pp <= pattern.repeats + 2) list.push_back(strategy);
    }
    if (!limits.admits(Schedule::interleaved)) return list;
    strategy.schedule = Schedule::interleaved;
    for (const std::int64_t chunks : {2, 3, 4, 5, 6, 8, 10, 12}) {
      strategy.virtual_stages = chunks;
      // One motif for every chunk but those of head and tail.
      if (limits.vpp.admits(chunks) && pp * chunks <= pattern.repeats + 2) list.push_back(strategy);
    }
    return list;
  }

  bool admits_replicas(const Strategy& strategy) const {
    const std::int64_t at_once = strategy.micro_batch * strategy.dp;
    if (at_once > batch() || !limits.dp.admits(strategy.dp)) return false;
    if (!limits.uneven_batch && batch() % at_once != 0) return false;
    const std::int64_t rounds = (batch() + at_once - 1) / at_once;
    if (strategy.schedule == Schedule::dualpipev && rounds < 2 * strategy.pp) return false;
    return strategy.schedule != Schedule::interleaved || limits.any_rounds || rounds % strategy.pp == 0;
  }

  void placements(Strategy strategy, const Visit& visit) const {
    for (std::int64_t inner = 1; inner <= strategy.dp; ++inner) {
      if (strategy.dp % inner != 0 || !limits.dp_inner.admits(inner)) continue;
      if (limits.replicas_together && inner != strategy.dp) continue;
      const Split& split = strategy.split;
      const std::int64_t etp = split.etp == 0 ? split.tp : split.etp;
      if (split.tp * split.cp * inner % (etp * split.ep) != 0) continue;  // a set of experts leaves the block
      const bool pipelines = inner == 1 && (!experts() || etp * split.ep == split.tp * split.cp);
      if (limits.whole_blocks_only && !pipelines && inner != strategy.dp) continue;
      strategy.dp_inner = inner;
      const std::int64_t block = strategy.pipeline_block();
      std::vector<std::int64_t> pitches{0};
      if (limits.pitch && !job.cluster.torus && inner < strategy.dp) {
        for (std::size_t l = 1; l < job.cluster.fabric.levels; ++l) {
          const std::int64_t unit = job.cluster.fabric.unit[l], pitch = (block + unit - 1) / unit * unit;
          if (pitch != block && std::find(pitches.begin(), pitches.end(), pitch) == pitches.end()) {
            pitches.push_back(pitch);
          }
        }
      }
      for (const std::int64_t pitch : pitches) {
        strategy.pitch = pitch;
        // Without a pipeline all tight groupings place every rank alike; they are one key.
        const bool again =
            pitch == 0 && strategy.pp == 1 && inner != strategy.dp && limits.dp_inner.admits(strategy.dp);
        if (!again && strategy.devices_spanned() <= devices) visit(strategy);
      }
    }
  }

  void run(const Visit& visit) const {
    for (const Split& split : splits()) {
      for (const std::int64_t size : micro_batches_admitted()) {
        const split::RunShape shape{size, job.run.sequence, job.run.encoder_sequence, 1.0};
        if (!split::refuse_split(job.model, shape, split).empty()) continue;
        if (loses_to_a_ring(split, size)) continue;
        for (std::int64_t pp = 1; pp <= layers(); ++pp) {
          if (!limits.pp.admits(pp)) continue;
          for (Strategy strategy : schedules(pp)) {
            strategy.split = split;
            strategy.micro_batch = size;
            for (strategy.dp = 1; strategy.devices_used() <= devices; ++strategy.dp) {
              if (admits_replicas(strategy)) placements(strategy, visit);
            }
          }
        }
      }
    }
  }
};

}  // namespace

ChainPattern chain_pattern(const std::vector<int>& layers) {
  const auto n = static_cast<std::int64_t>(layers.size());
  const auto kind = [&](std::int64_t i) { return layers[static_cast<std::size_t>(i)]; };
  ChainPattern best;
  for (std::int64_t motif = 1; motif <= 8; ++motif) {
    for (std::int64_t head = 0; head < n; ++head) {
      std::int64_t repeats = 1;
      const auto repeats_again = [&] {
        for (std::int64_t i = 0; i < motif; ++i) {
          if (head + repeats * motif + i >= n || kind(head + repeats * motif + i) != kind(head + i)) return false;
        }
        return true;
      };
      while (head + motif <= n && repeats_again()) ++repeats;
      if (repeats < 2 || repeats * motif <= best.repeats * best.motif) continue;
      best = {head, motif, repeats, n - head - repeats * motif};
    }
  }
  return best;
}

std::vector<Strategy> all_strategies(const cost::Job& job, const plan::PlanLimits& limits, std::int64_t devices) {
  std::vector<Strategy> list;
  Enumeration{job, limits, devices, chain_pattern(job.model.layers)}.run(
      [&](const Strategy& strategy) { list.push_back(strategy); });
  return list;
}

// The node's part of the data-parallel group, found by looking at devices one by one.
std::vector<std::int64_t> sharding_degrees(const cost::Job& job, const plan::PlanLimits& limits,
                                           const Strategy& strategy) {
  std::vector<std::int64_t> degrees{0};
  if (!limits.shard_in_node || job.cluster.torus || job.cluster.fabric.levels < 2) return degrees;
  const std::int64_t per_replica = strategy.split.cp, all = strategy.dp * per_replica;
  for (std::int64_t degree = all - 1; degree > 1; --degree) {
    if (all % degree != 0 || !groups::can_shard(strategy, degree)) continue;
    bool inside = true;
    for (std::int64_t k = 0; k < degree; ++k) {
      const std::int64_t device = device_of(strategy, k / per_replica, 0, k % per_replica * strategy.split.tp);
      inside = inside && device + strategy.split.tp <= job.cluster.fabric.unit[1];
    }
    if (!inside) continue;
    degrees.push_back(degree);
    break;
  }
  return degrees;
}

bool may_be_stage(const ChainPattern& pattern, const Strategy& strategy, std::int64_t stage, std::int64_t begin,
                  std::int64_t end) {
  if (begin >= end) return false;
  if (strategy.virtual_stages == 1) return true;
  const std::int64_t woven = pattern.motif * pattern.repeats;
  const bool first = stage == 0, last = stage + 1 == strategy.pp;
  // What of the repeated part the stage holds, counted from its beginning.
  const std::int64_t from = first ? 0 : begin - pattern.head, to = last ? woven : end - pattern.head;
  if (from < 0 || to > woven || to < from || from % pattern.motif != 0 || to % pattern.motif != 0) return false;
  return (to - from) / pattern.motif >= strategy.virtual_stages - (first ? 1 : 0) - (last ? 1 : 0);
}

}  // namespace nest::test
