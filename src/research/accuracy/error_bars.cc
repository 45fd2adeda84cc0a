#include "accuracy/error_bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/index.h"
#include "nest/interval.h"

namespace nest::accuracy {
namespace {

using cost::kErrorTerms;

constexpr std::array kCoveredShares = {0.5, 0.8, 0.9, 0.95};

std::size_t term(std::string_view key) {
  const auto found =
      std::find_if(kErrorTerms.begin(), kErrorTerms.end(), [&](const auto& one) { return one.key == key; });
  return static_cast<std::size_t>(found - kErrorTerms.begin());
}

// Minus the logarithm of the likelihood, but for a constant: Student's t with four degrees of freedom.
double unlikeliness(const std::vector<const ErrorRow*>& rows, const ErrorCoefficients& coefficients) {
  double sum = 0;
  for (const ErrorRow* row : rows) {
    const double spread = std::max(1e-4, spread_with(row->shares, coefficients));
    const double t = row->z / spread;
    sum += std::log(spread) + 2.5 * std::log1p(t * t / 4);
  }
  return sum;
}

double golden_minimum(double low, double high, const std::function<double(double)>& value) {
  constexpr double kRatio = 0.6180339887498949;
  constexpr int kSteps = 24;
  double a = high - kRatio * (high - low), b = low + kRatio * (high - low);
  double at_a = value(a), at_b = value(b);
  for (int step = 0; step < kSteps; ++step) {
    if (at_a < at_b) {
      high = b;
      b = a;
      at_b = at_a;
      a = high - kRatio * (high - low);
      at_a = value(a);
    } else {
      low = a;
      a = b;
      at_a = at_b;
      b = low + kRatio * (high - low);
      at_b = value(b);
    }
  }
  return (low + high) / 2;
}

void fit_terms(const std::vector<const ErrorRow*>& rows, const std::vector<std::size_t>& terms, int rounds,
               ErrorCoefficients& coefficients) {
  constexpr double kLargest = 0.6;
  for (int round = 0; round < rounds; ++round) {
    for (const std::size_t k : terms) {
      coefficients[k] = golden_minimum(0, kLargest, [&](double value) {
        ErrorCoefficients tried = coefficients;
        tried[k] = value;
        return unlikeliness(rows, tried);
      });
    }
  }
}

bool covered(const ErrorRow& row, const ErrorCoefficients& coefficients, double share) {
  return std::abs(row.z) <= student4_quantile((1 + share) / 2) * spread_with(row.shares, coefficients);
}

std::vector<Coverage> coverage_of(const std::vector<ErrorRow>& rows) {
  std::vector<Coverage> result;
  for (const double share : kCoveredShares) result.push_back({share});
  std::set<std::string> sources;
  for (const ErrorRow& row : rows) sources.insert(row.source);
  for (const std::string& source : sources) {
    std::vector<ErrorRow> others;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(others),
                 [&](const ErrorRow& row) { return row.source != source; });
    const ErrorCoefficients fitted = fit_coefficients(others);
    for (const ErrorRow& row : rows) {
      if (row.source != source) continue;
      for (Coverage& one : result) {
        const double inside = covered(row, fitted, one.share) ? 1 : 0;
        one.all += inside;
        ++one.rows;
        if (!row.strict) continue;
        one.strict += inside;
        one.shipped += covered(row, shipped_coefficients(), one.share) ? 1 : 0;
        ++one.strict_rows;
      }
    }
  }
  for (Coverage& one : result) {
    one.all /= std::max(1.0, real(one.rows));
    one.strict /= std::max(1.0, real(one.strict_rows));
    one.shipped /= std::max(1.0, real(one.strict_rows));
  }
  return result;
}

std::vector<WidthBin> widths_of(const std::vector<ErrorRow>& rows) {
  std::vector<WidthBin> bins;
  double from = 0;
  for (const double most : {0.06, 0.08, 0.10, 0.15, 0.60}) {
    std::vector<double> off;
    for (const ErrorRow& row : rows) {
      const double width = half_width(spread_with(row.shares, shipped_coefficients()));
      if (row.strict && width > from && width <= most) off.push_back(std::abs(std::expm1(row.z)));
    }
    from = most;
    if (off.empty()) continue;
    std::sort(off.begin(), off.end());
    bins.push_back({most, off.size(), off[static_cast<std::size_t>(0.8 * real(off.size() - 1))]});
  }
  return bins;
}

std::vector<OrderBin> orders_of(const Set& set) {
  std::vector<OrderBin> bins = {{0.5, 0.6}, {0.6, 0.7}, {0.7, 0.8}, {0.8, 0.9}, {0.9, 0.97}, {0.97, 1.0}};
  std::map<std::string, std::vector<const Reading*>> jobs;
  for (const Reading& reading : set.readings) {
    if (reading.strict && reading.run.prediction) jobs[reading.source + "/" + reading.run.job].push_back(&reading);
  }
  for (const auto& [name, readings] : jobs) {
    for (std::size_t i = 0; i < readings.size(); ++i) {
      for (std::size_t j = i + 1; j < readings.size(); ++j) {
        const Reading *a = readings[i], *b = readings[j];
        const double p = probability_faster(*a->run.prediction, *b->run.prediction);
        if (p < 0.5) std::swap(a, b);
        const double sure = std::max(p, 1 - p);
        for (OrderBin& bin : bins) {
          if (sure < bin.from || (sure >= bin.to && bin.to < 1)) continue;
          ++bin.pairs;
          bin.right += a->point.measured < b->point.measured ? 1 : 0;
        }
      }
    }
  }
  return bins;
}

}  // namespace

double spread_with(const cost::ErrorShares& shares, const ErrorCoefficients& coefficients) {
  double variance = 0;
  for (std::size_t k = 0; k < shares.size(); ++k) {
    const double part = shares[k] * coefficients[k];
    variance += part * part;
  }
  return std::sqrt(variance);
}

ErrorCoefficients shipped_coefficients() {
  ErrorCoefficients coefficients = {};
  for (std::size_t k = 0; k < kErrorTerms.size(); ++k) coefficients[k] = kErrorTerms[k].coefficient;
  return coefficients;
}

ErrorCoefficients fit_coefficients(const std::vector<ErrorRow>& rows) {
  constexpr int kRounds = 8;
  std::vector<const ErrorRow*> strict, all;
  for (const ErrorRow& row : rows) {
    all.push_back(&row);
    if (row.strict) strict.push_back(&row);
  }
  ErrorCoefficients coefficients = shipped_coefficients();
  const std::size_t assumed = term("assumed");
  std::vector<std::size_t> terms;
  for (std::size_t k = 0; k < kErrorTerms.size(); ++k) {
    const bool used =
        std::any_of(strict.begin(), strict.end(), [&](const ErrorRow* row) { return row->shares[k] > 0; });
    if (used && k != assumed) terms.push_back(k);
  }
  fit_terms(strict, terms, kRounds, coefficients);
  const bool some = std::any_of(all.begin(), all.end(), [&](const ErrorRow* row) { return row->shares[assumed] > 0; });
  if (some) fit_terms(all, {assumed}, 1, coefficients);
  return coefficients;
}

std::vector<ErrorRow> error_rows(const Set& published_time) {
  std::vector<ErrorRow> rows;
  for (const Reading& reading : published_time.readings) {
    if (!reading.run.prediction) continue;
    rows.push_back({std::log(reading.point.measured / reading.point.predicted),
                    cost::error_shares(*reading.run.prediction, reading.run.circumstances), reading.source,
                    reading.strict});
  }
  return rows;
}

ErrorBars judge_error_bars(const Set& published_time) {
  const std::vector<ErrorRow> rows = error_rows(published_time);
  ErrorBars bars;
  bars.fitted = fit_coefficients(rows);
  for (const ErrorRow& row : rows) {
    for (std::size_t k = 0; k < kErrorTerms.size(); ++k) {
      bars.rows[k] += (row.strict || k == term("assumed")) && row.shares[k] > 0 ? 1 : 0;
    }
  }
  bars.coverage = coverage_of(rows);
  bars.widths = widths_of(rows);
  bars.orders = orders_of(published_time);
  return bars;
}

std::string error_bars_section(const ErrorBars& bars) {
  if (bars.coverage.empty() || bars.coverage.front().rows == 0) return {};
  std::string text =
      "\n## Error bars\n\nEvery prediction carries an interval that is meant to hold 80 % of measured runs "
      "([cost-model.md](../cost-model.md)). How many it holds, when the\ncoefficients are fitted without the run's own "
      "source, and as they ship:\n\n"
      "| interval | strict runs inside | all runs inside | strict, as shipped |\n|---:|---:|---:|---:|\n";
  for (const Coverage& one : bars.coverage) {
    text += fmt::format("| {:.0f} % | {:.0f} % of {} | {:.0f} % of {} | {:.0f} % |\n", 100 * one.share,
                        100 * one.strict, one.strict_rows, 100 * one.all, one.rows, 100 * one.shipped);
  }
  text +=
      "\nWhether the width sorts runs: of strict runs whose interval is that wide, four of five were off by at most\n\n"
      "| ± as told, at most | runs | off by at most |\n|---:|---:|---:|\n";
  for (const WidthBin& bin : bars.widths) {
    text += fmt::format("| {:.0f} % | {} | {:.1f} % |\n", 100 * bin.most, bin.rows, 100 * bin.off);
  }
  text +=
      "\nThe terms of the spread; a term that no run has is stated, not fitted:\n\n"
      "| term | runs | fitted | shipped |\n|---|---:|---:|---:|\n";
  for (std::size_t k = 0; k < kErrorTerms.size(); ++k) {
    const std::string fitted = bars.rows[k] == 0 ? "–" : fmt::format("{:.3f}", bars.fitted[k]);
    text += fmt::format("| {} | {} | {} | {:.3f} |\n", kErrorTerms[k].says, bars.rows[k], fitted,
                        kErrorTerms[k].coefficient);
  }
  text +=
      "\nTwo runs of one job from one source: how sure nest is which is the faster, and how often it was:\n\n"
      "| said | pairs | right |\n|---|---:|---:|\n";
  for (const OrderBin& bin : bars.orders) {
    if (bin.pairs == 0) continue;
    text += fmt::format("| {:.0f} … {:.0f} % | {} | {:.0f} % |\n", 100 * bin.from, 100 * bin.to, bin.pairs,
                        100 * real(bin.right) / real(bin.pairs));
  }
  return text;
}

}  // namespace nest::accuracy
