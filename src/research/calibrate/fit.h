// Fits the constants of the burst model to measurements.
//
// Every constant x has bounds; it is fitted as log x. With r = log(predicted / measured) / 3 % the fit minimises
//     sum of 2 (sqrt(1 + r^2) - 1)  +  sum of (0.1 log(x / x_start))^2
// group by group (matmul, then attention, ...), by Levenberg-Marquardt steps with difference quotients and a coordinate
// search after it, which copes with the kinks of tiles and waves. The second sum keeps what the data do not determine
// where it was. The result depends on nothing but the rows, their order and the start.
#pragma once

#include <span>
#include <vector>

#include "calibrate/burst.h"
#include "calibrate/measurement.h"
#include "cluster/device.h"

namespace nest::calibrate {

struct KindError {
  MeasuredKind kind = MeasuredKind::gemm;
  std::size_t rows = 0;
  // Of |predicted / measured - 1|; bias keeps the sign.
  double mean = 0;
  double median = 0;
  double worst = 0;
  double bias = 0;
  std::string worst_label = {};
};

std::vector<KindError> errors_by_kind(const cluster::Device& device, const BurstConstants& constants,
                                      std::span<const Measurement> rows);

struct FittedConstant {
  BurstConstant constant = BurstConstant::gemm;
  double before = 0;
  double after = 0;
  bool measured = false;  // some row depends on it
  bool determined =
      false;  // moving it by a quarter either way makes the mean error of its rows worse by a tenth of a point or more
  bool at_bound = false;
  double sensitivity = 0;  // the smaller of those two changes of the mean error
};

struct BurstFit {
  BurstConstants constants;
  std::vector<FittedConstant> fitted;
  std::vector<KindError> before;
  std::vector<KindError> after;
  std::vector<KindError> unseen;  // rows predicted by a fit to the other half of the rows (even and odd)
};

// The constants alone.
BurstConstants fit_burst(const cluster::Device& device, const BurstConstants& start, std::span<const Measurement> rows);

// With errors, cross-check and sensitivities.
BurstFit calibrate_burst(const cluster::Device& device, const BurstConstants& start, std::span<const Measurement> rows);

}  // namespace nest::calibrate
