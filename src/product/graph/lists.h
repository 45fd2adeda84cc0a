// Lists of indices. Internal to graph.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/index.h"

namespace nest::graph {

inline bool has(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

inline void add_once(std::vector<int>& list, int value) {
  if (!has(list, value)) list.push_back(value);
}

// Which indices a list holds already, for long lists.
class Once {
 public:
  void begin() { ++list_; }
  // Whether the index is new in the list that was begun last.
  bool first(int index) {
    if (at(index) >= seen_.size()) seen_.resize(at(index) + 1, 0);
    if (seen_[at(index)] == list_) return false;
    seen_[at(index)] = list_;
    return true;
  }

 private:
  std::vector<std::size_t> seen_;  // per index: the last list that it was put in
  std::size_t list_ = 1;
};

}  // namespace nest::graph
