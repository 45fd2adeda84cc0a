#include "accuracy/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"

namespace nest::accuracy {

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = share * real(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(at));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  const double part = at - std::floor(at);
  return values[below] + part * (values[above] - values[below]);
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

Errors errors_of(const std::vector<Point>& points) {
  Errors errors;
  errors.count = points.size();
  if (points.empty()) return errors;
  std::vector<double> sizes;
  for (const Point& point : points) {
    const double error = point.error();
    sizes.push_back(std::abs(error));
    errors.mean_absolute += std::abs(error);
    errors.bias += error;
    if (std::abs(error) > std::abs(errors.worst)) errors.worst = error;
  }
  const auto count = real(points.size());
  errors.mean_absolute /= count;
  errors.bias /= count;
  errors.median_absolute = median(std::move(sizes));
  return errors;
}

Rank kendall(const std::vector<Point>& points, double apart) {
  Rank rank;
  std::ptrdiff_t balance = 0;
  for (std::size_t a = 0; a < points.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const double low = std::min(points[a].measured, points[b].measured);
      const double high = std::max(points[a].measured, points[b].measured);
      if (!(high > low * (1 + apart))) continue;
      ++rank.pairs;
      const double measured = points[a].measured - points[b].measured;
      const double predicted = points[a].predicted - points[b].predicted;
      if (predicted * measured > 0) ++balance;
      if (predicted * measured < 0) --balance;
    }
  }
  if (rank.pairs > 0) rank.tau = real(balance) / real(rank.pairs);
  return rank;
}

}  // namespace nest::accuracy
