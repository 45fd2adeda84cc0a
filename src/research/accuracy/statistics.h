// How far predictions are from measurements, in numbers. Errors are fractions: predicted / measured - 1.
#pragma once

#include <cstddef>
#include <vector>

namespace nest::accuracy {

struct Point {
  double predicted = 0;
  double measured = 0;
  double error() const { return predicted / measured - 1; }
};

struct Errors {
  std::size_t count = 0;
  double mean_absolute = 0;
  double median_absolute = 0;
  double bias = 0;   // mean of the signed errors: positive when predictions are too high
  double worst = 0;  // the signed error that is largest in size
};

Errors errors_of(const std::vector<Point>& points);

// Middle value, mean of the two middle ones for an even count; 0 for none.
double median(std::vector<double> values);

// The value below which the share `share` (0 … 1) of the values lies, interpolated between neighbours; 0 for none.
double quantile(std::vector<double> values, double share);

struct Rank {
  double tau = 0;         // (ordered alike - ordered otherwise) / pairs; 0 when there are no pairs
  std::size_t pairs = 0;  // pairs whose measurements differ by more than `apart`
};

// Kendall's rank correlation between prediction and measurement over the pairs whose measurements differ by more than
// the fraction `apart`. Pairs measured equal say nothing and are not counted; pairs predicted equal count as neither
// alike nor otherwise.
Rank kendall(const std::vector<Point>& points, double apart = 0);

}  // namespace nest::accuracy
