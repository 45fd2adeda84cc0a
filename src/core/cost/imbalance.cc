#include "cost/imbalance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "base/real.h"
#include "base/text.h"
#include "nest/option.h"

namespace nest::cost {
namespace {

double below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }  // Φ

double sampling_variance(const Choice& choice, double ranks, double tokens) {
  const auto experts = real(choice.experts), chosen = real(choice.top_k);
  if (experts < 2 || tokens <= 0) return 0;
  return (ranks - 1) * (experts - chosen) / ((experts - 1) * chosen * tokens);
}

double popularity_variance(const Choice& choice, double ranks, double variation) {
  const auto experts = real(choice.experts);
  const double held = experts / ranks;
  return experts < 2 ? 0 : variation * variation * (experts - held) / ((experts - 1) * held);
}

// E[max] = integral of [x > 0] - Φ(x)^n, by Simpson's rule: beyond 10 deviations nothing is left of it.
double integrate_maximum(double ranks) {
  constexpr int kSteps = 400;
  constexpr double kFar = 10, kStep = kFar / kSteps;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = i * kStep;
    const double weight = i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2;
    sum += weight * (1 - std::pow(below(x), ranks) - std::pow(below(-x), ranks));
  }
  return sum * kStep / 3;
}

}  // namespace

// Every split and micro-batch asks for one of few numbers of ranks: those are worked out once, by any thread.
double expected_maximum(double ranks) {
  if (ranks <= 1) return 0;
  constexpr std::size_t kKnown = 1024;
  static std::array<std::atomic<double>, kKnown + 1> known{};  // 0: not yet
  if (ranks > real(kKnown) || ranks != std::floor(ranks)) return integrate_maximum(ranks);
  std::atomic<double>& place = known[static_cast<std::size_t>(ranks)];
  double maximum = place.load(std::memory_order_relaxed);
  if (maximum == 0) {
    maximum = integrate_maximum(ranks);
    place.store(maximum, std::memory_order_relaxed);
  }
  return maximum;
}

double layer_imbalance(const Routing& routing, const Choice& choice, double ranks, double tokens) {
  if (ranks <= 1) return 1;
  switch (routing.kind) {
    case RoutingKind::forced: return 1;
    case RoutingKind::overload: return routing.value;
    case RoutingKind::variation: break;
  }
  return 1 + expected_maximum(ranks) * std::sqrt(sampling_variance(choice, ranks, tokens) +
                                                 popularity_variance(choice, ranks, routing.value));
}

double capacity_rows(const Choice& choice, double tokens, double capacity) {
  return std::ceil(tokens * real(choice.top_k) * capacity / real(choice.experts));
}

double time_imbalance(const Routing& routing, const Choice& choice, const Split& split, double tokens) {
  const auto ranks = real(split.ep);
  if (routing.capacity > 0 && routing.padded) {
    return capacity_rows(choice, tokens, routing.capacity) * real(choice.experts) / (tokens * real(choice.top_k));
  }
  const double busiest = layer_imbalance(routing, choice, ranks, tokens * ranks * real(split.expert_tp()));
  return routing.capacity > 0 ? std::min(busiest, routing.capacity) : busiest;
}

std::string to_text(const Routing& routing) {
  switch (routing.kind) {
    case RoutingKind::forced: return "forced balance";
    case RoutingKind::variation: return fmt::format("cv {:g}", routing.value);
    case RoutingKind::overload: return fmt::format("overload {:g}", routing.value);
  }
  return "?";
}

void set_routing(std::string_view text, Routing& routing) {
  const auto refuse = [&](const std::string& why) {
    throw InputError(
        fmt::format("{}: {}; expected forced, cv=V (variation of the experts' loads, 0 … {:g}) or overload=X "
                    "(rows of the busiest rank over the mean, 1 … {:g})",
                    option("routing"), why, kMostVariation, kMostOverload));
  };
  if (text == "forced") {
    routing.kind = RoutingKind::forced;
    routing.value = 0;
    return;
  }
  const std::size_t equals = text.find('=');
  const std::string_view word = text.substr(0, equals);
  const bool variation = word == "cv";
  if (equals == std::string_view::npos || (!variation && word != "overload")) {
    refuse(fmt::format("found `{}`", clip(std::string(text), 40)));
  }
  const std::string_view digits = text.substr(equals + 1);
  double value = 0;
  const auto [last, error] = real_from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || last != digits.data() + digits.size()) {
    refuse(fmt::format("`{}` is no number", clip(std::string(digits), 40)));
  }
  const double low = variation ? 0 : 1, high = variation ? kMostVariation : kMostOverload;
  if (!(value >= low && value <= high)) refuse(fmt::format("{} is {:g}", word, value));
  routing.kind = variation ? RoutingKind::variation : RoutingKind::overload;
  routing.value = value;
}

}  // namespace nest::cost
