#include "search/tree.h"

#include <algorithm>

#include "base/checked.h"
#include "search/evaluate.h"
#include "search/stage_cost.h"

namespace nest::search {
namespace {

constexpr Score kNever = static_cast<Score>(1) << 120;

}  // namespace

Shared::Shared(const Problem& problem) : problem_(&problem), index_(problem.chain) {
  priced_.resize(problem.splits.size() * problem.micro_batches.size());
  for (std::int64_t unit : problem.network->alignments()) largest_unit_ = std::max(largest_unit_, unit);
}

void Shared::price(int split, int micro_batch) {
  priced_[slot(split, micro_batch)] =
      std::make_unique<Priced>(problem_->chain, index_, problem_->pricer->price(split, micro_batch));
}

PlacementClass Shared::place(const Key& key) const {
  return problem_->network->place({split(key), key.stages, key.replicas, key.inner_replicas, key.pitch});
}

Score Shared::score(std::int64_t time_ps, std::int64_t devices) const {
  return problem_->objective == Objective::time ? time_ps : static_cast<Score>(time_ps) * devices;
}

std::int64_t Shared::time_limit(Score score, std::int64_t devices) const {
  const Score limit = problem_->objective == Objective::time ? score : score / devices;
  return limit > kForever ? kForever : static_cast<std::int64_t>(limit);
}

PartitionProblem exact_partition(const Shared& shared, const Key& key, const PlacementClass& placed) {
  const Problem& problem = shared.problem();
  const Schedule schedule = problem.schedules[static_cast<std::size_t>(key.schedule)];
  PartitionProblem partition;
  partition.priced = &shared.priced(key);
  partition.problem = &problem;
  partition.sync = placed.sync;
  partition.micro_batches = micro_batches_of(problem, key);
  partition.chunks = partition.fill_chunks = schedule.chunks;
  const std::int64_t wrap_ps = (schedule.chunks - 1) * placed.wrap.at(partition.priced->table().wrap_bytes);
  for (std::int64_t s = 0; s < key.stages; ++s) {
    StageClass stage;
    if (s > 0) stage.hop_in = placed.hop[static_cast<std::size_t>(s - 1)];
    if (s + 1 < key.stages) stage.hop_out = placed.hop[static_cast<std::size_t>(s)];
    if (key.stages > 1 && (s == 0 || s + 1 == key.stages)) stage.wrap_ps = wrap_ps;
    const auto known = std::find(partition.classes.begin(), partition.classes.end(), stage);
    partition.class_of.push_back(static_cast<int>(known - partition.classes.begin()));
    if (known == partition.classes.end()) partition.classes.push_back(stage);
    partition.in_flight.push_back(in_flight(schedule, key.stages, partition.micro_batches, s));
  }
  const ChainBound chain = chain_bound(*partition.priced, placed, key.stages, schedule.chunks);
  const TrafficBound traffic(problem, *partition.priced, placed.sync);
  const IterationBound bound = iteration_bound(chain, traffic, key.stages, partition.micro_batches, schedule.chunks);
  partition.sum_low_ps = chain.sum_ps;
  partition.per_iteration_low_ps = bound.per_iteration_ps;
  partition.joint_low_ps = bound.joint_ps;
  return partition;
}

Expansion Opener::open(const Node& node, const Cutoff& cutoff) {
  cutoff_ = &cutoff;
  out_ = {};
  const std::int64_t passes = solver_.passes();
  switch (node.kind) {
    case NodeKind::pair: open_pair(node); break;
    case NodeKind::stages: open_stages(node); break;
    case NodeKind::range: open_range(node); break;
    case NodeKind::chain: open_chain(node); break;
    case NodeKind::plateau: open_plateau(node); break;
    case NodeKind::solved: open_solved(node); break;
    case NodeKind::placement: open_placement(node); break;
    case NodeKind::leaf: open_leaf(node); break;
  }
  out_.counters.opened = 1;
  out_.counters.passes = solver_.passes() - passes;
  return std::move(out_);
}

void Opener::push(const Node& child) {
  if (cutoff_->excludes(child.low, child.key)) {
    ++out_.counters.closed[static_cast<std::size_t>(child.rule)];
  } else {
    out_.children.push_back(child);
  }
}

// A little above the node's bound, more with every retry, never above the cutoff. Without a plan to compare with there
// is nothing to gain.
Score Opener::probe_limit(const Node& node) const {
  if (!cutoff_->by_key) return cutoff_->score;
  return std::min(cutoff_->score, node.low + (node.low / 8 + 1) * (1 << std::min(node.retries, 20)));
}

// Everything below the node scores more than `limit`: closed, or put back with that bound.
void Opener::retry(const Node& node, Score limit, Rule rule) {
  Node again = node;
  again.low = limit + 1;
  ++again.retries;
  again.rule = rule;
  push(again);
}

PlacementBox Opener::box_of(const Node& node, std::int64_t replicas_low, std::int64_t replicas_high) const {
  PlacementBox box;
  box.split = shared_->split(node.key);
  box.stages = node.key.stages;
  box.inner_low = node.inner_low;
  box.inner_high = std::min(node.inner_high, replicas_high);
  box.replicas_low = std::max(replicas_low, node.inner_low);
  box.replicas_high = replicas_high;
  return box;
}

Opener::Relaxation Opener::relax(const Node& node, const PlacementBox& box, std::int64_t chunks, std::int64_t fill,
                                 std::int64_t micro_batches, Score limit) {
  const Priced& priced = shared_->priced(node.key);
  Relaxation relaxed;
  relaxed.box = shared_->problem().network->optimistic(box);
  relaxed.chain = chain_bound(priced, relaxed.box, box.stages, chunks, cut_costs_);
  const TrafficBound traffic(shared_->problem(), priced, relaxed.box.sync);
  const std::int64_t devices = box.stages * box.split.devices() * box.replicas_low;
  relaxed.bound = iteration_bound(relaxed.chain, traffic, box.stages, micro_batches, fill, &cut_costs_.peaks(priced),
                                  shared_->time_limit(limit, devices));
  return relaxed;
}

PartitionProblem Opener::relaxed_partition(const Node& node, const Relaxation& relaxed, const Schedule& schedule,
                                           std::int64_t fill, std::int64_t micro_batches) const {
  const std::int64_t stages = node.key.stages;
  PartitionProblem partition;
  partition.priced = &shared_->priced(node.key);
  partition.problem = &shared_->problem();
  partition.sync = relaxed.box.sync;
  partition.micro_batches = micro_batches;
  partition.chunks = schedule.chunks;
  partition.fill_chunks = fill;
  const std::int64_t wrap_ps = (schedule.chunks - 1) * relaxed.box.wrap.at(partition.priced->table().wrap_bytes);
  const Line& hop = relaxed.box.hop;
  if (stages == 1) {
    partition.classes = {StageClass{}};
  } else {
    partition.classes = {{{}, hop, wrap_ps}, {hop, hop, 0}, {hop, {}, wrap_ps}};
  }
  for (std::int64_t s = 0; s < stages; ++s) {
    partition.class_of.push_back(s == 0 ? 0 : s + 1 < stages ? 1 : 2);
    partition.in_flight.push_back(in_flight(schedule, stages, micro_batches, s));
  }
  partition.extra_ps = relaxed.chain.extra_ps;
  partition.sum_low_ps = relaxed.chain.sum_ps;
  partition.per_iteration_low_ps = relaxed.bound.per_iteration_ps;
  partition.joint_low_ps = relaxed.bound.joint_ps;
  return partition;
}

// Fewer replicas mean more micro-batches than the limit allows for the slowest stage.
std::int64_t Opener::fewest_replicas(const Node& node, Score limit, std::int64_t chunks, std::int64_t fill) {
  const Problem& problem = shared_->problem();
  const Space space(problem, node.key.split, node.key.micro_batch);
  const std::int64_t least = std::max(space.least_replicas(), node.inner_low);
  if (problem.objective != Objective::time || limit >= kForever) return least;
  const PlacementBox box = box_of(node, least, space.most_replicas(node.key.stages));
  const ChainBound chain =
      chain_bound(shared_->priced(node.key), problem.network->optimistic(box), node.key.stages, chunks, cut_costs_);
  if (chain.slowest_ps == 0) return least;
  const std::int64_t left = static_cast<std::int64_t>(limit) - (chain.sum_ps - chain.slowest_ps) / fill;
  const std::int64_t most = std::max<std::int64_t>(1, left / chain.slowest_ps);
  return std::max(least, ceil_div(problem.global_batch, space.round() * std::min(most, problem.global_batch)));
}

// Of all keys of the node with at least this many micro-batches and replicas. In device_time, with F >= p * replicas *
// a devices and m * replicas >= B / round:  T * F >= p * a * (B / round * tau + replicas * (fill + joint)).
Score Opener::tail_score(const Node& node, const Relaxation& relaxed, std::int64_t fill,
                         std::int64_t replicas_low) const {
  const Problem& problem = shared_->problem();
  if (problem.objective == Objective::time) return relaxed.bound.time_ps;
  const Space space(problem, node.key.split, node.key.micro_batch);
  const Score devices = static_cast<Score>(node.key.stages) * space.block();
  const ChainBound& chain = relaxed.chain;
  const Score work = static_cast<Score>(problem.global_batch) * chain.slowest_ps / space.round() * devices;
  const std::int64_t rest = (chain.sum_ps - chain.slowest_ps) / fill + relaxed.bound.joint_ps;
  return std::max(work + devices * replicas_low * rest, devices * replicas_low * relaxed.bound.time_ps);
}

// Arithmetic bound of a node of kind stages or range: the least over its schedules.
Score Opener::open_low(const Node& node) {
  const Problem& problem = shared_->problem();
  const Space space(problem, node.key.split, node.key.micro_batch);
  const std::int64_t stages = node.key.stages, most = space.most_replicas(stages);
  const Plateau first = space.plateau(stages, 1);
  Score low = kNever;
  if (first.micro_batches == 0 || node.inner_low > most) return low;
  const std::int64_t least = std::max(space.least_replicas(), node.inner_low);
  const BoxClass box = problem.network->optimistic(box_of(node, least, most));
  std::int64_t last_chunks = 0;
  for (int k = 0; k < static_cast<int>(problem.schedules.size()); ++k) {
    const std::int64_t chunks = shared_->chunks(k);
    if (!space.admits_schedule(stages, k) || chunks == last_chunks) continue;
    last_chunks = chunks;
    // The chain alone first; traffic only if that leaves the question open.
    Relaxation relaxed;
    relaxed.chain =
        chain_bound(shared_->priced(node.key), box, stages, chunks, cut_costs_,
                    shared_->time_limit(cutoff_->score, stages * space.block() * least) / first.micro_batches);
    relaxed.bound.time_ps =
        iteration_time(first.micro_batches, chunks, relaxed.chain.slowest_ps, relaxed.chain.sum_ps, 0);
    Score own = tail_score(node, relaxed, chunks, least);
    if (own < low && own <= cutoff_->score) {
      const std::int64_t fewest = fewest_replicas(node, cutoff_->score, chunks, chunks);
      if (fewest > most) continue;
      relaxed = relax(node, box_of(node, fewest, most), chunks, chunks, first.micro_batches, cutoff_->score);
      own = tail_score(node, relaxed, chunks, fewest);
    }
    low = std::min(low, own);
  }
  return low;
}

void Opener::open_pair(const Node& node) {
  const Problem& problem = shared_->problem();
  if (!shared_->is_priced(node.key.split, node.key.micro_batch)) {
    shared_->price(node.key.split, node.key.micro_batch);
    ++out_.counters.priced;
  }
  const Priced& priced = shared_->priced(node.key);
  const Score work =
      work_bound(problem, node.key.split, node.key.micro_batch, {priced.total.time_ps, priced.largest_time_ps});
  if (cutoff_->excludes(work, node.key)) {
    ++out_.counters.closed[static_cast<std::size_t>(Rule::work)];
    return;
  }
  const Space space(problem, node.key.split, node.key.micro_batch);
  for (std::int64_t stages = 1; stages <= space.most_stages(); ++stages) {
    if (!space.admits_stages(stages) || space.most_replicas(stages) < space.least_replicas()) continue;
    Node child = node;
    child.kind = NodeKind::stages;
    child.rule = Rule::arithmetic;
    child.key.stages = stages;
    child.inner_low = 1;
    child.inner_high = space.most_replicas(stages);
    child.low = std::max({node.low, work, open_low(child)});
    if (child.low < kNever) push(child);
  }
}

// One relaxed pass for every schedule at once: hops and activations of v = 1, the fill divided by the largest v.
// Activations of a schedule with v chunks are never fewer, because in_flight(v) / v >= min(stages - s, m). Nothing if
// all scores exceed the limit.
std::optional<Score> Opener::stage_bound(const Node& node, Score limit) {
  const Problem& problem = shared_->problem();
  const Space space(problem, node.key.split, node.key.micro_batch);
  const std::int64_t stages = node.key.stages, most = space.most_replicas(stages);
  const Plateau first = space.plateau(stages, 1);
  std::int64_t fill = 1;
  for (int k = 0; k < static_cast<int>(problem.schedules.size()); ++k) {
    if (space.admits_schedule(stages, k)) fill = std::max(fill, shared_->chunks(k));
  }
  const std::int64_t fewest = fewest_replicas(node, limit, 1, fill);
  if (fewest > most) return std::nullopt;
  const Relaxation relaxed = relax(node, box_of(node, fewest, most), 1, fill, first.micro_batches, limit);
  const PartitionProblem partition = relaxed_partition(node, relaxed, Schedule{}, fill, first.micro_batches);
  const std::int64_t devices = stages * space.block() * fewest;
  ++out_.counters.relaxed;
  const std::optional<std::int64_t> bound = solver_.bound(partition, shared_->time_limit(limit, devices));
  if (!bound) return std::nullopt;
  return std::max(node.low, shared_->score(*bound, devices));
}

void Opener::open_stages(const Node& node) {
  const Score limit = probe_limit(node);
  if (const std::optional<Score> bound = stage_bound(node, limit)) {
    push_ranges(node, *bound, Rule::stages);
  } else {
    retry(node, limit, Rule::stages);
  }
}

void Opener::push_ranges(const Node& node, Score low, Rule rule) {
  const Space space(shared_->problem(), node.key.split, node.key.micro_batch);
  const std::int64_t most = space.most_replicas(node.key.stages);
  for (std::int64_t from = 1; from <= most; from *= 2) {
    const bool last = from * space.block() >= shared_->largest_unit();
    Node child = node;
    child.kind = NodeKind::range;
    child.retries = 0;
    child.rule = rule;
    child.inner_low = from;
    child.inner_high = last ? most : std::min(most, 2 * from - 1);
    if (child.inner_low == 1 && child.inner_high == most) {
      child.low = low;
      push_chains(child, low, rule);
    } else {
      const Score own = open_low(child);
      if (own > low) child.rule = Rule::arithmetic;
      child.low = std::max(low, own);
      if (child.low < kNever) push(child);
    }
    if (last) break;
  }
}

void Opener::open_range(const Node& node) {
  const Score limit = probe_limit(node);
  if (const std::optional<Score> bound = stage_bound(node, limit)) {
    push_chains(node, *bound, Rule::range);
  } else {
    retry(node, limit, Rule::range);
  }
}

void Opener::push_chains(const Node& node, Score low, Rule rule) {
  const Space space(shared_->problem(), node.key.split, node.key.micro_batch);
  for (int k = 0; k < static_cast<int>(shared_->problem().schedules.size()); ++k) {
    if (!space.admits_schedule(node.key.stages, k)) continue;
    Node child = node;
    child.kind = NodeKind::chain;
    child.retries = 0;
    child.rule = rule;
    child.key.schedule = k;
    push_chain(child, 1, low);
  }
}

// Pushes the chain that begins at the next plateau; false when there is none.
bool Opener::push_chain(Node child, std::int64_t at_least, Score low) {
  const Space space(shared_->problem(), child.key.split, child.key.micro_batch);
  const Plateau plateau = space.plateau(child.key.stages, at_least);
  if (plateau.micro_batches == 0 || plateau.high < child.inner_low) return false;
  const std::int64_t chunks = shared_->chunks(child.key.schedule);
  const std::int64_t fewest = fewest_replicas(child, cutoff_->score, chunks, chunks);
  if (fewest > plateau.high) {
    ++out_.counters.closed[static_cast<std::size_t>(Rule::arithmetic)];
    return false;
  }
  const Relaxation relaxed =
      relax(child, box_of(child, fewest, plateau.high), chunks, chunks, plateau.micro_batches, cutoff_->score);
  const Score own = tail_score(child, relaxed, chunks, fewest);
  if (own > low) child.rule = Rule::arithmetic;
  child.low = std::max(low, own);
  child.micro_batches = plateau.micro_batches;
  child.replicas_low = plateau.low;
  child.replicas_high = plateau.high;
  push(child);
  return true;
}

}  // namespace nest::search
