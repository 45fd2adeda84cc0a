#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace nest::test {
namespace {

const RawNode& node_of(const RawInstance& raw, int width, int id) {
  const auto& nodes = raw.nodes.at(width);
  return *std::find_if(nodes.begin(), nodes.end(), [&](const RawNode& n) { return n.id == id; });
}

std::size_t level_of(const RawInstance& raw, std::vector<std::int64_t> devices) {
  for (std::size_t i = 0;; ++i) {
    for (std::int64_t& device : devices) device /= raw.groups.at(i);
    if (std::set<std::int64_t>(devices.begin(), devices.end()).size() == 1) return i;
  }
}

double hop(const RawInstance& raw, std::size_t level, std::int64_t bytes) {
  const double slowest =
      *std::min_element(raw.bandwidths.begin(), raw.bandwidths.begin() + 1 + static_cast<long>(level));
  const double way = static_cast<double>(bytes) / slowest + raw.latencies[level];
  return level == 0 ? way : way * 2;
}

bool fits(const RawInstance& raw, int width, const std::vector<int>& stage, std::int64_t s) {
  const std::set<int> inside(stage.begin(), stage.end());
  double parameters = 0;
  double activations = 0;
  double entering = 0;
  for (const int id : stage) parameters += static_cast<double>(node_of(raw, width, id).parameters);
  for (const int id : stage) activations += static_cast<double>(node_of(raw, width, id).activations);
  for (const RawEdge& e : raw.edges.at(width)) {
    if (inside.count(e.destination) && !inside.count(e.source)) entering += static_cast<double>(e.bytes);
  }
  const double constant = 2 * parameters + (raw.adam ? 6 * parameters : 0) + activations;
  const double stash = raw.recompute ? entering : activations;
  const auto memory = static_cast<double>(raw.memory);
  if (constant + static_cast<double>(raw.devices - 1) * stash <= memory) return true;
  return constant <= memory && static_cast<double>(s) <= 1 + std::floor((memory - constant) / stash);
}

double load(const RawInstance& raw, int width, const std::vector<int>& stage, std::size_t in, std::size_t out,
            bool again) {
  const std::set<int> inside(stage.begin(), stage.end());
  double forward = 0;
  double earliest = 0;
  for (const int id : stage) {
    for (const RawEdge& e : raw.edges.at(width)) {
      if (e.destination == id && !inside.count(e.source)) forward = std::max(forward, hop(raw, in, e.bytes));
    }
    forward += node_of(raw, width, id).forward;
    if (again) earliest += node_of(raw, width, id).backward;
  }
  double backward = 0;
  for (auto id = stage.rbegin(); id != stage.rend(); ++id) {
    backward = std::max(backward, earliest);
    for (const RawEdge& e : raw.edges.at(width)) {
      if (e.source == *id && !inside.count(e.destination)) backward = std::max(backward, hop(raw, out, e.bytes));
    }
    backward += node_of(raw, width, *id).backward;
  }
  return forward + backward;
}

double sync(const RawInstance& raw, double parameters, std::int64_t replicas, std::int64_t pitch) {
  std::vector<std::int64_t> members;
  for (std::int64_t r = 0; r < replicas; ++r) members.push_back(r * pitch);
  const std::size_t q = level_of(raw, members) + 1;
  double total = 0;
  for (int i = 0; i < static_cast<int>(std::floor(std::log2(replicas))); ++i) {
    total += raw.latencies[0] + parameters / std::pow(2, i) / raw.bandwidths[0];
  }
  double low = 0;
  for (std::size_t l = 1; l < q; ++l) {
    total += 2 * (raw.latencies[l] + parameters / raw.bandwidths[l]) + low;
    low += total;
  }
  return total;
}

// What does not depend on the number of replicas.
struct Pipeline {
  double slowest = 0;
  double first_parameters = 0;
};

std::optional<Pipeline> price_stages(const RawInstance& raw, const OraclePlan& plan, const std::vector<int>& order) {
  const auto stages = static_cast<std::int64_t>(plan.lengths.size());
  const std::int64_t a = plan.width * raw.ep * raw.cp;
  Pipeline pipeline;
  auto at = order.begin();
  for (std::int64_t s = stages; s >= 1; --s) {
    const int length = plan.lengths[static_cast<std::size_t>(stages - s)];
    const std::vector<int> stage(at, at + length);
    at += length;
    if (!fits(raw, plan.width, stage, s)) return std::nullopt;
    const std::size_t in = s == stages ? 0 : level_of(raw, {s * a, s * a - 1});
    const std::size_t out = s == 1 ? 0 : level_of(raw, {(s - 1) * a, (s - 1) * a - 1});
    pipeline.slowest = std::max(pipeline.slowest, load(raw, plan.width, stage, in, out, raw.recompute && s > 1));
    if (s != stages) continue;
    for (const int id : stage)
      pipeline.first_parameters += static_cast<double>(node_of(raw, plan.width, id).parameters);
  }
  return pipeline;
}

double price_batch(const RawInstance& raw, const OraclePlan& plan, const Pipeline& pipeline) {
  const auto stages = static_cast<std::int64_t>(plan.lengths.size());
  const auto rounds = std::ceil(static_cast<double>(raw.micro_batches) / static_cast<double>(plan.replicas));
  return pipeline.slowest * (rounds + static_cast<double>(stages) - 1) +
         sync(raw, pipeline.first_parameters, plan.replicas, stages * plan.width * raw.ep * raw.cp);
}

void extend(const RawInstance& raw, const std::vector<int>& order, OraclePlan& plan, int left,
            const PlanVisitor& visit) {
  const std::int64_t a = plan.width * raw.ep * raw.cp;
  if (static_cast<std::int64_t>(plan.lengths.size()) * a > raw.devices) return;
  if (left == 0) {
    const auto pipeline = price_stages(raw, plan, order);
    for (plan.replicas = 1; plan.replicas <= std::min(raw.devices, raw.micro_batches); ++plan.replicas) {
      if (static_cast<std::int64_t>(plan.lengths.size()) * a > raw.devices / plan.replicas) continue;
      visit(plan, pipeline ? std::optional<double>(price_batch(raw, plan, *pipeline)) : std::nullopt);
    }
    return;
  }
  for (int length = 1; length <= left; ++length) {
    plan.lengths.push_back(length);
    extend(raw, order, plan, left - length, visit);
    plan.lengths.pop_back();
  }
}

}  // namespace

std::vector<int> oracle_order(const RawInstance& raw, int width) {
  std::vector<RawEdge> open = raw.edges.at(width);
  std::vector<int> order;
  std::vector<int> stack;
  const auto waits = [&](int id) {
    return std::any_of(open.begin(), open.end(), [&](const RawEdge& e) { return e.destination == id; });
  };
  for (const RawNode& n : raw.nodes.at(width)) {
    if (!waits(n.id)) stack.push_back(n.id);
  }
  while (!stack.empty()) {
    const int id = stack.back();
    stack.pop_back();
    order.push_back(id);
    for (const RawEdge& e : raw.edges.at(width)) {
      if (e.source != id) continue;
      open.erase(std::find_if(open.begin(), open.end(), [&](const RawEdge& other) {
        return other.source == id && other.destination == e.destination;
      }));
      if (!waits(e.destination)) stack.push_back(e.destination);
    }
  }
  return order;
}

std::optional<double> oracle_price(const RawInstance& raw, const OraclePlan& plan) {
  const auto pipeline = price_stages(raw, plan, oracle_order(raw, plan.width));
  if (!pipeline) return std::nullopt;
  return price_batch(raw, plan, *pipeline);
}

void for_each_plan(const RawInstance& raw, const PlanVisitor& visit) {
  for (const auto& [width, nodes] : raw.nodes) {
    OraclePlan plan{width, 1, {}};
    extend(raw, oracle_order(raw, width), plan, static_cast<int>(nodes.size()), visit);
  }
}

std::optional<double> oracle_optimum(const RawInstance& raw) {
  std::optional<double> best;
  for_each_plan(raw, [&](const OraclePlan&, std::optional<double> price) {
    if (price && (!best || *price < *best)) best = price;
  });
  return best;
}

}  // namespace nest::test
