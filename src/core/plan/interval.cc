#include "nest/interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace nest {

double student4_probability(double t) {
  const double square = t * t / (4 + t * t);  // the closed form for four degrees of freedom, in sin² of the angle
  const double sine = std::copysign(std::sqrt(square), t);
  return 0.5 + 0.25 * sine * (3 - square);
}

double student4_quantile(double probability) {
  const double tail = 2 * std::sqrt(probability * (1 - probability));
  const double t = 2 * std::sqrt(std::max(0.0, std::cos(std::acos(std::min(1.0, tail)) / 3) / tail - 1));
  return probability < 0.5 ? -t : t;
}

Interval interval(double value, double spread, double share) {
  const double factor = std::exp(student4_quantile((1 + share) / 2) * spread);
  return {value / factor, value * factor};
}

double half_width(double spread, double share) { return std::expm1(student4_quantile((1 + share) / 2) * spread); }

std::string sureness(double spread) {
  return spread > 0 ? fmt::format("± {:.0f} %", std::max(1.0, 100 * half_width(spread))) : "";
}

std::string sure_text(double probability) {
  return probability > 0.99 ? "> 99 %" : fmt::format("{:.0f} %", 100 * probability);
}

double probability_out_of_memory(double bytes, double room, double spread) {
  if (bytes <= 0) return 0;
  if (room <= 0) return 1;
  if (spread <= 0) return bytes > room ? 1 : 0;
  return 1 - student4_probability(std::log(room / bytes) / spread);
}

double margin_for_risk(double probability, double spread) {
  return std::max(0.0, std::expm1(student4_quantile(1 - probability) * spread));
}

}  // namespace nest
