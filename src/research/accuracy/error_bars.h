// Whether the intervals that nest tells are right: how many measured runs lie inside, and how often the plan that is said
// to be the faster one was. The law is nest/interval.h; its coefficients are those of cost/error_bar.h.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "accuracy/set.h"
#include "cost/error_bar.h"

namespace nest::accuracy {

using ErrorCoefficients = std::array<double, cost::kErrorTerms.size()>;

// One published run: z = log(measured / predicted), and what its spread is made of.
struct ErrorRow {
  double z = 0;
  cost::ErrorShares shares = {};
  std::string source;
  bool strict = true;
};

double spread_with(const cost::ErrorShares& shares, const ErrorCoefficients& coefficients);
ErrorCoefficients shipped_coefficients();

// The coefficients that make the rows most likely, by golden sections along one coefficient after the other. The term of
// what is not stated is fitted to all rows after the others were to the strict ones; a term without rows stays as it
// ships.
ErrorCoefficients fit_coefficients(const std::vector<ErrorRow>& rows);

struct Coverage {
  double share = 0;            // that the interval is said to hold
  double strict = 0, all = 0;  // that it holds of runs whose source was left out of the fit
  double shipped = 0;          // of the strict ones, with the coefficients that ship
  std::size_t strict_rows = 0, rows = 0;
};

// Strict rows whose 80 % interval has such a width, and what they were really off.
struct WidthBin {
  double most = 0;  // ±, as shipped
  std::size_t rows = 0;
  double off = 0;  // the 80th percentile of |measured / predicted - 1|
};

// Pairs of strict runs of one job (model, devices, batch, sequence) on one site, by how sure their order is said to be.
struct OrderBin {
  double from = 0, to = 1;
  std::size_t pairs = 0, right = 0;
};

struct ErrorBars {
  ErrorCoefficients fitted = {};
  std::array<std::size_t, cost::kErrorTerms.size()> rows = {};  // strict ones that have the term
  std::vector<Coverage> coverage;
  std::vector<WidthBin> widths;
  std::vector<OrderBin> orders;
};

std::vector<ErrorRow> error_rows(const Set& published_time);
ErrorBars judge_error_bars(const Set& published_time);
std::string error_bars_section(const ErrorBars& bars);

}  // namespace nest::accuracy
