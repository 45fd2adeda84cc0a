// Layer prices of one split and micro-batch size, as sums from which any interval of layers is priced.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/index.h"
#include "cost/memory.h"
#include "cost/tables.h"
#include "plan/limits.h"

namespace nest::search {

// Prices of one split and micro-batch size, and what follows from them for any cut.
class PairPrices {
 public:
  PairPrices(const cost::Job& job, const Split& split, std::int64_t micro_batch, const cost::Treatments& treatments);

  const cost::PriceTable& table() const { return table_; }
  // Looked at when first asked for: most pairs are too slow for their memory to matter. Thread-safe.
  const cost::StageMemoryModel& memory() const { return kept().model; }
  // Time of layers [0, i) on one stage of many (or of one).
  const std::vector<double>& prefix(bool many) const { return many ? prefix_many_ : prefix_one_; }
  double total_s(bool many) const { return prefix(many).back(); }
  // The most that another exchange of contexts could save of the time of any layers; what is exchanged forward may be
  // repeated.
  double context_share() const;
  // Whether every layer takes at least as long in every pass, with any recomputation.
  bool is_never_faster(const PairPrices& other) const;
  // More, of layers [0, i), where no pass meets another one; empty where nothing overlaps.
  const std::vector<double>& alone() const { return alone_; }
  double alone_s() const { return alone_.empty() ? 0 : alone_.back(); }
  // sum_stage() of layers [begin, end), as a difference of sums.
  cost::StageSums sums(std::int64_t begin, std::int64_t end, bool many) const;
  // F, I and W of the mean of so many stages.
  schedule::PassSeconds mean_stage(std::int64_t stages) const { return cost::mean_stage(sums_.back(), stages); }
  const cost::Treatments& treatments() const { return table_.treatments; }
  // Seconds that layers [begin, end) take longer in backward when every block is treated so (cost/treatments.h), and
  // where the first `whole` of them are recomputed from their inputs.
  double again_s(std::int64_t begin, std::int64_t end, int treatment) const {
    const std::vector<double>& sums = again_[at(treatment)];
    return sums[at(end)] - sums[at(begin)];
  }
  double again_s(std::int64_t begin, std::int64_t end, const cost::StageTreatment& treatment) const {
    if (treatment.whole == 0) return again_s(begin, end, treatment.rest);
    const std::int64_t middle = end_of_blocks(begin, end, treatment.whole);
    return again_s(begin, middle, cost::kEverything) + again_s(middle, end, treatment.rest);
  }
  // What the blocks of [begin, end) keep of one micro-batch under a treatment.
  double kept_bytes(std::int64_t begin, std::int64_t end, const cost::StageTreatment& treatment) const;
  // Whether a stage loses nothing by the other treatment: it keeps no more of any layer, needs no more while it works, and
  // takes no more time. Of equal ones the first stays.
  bool replaces(int other, int treatment) const;
  // Of any layer, than the other treatment does.
  bool keeps_no_more(int treatment, int other) const;
  // Time of layers [begin, end) as a stage that is treated so, messages and gradients apart.
  double stage_s(std::int64_t begin, std::int64_t end, const cost::StageTreatment& treatment, bool many) const {
    return prefix(many)[at(end)] - prefix(many)[at(begin)] + again_s(begin, end, treatment);
  }
  // Blocks among layers [begin, end), and the end of the first so many of them.
  std::int64_t blocks(std::int64_t begin, std::int64_t end) const { return blocks_[at(end)] - blocks_[at(begin)]; }
  std::int64_t end_of_blocks(std::int64_t begin, std::int64_t end, std::int64_t count) const {
    const std::int64_t last = blocks_[at(begin)] + count;  // counted from the first layer on
    return last > blocks_[at(end)] ? end : block_end_[at(last)];
  }
  // No stage structure with so many stages has a smaller tau: the largest layer, the longest stretch of equal ones, the mean.
  double slowest_s(std::int64_t stages) const;
  // Kept per micro-batch by layers [0, i).
  const std::vector<double>& kept_bytes(int treatment) const { return kept().prefix[at(treatment)]; }
  double shared_parameters() const { return memory().shared_parameters(); }
  double shared_frozen() const { return memory().shared_frozen(); }
  // What a stage of the layers [begin, end) needs beside its state and what micro-batches in flight keep, at least:
  // working memory, buffers, what the allocator holds, as the layer that needs most of it does alone. 0 where that is
  // not known (accountings other than Megatron's, encoders). Whoever keeps less needs more of it while it works, so that
  // of a set of modules, and where some blocks are recomputed whole (kFirstSet), what it is without recomputation counts,
  // less what some set keeps beyond that.
  double more_bytes(std::int64_t begin, std::int64_t end, int zero, int treatment, bool many) const;
  double least_cut_bytes() const { return least_cut_bytes_; }
  double most_cut_bytes() const { return most_cut_bytes_; }
  double least_back_share() const { return least_back_share_; }
  double hide_s() const { return hide_s_; }  // of all blocks
  double recompute_s() const {               // of all layers, at most
    double most = 0;
    for (const std::vector<double>& sums : again_) most = std::max(most, sums.back());
    return most;
  }
  bool every_layer_has_parameters() const { return all_have_parameters_; }
  // Of all layers, and of [begin, end) with tables that several layers share counted by each of them.
  double dense_parameters() const { return dense_; }
  double expert_parameters() const { return expert_; }
  double dense_parameters(std::int64_t begin, std::int64_t end) const {
    return sums_[at(end)].dense_parameters - sums_[at(begin)].dense_parameters;
  }
  double expert_parameters(std::int64_t begin, std::int64_t end) const {
    return sums_[at(end)].expert_parameters - sums_[at(begin)].expert_parameters;
  }

  // The same of what is not trained.
  double frozen_dense(std::int64_t begin, std::int64_t end) const {
    return frozen_.empty() ? 0 : frozen_[at(end)].dense - frozen_[at(begin)].dense;
  }
  double frozen_expert(std::int64_t begin, std::int64_t end) const {
    return frozen_.empty() ? 0 : frozen_[at(end)].expert - frozen_[at(begin)].expert;
  }

 private:
  struct Frozen {
    double dense = 0, expert = 0;
  };
  struct Stretch {         // the longest of layers of one kind
    double one_s, many_s;  // per layer
    std::int64_t length;
  };
  struct Kept {
    explicit Kept(const PairPrices& pair);
    cost::StageMemoryModel model;
    std::vector<std::vector<double>> prefix;  // by treatment
  };
  static constexpr std::size_t kKindsApart = 8;  // told apart by more_bytes; of more kinds, the least of all counts
  // By kind of layer; of all kinds together where they are many.
  using More =
      std::array<std::array<std::vector<double>, cost::kFirstSet + 1>, cost::kHybridRow + 1>;  // [row][recompute]
  const More& more(bool many) const;
  More look_at_more(bool many) const;
  const Kept& kept() const {
    const Kept* known = known_kept_.load(std::memory_order_acquire);
    return known != nullptr ? *known : look_at_memory();
  }
  const Kept& look_at_memory() const;

  const cost::Job* job_;
  Split split_;
  std::int64_t micro_batch_;
  cost::PriceTable table_;
  // Not std::call_once: through it an exception (no memory) leaves by way of the C library, which then loads a library and may fail.
  mutable std::mutex looking_, looking_for_more_;
  mutable std::unique_ptr<const Kept> kept_;
  mutable std::atomic<const Kept*> known_kept_{nullptr};  // the same: asking costs less than a flag does
  mutable std::array<std::unique_ptr<const More>, 2> more_;
  mutable std::array<std::atomic<const More*>, 2> known_more_{};
  std::vector<std::int64_t> of_kind_;  // [i * kinds + k]: layers of kind k among [0, i), where few kinds are told apart
  std::vector<double> prefix_one_, prefix_many_, alone_;
  std::vector<std::vector<double>> again_;  // by treatment, of layers [0, i)
  std::vector<std::int64_t> blocks_;        // of layers [0, i)
  std::vector<std::int64_t> block_end_;     // by how many blocks from the first layer on
  std::vector<Frozen> frozen_;              // parameters of layers [0, i); empty where all are trained
  std::vector<cost::StageSums> sums_;       // of layers [0, i), as stages of many
  std::int64_t last_embedding_ = -1, first_head_ = 0, mtp_ = -1;
  std::vector<Stretch> stretches_;
  double least_cut_bytes_ = 0, most_cut_bytes_ = 0;
  double least_back_share_ = 0;
  double dense_ = 0, expert_ = 0, hide_s_ = 0;
  bool all_have_parameters_ = true;
};

// The prices of one job, kept from one search of it to the next. Thread-safe. The job outlives it, unchanged.
class PriceCache {
 public:
  explicit PriceCache(const cost::Job& job, const plan::PlanLimits& limits = {});

  const cost::Job& job() const { return *job_; }
  // Whether every set of modules that the limits name is priced; others that are offered are.
  bool covers(const plan::PlanLimits& limits) const;
  std::shared_ptr<const PairPrices> get(const Split& split, std::int64_t micro_batch);
  std::int64_t priced() const { return priced_; }

 private:
  using Name = std::array<std::int64_t, 9>;
  bool is_priced(const Recomputation& named) const;

  const cost::Job* job_;
  cost::Treatments treatments_;
  std::mutex mutex_;
  std::map<Name, std::shared_ptr<const PairPrices>> known_;
  std::atomic<std::int64_t> priced_{0};
};

}  // namespace nest::search
