#include "accuracy/unseen.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "base/index.h"
#include "cost/error_bar.h"

namespace nest::accuracy {
namespace {

constexpr double kPrior = 0.3;  // standard deviation of a correction before any run is seen

// Solves a · x = b for a symmetric, positive definite matrix, by Cholesky's decomposition.
std::vector<double> solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

double corrected(const UnseenRow& row, const std::map<std::string, double>& correction) {
  double sum = 0;
  for (const auto& [name, share] : row.part) {
    if (const auto found = correction.find(name); found != correction.end()) sum += share * found->second;
  }
  return sum;
}

}  // namespace

std::map<std::string, double> correction_without(const std::vector<UnseenRow>& rows, const std::string& source) {
  constexpr int kRounds = 12;
  std::map<std::string, double> correction;
  for (const UnseenRow& row : rows) {
    if (row.source == source) continue;
    for (const auto& [name, share] : row.part) correction[name] = 0;
  }
  std::map<std::string, std::size_t> place;
  for (const auto& [name, value] : correction) place.emplace(name, place.size());
  const std::size_t n = place.size();
  // Weighted least squares; the weights of Student's law follow from the last round's residues.
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::vector<double>> a(n, std::vector<double>(n, 0));
    std::vector<double> b(n, 0);
    for (std::size_t k = 0; k < n; ++k) a[k][k] = 1 / (kPrior * kPrior);
    for (const UnseenRow& row : rows) {
      if (row.source == source) continue;
      const double t = (row.z - corrected(row, correction)) / row.spread;
      const double weight = 5 / (4 + t * t) / (row.spread * row.spread);
      for (const auto& [one, share] : row.part) {
        b[place.at(one)] += weight * share * row.z;
        for (const auto& [other, also] : row.part) a[place.at(one)][place.at(other)] += weight * share * also;
      }
    }
    const std::vector<double> solved = solve(std::move(a), std::move(b));
    for (auto& [name, value] : correction) value = solved[place.at(name)];
  }
  return correction;
}

std::vector<UnseenRow> unseen_rows(const Set& published_time) {
  std::vector<UnseenRow> rows;
  for (const Reading& reading : published_time.readings) {
    if (!reading.strict || !reading.run.prediction || reading.run.prediction->iteration_s <= 0) continue;
    const Prediction& prediction = *reading.run.prediction;
    const auto& parts = prediction.breakdown_s;
    UnseenRow row{.z = std::log(reading.point.measured / reading.point.predicted),
                  .spread = cost::spread_of(cost::error_shares(prediction, reading.run.circumstances)),
                  .part = {},
                  .source = reading.source};
    const auto add = [&](const std::string& name, double seconds) {
      if (seconds > 0) row.part[name] = seconds / prediction.iteration_s;
    };
    add("compute of " + reading.run.device, parts.compute + parts.recompute + parts.bubble);
    add("tensor-parallel exchanges", parts.tp);
    add("exchanges of experts", parts.ep);
    add("exchanges of gradients and weights", parts.zero + parts.grad_sync);
    add("messages and exchanges of contexts", parts.p2p + parts.cp);
    rows.push_back(std::move(row));
  }
  return rows;
}

UnseenSources judge_unseen(const std::vector<UnseenRow>& rows) {
  UnseenSources judged;
  std::set<std::string> sources;
  for (const UnseenRow& row : rows) sources.insert(row.source);
  std::vector<Point> all;
  for (const std::string& source : sources) {
    const std::map<std::string, double> correction = correction_without(rows, source);
    std::vector<Point> shipped, without;
    std::set<std::string> its_own;
    for (const UnseenRow& row : rows) {
      if (row.source != source) continue;
      shipped.push_back({1, std::exp(row.z)});
      without.push_back({std::exp(corrected(row, correction)), std::exp(row.z)});
      for (const auto& [name, share] : row.part) {
        if (!correction.contains(name)) its_own.insert(name);
      }
    }
    all.insert(all.end(), without.begin(), without.end());
    judged.sources.push_back({source, errors_of(shipped), errors_of(without), {its_own.begin(), its_own.end()}});
  }
  judged.all = errors_of(all);
  return judged;
}

std::string unseen_section(const UnseenSources& judged) {
  if (judged.sources.size() < 2) return {};
  std::string text =
      "\n## Sources left out\n\nWhat the constants would be, to first order, had a source never been seen: rates of "
      "devices and shares "
      "of exchanges are corrected by\nwhat the strict runs of all other sources ask for, and its runs are judged by "
      "that. "
      "A constant that no other source has stays.\n\n"
      "| source | runs | as shipped | source left out | bias | stays as it ships |\n|---|---:|---:|---:|---:|---|\n";
  for (const UnseenSource& one : judged.sources) {
    std::string own;
    for (const std::string& name : one.its_own) own += (own.empty() ? "" : ", ") + name;
    text += fmt::format("| {} | {} | {:.1f} % | {:.1f} % | {:+.1f} % | {} |\n", one.source, one.unseen.count,
                        100 * one.shipped.mean_absolute, 100 * one.unseen.mean_absolute, 100 * one.unseen.bias,
                        own.empty() ? "–" : own);
  }
  text += fmt::format("\nAll {} runs, each without its source: mean {:.1f} %, median {:.1f} %.\n", judged.all.count,
                      100 * judged.all.mean_absolute, 100 * judged.all.median_absolute);
  return text;
}

}  // namespace nest::accuracy
