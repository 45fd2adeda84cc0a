// Ids of intervals of layers, one layer after the other. Internal to search.
#pragma once

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <vector>

#include "base/index.h"

namespace nest::search {

// What one more layer of a kind makes of an interval of layers: -1 until it is known. The interval of none is -1.
class NextIds {
 public:
  explicit NextIds(std::size_t kinds) : kinds_(kinds) {}

  int& of(int id, int kind) {
    constexpr std::size_t kFew = 32;  // of which a table is small
    const std::size_t place = at(id + 1) * kinds_ + at(kind);
    if (kinds_ > kFew) return many_.try_emplace(place, -1).first->second;
    if (place >= few_.size()) few_.resize(std::max(2 * few_.size(), place + 1), -1);
    return few_[place];
  }

 private:
  std::size_t kinds_;
  std::vector<int> few_;
  std::unordered_map<std::size_t, int> many_;
};

}  // namespace nest::search
