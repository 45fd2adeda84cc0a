#include "cost/dispatch.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"

namespace nest::cost {
namespace {

// C(a, k) / C(b, k), for real a <= b: that k different ones of b all lie among a.
double all_among(double a, double b, std::int64_t k) {
  double share = 1;
  for (std::int64_t i = 0; i < k; ++i) share *= std::max(0.0, a - real(i)) / std::max(1.0, b - real(i));
  return share;
}

double binomial(std::int64_t n, std::int64_t k) {
  if (k < 0 || k > n) return 0;
  double product = 1;
  for (std::int64_t i = 0; i < k; ++i) product *= real(n - i) / real(i + 1);
  return product;
}

// `each` groups per part.
double reached_by_groups(const Choice& choice, std::int64_t each) {
  const std::int64_t groups = choice.groups, chosen = choice.top_groups;
  const double size = real(choice.experts) / real(groups);
  double reached = 0;
  for (std::int64_t j = 1; j <= std::min(each, chosen); ++j) {
    const double likely = binomial(each, j) * binomial(groups - each, chosen - j) / binomial(groups, chosen);
    reached += likely * (1 - all_among(real(chosen - j) * size, real(chosen) * size, choice.top_k));
  }
  return reached;
}

}  // namespace

const DispatcherFacts& facts_of(Dispatcher dispatcher) {
  // NCCL's channels are taken to keep as many multiprocessors busy as DeepEP's default.
  static constexpr DispatcherFacts kAllToAll = {false, false, false, 20, 0, 0};
  static constexpr DispatcherFacts kAllGather = {true, false, false, 20, 0, 0};
  // DeepEP's README, second version: 61 GB/s that count the own rank's on 8 x 4 H100 with 50 GB/s ports are
  // 61 * 3/4 = 46, 90 on 8 x 2 are 45: 0.9; 726 * 7/8 = 635 of 900 GB/s on 8 Blackwells: 0.71.
  static constexpr DispatcherFacts kDeepEp = {true, true, false, 20, 0.71, 0.9};
  // DeepEP's pull request 420, GB200, 32 multiprocessors: 616 and 521 GB/s of 900 dispatching to 8 and 16 ranks, 520
  // and 443 combining: 0.58 in the mean.
  static constexpr DispatcherFacts kHybridEp = {true, true, true, 32, 0.6, 0.9};
  switch (dispatcher) {
    case Dispatcher::alltoall: return kAllToAll;
    case Dispatcher::allgather: return kAllGather;
    case Dispatcher::deepep:
    case Dispatcher::ncclep: return kDeepEp;
    case Dispatcher::hybridep: break;
  }
  return kHybridEp;
}

Choice choice_of(const model::Layer& layer) {
  return {std::max<std::int64_t>(1, layer.experts), std::max<std::int64_t>(1, layer.top_k),
          std::max<std::int64_t>(1, layer.expert_groups), std::max<std::int64_t>(1, layer.top_groups)};
}

double distinct_parts(const Choice& choice, double parts) {
  if (parts <= 1) return 1;
  const auto experts = real(choice.experts), groups = real(choice.groups), chosen = real(choice.top_groups);
  const bool whole = parts == std::floor(parts);
  if (whole && choice.groups > choice.top_groups) {
    const auto count = static_cast<std::int64_t>(parts);
    if (choice.groups % count == 0) return parts * reached_by_groups(choice, choice.groups / count);
    if (count % choice.groups == 0) {
      const double candidates = chosen * experts / groups;
      return parts * chosen / groups * (1 - all_among(candidates - experts / parts, candidates, choice.top_k));
    }
  }
  return parts * (1 - all_among(experts - experts / parts, experts, choice.top_k));
}

}  // namespace nest::cost
