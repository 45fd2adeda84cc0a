// The tree of key sets and how a node is opened.
//
//   pair       all keys of a split and micro-batch size
//   stages     ... and a number of stages
//   range      ... and inner replicas in [2^k, 2^(k+1))
//   chain      ... and a schedule, and at least m micro-batches
//   plateau    ... and exactly m micro-batches
//   solved     a plateau whose relaxed partition problem is solved
//   placement  ... and inner replicas and pitch
//   leaf       one key
// Relaxed problems are solved under a limit a little above the node's bound, where few cuts are admissible; a node that
// proves larger goes back into the queue with the limit as its new bound.
// The children of a node cover it, and a node's `low` bounds the score of every plan below it. Opening a node depends
// on the node and the cutoff only, so nodes can be opened in any order and on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search/bounds.h"
#include "search/incumbents.h"
#include "search/partition.h"
#include "search/plan.h"
#include "search/priced.h"
#include "search/problem.h"
#include "search/space.h"

namespace nest::search {

enum class NodeKind : std::uint8_t { pair, stages, range, chain, plateau, solved, placement, leaf };

struct Node {
  NodeKind kind = NodeKind::pair;
  Rule rule = Rule::work;  // that gave `low`
  Score low = 0;
  Key key;  // fields below this level are 0: precedes every key of the node
  std::int64_t inner_low = 1, inner_high = 1;
  std::int64_t micro_batches = 0;
  std::int64_t replicas_low = 1, replicas_high = 1;  // plateau and below
  std::int64_t relaxed_ps = 0;                       // solved: bound from the relaxed problem
  int retries = 0;                                   // times the node came back with a higher bound
};

struct Expansion {
  std::vector<Node> children;
  std::vector<Offer> offers;
  Counters counters;
};

// What all threads share. A pair's table is written once, by the thread that opens the pair.
class Shared {
 public:
  explicit Shared(const Problem& problem);

  const Problem& problem() const { return *problem_; }
  const Priced& priced(const Key& key) const { return *priced_[slot(key.split, key.micro_batch)]; }
  bool is_priced(int split, int micro_batch) const { return priced_[slot(split, micro_batch)] != nullptr; }
  void price(int split, int micro_batch);
  std::int64_t largest_unit() const { return largest_unit_; }
  std::int64_t chunks(int schedule) const { return problem_->schedules[static_cast<std::size_t>(schedule)].chunks; }
  const SplitChoice& split(const Key& key) const { return problem_->splits[static_cast<std::size_t>(key.split)]; }
  PlacementClass place(const Key& key) const;

  // Score of a time on at least so many devices, and the largest time within a score.
  Score score(std::int64_t time_ps, std::int64_t devices) const;
  std::int64_t time_limit(Score score, std::int64_t devices) const;

 private:
  std::size_t slot(int split, int micro_batch) const {
    return static_cast<std::size_t>(split) * problem_->micro_batches.size() + static_cast<std::size_t>(micro_batch);
  }

  const Problem* problem_;
  ChainIndex index_;
  std::vector<std::unique_ptr<Priced>> priced_;
  std::int64_t largest_unit_ = 1;
};

// One partition problem: exact prices of a key, or best prices of a box.
PartitionProblem exact_partition(const Shared& shared, const Key& key, const PlacementClass& placed);

// Opens nodes; one per thread.
class Opener {
 public:
  Opener(Shared& shared, bool dive) : shared_(&shared), dive_(dive) {}

  Expansion open(const Node& node, const Cutoff& cutoff);

  // Exact optimum of one key if its score is within the limit.
  std::optional<Offer> solve(const Key& key, Score limit, Counters& counters);

 private:
  // A box and the bounds that follow from it.
  struct Relaxation {
    BoxClass box;
    ChainBound chain;
    IterationBound bound;
  };

  void open_pair(const Node& node);
  void open_stages(const Node& node);
  void open_range(const Node& node);
  void open_chain(const Node& node);
  void open_plateau(const Node& node);
  void open_solved(const Node& node);
  void open_placement(const Node& node);
  void open_leaf(const Node& node);

  void push(const Node& child);
  void retry(const Node& node, Score limit, Rule rule);
  Score probe_limit(const Node& node) const;
  void push_ranges(const Node& node, Score low, Rule rule);
  void push_chains(const Node& node, Score low, Rule rule);
  bool push_chain(Node child, std::int64_t at_least, Score low);
  void finish_plateau(const Node& node, const Relaxation& relaxed, std::int64_t bound_ps);
  void dive(const Node& node, const Relaxation& relaxed);
  std::vector<Node> placements(const Node& node, const Relaxation& relaxed, bool largest_only);

  PlacementBox box_of(const Node& node, std::int64_t replicas_low, std::int64_t replicas_high) const;
  Relaxation relax(const Node& node, const PlacementBox& box, std::int64_t chunks, std::int64_t fill,
                   std::int64_t micro_batches, Score limit);
  PartitionProblem relaxed_partition(const Node& node, const Relaxation& relaxed, const Schedule& schedule,
                                     std::int64_t fill, std::int64_t micro_batches) const;
  std::int64_t fewest_replicas(const Node& node, Score limit, std::int64_t chunks, std::int64_t fill);
  Score tail_score(const Node& node, const Relaxation& relaxed, std::int64_t fill, std::int64_t replicas_low) const;
  Score open_low(const Node& node);
  std::optional<Score> stage_bound(const Node& node, Score limit);

  Shared* shared_;
  bool dive_;
  PartitionSolver solver_;
  CutCostCache cut_costs_;
  const Cutoff* cutoff_ = nullptr;
  Expansion out_;
};

}  // namespace nest::search
