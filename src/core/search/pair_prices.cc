#include "search/pair_prices.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/checked.h"
#include "base/index.h"
#include "search/choices.h"

namespace nest::search {
namespace {

void add_sums(cost::StageSums& sums, const cost::StageSums& other, double sign) {
  sums.forward_s += sign * other.forward_s;
  sums.backward_s += sign * other.backward_s;
  sums.alone_forward_s += sign * other.alone_forward_s;
  sums.alone_backward_s += sign * other.alone_backward_s;
  sums.hide_forward_s += sign * other.hide_forward_s;
  sums.hide_backward_s += sign * other.hide_backward_s;
  sums.deferred_s += sign * other.deferred_s;
  sums.weight_s += sign * other.weight_s;
  sums.dense_parameters += sign * other.dense_parameters;
  sums.expert_parameters += sign * other.expert_parameters;
  sums.frozen_dense_bytes += sign * other.frozen_dense_bytes;
  sums.frozen_expert_bytes += sign * other.frozen_expert_bytes;
  sums.tensors += sign * other.tensors;
}

}  // namespace

PairPrices::PairPrices(const cost::Job& job, const Split& split, std::int64_t micro_batch,
                       const cost::Treatments& treatments)
    : job_(&job),
      split_(split),
      micro_batch_(micro_batch),
      table_(cost::price_table(job, split, micro_batch, treatments)),
      prefix_one_{0.0},
      prefix_many_{0.0},
      again_(treatments.count(), std::vector<double>{0.0}),
      blocks_{0},
      block_end_{0} {
  std::map<int, Stretch> longest;
  std::int64_t length = 0;
  for (std::size_t i = 0; i < job.model.layers.size(); ++i) {
    const int kind = job.model.layers[i];
    const cost::LayerPrice& price = table_.kinds[at(kind)];
    const double one = price.forward_s + price.backward_s;
    const double many = one - (job.stack.defer_head_gradient ? price.deferrable_s : 0);
    prefix_one_.push_back(prefix_one_.back() + one);
    prefix_many_.push_back(prefix_many_.back() + many);
    if (job.stack.expert_overlap) {
      if (alone_.empty()) alone_.push_back(0);
      alone_.push_back(alone_.back() + price.alone_forward_s + price.alone_backward_s);
    }
    for (std::size_t t = 0; t < again_.size(); ++t) again_[t].push_back(again_[t].back() + price.recompute_s[t]);
    const bool block = job.model.kinds[at(kind)].kind == model::LayerKind::block;
    blocks_.push_back(blocks_.back() + (block ? 1 : 0));
    if (block) block_end_.push_back(static_cast<std::int64_t>(i) + 1);
    length = i > 0 && job.model.layers[i - 1] == kind ? length + 1 : 1;
    Stretch& stretch = longest.try_emplace(kind, Stretch{one, many, 0}).first->second;
    stretch.length = std::max(stretch.length, length);
    if (block) hide_s_ += one;
    all_have_parameters_ = all_have_parameters_ && price.dense_parameters > 0;
    dense_ += real(price.dense_parameters);
    expert_ += real(price.expert_parameters);
  }
  const bool freezes = std::any_of(table_.kinds.begin(), table_.kinds.end(), [](const cost::LayerPrice& price) {
    return price.frozen_dense + price.frozen_expert > 0;
  });
  if (freezes) frozen_.resize(job.model.layers.size() + 1);
  for (std::size_t i = 0; freezes && i < job.model.layers.size(); ++i) {
    const cost::LayerPrice& price = table_.kinds[at(job.model.layers[i])];
    frozen_[i + 1] = {frozen_[i].dense + real(price.frozen_dense), frozen_[i].expert + real(price.frozen_expert)};
  }
  for (const auto& [kind, stretch] : longest) stretches_.push_back(stretch);
  first_head_ = static_cast<std::int64_t>(job.model.layers.size());
  sums_.resize(job.model.layers.size() + 1);
  for (std::size_t i = 0; i < job.model.layers.size(); ++i) {
    const auto layer = static_cast<int>(i);
    add_sums(sums_[i + 1] = sums_[i], cost::sum_stage(job, table_, layer, layer, 2), 1);
    const model::LayerKind kind = job.model.layer(layer).kind;
    if (kind == model::LayerKind::embedding) last_embedding_ = layer;
    if (kind == model::LayerKind::head) first_head_ = std::min<std::int64_t>(first_head_, layer);
    if (job.model.layer(layer).mtp) mtp_ = layer;
  }
  if (const std::size_t kinds = job.model.kinds.size(); kinds <= kKindsApart) {
    of_kind_.assign((job.model.layers.size() + 1) * kinds, 0);
    for (std::size_t i = 0; i < job.model.layers.size(); ++i) {
      std::copy_n(&of_kind_[i * kinds], kinds, &of_kind_[(i + 1) * kinds]);
      ++of_kind_[(i + 1) * kinds + at(job.model.layers[i])];
    }
  }
  dense_ = std::max(0.0, dense_ - real(table_.repeated_parameters(true, mtp_ >= 0, true)));
  if (!table_.cut_bytes.empty()) {
    const auto [least, most] = std::minmax_element(table_.cut_bytes.begin(), table_.cut_bytes.end());
    least_cut_bytes_ = *least;
    most_cut_bytes_ = *most;
  }
  least_back_share_ = cost::least_back_share(job, table_);
}

PairPrices::Kept::Kept(const PairPrices& pair)
    : model(*pair.job_, pair.split_, pair.micro_batch_, pair.treatments()),
      prefix(pair.treatments().count(), std::vector<double>{0.0}) {
  const auto layers = static_cast<int>(pair.job_->model.layers.size());
  for (int i = 0; i < layers; ++i) {
    for (std::size_t t = 0; t < prefix.size(); ++t) {
      prefix[t].push_back(prefix[t].back() + model.kept_bytes(i, static_cast<int>(t)));
    }
  }
}

bool PairPrices::replaces(int other, int treatment) const {
  const auto breaks_pairs = [&](int t) {
    if (t < cost::kFirstSet) return t != cost::kNothing;  // what a stack calls selective may pair; that is not asked
    return (treatments().sets[at(t - cost::kFirstSet)] & set_of(RecomputeModule::moe)) != 0;
  };
  if (breaks_pairs(other) && !breaks_pairs(treatment)) return false;
  bool same = true;
  std::vector<char> seen(job_->model.kinds.size(), 0);
  for (std::int64_t i = 0; i < job_->model.layer_count(); ++i) {
    char& known = seen[at(job_->model.layers[at(i)])];
    if (known != 0) continue;
    known = 1;
    const auto layer = static_cast<int>(i);
    const double kept = memory().kept_bytes(layer, treatment), others = memory().kept_bytes(layer, other);
    const double working = memory().working_bytes(layer, treatment),
                 others_working = memory().working_bytes(layer, other);
    const double seconds = again_s(i, i + 1, treatment), others_s = again_s(i, i + 1, other);
    if (others > kept || others_working > working || others_s > seconds) return false;
    same = same && others == kept && others_working == working && others_s == seconds;
  }
  return !same || other < treatment;
}

bool PairPrices::keeps_no_more(int treatment, int other) const {
  const std::vector<double>&own = kept_bytes(treatment), &others = kept_bytes(other);
  for (std::size_t i = 1; i < own.size(); ++i) {
    if (own[i] - own[i - 1] > others[i] - others[i - 1]) return false;
  }
  return true;
}

double PairPrices::kept_bytes(std::int64_t begin, std::int64_t end, const cost::StageTreatment& treatment) const {
  const std::vector<double>& rest = kept_bytes(treatment.rest);
  if (treatment.whole == 0) return (rest[at(end)] - rest[at(begin)]) / real(treatment.group);
  const std::vector<double>& whole = kept_bytes(cost::kEverything);
  const std::int64_t middle = end_of_blocks(begin, end, treatment.whole);
  return whole[at(middle)] - whole[at(begin)] + rest[at(end)] - rest[at(middle)];
}

const PairPrices::Kept& PairPrices::look_at_memory() const {
  const std::scoped_lock lock(looking_);
  if (!kept_) {
    kept_ = std::make_unique<const Kept>(*this);
    known_kept_.store(kept_.get(), std::memory_order_release);
  }
  return *kept_;
}

// Each kind as a stage of its own. So much is in flight, and so many ranks share what is shared, that nothing but the
// backward passes counts.
PairPrices::More PairPrices::look_at_more(bool many) const {
  constexpr double kFlight = 4096, kRounding = 1e-9, kRoundedBytes = 4;
  constexpr std::int64_t kRanks = std::int64_t{1} << 30;
  const std::size_t kinds = job_->model.kinds.size();
  More more;
  for (auto& by_mode : more) {
    for (std::vector<double>& bytes : by_mode) bytes.assign(kinds, 0);
  }
  if (job_->stack.memory == cost::MemoryModel::megatron && job_->stack.offloaded_layers == 0 &&
      job_->model.architecture.towers.size() == 1) {
    const cost::StateBytes state = cost::state_bytes(*job_);
    Strategy strategy;
    strategy.split = split_;
    strategy.micro_batch = micro_batch_;
    strategy.pp = many ? 2 : 1;
    strategy.dp = strategy.dp_inner = split_.team();
    const double margin = 1 + job_->stack.memory_margin;
    std::vector<char> seen(kinds, 0);
    for (std::int64_t i = 0; i < job_->model.layer_count(); ++i) {
      const std::size_t kind = at(job_->model.layers[at(i)]);
      if (seen[kind] != 0) continue;
      seen[kind] = 1;
      const double parameters = dense_parameters(i, i + 1) + expert_parameters(i, i + 1);
      const double frozen = frozen_dense(i, i + 1) + frozen_expert(i, i + 1);
      for (int zero = 0; zero <= cost::kHybridRow; ++zero) {
        for (std::size_t mode = 0; mode < cost::kFirstSet; ++mode) {
          StagePlan stage;
          stage.first = stage.last = static_cast<int>(i);
          stage.zero = std::min(zero, 3);
          stage.zero_outer = zero == cost::kHybridRow;
          stage.recompute = static_cast<Recompute>(mode);  // none, selective, full
          const cost::StageSetting setting{{kRanks, kRanks}, {kRanks, kRanks}, kFlight, 0};
          const double needed = real(memory().estimate(strategy, stage, setting).needed);
          const auto held = [&](double bytes, bool shared, double count) {
            return bytes * count / (shared ? real(kRanks) : 1);
          };
          const bool divided = zero >= state.weights_shared_from;
          const double own = held(std::max(state.weight, state.plain_weight), divided, parameters) +
                             held(std::max(state.frozen_weight, state.plain_weight), divided, frozen) +
                             held(state.gradient, zero >= 2, parameters) +
                             held(std::max(state.optimizer, state.rest_optimizer), zero >= 1, parameters);
          const double kept = kFlight * memory().kept_bytes(static_cast<int>(i), static_cast<int>(mode));
          more[at(zero)][mode][kind] =
              std::max(0.0, needed - margin * (own + kept) - kRoundedBytes - kRounding * needed);
        }
        // Of sets, whichever it is: a layer keeps and needs for its work as much together as without them, and with some
        // it keeps more.
        const auto layer = static_cast<int>(i);
        const double plain = memory().kept_bytes(layer, cost::kNothing);
        double beyond = 0;
        for (std::size_t t = cost::kSelective; t < treatments().count(); ++t) {
          beyond = std::max(beyond, memory().kept_bytes(layer, static_cast<int>(t)) - plain);
        }
        auto& by_mode = more[at(zero)];
        by_mode[cost::kFirstSet][kind] = std::max(0.0, by_mode[cost::kNothing][kind] - margin * beyond);
      }
    }
  }
  if (kinds > kKindsApart) {
    for (auto& by_mode : more) {
      for (std::vector<double>& bytes : by_mode) bytes = {*std::min_element(bytes.begin(), bytes.end())};
    }
  }
  return more;
}

const PairPrices::More& PairPrices::more(bool many) const {
  const std::size_t k = many ? 1 : 0;
  if (const More* known = known_more_[k].load(std::memory_order_acquire)) return *known;
  const std::scoped_lock lock(looking_for_more_);
  if (!more_[k]) {
    more_[k] = std::make_unique<const More>(look_at_more(many));
    known_more_[k].store(more_[k].get(), std::memory_order_release);
  }
  return *more_[k];
}

double PairPrices::more_bytes(std::int64_t begin, std::int64_t end, int zero, int treatment, bool many) const {
  if (treatment >= cost::kFirstSet) {
    // Without a pipeline, passes that overlap hold one layer more, and that keeps less with a set. What waits on the host
    // differs from set to set.
    if (job_->profile || split_.offload != 0 || (!many && cost::overlaps_experts(*job_, split_))) return 0;
    treatment = cost::kFirstSet;
  }
  const std::vector<double>& bytes = more(many)[at(zero)][at(treatment)];
  if (of_kind_.empty()) return bytes.front();
  const std::size_t kinds = bytes.size();
  const std::int64_t *before = &of_kind_[at(begin) * kinds], *after = &of_kind_[at(end) * kinds];
  double most = 0;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    if (after[kind] > before[kind]) most = std::max(most, bytes[kind]);
  }
  return most;
}

cost::StageSums PairPrices::sums(std::int64_t begin, std::int64_t end, bool many) const {
  cost::StageSums sums = sums_[at(end)];
  add_sums(sums, sums_[at(begin)], -1);
  if (!many) {
    sums.backward_s += sums.deferred_s;
    sums.deferred_s = 0;
  }
  const double repeated =
      real(table_.repeated_parameters(begin <= last_embedding_, begin <= mtp_ && mtp_ < end, first_head_ < end));
  sums.dense_parameters -= repeated;
  if (table_.matrices != nullptr) {
    sums.matrices = table_.matrices.get();
    sums.first = static_cast<int>(begin);
    sums.last = static_cast<int>(end - 1);
    sums.rest_parameters = table_.matrices->rest_parameters(sums.first, sums.last) - repeated;
  }
  return sums;
}

double PairPrices::slowest_s(std::int64_t stages) const {
  double slowest = total_s(stages > 1) / real(stages);
  for (const Stretch& stretch : stretches_) {
    const std::int64_t share = ceil_div(stretch.length, stages);  // of one stage at least
    slowest = std::max(slowest, real(share) * (stages > 1 ? stretch.many_s : stretch.one_s));
  }
  return slowest;
}

double PairPrices::context_share() const {
  double most = 0;
  for (const cost::LayerPrice& price : table_.kinds) {
    if (price.measured) return 1;  // who knows
    if (price.cp_s > 0) most = std::max(most, 2 * price.cp_s / (price.forward_s + price.backward_s));
  }
  return std::min(1.0, most);
}

bool PairPrices::is_never_faster(const PairPrices& other) const {
  const auto is_slower = [](const cost::LayerPrice& a, const cost::LayerPrice& b) {
    return a.forward_s >= b.forward_s && a.backward_s >= b.backward_s && a.alone_forward_s >= b.alone_forward_s &&
           a.alone_backward_s >= b.alone_backward_s &&
           std::equal(a.recompute_s.begin(), a.recompute_s.end(), b.recompute_s.begin(), std::greater_equal<>());
  };
  return std::equal(table_.kinds.begin(), table_.kinds.end(), other.table_.kinds.begin(), other.table_.kinds.end(),
                    is_slower);
}

PriceCache::PriceCache(const cost::Job& job, const plan::PlanLimits& limits)
    : job_(&job), treatments_{offered_sets(job)} {
  for (const Recomputation& named : limits.recompute_only) {
    if (!is_priced(named)) treatments_.sets.push_back(named.modules);
  }
}

bool PriceCache::is_priced(const Recomputation& named) const {
  const auto& sets = treatments_.sets;
  return named.kind != Recompute::modules || std::find(sets.begin(), sets.end(), named.modules) != sets.end();
}

bool PriceCache::covers(const plan::PlanLimits& limits) const {
  return std::all_of(limits.recompute_only.begin(), limits.recompute_only.end(),
                     [&](const Recomputation& named) { return is_priced(named); });
}

std::shared_ptr<const PairPrices> PriceCache::get(const Split& split, std::int64_t micro_batch) {
  const Name name{split.tp,       split.sp ? 1 : 0, split.cp,  static_cast<std::int64_t>(split.cp_comm),
                  split.cp_inner, split.ep,         split.etp, split.offload,
                  micro_batch};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(name); found != known_.end()) return found->second;
  }
  auto fresh = std::make_shared<const PairPrices>(*job_, split, micro_batch, treatments_);
  ++priced_;
  const std::lock_guard lock(mutex_);
  return known_.try_emplace(name, std::move(fresh)).first->second;
}

}  // namespace nest::search
