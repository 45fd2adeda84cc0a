#include "questions/goodput.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace nest::questions {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Of k steps between savings, the seconds of one.
double told_s(double mtbf_s, const Reliability& reliability, double step_s, double steps) {
  return expected_s(mtbf_s, reliability.save_s, reliability.restart_s, steps * step_s) / steps;
}

}  // namespace

double expected_s(double mtbf_s, double save_s, double restart_s, double interval_s) {
  return mtbf_s * std::exp(restart_s / mtbf_s) * std::expm1((interval_s + save_s) / mtbf_s);
}

double best_interval_s(double mtbf_s, double save_s) {
  NEST_CHECK(mtbf_s > 0 && save_s > 0, "failures and saving take time");
  // f(x) = x - 1 + e^(-(x+c)) is convex, below 0 at 0 and above it at 1: Newton from the right does not overshoot.
  const double c = save_s / mtbf_s;
  double x = std::min(1.0, std::sqrt(2 * c) + c);
  for (int k = 0; k < 100; ++k) {
    const double slope = -std::expm1(-(x + c));
    const double next = x - (x - slope) / slope;
    if (std::abs(next - x) <= 1e-15 * x) break;
    x = std::clamp(next, 1e-300, 1.0);
  }
  return x * mtbf_s;
}

SavingPlan save_best(const Reliability& reliability, std::int64_t devices, double step_s) {
  NEST_CHECK(devices > 0 && step_s > 0 && reliability.device_mtbf_s > 0, "a plan has devices and takes time");
  SavingPlan plan;
  const double mtbf_s = reliability.device_mtbf_s / static_cast<double>(devices);
  plan.system_mtbf_s = mtbf_s;
  plan.young_interval_s = std::sqrt(2 * reliability.save_s * mtbf_s);
  double steps = 1;
  if (reliability.save_s > 0) {
    const double best = std::max(1.0, std::floor(best_interval_s(mtbf_s, reliability.save_s) / step_s));
    steps = told_s(mtbf_s, reliability, step_s, best + 1) < told_s(mtbf_s, reliability, step_s, best) ? best + 1 : best;
  }
  plan.steps = static_cast<std::int64_t>(std::min(steps, 0x1p62));
  plan.interval_s = steps * step_s;
  plan.step_s = told_s(mtbf_s, reliability, step_s, steps);
  plan.goodput = step_s / plan.step_s;
  // E is e^(R/M) times what it is where coming back takes no time.
  const double all_s = expected_s(mtbf_s, reliability.save_s, reliability.restart_s, plan.interval_s);
  plan.saving = reliability.save_s / all_s;
  plan.restarting = -std::expm1(-reliability.restart_s / mtbf_s);
  plan.lost = 1 - plan.goodput - plan.saving - plan.restarting;
  return plan;
}

std::optional<double> longest_restart_s(Reliability reliability, std::int64_t devices, double step_s, double goodput) {
  // Goodput is e^(-R/M) times what it is with R = 0, whatever the interval.
  reliability.restart_s = 0;
  const SavingPlan at_once = save_best(reliability, devices, step_s);
  if (at_once.goodput < goodput) return std::nullopt;
  return at_once.system_mtbf_s * std::log(at_once.goodput / goodput);
}

std::optional<Corner> best_goodput(const Reliability& reliability, std::int64_t high,
                                   const std::function<std::optional<Corner>(std::int64_t, double)>& fastest) {
  std::optional<Corner> best;
  double best_s = kInfinite;
  for (std::int64_t n = high; n >= 1;) {
    // All told a step takes no less than itself.
    const std::optional<Corner> corner = fastest(n, best_s);
    if (!corner || corner->step_s >= best_s) break;
    const double told = save_best(reliability, corner->devices, corner->step_s).step_s;
    if (told < best_s) {
      best_s = told;
      best = corner;
    }
    n = corner->devices - 1;
  }
  return best;
}

std::int64_t spares_needed(std::int64_t nodes, double node_mtbf_s, double repair_s, double risk) {
  const double mean = static_cast<double>(nodes) * repair_s / node_mtbf_s;
  if (!(mean > 0)) return 0;
  double within = 0;
  for (std::int64_t spares = 0; spares < nodes; ++spares) {
    const auto k = static_cast<double>(spares);
    within += std::exp(k * std::log(mean) - mean - std::lgamma(k + 1));
    if (1 - within <= risk) return spares;
  }
  return nodes;
}

}  // namespace nest::questions
