#include "search/priced.h"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

namespace nest::search {

ChainIndex::ChainIndex(const Chain& chain) : size_(chain.size()) {
  const auto n = static_cast<std::size_t>(size_);
  id_.assign((n + 1) * (n + 1), -1);
  // A trie over layer types, rooted at the kind of the first boundary; a leaf step for the kind of the last one.
  std::unordered_map<std::uint64_t, int> step;
  std::unordered_map<std::uint64_t, int> finish;
  int nodes = 0;
  const auto child = [&](int node, int label, std::unordered_map<std::uint64_t, int>& edges, int& counter) {
    const std::uint64_t edge = static_cast<std::uint64_t>(node + 1) << 32 | static_cast<std::uint32_t>(label);
    const auto [place, fresh] = edges.try_emplace(edge, counter);
    if (fresh) ++counter;
    return place->second;
  };
  const auto kind_at = [&](std::size_t boundary) {
    return boundary == 0 || boundary == n ? -1 : chain.cut_kind[boundary];
  };
  for (std::size_t begin = 0; begin < n; ++begin) {
    int node = child(-1, kind_at(begin), step, nodes);
    for (std::size_t end = begin + 1; end <= n; ++end) {
      node = child(node, chain.layer_type[end - 1], step, nodes);
      id_[begin * (n + 1) + end] = child(node, kind_at(end), finish, intervals_);
    }
  }
  std::map<int, std::int64_t> longest;
  std::int64_t length = 0;
  for (std::size_t i = 0; i < n; ++i) {
    length = i > 0 && chain.layer_type[i] == chain.layer_type[i - 1] ? length + 1 : 1;
    longest[chain.layer_type[i]] = std::max(longest[chain.layer_type[i]], length);
  }
  for (const auto& [type, most] : longest) runs_.push_back({type, most});
}

Priced::Priced(const Chain& chain, const ChainIndex& index, LayerTable table)
    : index_(&index), table_(std::move(table)), layer_type_(chain.layer_type), cut_kind_(chain.cut_kind) {
  const auto n = static_cast<std::size_t>(chain.size());
  prefix_.resize(n + 1);
  time_.assign(n + 1, 0);
  maxima_.emplace_back(n);
  for (std::size_t i = 0; i < n; ++i) {
    const LayerCost& layer = table_.layers[static_cast<std::size_t>(chain.layer_type[i])];
    const std::array<std::int64_t, kSums> values{layer.selective_ps,     layer.full_ps,           layer.hide_ps,
                                                 layer.kept_bytes[0],    layer.kept_bytes[1],     layer.kept_bytes[2],
                                                 layer.dense_parameters, layer.expert_parameters, layer.time_ps};
    for (std::size_t k = 0; k < kSums; ++k) prefix_[i + 1][k] = prefix_[i][k] + values[k];
    time_[i + 1] = time_[i] + layer.time_ps;
    maxima_[0][i] = {layer.working_bytes[0], layer.working_bytes[1], layer.working_bytes[2], layer.gather_bytes};
    largest_time_ps = std::max(largest_time_ps, layer.time_ps);
    if (layer.hide_ps > 0) {
      hide_share = std::max(hide_share, static_cast<double>(layer.hide_ps) / static_cast<double>(layer.time_ps));
    }
  }
  for (std::size_t step = 1; 2 * step <= n; step *= 2) {
    const auto& below = maxima_.back();
    std::vector<std::array<std::int64_t, kMaxima>> level(n - 2 * step + 1);
    for (std::size_t i = 0; i < level.size(); ++i) {
      for (std::size_t k = 0; k < kMaxima; ++k) level[i][k] = std::max(below[i][k], below[i + step][k]);
    }
    maxima_.push_back(std::move(level));
  }
  total = sums(0, chain.size());
  for (std::size_t i = 1; i < n; ++i) cuts_by_bytes.push_back(table_.cut_bytes[static_cast<std::size_t>(cut_kind_[i])]);
  std::sort(cuts_by_bytes.begin(), cuts_by_bytes.end());
  if (n > 1) least_cut_bytes = cuts_by_bytes.front();
}

IntervalSums Priced::sums(std::int64_t begin, std::int64_t end) const {
  const auto i = static_cast<std::size_t>(begin), j = static_cast<std::size_t>(end);
  const auto& low = prefix_[i];
  const auto& high = prefix_[j];
  const auto level = static_cast<std::size_t>(std::bit_width((j - i) | 1)) - 1;
  const auto& left = maxima_[level][i];
  const auto& right = maxima_[level][j - (std::size_t{1} << level)];
  IntervalSums sums;
  sums.recompute_ps = {0, high[0] - low[0], high[1] - low[1]};
  sums.hide_ps = high[2] - low[2];
  sums.kept_bytes = {high[3] - low[3], high[4] - low[4], high[5] - low[5]};
  sums.dense_parameters = high[6] - low[6];
  sums.expert_parameters = high[7] - low[7];
  sums.time_ps = high[8] - low[8];
  for (std::size_t r = 0; r < 3; ++r) sums.working_bytes[r] = std::max(left[r], right[r]);
  sums.gather_bytes = std::max(left[3], right[3]);
  return sums;
}

}  // namespace nest::search
