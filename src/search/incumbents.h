// The best plans known, one per key, and what can no longer be among the best K.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "search/partition.h"
#include "search/plan.h"

namespace nest::search {

struct Offer {
  Key key;
  Score score = 0;
  bool exact = false;  // the best plan of this key
  PartitionPlan plan;
};

// Frozen view of the incumbents: everything ordered after (score, key) is out.
struct Cutoff {
  Score score = 0;
  Key key;
  bool by_key = false;  // ties are decided by the key; else only larger scores are out
  bool solved = false;  // the key itself needs no further work

  // `low` bounds the scores of a set of keys, `least` precedes all of them.
  bool excludes(Score low, const Key& least) const {
    if (low != score || !by_key) return low > score;
    return least > key || (solved && least == key);
  }
};

// Every entry's score is attained by a plan of its key, so K entries exclude whatever comes after the K-th of them.
class Incumbents {
 public:
  // Plans that score more than `start` are not wanted.
  Incumbents(std::size_t wanted, Score start) : wanted_(wanted), start_(start) {}

  void offer(Offer offered) {
    if (offered.score > start_) return;
    const auto same = std::find_if(best_.begin(), best_.end(), [&](const Offer& o) { return o.key == offered.key; });
    if (same != best_.end()) {
      if (same->exact || (!offered.exact && same->score <= offered.score)) return;
      best_.erase(same);
    }
    const auto place = std::find_if(best_.begin(), best_.end(), [&](const Offer& o) {
      return offered.score < o.score || (offered.score == o.score && offered.key < o.key);
    });
    best_.insert(place, std::move(offered));
    if (best_.size() > wanted_) best_.pop_back();
  }

  Cutoff cutoff() const {
    Cutoff cutoff{start_, {}, false, false};
    if (best_.size() == wanted_) cutoff = {best_.back().score, best_.back().key, true, best_.back().exact};
    return cutoff;
  }

  const std::vector<Offer>& best() const { return best_; }

 private:
  std::size_t wanted_;
  Score start_;
  std::vector<Offer> best_;  // by (score, key)
};

}  // namespace nest::search
