// The tree itself: children cover their parent, and no bound exceeds a score below it.
#include "search/tree.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "oracle.h"
#include "search/evaluate.h"

namespace nest::search::test {
namespace {

bool contains(const Problem& problem, const Node& node, const Key& key) {
  const NodeKind kind = node.kind;
  if (node.key.split != key.split || node.key.micro_batch != key.micro_batch) return false;
  if (kind == NodeKind::pair) return true;
  if (node.key.stages != key.stages) return false;
  if (kind == NodeKind::stages) return true;
  if (key.inner_replicas < node.inner_low || key.inner_replicas > node.inner_high) return false;
  if (kind == NodeKind::range) return true;
  if (node.key.schedule != key.schedule) return false;
  const std::int64_t m = micro_batches_of(problem, key);
  if (kind == NodeKind::chain) return m >= node.micro_batches;
  if (m != node.micro_batches || key.replicas < node.replicas_low || key.replicas > node.replicas_high) return false;
  return kind == NodeKind::plateau || kind == NodeKind::solved || node.key.pitch == key.pitch;
}

// Follows one key from the root to its exact score; returns what is wrong.
std::string follow(Shared& shared, Opener& opener, const Cutoff& cutoff, const Key& key, Score score) {
  Node node;
  node.key.split = key.split;
  node.key.micro_batch = key.micro_batch;
  for (int step = 0; step < 2000; ++step) {
    if (node.low > score) return "a bound exceeds the score";
    if (node.key > key) return "the least key of a node is not the least";
    const Expansion expansion = opener.open(node, cutoff);
    for (const Offer& offer : expansion.offers) {
      if (offer.key == key && offer.exact && offer.score != score) return "an exact score is wrong";
      if (offer.key == key && (node.kind == NodeKind::leaf || node.kind == NodeKind::placement)) return {};
    }
    const auto child = std::find_if(expansion.children.begin(), expansion.children.end(),
                                    [&](const Node& c) { return contains(shared.problem(), c, key); });
    if (child == expansion.children.end())
      return "no child holds the key, kind " + std::to_string(static_cast<int>(node.kind));
    node = *child;
  }
  return "the key is never reached";
}

TEST(Tree, KeepsEveryKeyWithinTheCutoff) {
  int followed = 0;
  for (std::uint64_t seed = 500001; followed < scaled(20000); ++seed) {
    const Instance instance = random_instance(seed);
    const std::optional<Ranking> ranking = rank_all(instance, 1e5);
    if (!ranking || ranking->empty()) continue;
    World world{Instance(instance)};
    Shared shared(world.problem());
    Opener opener(shared, true);
    const std::size_t last = seed % ranking->size();
    Cutoff cutoff{(*ranking)[last].first, {}, true, false};
    cutoff.key.split = 1 << 20;  // ties stay
    for (std::size_t i = 0; i <= last; i += 1 + last / 20) {
      ++followed;
      const auto& [score, key] = (*ranking)[i];
      const std::string error = follow(shared, opener, cutoff, key, score);
      ASSERT_EQ(error, "") << "seed " << seed << " place " << i << "\ninstance: " << dump(instance);
    }
  }
}

}  // namespace
}  // namespace nest::search::test
