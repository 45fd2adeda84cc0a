#include "search/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "base/checked.h"
#include "base/error.h"
#include "base/index.h"
#include "cost/group_time.h"
#include "schedule/rules.h"
#include "search/even_cuts.h"
#include "search/next_ids.h"

namespace nest::search {
namespace {

constexpr std::int64_t kMostTensor = 64, kMostContext = 64, kMostMicroBatch = 64;
constexpr std::array<std::int64_t, 8> kChunks = {2, 3, 4, 5, 6, 8, 10, 12};

// Optimizer state that waits on the host is sharded as ZeRO 1; that is wider than weights where the stack knows how.
plan::PlanLimits limits_for(const cost::Job& job, plan::PlanLimits limits) {
  if (job.run.optimizer_offload > 0) limits.zero[0] = limits.zero[2] = limits.zero[3] = false;
  if (!job.stack.hybrid_sharding) limits.zero_outer[1] = false;
  const bool hybrid = limits.zero_outer[1] && limits.zero[3] && limits.shard_in_node;
  if (!limits.zero_outer[0] && !hybrid) {
    throw InputError(fmt::format("zero_outer=1 needs zero=3, shard_in_node=1 and a stack with hybrid_sharding, not {}",
                                 job.stack.name));
  }
  return limits;
}

}  // namespace

std::vector<std::int64_t> divisors_of(std::int64_t value) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t k = 1; k * k <= value; ++k) {
    if (value % k != 0) continue;
    low.push_back(k);
    if (k * k != value) high.push_back(value / k);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

PlanSpace::PlanSpace(const cost::Job& job, const plan::PlanLimits& limits, std::int64_t devices)
    : job_(&job),
      limits_(limits_for(job, limits)),
      devices_(devices),
      recomputations_(list_recomputations(job, limits_)),
      shardings_(list_shardings(job, limits_)),
      motif_(model::find_motif(job.model.layers)) {
  for (const Recomputation& recompute : recomputations_) {
    for (StageChoice choice : shardings_) {
      choice.recompute = recompute;
      choices_.push_back(choice);
    }
  }
  if (search::offers_blocks(job, limits_)) {
    for (const int kind : job.model.layers) {
      most_blocks_ += job.model.kinds[at(kind)].kind == model::LayerKind::block ? 1 : 0;
    }
  }
  list_splits();
  list_schedules();
  index_intervals();
  for (std::size_t k = 0; k < cuts_.size(); ++k) {
    cuts_[k].assign(at(layers() + 1), 0);
    for (std::int64_t i = 1; i < layers(); ++i) cuts_[k][at(i)] = may_cut(i, k == 0 ? 1 : 2) ? 1 : 0;
  }
  if (limits.even_cuts) list_even_cuts();
  // Sizes that somebody names are taken as they are.
  if (!limits.micro_batch.only.empty()) {
    micro_batches_ = limits.micro_batch.only;
    std::sort(micro_batches_.begin(), micro_batches_.end());
    micro_batches_.erase(std::unique(micro_batches_.begin(), micro_batches_.end()), micro_batches_.end());
  } else {
    for (std::int64_t size = 1; size <= std::min(kMostMicroBatch, job.run.global_batch); size *= 2) {
      if (limits.micro_batch.admits(size)) micro_batches_.push_back(size);
    }
  }
  for (const Split& split : splits_) {
    for (const std::int64_t size : micro_batches_) {
      const std::int64_t round = size * split.team();
      if (job.run.global_batch % round == 0) divisors_.try_emplace(round, divisors_of(job.run.global_batch / round));
    }
  }
  if (limits.pitch && !job.cluster.torus) {
    for (std::size_t l = 1; l < job.cluster.fabric.levels; ++l) {
      if (job.cluster.fabric.unit[l] > 1) alignments_.push_back(job.cluster.fabric.unit[l]);
    }
  }
}

void PlanSpace::list_splits() {
  const split::RunShape shape{1, job_->run.sequence, job_->run.encoder_sequence, 1.0};
  std::int64_t experts = 0;
  for (const model::Layer& layer : job_->model.kinds) experts = std::max(experts, layer.experts);
  has_experts_ = experts > 0;
  for (std::int64_t tp = 1; tp <= std::min(kMostTensor, devices_); ++tp) {
    if (!limits_.tp.admits(tp)) continue;
    for (std::int64_t cp = 1; cp <= kMostContext && tp * cp <= devices_; cp *= 2) {
      if (!limits_.cp.admits(cp)) continue;
      for (const bool sp : {false, true}) {
        if (!limits_.sp[sp ? 1 : 0] && tp > 1) continue;
        if (sp && tp == 1) continue;
        for (const Split& split : context_exchanges({.tp = tp, .sp = sp, .cp = cp})) {
          if (has_experts_) {
            list_expert_grids(split, experts, shape);
          } else if (limits_.ep.admits(1) && limits_.etp.admits(tp) &&
                     split::refuse_split(job_->model, shape, split).empty()) {
            splits_.push_back(split);
          }
        }
      }
    }
  }
  list_offloads();
  rings_.resize(splits_.size());
  others_.resize(splits_.size());
  for (std::size_t k = 0; k < splits_.size(); ++k) {
    Split ring = splits_[k];
    if (ring.cp_comm == ContextExchange::p2p) continue;
    ring.cp_comm = ContextExchange::p2p;
    ring.cp_inner = 1;
    const auto found = std::find(splits_.begin(), splits_.end(), ring);
    if (found == splits_.end()) continue;
    rings_[k] = static_cast<int>(found - splits_.begin());
    others_[at(*rings_[k])].push_back(static_cast<int>(k));
  }
}

void PlanSpace::list_offloads() {
  const std::vector<Split> bare = std::move(splits_);
  const std::vector<OffloadSet> sets = search::list_offloads(*job_, limits_);
  splits_.clear();
  splits_.reserve(bare.size() * sets.size());
  for (const OffloadSet modules : sets) {
    for (Split split : bare) {
      split.offload = modules;
      splits_.push_back(split);
    }
  }
}

std::vector<Split> PlanSpace::context_exchanges(Split split) const {
  if (split.cp == 1) return {split};
  const bool anything = std::all_of(limits_.cp_comm.begin(), limits_.cp_comm.end(), [](bool each) { return each; });
  const auto& run = job_->stack.context_exchange;
  std::vector<Split> list;
  for (const auto& word : kContextWords) {
    if (anything ? std::find(run.begin(), run.end(), word.value) == run.end() : !limits_.admits(word.value)) continue;
    split.cp_comm = word.value;
    if (word.value != ContextExchange::a2a_p2p) {
      if (limits_.cp_inner.admits(1)) list.push_back(split);
      continue;
    }
    const bool free = limits_.cp_inner.is_free();
    const std::int64_t unit = job_->cluster.torus ? split.replica_devices() : job_->cluster.fabric.unit[1];
    if (free && split.replica_devices() <= unit) continue;
    for (split.cp_inner = split.cp / 2; split.cp_inner > 1; split.cp_inner /= 2) {
      if (free ? split.tp * split.cp_inner > unit : !limits_.cp_inner.admits(split.cp_inner)) continue;
      if (!split::refuse_context(job_->model, split).empty()) continue;
      list.push_back(split);
      if (free) break;
    }
    split.cp_inner = 1;
  }
  return list;
}

void PlanSpace::list_expert_grids(const Split& attention, std::int64_t experts, const split::RunShape& shape) {
  const std::int64_t own = attention.replica_devices();
  const cluster::Cluster& cluster = job_->cluster;
  const std::int64_t unit = cluster.torus ? own : cluster.fabric.unit[1];
  std::vector<std::int64_t> degrees{attention.tp};
  for (std::int64_t etp = 1; etp <= (limits_.etp.is_free() ? 2 : kMostTensor); ++etp) {
    if (etp != attention.tp) degrees.push_back(etp);
  }
  for (const std::int64_t etp : degrees) {
    if (!limits_.etp.admits(etp)) continue;
    for (const std::int64_t ep : divisors_of(experts)) {
      Split split = attention;
      split.ep = ep;
      split.etp = etp == attention.tp ? 0 : etp;
      if (!limits_.ep.admits(ep) || split.team_devices() > devices_) continue;
      const bool usual = split.expert_devices() >= own || unit % split.expert_devices() == 0;
      if (limits_.ep.is_free() && !usual) continue;
      if (split::refuse_split(job_->model, shape, split).empty()) splits_.push_back(split);
    }
  }
}

bool PlanSpace::same_grids(const Key& key) const {
  const Split& split = splits_[at(key.split)];
  return !has_experts_ || split.replica_devices() == split.expert_devices();
}

// What is asked for; where nothing is said, what the stack runs besides.
bool PlanSpace::admits(const schedule::Rule& rule) const {
  const auto& runs = job_->stack.schedules;
  return limits_.admits(rule.kind) ||
         (limits_.more_schedules && rule.is_split() && std::find(runs.begin(), runs.end(), rule.kind) != runs.end());
}

void PlanSpace::list_schedules() {
  const auto add = [&](const schedule::Rule& rule, std::int64_t chunks) {
    if (!limits_.vpp.admits(chunks)) return;
    schedules_.push_back({rule.kind, chunks, rule.wraps(chunks), rule.fewest, rule.is_split()});
  };
  for (const schedule::Rule& rule : schedule::rules()) {
    if (!rule.interleaves() && admits(rule)) add(rule, 1);
  }
  if (motif_.repeats == 0) return;
  for (const schedule::Rule& rule : schedule::rules()) {
    if (!rule.interleaves() || !admits(rule)) continue;
    for (const std::int64_t chunks : kChunks) {
      if (chunks <= rule.most_chunks) add(rule, chunks);
    }
  }
}

void PlanSpace::list_even_cuts() {
  for (const ScheduleChoice& schedule : schedules_) {
    for (std::int64_t stages = 1; stages <= layers(); ++stages) {
      const std::vector<std::int64_t> cuts = search::even_cuts(*job_, stages, schedule.chunks);
      if (cuts.empty()) continue;
      std::vector<char> mask(at(layers() + 1), 0);
      bool admitted = true;
      for (std::int64_t s = 0; s < stages; ++s) {
        const std::int64_t begin = cuts[at(s)], end = cuts[at(s + 1)];
        if (s > 0) mask[at(begin)] = 1;
        admitted = admitted && (s == 0 || may_cut(begin, schedule.chunks)) &&
                   end - begin >= fewest_layers(s, stages, schedule.chunks);
      }
      if (admitted) even_.try_emplace({stages, schedule.chunks}, std::move(mask));
    }
  }
}

int PlanSpace::block_option(std::int64_t blocks, int sharding) const {
  return static_cast<int>(std::ssize(choices_) + (blocks - 1) * std::ssize(shardings_)) + sharding;
}

StageChoice PlanSpace::choice(int option) const {
  if (option < std::ssize(choices_)) return choices_[at(option)];
  const std::int64_t beyond = option - std::ssize(choices_), ways = std::ssize(shardings_);
  StageChoice choice = shardings_[at(beyond % ways)];
  choice.recompute = Recomputation::of_layers(Recompute::block, static_cast<std::int32_t>(beyond / ways + 1));
  return choice;
}

void PlanSpace::index_intervals() {
  const std::int64_t n = layers();
  interval_.assign(at((n + 1) * (n + 1)), -1);
  NextIds longer(job_->model.kinds.size());
  std::map<std::vector<int>, int>
      known;  // ids by how many layers of each kind there are, where that is all that counts
  std::vector<int> counts(job_->model.kinds.size(), 0);
  for (std::int64_t begin = 0; begin < n; ++begin) {
    if (!offers_blocks()) std::fill(counts.begin(), counts.end(), 0);
    int id = -1;
    for (std::int64_t end = begin + 1; end <= n; ++end) {
      const int kind = job_->model.layers[at(end - 1)];
      if (!offers_blocks()) ++counts[at(kind)];
      int& next = longer.of(id, kind);
      if (next < 0) {
        const bool fresh = offers_blocks() || known.try_emplace(counts, interval_count_).second;
        next = fresh ? interval_count_ : known.at(counts);
        if (fresh) ++interval_count_;
      }
      interval_[at(begin * (n + 1) + end)] = id = next;
    }
  }
}

Strategy PlanSpace::strategy(const Key& key) const {
  Strategy strategy;
  strategy.split = splits_[at(key.split)];
  strategy.micro_batch = micro_batches_[at(key.micro_batch)];
  strategy.pp = key.stages;
  strategy.dp = key.replicas * team(key);
  strategy.dp_inner = key.inner_replicas * team(key);
  strategy.schedule = schedule(key).kind;
  strategy.virtual_stages = schedule(key).chunks;
  strategy.pitch = key.pitch == strategy.pipeline_block() ? 0 : key.pitch;
  return strategy;
}

std::int64_t PlanSpace::stage_devices(const Key& key) const { return splits_[at(key.split)].team_devices(); }

std::int64_t PlanSpace::most_stages(const Key& key) const {
  return std::min({layers(), devices_ / stage_devices(key), limits_.pp.high});
}

bool PlanSpace::admits_pair(const Key& key) const {
  const Split& split = splits_[at(key.split)];
  const std::int64_t size = micro_batches_[at(key.micro_batch)];
  if (size * split.team() > job_->run.global_batch) return false;
  if (!limits_.uneven_batch && job_->run.global_batch % (size * split.team()) != 0) return false;
  return split::refuse_split(job_->model, {size, job_->run.sequence, job_->run.encoder_sequence, 1.0}, split).empty();
}

bool PlanSpace::admits_schedule(const Key& key) const {
  const std::int64_t chunks = schedule(key).chunks;
  if (limits_.even_cuts && !even_.contains({key.stages, chunks})) return false;
  if (chunks == 1) return true;
  return key.stages > 1 && key.stages * chunks - 2 <= motif_.repeats;
}

bool PlanSpace::may_cut(std::int64_t position, std::int64_t chunks) const {
  if (chunks == 1) return true;
  const std::int64_t inside = position - motif_.head;
  return inside >= 0 && inside <= motif_.motif * motif_.repeats && inside % motif_.motif == 0;
}

std::int64_t PlanSpace::fewest_layers(std::int64_t stage, std::int64_t stages, std::int64_t chunks) const {
  if (chunks == 1) return 1;
  if (stage == 0) return motif_.head + (chunks - 1) * motif_.motif;
  if (stage + 1 == stages) return motif_.tail + (chunks - 1) * motif_.motif;
  return chunks * motif_.motif;
}

std::int64_t PlanSpace::sequences_per_round(const Key& key) const {
  return micro_batches_[at(key.micro_batch)] * team(key);
}

std::int64_t PlanSpace::most_replicas(const Key& key) const {
  return std::min({job_->run.global_batch / sequences_per_round(key), devices_ / (key.stages * stage_devices(key)),
                   limits_.dp.high / team(key)});
}

bool PlanSpace::admits_replicas(const Key& key, std::int64_t replicas) const {
  if (!limits_.dp.admits(replicas * team(key))) return false;
  const std::int64_t round = sequences_per_round(key) * replicas, batch = job_->run.global_batch;
  if (!limits_.uneven_batch && batch % round != 0) return false;
  const ScheduleChoice& choice = schedule(key);
  const std::int64_t rounds = ceil_div(batch, round);
  if (rounds < choice.fewest * key.stages) return false;
  return !choice.in_groups() || limits_.any_rounds || rounds % key.stages == 0;
}

std::optional<Plateau> PlanSpace::plateau(const Key& key, std::int64_t most) const {
  const std::int64_t size = sequences_per_round(key), batch = job_->run.global_batch;
  if (limits_.all_devices) {
    const std::int64_t each = key.stages * stage_devices(key), all = devices_ / each;
    if (devices_ % each != 0 || all > most || !admits_replicas(key, all)) return std::nullopt;
    return Plateau{all, all};
  }
  if (!limits_.uneven_batch) {
    const std::vector<std::int64_t>& all = divisors_.at(size);
    for (auto next = std::upper_bound(all.begin(), all.end(), most); next != all.begin();) {
      --next;
      if (admits_replicas(key, *next)) return Plateau{*next, *next};
    }
    return std::nullopt;
  }
  const std::int64_t fewest = ceil_div(std::max<std::int64_t>(1, limits_.dp.low), team(key));
  while (most >= fewest) {
    const std::int64_t rounds = ceil_div(batch, size * most);
    const Plateau plateau{ceil_div(batch, size * rounds), most};  // the fewest replicas that need no more rounds
    for (std::int64_t replicas = plateau.high; replicas >= plateau.low; --replicas) {
      if (admits_replicas(key, replicas)) return plateau;
      if (limits_.dp.admits(replicas * team(key))) break;  // it is the rounds that are not admitted
    }
    most = plateau.low - 1;
  }
  return std::nullopt;
}

std::optional<std::int64_t> PlanSpace::next_replicas(const Key& key, const Plateau& plateau) const {
  for (std::int64_t replicas = plateau.low; replicas <= plateau.high; ++replicas) {
    if (admits_replicas(key, replicas)) return replicas;
  }
  return std::nullopt;
}

std::vector<std::int64_t> PlanSpace::inner_replicas(const Key& key) const {
  std::vector<std::int64_t> result;
  for (const std::int64_t inner : divisors_of(key.replicas)) {
    if (!limits_.dp_inner.admits(inner * team(key))) continue;
    if (limits_.replicas_together && inner != key.replicas) continue;
    // Pipelines together is an order that frameworks know where both grids have the same ones.
    const bool apart = inner == 1 && same_grids(key);
    if (limits_.whole_blocks_only && !apart && inner != key.replicas) continue;
    result.push_back(inner);
  }
  return result;
}

std::vector<std::int64_t> PlanSpace::pitches(const Key& key) const {
  const std::int64_t bare = key.stages * key.inner_replicas * stage_devices(key);
  std::vector<std::int64_t> result{bare};
  if (key.replicas == key.inner_replicas) return result;  // one pipeline has no pitch
  // One stage: every tight grouping of the replicas is the same placement.
  const bool same = key.stages == 1 && limits_.dp_inner.admits(key.replicas * team(key));
  for (const std::int64_t unit : alignments_) result.push_back(round_up(bare, unit));
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  const std::int64_t gaps = key.replicas / key.inner_replicas - 1;
  std::erase_if(result, [&](std::int64_t pitch) { return gaps * pitch + bare > devices_ || (same && pitch == bare); });
  return result;
}

std::int64_t PlanSpace::micro_batch_count(const Key& key) const {
  const std::int64_t size = micro_batches_[at(key.micro_batch)];
  return ceil_div(job_->run.global_batch, size * key.replicas * team(key));
}

std::vector<std::int64_t> PlanSpace::node_degrees(const Strategy& strategy) const {
  std::vector<std::int64_t> degrees;
  if (!limits_.shard_in_node || job_->cluster.torus || job_->cluster.fabric.levels < 2) return degrees;
  const std::int64_t all = groups::dense_replicas(strategy);
  std::int64_t degree = std::min(all - 1, job_->cluster.fabric.unit[1] / strategy.split.tp);
  for (; degree > 1; --degree) {
    if (all % degree == 0) degrees.push_back(degree);
  }
  return degrees;
}

std::optional<std::int64_t> PlanSpace::node_degree(const Strategy& strategy) const {
  const groups::RankGroups ranks(strategy);
  // Devices from the first to the last of the innermost `degree` ranks and their tensor-parallel neighbours.
  const auto span = [&](std::int64_t degree) {
    return last_of(ranks.state(groups::Weights::dense, 0, degree).shard.members) + strategy.split.tp;
  };
  for (const std::int64_t degree : node_degrees(strategy)) {
    if (ranks.can_shard(degree) && span(degree) <= job_->cluster.fabric.unit[1]) return degree;
  }
  return std::nullopt;
}

std::vector<StagePlan> PlanSpace::stages(const Strategy& strategy, const std::vector<std::int64_t>& cuts,
                                         const std::vector<int>& options) const {
  const std::int64_t degree = node_degree(strategy).value_or(0);
  std::vector<StagePlan> stages;
  for (std::size_t s = 0; s < options.size(); ++s) {
    stages.push_back(stage_of(cuts[s], cuts[s + 1], choice(options[s]), degree));
  }
  return stages;
}

bool PlanSpace::treats(const Strategy& strategy, const StageChoice& choice, std::int64_t degree) const {
  return limits_.runs == nullptr || limits_.runs->treats(strategy, stage_of(0, layers(), choice, degree));
}

double PlanSpace::count_keys(const Deadline& deadline) const {
  // Inner replicas of every number of replicas, and for every (sequences per round, stages, most replicas, what the
  // schedule asks of micro-batches) the sum over the admitted ones; for every kind of team.
  std::map<std::array<std::int64_t, 3>, double> inner;
  std::map<std::array<std::int64_t, 7>, double> sums;
  double keys = 0;
  Key key;
  const auto of_replicas = [&] {
    const auto [place, fresh] = inner.try_emplace({key.replicas, team(key), same_grids(key) ? 1 : 0}, 0);
    if (fresh) place->second = real(inner_replicas(key).size());
    return place->second;
  };
  const auto of_schedule = [&] {
    const std::int64_t most = most_replicas(key);
    const auto [place, fresh] = sums.try_emplace(
        {sequences_per_round(key), key.stages, most, (schedule(key).in_groups() ? 1 : 0) + 2 * schedule(key).fewest,
         team(key), same_grids(key) ? 1 : 0, limits_.all_devices ? stage_devices(key) : 0},
        0);
    if (!fresh) return place->second;
    for (auto next = plateau(key, most); next; next = plateau(key, next->low - 1)) {
      for (auto replicas = next_replicas(key, *next); replicas;
           replicas = next_replicas(key, {*replicas + 1, next->high})) {
        key.replicas = *replicas;
        place->second += of_replicas();
      }
    }
    return place->second;
  };
  for (key.split = 0; key.split < static_cast<int>(splits_.size()); ++key.split) {
    for (key.micro_batch = 0; key.micro_batch < static_cast<int>(micro_batches_.size()); ++key.micro_batch) {
      if (keys > 0 && deadline.has_passed()) return keys;
      if (!admits_pair(key)) continue;
      for (key.stages = 1; key.stages <= most_stages(key); ++key.stages) {
        if (!limits_.pp.admits(key.stages)) continue;
        for (key.schedule = 0; key.schedule < static_cast<int>(schedules_.size()); ++key.schedule) {
          if (admits_schedule(key)) keys += of_schedule();
        }
      }
    }
  }
  return keys;
}

}  // namespace nest::search
