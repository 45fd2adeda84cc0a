#include "cost/error_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "nest/interval.h"

namespace nest {
double probability_faster(const Prediction& a, const Prediction& b) {
  if (a.iteration_s <= 0 || b.iteration_s <= 0) return 0.5;
  return probability_faster(a, b, b.iteration_s / a.iteration_s);
}

double probability_faster(const Prediction& a, const Prediction& b, double times) {
  return cost::probability_faster(cost::error_shares(a, {}), cost::error_shares(b, {}), times, {});
}

}  // namespace nest

namespace nest::cost {
namespace {

// Two plans of one job differ in more than the terms say: kernels of other shapes, other overlaps. Where published runs
// of one sweep have a predicted order, this is what makes its probability right (docs/generated/accuracy.md).
constexpr double kApartAnyway = 0.035;

}  // namespace

ErrorShares error_shares(const Prediction& prediction, const Circumstances& circumstances) {
  const auto& parts = prediction.breakdown_s;
  const auto share = [&](double seconds) {
    return prediction.iteration_s > 0 ? seconds / prediction.iteration_s : 0.0;
  };
  const auto holds = [](bool fact) { return fact ? 1.0 : 0.0; };
  return {1,
          share(parts.tp),
          share(parts.ep),
          share(parts.zero + parts.grad_sync),
          share(parts.bubble + parts.p2p),
          std::max(0.0, std::log2(std::max(1.0, circumstances.devices) / 512)),
          holds(circumstances.experts),
          holds(circumstances.assumed),
          holds(circumstances.unmeasured)};
}

double spread_of(const ErrorShares& shares) {
  double variance = 0;
  for (std::size_t k = 0; k < shares.size(); ++k) {
    const double term = kErrorTerms[k].coefficient * shares[k];
    variance += term * term;
  }
  return std::sqrt(variance);
}

double probability_faster(const ErrorShares& a, const ErrorShares& b, double times, const Common& common) {
  double variance = kApartAnyway * kApartAnyway;
  for (std::size_t k = 0; k < kErrorTerms.size(); ++k) {
    const ErrorTerm& term = kErrorTerms[k];
    const bool cancels = common.machine && (term.of_the_site || common.network);
    const double apart = cancels ? (a[k] - b[k]) * (a[k] - b[k]) : a[k] * a[k] + b[k] * b[k];
    variance += term.coefficient * term.coefficient * apart;
  }
  return student4_probability(std::log(times) / std::sqrt(variance));
}

std::string not_calibrated(const Job& job) {
  const std::string& device = job.cluster.device.name;
  const bool device_known = job.cluster.device.efficiency_of("gemm_bf16").has_value();
  if (device_known && job.stack.calibrated) return "";
  if (device_known)
    return fmt::format("no measured run of stack {} was compared with: its facts are stated", job.stack.name);
  const std::string text = fmt::format("{} was never calibrated: efficiencies are defaults", device);
  return job.stack.calibrated ? text : fmt::format("{}, and so are the facts of stack {}", text, job.stack.name);
}

ErrorShares error_shares(const Job& job, const Strategy& strategy, const Prediction& prediction) {
  const auto& kinds = job.model.kinds;
  const bool experts =
      std::any_of(kinds.begin(), kinds.end(), [](const model::Layer& kind) { return kind.experts > 0; });
  return error_shares(prediction, {real(strategy.devices_used()), experts, false, !not_calibrated(job).empty()});
}

double spread_of(const Job& job, const Strategy& strategy, const Prediction& prediction) {
  return spread_of(error_shares(job, strategy, prediction));
}

}  // namespace nest::cost
