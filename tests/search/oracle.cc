#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace nest::search::test {
namespace {

using i64 = std::int64_t;

template <typename T>
const T& item(const std::vector<T>& list, i64 index) {
  return list[static_cast<std::size_t>(index)];
}

i64 up(i64 a, i64 b) { return (a + b - 1) / b; }

// Device of tensor rank t, context rank c, expert rank e of replica r, stage s.
i64 device(const SplitChoice& split, const Key& key, i64 r, i64 s, i64 e, i64 c, i64 t) {
  const i64 a = split.tensor * split.context * split.expert;
  const i64 outer = r / key.inner_replicas, inner = r % key.inner_replicas;
  return outer * key.pitch + (s * key.inner_replicas + inner) * a + (e * split.context + c) * split.tensor + t;
}

Line hop_by_hand(const Instance& instance, const Key& key, i64 from, i64 to) {
  const SplitChoice& split = item(instance.problem.splits, key.split);
  double slowest = 0;
  i64 latency = 0;
  for (const NetworkLevel& level : instance.levels) {
    i64 most = 0;
    for (i64 outer = 0; outer < key.replicas / key.inner_replicas; ++outer) {
      std::map<i64, i64> leaving;
      for (i64 inner = 0; inner < key.inner_replicas; ++inner) {
        const i64 r = outer * key.inner_replicas + inner;
        for (i64 e = 0; e < split.expert; ++e) {
          for (i64 c = 0; c < split.context; ++c) {
            for (i64 t = 0; t < split.tensor; ++t) {
              const i64 source = device(split, key, r, from, e, c, t) / level.unit;
              const i64 target = device(split, key, r, to, e, c, t) / level.unit;
              if (source != target) most = std::max(most, ++leaving[source]);
            }
          }
        }
      }
    }
    if (most == 0) continue;
    slowest = std::max(slowest, static_cast<double>(most) * (1e12 * 1048576 / level.bytes_per_s));
    latency = std::max(latency, level.latency_ps);
  }
  return {latency, std::llround(slowest)};
}

// Members of one gradient group among the first min(block, unit) devices of a block, times pipelines in a unit.
i64 members_by_hand(const Instance& instance, const Key& key, bool dense, std::size_t level) {
  const SplitChoice& split = item(instance.problem.splits, key.split);
  const i64 outer = key.replicas / key.inner_replicas;
  if (level == 0) return 1;
  const i64 a = split.tensor * split.context * split.expert, block = key.inner_replicas * a;
  const i64 unit = level < instance.levels.size() ? instance.levels[level].unit : 1'000'000'000;
  // Groups are complete after `a` devices (expert) or `tensor` devices (dense); a part of one counts as none.
  i64 count = 0;
  const i64 window = std::min(block, unit);
  for (i64 inner = 0; inner < key.inner_replicas; ++inner) {
    for (i64 e = 0; e < (dense ? split.expert : 1); ++e) {
      for (i64 c = 0; c < split.context; ++c) {
        const i64 last = inner * a + (e * split.context + c) * split.tensor + split.tensor - 1;
        const bool whole = dense || window < a || (inner + 1) * a <= window;
        if (last < window && whole) ++count;
      }
    }
  }
  count = std::max<i64>(1, count);
  if (level == instance.levels.size()) return count * outer;
  return block >= unit ? count : count * std::min(outer, std::max<i64>(1, unit / key.pitch));
}

Line collective_by_hand(const Instance& instance, const Key& key, bool dense, std::size_t from, std::size_t to) {
  double rate = 0;
  i64 latency = 0;
  for (std::size_t l = from; l < to; ++l) {
    const i64 inside = members_by_hand(instance, key, dense, l), outside = members_by_hand(instance, key, dense, l + 1);
    const double share = 1.0 / static_cast<double>(inside) - 1.0 / static_cast<double>(outside);
    rate += share * static_cast<double>(instance.levels[l].unit) * (1e12 * 1048576 / instance.levels[l].bytes_per_s);
    i64 rounds = 0;
    for (i64 reach = inside; reach < outside; reach *= 2) ++rounds;
    latency += rounds * instance.levels[l].latency_ps;
  }
  return {latency, std::llround(rate)};
}

struct StageCost {
  i64 time, once, memory;
};

i64 line_at(const Line& line, i64 bytes) {
  return bytes == 0 ? 0 : line.alpha_ps + static_cast<i64>(static_cast<Int128>(line.beta_ps_per_mib) * bytes / 1048576);
}

// One stage, from the definitions.
StageCost stage_by_hand(const Instance& instance, const Key& key, const PlacementClass& placed, i64 m, i64 s, i64 begin,
                        i64 end, const StageOption& option) {
  const Problem& p = instance.problem;
  const LayerTable& table = instance.table(key.split, key.micro_batch);
  const Schedule& schedule = item(p.schedules, key.schedule);
  const i64 v = schedule.chunks;
  i64 time = 0, hide = 0, kept = 0, working = 0, gathered = 0, dense = 0, expert = 0;
  for (i64 i = begin; i < end; ++i) {
    const LayerCost& layer = item(table.layers, item(p.chain.layer_type, i));
    const auto r = static_cast<std::size_t>(option.recompute);
    time += layer.time_ps;
    if (option.recompute == 1) time += layer.selective_ps;
    if (option.recompute == 2) time += layer.full_ps;
    hide += layer.hide_ps;
    kept += layer.kept_bytes[r];
    working = std::max(working, layer.working_bytes[r]);
    gathered = std::max(gathered, layer.gather_bytes);
    dense += layer.dense_parameters;
    expert += layer.expert_parameters;
  }
  if (s > 0) time += v * line_at(item(placed.hop, s - 1), item(table.cut_bytes, item(p.chain.cut_kind, begin)));
  if (s + 1 < key.stages) time += v * line_at(item(placed.hop, s), item(table.cut_bytes, item(p.chain.cut_kind, end)));
  if (key.stages > 1 && (s == 0 || s == key.stages - 1)) time += (v - 1) * line_at(placed.wrap, table.wrap_bytes);
  const StateRecipe& q = p.state;
  const ShardGroup& g = placed.sync.group[static_cast<std::size_t>(option.group)];
  const i64 gradients_d = dense * q.gradient_traffic_bytes, gradients_e = expert * q.gradient_traffic_bytes;
  const i64 scatter = line_at(g.dense_shard, gradients_d) + line_at(g.expert_shard, gradients_e);
  const i64 gather =
      line_at(g.dense_shard, dense * q.weight_traffic_bytes) + line_at(g.expert_shard, expert * q.weight_traffic_bytes);
  const i64 between = 2 * (line_at(g.dense_replicate, gradients_d) + line_at(g.expert_replicate, gradients_e));
  const auto shown = [&](i64 traffic, i64 hidden) {
    return std::max(std::max<i64>(0, traffic - hidden),
                    static_cast<i64>(static_cast<Int128>(traffic) * q.exposed_1024ths / 1024));
  };
  i64 once = 0;
  switch (option.zero) {
    case 0: once = shown(scatter + scatter + between, hide); break;
    case 1: once = shown(scatter + gather + between, hide); break;
    case 2:
      time += shown(scatter, hide);
      once = shown(gather + between, hide);
      break;
    default: time += shown(scatter + gather + gather, hide + hide); once = shown(between, hide);
  }
  const i64 dd = option.zero > 0 ? g.dense_degree : 1, de = option.zero > 0 ? g.expert_degree : 1;
  const i64 updated = up(dense, dd) + up(expert, de);
  once += static_cast<i64>(static_cast<Int128>(updated) * q.step_ps_per_mi_sharded / 1048576);
  once += static_cast<i64>(static_cast<Int128>(dense + expert) * q.step_ps_per_mi_local / 1048576);
  i64 memory = working;
  memory += up(q.optimizer_bytes * dense, dd) + up(q.optimizer_bytes * expert, de);
  memory += option.zero >= 2 ? up(q.gradient_bytes * dense, dd) + up(q.gradient_bytes * expert, de)
                             : q.gradient_bytes * (dense + expert);
  memory += option.zero >= 3 ? up(q.weight_bytes * dense, dd) + up(q.weight_bytes * expert, de) + gathered
                             : q.weight_bytes * (dense + expert);
  i64 held = 0;
  if (schedule.kind == ScheduleKind::gpipe) held = m;
  if (schedule.kind == ScheduleKind::one_f_one_b) held = std::min(key.stages - s, m);
  if (schedule.kind == ScheduleKind::interleaved)
    held = std::min(2 * (key.stages - s - 1) + (v - 1) * key.stages + 1, m * v);
  memory += up(held * kept, v);
  return {time, once, memory};
}

std::vector<StageOption> allowed_options(const Problem& p) {
  std::vector<StageOption> result;
  for (int r = 0; r < 3; ++r) {
    for (int z = 0; z < 4; ++z) {
      for (int g = 0; g < 2; ++g) {
        if (!p.options.recompute[static_cast<std::size_t>(r)] || !p.options.zero[static_cast<std::size_t>(z)]) continue;
        if (z == 0 ? g == 1 : !p.options.group[static_cast<std::size_t>(g)]) continue;
        result.push_back({r, z, g});
      }
    }
  }
  return result;
}

i64 micro_batches(const Instance& instance, const Key& key) {
  const Problem& p = instance.problem;
  return up(p.global_batch, item(p.micro_batches, key.micro_batch) * key.replicas * item(p.splits, key.split).expert);
}

class Enumeration {
 public:
  Enumeration(const Instance& instance, const Key& key)
      : instance_(instance),
        key_(key),
        placed_(place_by_hand(instance, key)),
        options_(allowed_options(instance.problem)),
        m_(micro_batches(instance, key)),
        v_(item(instance.problem.schedules, key.schedule).chunks) {}

  std::optional<i64> best() {
    visit(0, 0, 0, 0, 0);
    return best_;
  }

 private:
  void visit(i64 s, i64 begin, i64 slowest, i64 sum, i64 once) {
    const i64 n = instance_.problem.chain.size();
    if (s == key_.stages) {
      if (begin != n) return;
      const i64 time = m_ * slowest + (sum - slowest) / v_ + once;
      if (!best_ || time < *best_) best_ = time;
      return;
    }
    for (i64 end = begin + v_; end <= n; ++end) {
      if (s + 1 == key_.stages && end != n) continue;
      for (const StageOption& option : options_) {
        const auto known = cost_.try_emplace({s, begin, end, option.code()});
        if (known.second) {
          known.first->second = stage_by_hand(instance_, key_, placed_, m_, s, begin, end, option);
        }
        const StageCost& cost = known.first->second;
        if (cost.memory > instance_.problem.memory_bytes) continue;
        visit(s + 1, end, std::max(slowest, cost.time), sum + cost.time, std::max(once, cost.once));
      }
    }
  }

  const Instance& instance_;
  const Key& key_;
  PlacementClass placed_;
  std::vector<StageOption> options_;
  i64 m_, v_;
  std::map<std::array<i64, 4>, StageCost> cost_;
  std::optional<i64> best_;
};

}  // namespace

PlacementClass place_by_hand(const Instance& instance, const Key& key) {
  PlacementClass placed;
  for (i64 s = 0; s + 1 < key.stages; ++s) placed.hop.push_back(hop_by_hand(instance, key, s, s + 1));
  if (key.stages > 1) placed.wrap = hop_by_hand(instance, key, key.stages - 1, 0);
  const std::size_t levels = instance.levels.size();
  for (const bool dense : {true, false}) {
    ShardGroup& all = placed.sync.group[0];
    ShardGroup& inner = placed.sync.group[1];
    (dense ? all.dense_shard : all.expert_shard) = collective_by_hand(instance, key, dense, 0, levels);
    (dense ? inner.dense_shard : inner.expert_shard) = collective_by_hand(instance, key, dense, 0, 1);
    (dense ? inner.dense_replicate : inner.expert_replicate) = collective_by_hand(instance, key, dense, 1, levels);
    (dense ? all.dense_degree : all.expert_degree) = members_by_hand(instance, key, dense, levels);
    (dense ? inner.dense_degree : inner.expert_degree) = members_by_hand(instance, key, dense, 1);
  }
  return placed;
}

std::vector<Key> all_keys(const Instance& instance) {
  const Problem& p = instance.problem;
  std::set<Key> keys;
  for (int split = 0; split < static_cast<int>(p.splits.size()); ++split) {
    const SplitChoice& choice = item(p.splits, split);
    const i64 a = choice.tensor * choice.context * choice.expert;
    for (int size = 0; size < static_cast<int>(p.micro_batches.size()); ++size) {
      const i64 round = item(p.micro_batches, size) * choice.expert;
      if (round > p.global_batch) continue;
      for (i64 stages = 1; stages <= p.chain.size(); ++stages) {
        for (int schedule = 0; schedule < static_cast<int>(p.schedules.size()); ++schedule) {
          const i64 v = item(p.schedules, schedule).chunks;
          if (v > 1 && stages == 1) continue;
          if (stages * v > p.chain.size() || !p.stages.admits(stages)) continue;
          for (i64 d = 1; d <= up(p.global_batch, round); ++d) {
            const i64 m = up(p.global_batch, round * d);
            if (!p.replicas.admits(d) || (p.even_batch && p.global_batch % (round * d) != 0)) continue;
            if (v > 1 && p.interleave_multiple && m % stages != 0) continue;
            for (i64 inner = 1; inner <= d; ++inner) {
              if (d % inner != 0 || !p.inner_replicas.admits(inner)) continue;
              std::vector<i64> pitches{stages * inner * a};
              for (std::size_t l = 1; l < instance.levels.size() && p.padding && inner < d; ++l) {
                pitches.push_back(up(pitches[0], instance.levels[l].unit) * instance.levels[l].unit);
              }
              for (i64 pitch : pitches) {
                if ((d / inner - 1) * pitch + stages * inner * a > p.devices) continue;
                keys.insert({split, size, stages, schedule, d, inner, pitch});
              }
            }
          }
        }
      }
    }
  }
  return {keys.begin(), keys.end()};
}

std::optional<Ranking> rank_all(const Instance& instance, double budget) {
  const std::vector<Key> keys = all_keys(instance);
  const auto options = static_cast<double>(allowed_options(instance.problem).size());
  double plans = 0;
  for (const Key& key : keys) {
    double cuts = 1;
    for (i64 s = 1; s < key.stages; ++s)
      cuts = cuts * static_cast<double>(instance.problem.chain.size() - s) / static_cast<double>(s);
    plans += cuts * std::pow(options, static_cast<double>(key.stages));
  }
  if (plans > budget) return std::nullopt;
  Ranking ranking;
  for (const Key& key : keys) {
    const std::optional<i64> time = Enumeration(instance, key).best();
    if (!time) continue;
    const i64 a = item(instance.problem.splits, key.split).devices();
    const i64 devices = (key.replicas / key.inner_replicas - 1) * key.pitch + key.stages * key.inner_replicas * a;
    const bool by_devices = instance.problem.objective == Objective::device_time;
    ranking.push_back({static_cast<Score>(*time) * (by_devices ? devices : 1), key});
  }
  std::sort(ranking.begin(), ranking.end());
  return ranking;
}

std::optional<std::int64_t> time_by_hand(const Instance& instance, const Plan& plan) {
  const PlacementClass placed = place_by_hand(instance, plan.key);
  const i64 m = micro_batches(instance, plan.key), v = item(instance.problem.schedules, plan.key.schedule).chunks;
  i64 slowest = 0, sum = 0, once = 0;
  for (i64 s = 0; s < plan.key.stages; ++s) {
    const StageCost cost = stage_by_hand(instance, plan.key, placed, m, s, item(plan.cuts, s), item(plan.cuts, s + 1),
                                         item(plan.options, s));
    if (cost.memory > instance.problem.memory_bytes || item(plan.cuts, s + 1) - item(plan.cuts, s) < v)
      return std::nullopt;
    slowest = std::max(slowest, cost.time);
    sum += cost.time;
    once = std::max(once, cost.once);
  }
  return m * slowest + (sum - slowest) / v + once;
}

}  // namespace nest::search::test
