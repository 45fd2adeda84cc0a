#include "planner/space.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "base/checked.h"
#include "cost/group_time.h"

namespace nest {
namespace {

constexpr std::int64_t kMostTensor = 64, kMostContext = 64, kMostMicroBatch = 64;
constexpr std::array<std::int64_t, 8> kChunks = {2, 3, 4, 5, 6, 8, 10, 12};

// Blocks of one kind in one run, with anything else before and after.
bool interior_is_one_run(const Model& model) {
  int kind = -1;
  bool ended = false;
  for (const int layer : model.layers) {
    const bool block = model.kinds[static_cast<std::size_t>(layer)].kind == LayerKind::block;
    if (block && (ended || (kind >= 0 && layer != kind))) return false;
    if (block) kind = layer;
    if (!block && kind >= 0) ended = true;
  }
  return kind >= 0;
}

std::vector<std::int64_t> divisors(std::int64_t value) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t k = 1; k * k <= value; ++k) {
    if (value % k != 0) continue;
    low.push_back(k);
    if (k * k != value) high.push_back(value / k);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

}  // namespace

PlanSpace::PlanSpace(const Job& job, const PlanLimits& limits, std::int64_t devices)
    : job_(&job), limits_(limits), devices_(devices) {
  list_splits();
  list_schedules();
  index_intervals();
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
  if (limits.pitch && !job.cluster.torus) {
    for (std::size_t l = 1; l < job.cluster.fabric.levels; ++l) {
      if (job.cluster.fabric.unit[l] > 1) alignments_.push_back(job.cluster.fabric.unit[l]);
    }
  }
}

void PlanSpace::list_splits() {
  const RunShape shape{1, job_->run.sequence, job_->run.encoder_sequence, 1.0};
  std::int64_t experts = 1;
  for (const Layer& layer : job_->model.kinds) experts = std::max(experts, layer.experts);
  const std::vector<std::int64_t> expert_degrees = divisors(experts);
  for (std::int64_t tp = 1; tp <= std::min(kMostTensor, devices_); ++tp) {
    if (!limits_.tp.admits(tp)) continue;
    for (std::int64_t cp = 1; cp <= kMostContext && tp * cp <= devices_; cp *= 2) {
      if (!limits_.cp.admits(cp)) continue;
      for (const std::int64_t ep : expert_degrees) {
        if (!limits_.ep.admits(ep) || tp * cp * ep > devices_) continue;
        for (const bool sp : {false, true}) {
          if (!limits_.sp[sp ? 1 : 0] && tp > 1) continue;
          if (sp && tp == 1) continue;
          for (const std::int64_t etp : {tp, std::int64_t{1}}) {
            if (etp != tp && experts == 1) continue;
            if (!limits_.etp.admits(etp)) continue;
            const Split split{tp, sp, cp, ep, etp == tp ? 0 : etp};
            if (std::find(splits_.begin(), splits_.end(), split) != splits_.end()) continue;
            if (refuse_split(job_->model, shape, split).empty()) splits_.push_back(split);
          }
        }
      }
    }
  }
}

void PlanSpace::list_schedules() {
  if (limits_.one_f_one_b && limits_.vpp.admits(1)) schedules_.push_back({Schedule::one_f_one_b, 1});
  if (limits_.gpipe && limits_.vpp.admits(1)) schedules_.push_back({Schedule::gpipe, 1});
  if (!limits_.interleaved || !interior_is_one_run(job_->model)) return;
  for (const std::int64_t chunks : kChunks) {
    if (limits_.vpp.admits(chunks)) schedules_.push_back({Schedule::interleaved, chunks});
  }
}

void PlanSpace::index_intervals() {
  const std::int64_t n = layers();
  interval_.assign(static_cast<std::size_t>((n + 1) * (n + 1)), -1);
  std::map<std::vector<int>, int> known;
  for (std::int64_t begin = 0; begin < n; ++begin) {
    std::vector<int> counts(job_->model.kinds.size(), 0);
    for (std::int64_t end = begin + 1; end <= n; ++end) {
      ++counts[static_cast<std::size_t>(job_->model.layers[static_cast<std::size_t>(end - 1)])];
      const auto [place, fresh] = known.try_emplace(counts, interval_count_);
      if (fresh) ++interval_count_;
      interval_[static_cast<std::size_t>(begin * (n + 1) + end)] = place->second;
    }
  }
}

Strategy PlanSpace::strategy(const Key& key) const {
  Strategy strategy;
  strategy.split = splits_[static_cast<std::size_t>(key.split)];
  strategy.micro_batch = micro_batches_[static_cast<std::size_t>(key.micro_batch)];
  strategy.pp = key.stages;
  strategy.dp = key.replicas;
  strategy.dp_inner = key.inner_replicas;
  strategy.schedule = schedule(key).kind;
  strategy.virtual_stages = schedule(key).chunks;
  strategy.pitch = key.pitch == strategy.pipeline_block() ? 0 : key.pitch;
  return strategy;
}

std::int64_t PlanSpace::stage_devices(const Key& key) const {
  const Split& split = splits_[static_cast<std::size_t>(key.split)];
  return split.tp * split.cp * split.ep;
}

std::int64_t PlanSpace::most_stages(const Key& key) const {
  return std::min({layers(), devices_ / stage_devices(key), limits_.pp.high});
}

bool PlanSpace::admits_pair(const Key& key) const {
  const Split& split = splits_[static_cast<std::size_t>(key.split)];
  const std::int64_t size = micro_batches_[static_cast<std::size_t>(key.micro_batch)];
  if (size * split.ep > job_->run.global_batch) return false;
  if (!limits_.uneven_batch && job_->run.global_batch % (size * split.ep) != 0) return false;
  return refuse_split(job_->model, {size, job_->run.sequence, job_->run.encoder_sequence, 1.0}, split).empty();
}

bool PlanSpace::admits_schedule(const Key& key) const {
  const std::int64_t chunks = schedule(key).chunks;
  return chunks == 1 || (key.stages > 1 && key.stages * chunks <= layers());
}

std::vector<std::int64_t> PlanSpace::replicas(const Key& key) const {
  const Split& split = splits_[static_cast<std::size_t>(key.split)];
  const std::int64_t size = micro_batches_[static_cast<std::size_t>(key.micro_batch)] * split.ep;
  const std::int64_t batch = job_->run.global_batch;
  const std::int64_t most = std::min({batch / size, devices_ / (key.stages * stage_devices(key)), limits_.dp.high});
  std::vector<std::int64_t> result;
  const auto consider = [&](std::int64_t replicas) {
    if (replicas > most || !limits_.dp.admits(replicas)) return;
    const std::int64_t m = ceil_div(batch, size * replicas);
    if (schedule(key).chunks > 1 && !limits_.any_rounds && m % key.stages != 0) return;
    result.push_back(replicas);
  };
  if (limits_.uneven_batch) {
    for (std::int64_t replicas = 1; replicas <= most; ++replicas) consider(replicas);
  } else {
    for (const std::int64_t replicas : divisors(batch / size)) consider(replicas);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

std::vector<std::int64_t> PlanSpace::inner_replicas(const Key& key) const {
  std::vector<std::int64_t> result;
  for (const std::int64_t inner : divisors(key.replicas)) {
    if (!limits_.dp_inner.admits(inner)) continue;
    if (limits_.replicas_together && inner != key.replicas) continue;
    if (limits_.whole_blocks_only && inner != 1 && inner != key.replicas) continue;
    result.push_back(inner);
  }
  return result;
}

std::vector<std::int64_t> PlanSpace::pitches(const Key& key) const {
  const std::int64_t bare = key.stages * key.inner_replicas * stage_devices(key);
  std::vector<std::int64_t> result{bare};
  if (key.replicas == key.inner_replicas) return result;  // one pipeline has no pitch
  // One stage: every tight grouping of the replicas is the same placement.
  const bool same = key.stages == 1 && limits_.dp_inner.admits(key.replicas);
  for (const std::int64_t unit : alignments_) result.push_back(round_up(bare, unit));
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  const std::int64_t gaps = key.replicas / key.inner_replicas - 1;
  std::erase_if(result, [&](std::int64_t pitch) { return gaps * pitch + bare > devices_ || (same && pitch == bare); });
  return result;
}

std::int64_t PlanSpace::micro_batch_count(const Key& key) const {
  const std::int64_t size = micro_batches_[static_cast<std::size_t>(key.micro_batch)];
  return ceil_div(job_->run.global_batch, size * key.replicas * splits_[static_cast<std::size_t>(key.split)].ep);
}

std::optional<std::int64_t> PlanSpace::node_degree(const Strategy& strategy) const {
  if (!limits_.shard_in_node || job_->cluster.torus || job_->cluster.fabric.levels < 2) return std::nullopt;
  const std::int64_t unit = job_->cluster.fabric.unit[1], all = dense_replicas(strategy);
  const Split& split = strategy.split;
  const std::int64_t inside = split.cp * split.ep;
  // First device of the last of the innermost `degree` ranks.
  const auto offset = [&](std::int64_t degree) {
    const std::int64_t last = degree - 1, replica = last / inside;
    return last % inside * split.tp + replica % strategy.dp_inner * strategy.devices_per_stage() +
           replica / strategy.dp_inner * strategy.effective_pitch();
  };
  const std::vector<std::int64_t> degrees = divisors(all);
  for (auto degree = degrees.rbegin(); degree != degrees.rend(); ++degree) {
    if (*degree == all || *degree == 1) continue;
    if (offset(*degree) + split.tp <= unit && can_shard(strategy, *degree)) return *degree;
  }
  return std::nullopt;
}

double PlanSpace::count_keys() const {
  std::map<std::int64_t, double> inner_counts;
  double keys = 0;
  Key key;
  for (key.split = 0; key.split < static_cast<int>(splits_.size()); ++key.split) {
    for (key.micro_batch = 0; key.micro_batch < static_cast<int>(micro_batches_.size()); ++key.micro_batch) {
      if (!admits_pair(key)) continue;
      for (key.stages = 1; key.stages <= most_stages(key); ++key.stages) {
        if (!limits_.pp.admits(key.stages)) continue;
        for (key.schedule = 0; key.schedule < static_cast<int>(schedules_.size()); ++key.schedule) {
          if (!admits_schedule(key)) continue;
          for (const std::int64_t replicas : this->replicas(key)) {
            const auto [place, fresh] = inner_counts.try_emplace(replicas, 0);
            key.replicas = replicas;
            if (fresh) place->second = static_cast<double>(inner_replicas(key).size());
            keys += place->second;
          }
        }
      }
    }
  }
  return keys;
}

}  // namespace nest
