// The lower half of the tree: plateaus, placements, leaves.
#include <algorithm>

#include "base/checked.h"
#include "search/evaluate.h"
#include "search/tree.h"

namespace nest::search {

// One pass for this plateau and all later ones: memory, m and degrees only get worse with m, and traffic is bounded by
// that of the fewest replicas that can matter.
void Opener::open_chain(const Node& node) {
  const Space space(shared_->problem(), node.key.split, node.key.micro_batch);
  const std::int64_t chunks = shared_->chunks(node.key.schedule), per_replica = node.key.stages * space.block();
  const Schedule& schedule = shared_->problem().schedules[static_cast<std::size_t>(node.key.schedule)];
  const Score limit = probe_limit(node);
  const std::int64_t fewest = fewest_replicas(node, limit, chunks, chunks);
  std::optional<std::int64_t> bound;
  Relaxation relaxed;
  if (fewest <= node.replicas_high) {
    relaxed = relax(node, box_of(node, fewest, node.replicas_high), chunks, chunks, node.micro_batches, limit);
    const PartitionProblem partition = relaxed_partition(node, relaxed, schedule, chunks, node.micro_batches);
    ++out_.counters.relaxed;
    bound = solver_.bound(partition, shared_->time_limit(limit, per_replica * fewest));
  }
  if (!bound) {
    retry(node, limit, Rule::tail);
    return;
  }
  const Score low = std::max(node.low, shared_->score(*bound, per_replica * fewest));
  Node rest = node;
  rest.rule = Rule::tail;
  rest.retries = 0;
  push_chain(rest, node.micro_batches + 1, low);
  Node here = node;
  here.kind = NodeKind::plateau;
  here.retries = 0;
  here.rule = Rule::tail;
  here.replicas_low = std::max(node.replicas_low, node.inner_low);
  here.low = low;
  if (here.replicas_low > here.replicas_high) return;
  if (fewest < here.replicas_low) {
    push(here);
  } else {
    finish_plateau(here, relaxed, *bound);  // the tail had no fewer replicas: its problem was the plateau's
  }
}

void Opener::finish_plateau(const Node& node, const Relaxation& relaxed, std::int64_t bound_ps) {
  const Space space(shared_->problem(), node.key.split, node.key.micro_batch);
  Node child = node;
  child.kind = NodeKind::solved;
  child.rule = Rule::plateau;
  child.relaxed_ps = bound_ps;
  child.low = std::max(node.low, shared_->score(bound_ps, node.key.stages * space.block() * node.replicas_low));
  push(child);
  if (dive_ && child.low < cutoff_->score) dive(child, relaxed);
}

void Opener::open_plateau(const Node& node) {
  const Space space(shared_->problem(), node.key.split, node.key.micro_batch);
  const std::int64_t chunks = shared_->chunks(node.key.schedule);
  const std::int64_t devices = node.key.stages * space.block() * node.replicas_low;
  const Schedule& schedule = shared_->problem().schedules[static_cast<std::size_t>(node.key.schedule)];
  const Score limit = probe_limit(node);
  const Relaxation relaxed =
      relax(node, box_of(node, node.replicas_low, node.replicas_high), chunks, chunks, node.micro_batches, limit);
  const PartitionProblem partition = relaxed_partition(node, relaxed, schedule, chunks, node.micro_batches);
  ++out_.counters.relaxed;
  const std::optional<std::int64_t> bound = solver_.bound(partition, shared_->time_limit(limit, devices));
  if (!bound) {
    retry(node, limit, Rule::plateau);
    return;
  }
  finish_plateau(node, relaxed, *bound);
}

// All (inner replicas, pitch) of a plateau, or only those of its largest replica count, with the exact hops of each.
std::vector<Node> Opener::placements(const Node& node, const Relaxation& relaxed, bool largest_only) {
  const Problem& problem = shared_->problem();
  const Priced& priced = shared_->priced(node.key);
  const Space space(problem, node.key.split, node.key.micro_batch);
  const std::int64_t chunks = shared_->chunks(node.key.schedule), stages = node.key.stages;
  std::vector<Node> result;
  for (std::int64_t inner = node.inner_low; inner <= std::min(node.inner_high, node.replicas_high); ++inner) {
    const std::int64_t first = round_up(largest_only ? node.replicas_high : node.replicas_low, inner);
    if (first > node.replicas_high || !problem.inner_replicas.admits(inner)) continue;
    const std::vector<std::int64_t> pitches = space.pitches(stages, inner);
    for (std::int64_t pitch : pitches) {
      const std::int64_t most = std::min(node.replicas_high, space.fitting(stages, inner, pitch));
      Node child = node;
      child.kind = NodeKind::placement;
      child.replicas_low = 0;
      for (std::int64_t replicas = first; replicas <= most; replicas += inner) {
        if (replicas == inner && pitch != pitches.front()) continue;  // one pipeline has no pitch
        if (!space.admits(stages, node.key.schedule, replicas, inner)) continue;
        if (child.replicas_low == 0) child.replicas_low = replicas;
        child.replicas_high = replicas;
      }
      if (child.replicas_low == 0) continue;
      child.key.replicas = child.replicas_low;
      child.key.inner_replicas = child.inner_low = child.inner_high = inner;
      child.key.pitch = pitch;
      const HopExcess excess = hop_excess(priced, relaxed.box, shared_->place(child.key), stages, chunks);
      const std::int64_t time = raise(node.relaxed_ps, excess, relaxed.chain.extra_ps, node.micro_batches, chunks);
      child.rule = time > node.relaxed_ps ? Rule::hops : Rule::plateau;
      child.low = std::max(node.low, shared_->score(time, devices_of(problem, child.key)));
      result.push_back(child);
    }
  }
  return result;
}

void Opener::open_solved(const Node& node) {
  const std::int64_t chunks = shared_->chunks(node.key.schedule);
  const Relaxation relaxed = relax(node, box_of(node, node.replicas_low, node.replicas_high), chunks, chunks,
                                   node.micro_batches, cutoff_->score);
  for (const Node& child : placements(node, relaxed, false)) push(child);
}

// Solves the two most promising placements of a new plateau right away: a good plan early is worth more than any bound.
void Opener::dive(const Node& node, const Relaxation& relaxed) {
  std::vector<Node> nodes = placements(node, relaxed, true);
  std::stable_sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.low < b.low; });
  if (nodes.size() > 2) nodes.resize(2);
  for (const Node& child : nodes) {
    if (cutoff_->excludes(child.low, child.key)) continue;
    Key key = child.key;
    key.replicas = node.replicas_high;
    if (std::optional<Offer> offer = solve(key, cutoff_->score, out_.counters))
      out_.offers.push_back(std::move(*offer));
  }
}

void Opener::open_placement(const Node& node) {
  const Problem& problem = shared_->problem();
  const Priced& priced = shared_->priced(node.key);
  const Space space(problem, node.key.split, node.key.micro_batch);
  const std::int64_t stages = node.key.stages, chunks = shared_->chunks(node.key.schedule);
  const Schedule& schedule = problem.schedules[static_cast<std::size_t>(node.key.schedule)];
  if (node.replicas_low == node.replicas_high) {
    open_leaf(node);
    return;
  }
  // Exact hops of the fewest replicas, best traffic and degrees of all.
  PlacementBox box = box_of(node, node.replicas_low, node.replicas_high);
  box.pitch = node.key.pitch;
  Relaxation relaxed = relax(node, box, chunks, chunks, node.micro_batches, cutoff_->score);
  PlacementClass placed = shared_->place(node.key);
  placed.sync = relaxed.box.sync;
  const PartitionProblem partition = exact_partition(*shared_, node.key, placed);
  ++out_.counters.relaxed;
  const std::int64_t devices = devices_of(problem, node.key);
  const std::optional<std::int64_t> bound = solver_.bound(partition, shared_->time_limit(cutoff_->score, devices));
  if (!bound) {
    ++out_.counters.closed[static_cast<std::size_t>(Rule::placement)];
    return;
  }
  for (std::int64_t r = node.replicas_low; r <= node.replicas_high; r += node.key.inner_replicas) {
    if (!space.admits(stages, node.key.schedule, r, node.key.inner_replicas)) continue;
    Node child = node;
    child.kind = NodeKind::leaf;
    child.key.replicas = child.replicas_low = child.replicas_high = r;
    const PlacementClass exact = shared_->place(child.key);
    const TrafficBound traffic(problem, priced, exact.sync);
    const IterationBound own = iteration_bound(chain_bound(priced, exact, stages, chunks), traffic, stages,
                                               node.micro_batches, schedule.chunks);
    child.rule = own.time_ps > *bound ? Rule::arithmetic : Rule::placement;
    child.low = std::max(node.low, shared_->score(std::max(own.time_ps, *bound), devices_of(problem, child.key)));
    push(child);
  }
}

void Opener::open_leaf(const Node& node) {
  Key key = node.key;
  key.replicas = node.replicas_low;
  std::optional<Offer> offer = solve(key, cutoff_->score, out_.counters);
  ++out_.counters.closed[static_cast<std::size_t>(Rule::leaf)];
  if (offer) out_.offers.push_back(std::move(*offer));
}

std::optional<Offer> Opener::solve(const Key& key, Score limit, Counters& counters) {
  const std::int64_t devices = devices_of(shared_->problem(), key);
  const PartitionProblem partition = exact_partition(*shared_, key, shared_->place(key));
  ++counters.leaves;
  std::optional<PartitionPlan> plan = solver_.solve(partition, shared_->time_limit(limit, devices));
  if (!plan) return std::nullopt;
  return Offer{key, shared_->score(plan->time_ps, devices), true, std::move(*plan)};
}

}  // namespace nest::search
