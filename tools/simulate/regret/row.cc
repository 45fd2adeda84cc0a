#include "row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "simulation_check/networks.h"

namespace nest {
namespace {

constexpr double kWorth = 0.01;

struct Spread {
  double mean = 0, median = 0, p90 = 0, most = 0;
};

// Of what is at least one number.
Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto quantile = [&](std::size_t tenths) { return values[(values.size() * tenths + 9) / 10 - 1]; };
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()), quantile(5), quantile(9), values.back()};
}

using Rows = std::vector<const RegretRow*>;

Spread regrets(const Rows& rows) {
  std::vector<double> values;
  values.reserve(rows.size());
  for (const RegretRow* row : rows) values.push_back(100 * row->regret());
  return spread_of(values);
}

Spread errors(const Rows& rows) {
  std::vector<double> values;
  values.reserve(rows.size());
  for (const RegretRow* row : rows) values.push_back(100 * std::abs(row->simulated_s / row->predicted_s - 1));
  return spread_of(values);
}

std::string group_line(const std::string& name, const Rows& rows) {
  if (rows.empty()) return {};
  const Spread regret = regrets(rows);
  const auto above =
      std::count_if(rows.begin(), rows.end(), [](const RegretRow* row) { return row->regret() > kWorth; });
  std::vector<double> seconds;
  seconds.reserve(rows.size());
  for (const RegretRow* row : rows) seconds.push_back(row->search_s);
  const Spread time = spread_of(seconds);
  return fmt::format("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {} | {:.1f} | {:.1f} |\n", name, rows.size(), regret.mean,
                     regret.p90, regret.most, above, time.median, time.most);
}

}  // namespace

std::string to_line(const RegretRow& row) {
  const nlohmann::ordered_json json = {{"network", row.of.network},
                                       {"model", row.of.model},
                                       {"devices", row.of.devices},
                                       {"batch", row.of.batch},
                                       {"top", row.effort.top},
                                       {"neighbours", row.effort.neighbours},
                                       {"time_limit_s", row.effort.time_limit_s},
                                       {"refused", row.refused},
                                       {"stopped", row.stopped},
                                       {"predicted_s", row.predicted_s},
                                       {"simulated_s", row.simulated_s},
                                       {"formula_s", row.formula_s},
                                       {"least_s", row.least_s},
                                       {"search_s", row.search_s},
                                       {"best_s", row.best_s},
                                       {"rival_s", row.rival_s},
                                       {"best_of", row.best_of},
                                       {"strategy", row.strategy},
                                       {"best_strategy", row.best_strategy},
                                       {"others", row.others},
                                       {"executed", row.executed},
                                       {"noisy", row.noisy}};
  return json.dump() + "\n";
}

std::map<std::string, RegretRow> read_rows(const std::string& text) {
  std::map<std::string, RegretRow> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    try {
      const auto json = nlohmann::json::parse(line);
      RegretRow row;
      json.at("network").get_to(row.of.network);
      json.at("model").get_to(row.of.model);
      json.at("devices").get_to(row.of.devices);
      json.at("batch").get_to(row.of.batch);
      json.at("top").get_to(row.effort.top);
      json.at("neighbours").get_to(row.effort.neighbours);
      json.at("time_limit_s").get_to(row.effort.time_limit_s);
      json.at("refused").get_to(row.refused);
      json.at("stopped").get_to(row.stopped);
      json.at("predicted_s").get_to(row.predicted_s);
      json.at("simulated_s").get_to(row.simulated_s);
      json.at("formula_s").get_to(row.formula_s);
      json.at("least_s").get_to(row.least_s);
      json.at("search_s").get_to(row.search_s);
      json.at("best_s").get_to(row.best_s);
      json.at("rival_s").get_to(row.rival_s);
      json.at("best_of").get_to(row.best_of);
      json.at("strategy").get_to(row.strategy);
      json.at("best_strategy").get_to(row.best_strategy);
      json.at("others").get_to(row.others);
      json.at("executed").get_to(row.executed);
      json.at("noisy").get_to(row.noisy);
      rows[row.of.id()] = row;
    } catch (const nlohmann::json::exception&) {
      continue;
    }
  }
  return rows;
}

std::string regret_page(const std::vector<RegretRow>& rows, std::size_t grid, std::uint32_t seed) {
  Rows found;
  for (const RegretRow& row : rows) {
    if (row.refused.empty()) found.push_back(&row);
  }
  if (found.empty()) return "# Regret\n\nNo case has a plan.\n";
  const auto those = [&](const auto& holds) {
    Rows some;
    std::copy_if(found.begin(), found.end(), std::back_inserter(some),
                 [&](const RegretRow* row) { return holds(*row); });
    return some;
  };
  const Spread regret = regrets(found), error = errors(found);
  std::int64_t others = 0, executed = 0;
  double rival = 0;  // how much faster a rival's plan is, at most
  for (const RegretRow* row : found) {
    others += row->others;
    executed += row->executed;
    if (row->rival_s > 0) rival = std::max(rival, row->simulated_s / row->rival_s - 1);
  }
  const RegretEffort& effort = rows.front().effort;
  std::string text = fmt::format(
      "# Regret\n\nThe step of nest's plan against the fastest of all that are known: its own, the formula's best {} "
      "kinds "
      "of plans, those of manual\nrules, Phaze and Mist, and {} random neighbours of the best. Plans whose lower bound "
      "(`src/product/simulate/least_time.h`) is\nabove the fastest are not executed: {} others, {} of them "
      "executed.\n\n"
      "{} of {} cases, drawn with seed {} (`tools/simulate/compare/regret_cases.h`): networks count alike, models, "
      "sizes "
      "and batches\nare random. In {} no plan fits or the program says why it has none; of the other {}: "
      "**mean {:.2f} %, nine of ten within {:.2f} %, worst {:.2f} %, above 1 % in {}**;\nno rival's plan is more than "
      "{:.2f} % faster. The formula against execution for these plans: median {:.2f} %, 90 % within {:.2f} %, at most\n"
      "{:.2f} %; what `nest eval` and `nest plan` tell is the execution. Searches that a limit stopped: {}. Written by "
      "`make regret`.\n\n"
      "| cases | number | mean regret % | p90 % | worst % | above 1 % | median search s | longest s |\n"
      "|---|---|---|---|---|---|---|---|\n",
      effort.top, effort.neighbours, others, executed, rows.size(), grid, seed, rows.size() - found.size(),
      found.size(), regret.mean, regret.p90, regret.most,
      std::count_if(found.begin(), found.end(), [](const RegretRow* row) { return row->regret() > kWorth; }),
      100 * rival, error.median, error.p90, error.most,
      std::count_if(found.begin(), found.end(), [](const RegretRow* row) { return row->stopped; }));
  std::vector<std::int64_t> sizes;
  std::vector<std::string> models;
  for (const RegretRow* row : found) {
    sizes.push_back(row->of.devices);
    models.push_back(row->of.model);
  }
  const auto distinct = [](auto& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
  };
  distinct(sizes);
  distinct(models);
  for (const std::int64_t size : sizes) {
    text += group_line(fmt::format("{} devices", size),
                       those([&](const RegretRow& row) { return row.of.devices == size; }));
  }
  for (const std::string& model : models) {
    text += group_line(model, those([&](const RegretRow& row) { return row.of.model == model; }));
  }
  for (const Network& network : networks()) {
    text += group_line(network.name, those([&](const RegretRow& row) { return row.of.network == network.name; }));
  }
  text +=
      "\nTimes of searches are of the processor, one thread.\n\n"
      "| cluster | devices | model | batch | formula s | executed s | formula's plan s | no plan below s | best s | "
      "regret % | whose | others | executed | search s |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  std::stable_sort(found.begin(), found.end(), [](const RegretRow* a, const RegretRow* b) {
    return std::tie(a->of.network, a->of.devices, a->of.model, a->of.batch) <
           std::tie(b->of.network, b->of.devices, b->of.model, b->of.batch);
  });
  for (const RegretRow* row : found) {
    text += fmt::format(
        "| {} | {} | {} | {} | {:.3f} | {:.3f}{} | {:.3f} | {} | {:.3f} | {:.2f} | {} | {} | {} | {:.1f}{} |\n",
        row->of.network, row->of.devices, row->of.model, row->of.batch, row->predicted_s, row->simulated_s,
        row->noisy ? " (noise)" : "", row->formula_s, row->least_s > 0 ? fmt::format("{:.3f}", row->least_s) : "",
        row->best_s, 100 * row->regret(), row->best_of, row->others, row->executed, row->search_s,
        row->stopped ? " (stopped)" : "");
  }
  return text;
}

}  // namespace nest
