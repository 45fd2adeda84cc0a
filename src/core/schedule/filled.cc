#include "schedule/filled.h"

#include <algorithm>
#include <cmath>

namespace nest::schedule {
namespace {

constexpr double kParts = 512;

// The number of micro-batches that has the same answer.
std::int64_t settled_micro_batches(const Rule& rule, const Shape& shape) {
  return rule.settled == kUnsettled ? shape.micro_batches : std::min(shape.micro_batches, rule.settled * shape.stages);
}

}  // namespace

PassShares shares_of(const PassSeconds& stage) {
  const double whole = stage.total_s();
  if (whole <= 0) return {};
  const auto part = [&](double seconds) { return static_cast<int>(std::lround(kParts * seconds / whole)); };
  return {part(stage.forward_s), part(stage.weight_s)};
}

double filled_share(Schedule kind, const Shape& shape, const PassShares& shares) {
  const Rule& rule = rule_of(kind);
  if (!rule.is_split() || shape.stages == 1) return 0;
  Shape asked = shape;
  asked.micro_batches = settled_micro_batches(rule, shape);
  const auto v = static_cast<double>(shape.chunks), m = static_cast<double>(asked.micro_batches);
  const double forward = shares.forward / kParts, weight = shares.weight / kParts;
  const PassSeconds chunk{forward / v, std::max(0.0, 1 - forward - weight) / v, weight / v};
  PipelineSeconds seconds;
  seconds.chunks.assign(static_cast<std::size_t>(shape.positions()), chunk);
  return m + static_cast<double>(shape.stages - 1) / v - play(Pipeline(rule, asked), seconds).total_s;
}

double FilledShares::of(Schedule kind, const Shape& shape, const PassShares& shares) {
  const Rule& rule = rule_of(kind);
  if (!rule.is_split() || shape.stages == 1) return 0;
  const auto [place, fresh] =
      known_.try_emplace({kind, shape.stages, settled_micro_batches(rule, shape), shares.forward, shares.weight}, 0.0);
  if (fresh) place->second = filled_share(kind, shape, shares);
  return place->second;
}

}  // namespace nest::schedule
