#include "search/pair_prices.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "base/index.h"

namespace nest::search {
namespace {

void add_sums(cost::StageSums& sums, const cost::StageSums& other, double sign) {
  sums.forward_s += sign * other.forward_s;
  sums.backward_s += sign * other.backward_s;
  for (std::size_t mode = 0; mode < 3; ++mode) sums.recompute_s[mode] += sign * other.recompute_s[mode];
  sums.alone_forward_s += sign * other.alone_forward_s;
  sums.alone_backward_s += sign * other.alone_backward_s;
  sums.hide_forward_s += sign * other.hide_forward_s;
  sums.hide_backward_s += sign * other.hide_backward_s;
  sums.deferred_s += sign * other.deferred_s;
  sums.dense_parameters += sign * other.dense_parameters;
  sums.expert_parameters += sign * other.expert_parameters;
  sums.tensors += sign * other.tensors;
}

}  // namespace

PairPrices::PairPrices(const cost::Job& job, const Split& split, std::int64_t micro_batch)
    : job_(&job),
      split_(split),
      micro_batch_(micro_batch),
      table_(cost::price_table(job, split, micro_batch)),
      prefix_one_{0.0},
      prefix_many_{0.0} {
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
    length = i > 0 && job.model.layers[i - 1] == kind ? length + 1 : 1;
    Stretch& stretch = longest.try_emplace(kind, Stretch{one, many, 0}).first->second;
    stretch.length = std::max(stretch.length, length);
    if (job.model.kinds[at(kind)].kind == model::LayerKind::block) hide_s_ += one;
    all_have_parameters_ = all_have_parameters_ && price.dense_parameters > 0;
    dense_ += real(price.dense_parameters);
    expert_ += real(price.expert_parameters);
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
  dense_ = std::max(0.0, dense_ - real(table_.repeated_parameters(true, mtp_ >= 0, true)));
  if (!table_.cut_bytes.empty()) {
    least_cut_bytes_ = *std::min_element(table_.cut_bytes.begin(), table_.cut_bytes.end());
  }
}

PairPrices::Kept::Kept(const PairPrices& pair) : model(*pair.job_, pair.split_, pair.micro_batch_) {
  const auto layers = static_cast<int>(pair.job_->model.layers.size());
  for (std::vector<double>& sums : prefix) sums.push_back(0);
  for (int i = 0; i < layers; ++i) {
    for (std::size_t mode = 0; mode < 3; ++mode) {
      prefix[mode].push_back(prefix[mode].back() + model.kept_bytes(i, static_cast<Recompute>(mode)));
    }
  }
}

const PairPrices::Kept& PairPrices::look_at_memory() const {
  std::call_once(looked_, [this] {
    kept_ = std::make_unique<const Kept>(*this);
    known_kept_.store(kept_.get(), std::memory_order_release);
  });
  return *kept_;
}

cost::StageSums PairPrices::sums(std::int64_t begin, std::int64_t end, bool many) const {
  cost::StageSums sums = sums_[at(end)];
  add_sums(sums, sums_[at(begin)], -1);
  if (!many) {
    sums.backward_s += sums.deferred_s;
    sums.deferred_s = 0;
  }
  sums.dense_parameters -=
      real(table_.repeated_parameters(begin <= last_embedding_, begin <= mtp_ && mtp_ < end, first_head_ < end));
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

std::shared_ptr<const PairPrices> PriceCache::get(const Split& split, std::int64_t micro_batch) {
  const Name name{split.tp, split.sp ? 1 : 0, split.cp, split.ep, split.etp, micro_batch};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(name); found != known_.end()) return found->second;
  }
  auto fresh = std::make_shared<const PairPrices>(*job_, split, micro_batch);
  ++priced_;
  const std::lock_guard lock(mutex_);
  return known_.try_emplace(name, std::move(fresh)).first->second;
}

}  // namespace nest::search
