// Layer tables prepared for the solver: every quantity of an interval of layers in constant time.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "search/problem.h"
#include "search/stage_cost.h"

namespace nest::search {

// What depends on the chain alone. Intervals with the same sequence of layer types between boundaries of the same kinds
// share an id, whatever their position: a model of L identical blocks has about 3 L ids instead of L^2 / 2.
class ChainIndex {
 public:
  explicit ChainIndex(const Chain& chain);

  std::int64_t size() const { return size_; }
  int interval(std::int64_t begin, std::int64_t end) const {
    return id_[static_cast<std::size_t>(begin * (size_ + 1) + end)];
  }
  int intervals() const { return intervals_; }

  struct Run {
    int type = 0;
    std::int64_t length = 0;
  };
  const std::vector<Run>& runs() const { return runs_; }  // longest run of each type

 private:
  std::int64_t size_;
  std::vector<int> id_;
  int intervals_ = 0;
  std::vector<Run> runs_;
};

class Priced {
 public:
  Priced(const Chain& chain, const ChainIndex& index, LayerTable table);

  const ChainIndex& index() const { return *index_; }
  const LayerTable& table() const { return table_; }
  std::int64_t size() const { return index_->size(); }
  std::int64_t time(std::int64_t begin, std::int64_t end) const {
    return time_[static_cast<std::size_t>(end)] - time_[static_cast<std::size_t>(begin)];
  }
  const std::vector<std::int64_t>& time_prefix() const { return time_; }
  int cut_kind(std::int64_t boundary) const { return cut_kind_[static_cast<std::size_t>(boundary)]; }
  const LayerCost& layer(std::int64_t i) const {
    return table_.layers[static_cast<std::size_t>(layer_type_[static_cast<std::size_t>(i)])];
  }
  IntervalSums sums(std::int64_t begin, std::int64_t end) const;

  IntervalSums total;                       // of the whole chain
  std::int64_t largest_time_ps = 0;         // of one layer
  double hide_share = 0;                    // largest hide_ps / time_ps of a layer; infinite if a layer takes no time
  std::int64_t least_cut_bytes = 0;         // over the interior boundaries
  std::vector<std::int64_t> cuts_by_bytes;  // interior boundaries' bytes, ascending

 private:
  static constexpr std::size_t kSums = 9, kMaxima = 4;
  const ChainIndex* index_;
  LayerTable table_;
  std::vector<int> layer_type_, cut_kind_;
  std::vector<std::int64_t> time_;
  std::vector<std::array<std::int64_t, kSums>> prefix_;
  std::vector<std::vector<std::array<std::int64_t, kMaxima>>> maxima_;  // sparse table: [log2 length][begin]
};

}  // namespace nest::search
