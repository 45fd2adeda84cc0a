#include "simulation_check/writing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace nest {
namespace {

constexpr double kMedianMark = 0.002;
constexpr double kTailMark = 0.03;  // of nine plans in ten
constexpr double kLossMark = 0.02;
constexpr double kCasesMark = 0.9;

struct Kind {
  DrawnFrom from;
  const char* title;
  const char* drawn;
  const char* color;
};
constexpr std::array<Kind, 2> kKinds = {
    {{DrawnFrom::presets, "preset clusters", "on twelve preset clusters", "#1f6feb"},
     {DrawnFrom::slow, "slow networks", "on networks that are slower than the presets' (`networks.h`)", "#d1570b"}}};

template <typename Row>
std::vector<Row> of_kind(std::span<const Row> rows, const Kind& kind) {
  std::vector<Row> kept;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(kept),
               [&](const Row& row) { return row.from == kind.from; });
  return kept;
}

// By the nearest rank.
double quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

// Of the search's first plans.
std::vector<double> winner_differences(std::span<const TopCase> cases, double (TopCase::*difference)() const) {
  std::vector<double> values;
  for (const TopCase& one : cases) {
    if (one.plans > 0) values.push_back(std::abs((one.*difference)()));
  }
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<double> told_differences(std::span<const ComparedPlan> rows) {
  std::vector<double> values;
  for (const ComparedPlan& row : rows) values.push_back(std::abs(row.told_difference()));
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<double> sorted_differences(std::span<const ComparedPlan> rows) {
  std::vector<double> values;
  for (const ComparedPlan& row : rows) values.push_back(std::abs(row.summary.difference()));
  std::sort(values.begin(), values.end());
  return values;
}

std::string percent(double fraction) { return fmt::format("{:.2f} %", 100 * fraction); }

// The phase in which the two differ most, with the difference as a share of the predicted step.
std::pair<std::string, double> worst_phase(const simulate::SimulationSummary& summary) {
  std::pair<std::string, double> worst{"", 0};
  for (const BreakdownPart& phase : kBreakdownParts) {
    const double apart =
        (summary.breakdown_s.*phase.seconds - summary.predicted_breakdown_s.*phase.seconds) / summary.predicted_s;
    if (std::abs(apart) > std::abs(worst.second)) worst = {phase.key, apart};
  }
  return worst;
}

template <typename Keep>
std::string table_line(const std::string& name, std::span<const ComparedPlan> rows, Keep keep) {
  std::vector<ComparedPlan> kept;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(kept), keep);
  if (kept.empty()) return {};
  double bias = 0;
  for (const ComparedPlan& row : kept) bias += row.summary.difference() / static_cast<double>(kept.size());
  return fmt::format("| {} | {} | {} | {} | {} | {} | {:+.2f} % |\n", name, kept.size(),
                     percent(difference_quantile(kept, 0.5)), percent(difference_quantile(kept, 0.9)),
                     percent(difference_quantile(kept, 0.95)), percent(difference_quantile(kept, 1)), 100 * bias);
}

std::string group_tables(std::span<const ComparedPlan> rows) {
  std::string text =
      "| plans | number | median | 90 % | 95 % | largest | mean, signed |\n|---|---|---|---|---|---|---|\n";
  text += table_line("all", rows, [](const ComparedPlan&) { return true; });
  text += table_line("dense models", rows, [](const ComparedPlan& row) { return !row.mixture; });
  text += table_line("mixtures of experts", rows, [](const ComparedPlan& row) { return row.mixture; });
  std::map<std::string, int> clusters;
  for (const ComparedPlan& row : rows) clusters[row.cluster] = 0;
  for (const auto& [name, unused] : clusters) {
    text += table_line(name, rows, [&](const ComparedPlan& row) { return row.cluster == name; });
  }
  return text;
}

std::string worst_table(std::span<const ComparedPlan> rows) {
  std::vector<const ComparedPlan*> order;
  for (const ComparedPlan& row : rows) order.push_back(&row);
  std::stable_sort(order.begin(), order.end(), [](const ComparedPlan* a, const ComparedPlan* b) {
    return std::abs(a->summary.difference()) > std::abs(b->summary.difference());
  });
  std::string text = "| seed | plan | difference | mostly |\n|---|---|---|---|\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(15, order.size()); ++i) {
    const ComparedPlan& row = *order[i];
    const auto [phase, apart] = worst_phase(row.summary);
    text += fmt::format(
        "| {} | {} on {} x {}: {}, {} micro-batches, ZeRO {}, dp_inner {}, {} | {:+.1f} % | {} {:+.1f} % |\n", row.seed,
        row.model, row.devices, row.cluster, row.strategy, row.micro_batches, row.zero, row.dp_inner, row.stack,
        100 * row.summary.difference(), phase, 100 * apart);
  }
  return text;
}

struct CaseCount {
  std::size_t asked = 0;
  std::size_t best = 0;  // the search's first is the simulation's first
  std::size_t kept = 0;  // or loses less than kLossMark
  double worst_loss = 0;
};

CaseCount count_cases(std::span<const TopCase> cases) {
  CaseCount count;
  for (const TopCase& one : cases) {
    if (one.plans == 0) continue;
    ++count.asked;
    if (one.best == 0) ++count.best;
    if (one.best == 0 || one.loss() < kLossMark) ++count.kept;
    count.worst_loss = std::max(count.worst_loss, one.loss());
  }
  return count;
}

std::string case_table(std::span<const TopCase> cases) {
  std::string text =
      "| cluster | devices | model | plans | the search's first | simulated over predicted | best simulated | loss |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const TopCase& one : cases) {
    if (one.plans == 0) {
      text += fmt::format("| {} | {} | {} | 0 | no plan fits | | | |\n", one.cluster, one.devices, one.model);
      continue;
    }
    text += fmt::format(
        "| {} | {} | {} | {} | {} | {:+.2f} % | {} | {} |\n", one.cluster, one.devices, one.model, one.plans,
        one.strategy, 100 * one.difference(),
        one.best == 0 ? std::string("the same") : fmt::format("number {}: {}", one.best + 1, one.best_strategy),
        percent(one.loss()));
  }
  return text;
}

}  // namespace

double difference_quantile(std::span<const ComparedPlan> rows, double q) {
  return quantile(sorted_differences(rows), q);
}

std::vector<Mark> marks(std::span<const ComparedPlan> all_rows, std::span<const TopCase> all_cases) {
  std::vector<Mark> list;
  for (const Kind& kind : kKinds) {
    const std::vector<ComparedPlan> rows = of_kind(all_rows, kind);
    const std::vector<TopCase> cases = of_kind(all_cases, kind);
    const auto add = [&](const char* what, double reached, double most) {
      list.push_back(
          {fmt::format("{}: {} at most {:g} %", kind.title, what, 100 * most), percent(reached), reached <= most});
    };
    if (!rows.empty()) {
      const std::vector<double> told = told_differences(rows);
      add("median difference of what is told of random plans", quantile(told, 0.5), kMedianMark);
      add("90th percentile of what is told of random plans", quantile(told, 0.9), kTailMark);
      add("median difference of the formula for random plans", difference_quantile(rows, 0.5), kMedianMark);
      add("90th percentile of the formula for random plans", difference_quantile(rows, 0.9), kTailMark);
    }
    const CaseCount count = count_cases(cases);
    if (count.asked == 0) continue;
    add("90th percentile of what is told of the search's first plans",
        quantile(winner_differences(cases, &TopCase::told_difference), 0.9), kTailMark);
    add("90th percentile of the formula for the search's first plans",
        quantile(winner_differences(cases, &TopCase::difference), 0.9), kTailMark);
    const double share = static_cast<double>(count.kept) / static_cast<double>(count.asked);
    list.push_back(
        {fmt::format("{}: the formula's plan stays best, or loses less than 2 %, in 90 % of the cases", kind.title),
         fmt::format("{} of {} ({} best)", count.kept, count.asked, count.best), share >= kCasesMark});
  }
  return list;
}

std::string plans_csv(std::span<const ComparedPlan> rows) {
  std::string text =
      "seed,cluster,devices,model,stack,strategy,dp_inner,zero,micro_batches,replicas_simulated,predicted_s,told_s,"
      "simulated_"
      "s,difference,worst_phase,worst_phase_difference\n";
  for (const ComparedPlan& row : rows) {
    const auto [phase, apart] = worst_phase(row.summary);
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{:.9g},{:.9g},{:.9g},{:.6f},{},{:.6f}\n", row.seed, row.cluster,
                        row.devices, row.model, row.stack, row.strategy, row.dp_inner, row.zero, row.micro_batches,
                        row.replicas_simulated, row.summary.predicted_s, row.told_s, row.summary.iteration_s,
                        row.summary.difference(), phase, apart);
  }
  return text;
}

std::string cases_csv(std::span<const TopCase> cases) {
  std::string text =
      "cluster,devices,model,global_batch,plans,predicted_s,told_s,simulated_s,best_simulated_s,place_of_best,loss,"
      "strategy,"
      "best_strategy\n";
  for (const TopCase& one : cases) {
    text += fmt::format("{},{},{},{},{},{:.9g},{:.9g},{:.9g},{:.9g},{},{:.6f},{},{}\n", one.cluster, one.devices,
                        one.model, one.global_batch, one.plans, one.predicted_s, one.told_s, one.simulated_s,
                        one.best_s, one.plans == 0 ? 0 : one.best + 1, one.loss(), one.strategy, one.best_strategy);
  }
  return text;
}

// How many plans differ by at most so much, the axis logarithmic from a millionth to the whole.
std::string difference_svg(std::span<const ComparedPlan> rows) {
  constexpr double kWidth = 640, kHeight = 320, kLeft = 56, kRight = 16, kTop = 16, kBottom = 44;
  constexpr double kDecades = 6;
  const auto x = [&](double value) {
    const double decades = std::clamp(std::log10(std::max(value, 1e-6)) + kDecades, 0.0, kDecades);
    return kLeft + decades / kDecades * (kWidth - kLeft - kRight);
  };
  const auto y = [&](double share) { return kTop + (1 - share) * (kHeight - kTop - kBottom); };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kWidth, kHeight);
  constexpr std::array kTicks = {"0.0001 %", "0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"};
  for (std::size_t i = 0; i < kTicks.size(); ++i) {
    const double at = x(std::pow(10, static_cast<double>(i) - kDecades));
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/><text x=\"{0:.1f}\" "
        "y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        at, y(1), y(0), y(0) + 16, kTicks[i]);
  }
  for (const double share : {0.0, 0.25, 0.5, 0.75, 0.95, 1.0}) {
    svg += fmt::format(
        "<line x1=\"{1:.1f}\" x2=\"{2:.1f}\" y1=\"{0:.1f}\" y2=\"{0:.1f}\" stroke=\"#ddd\"/><text x=\"{3:.1f}\" "
        "y=\"{4:.1f}\" text-anchor=\"end\">{5:.0f} %</text>\n",
        y(share), kLeft, kWidth - kRight, kLeft - 6, y(share) + 4, 100 * share);
  }
  double legend = y(1) + 14;
  for (const Kind& kind : kKinds) {
    const std::vector<double> values = sorted_differences(of_kind(rows, kind));
    if (values.empty()) continue;
    std::string path;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double share = static_cast<double>(i + 1) / static_cast<double>(values.size());
      path += fmt::format("{}{:.1f},{:.1f}", i == 0 ? "M" : " L", x(values[i]), y(share));
    }
    svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path, kind.color);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{} plans on {}</text>\n", kLeft + 8, legend,
                       kind.color, values.size(), kind.title);
    legend += 16;
  }
  svg += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">|simulated / predicted - 1|, share of random plans at "
      "most that far apart</text>\n</svg>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - 8);
  return svg;
}

namespace {

std::string kind_markdown(const Kind& kind, std::span<const ComparedPlan> rows, std::span<const TopCase> cases) {
  std::string text;
  if (!rows.empty()) {
    const auto exact = std::count_if(
        rows.begin(), rows.end(), [](const ComparedPlan& row) { return std::abs(row.summary.difference()) <= 1e-6; });
    text += fmt::format(
        "\n## Random plans: {}\n\n{} plans drawn from seeds {} … {} {}; {} of them agree to 1e-6. Rows: "
        "[plans.csv](plans.csv).\n\n",
        kind.title, rows.size(), rows.front().seed, rows.back().seed, kind.drawn, exact);
    text += group_tables(rows);
    text += "\nThe largest differences, and the phase that makes most of each:\n\n" + worst_table(rows);
  }
  if (!cases.empty()) {
    const CaseCount count = count_cases(cases);
    const std::vector<double> winners = winner_differences(cases, &TopCase::difference);
    text += fmt::format(
        "\n## The formula's choice under simulation: {}\n\nThe best 20 plans of every case are simulated. Simulated "
        "over predicted of the first: median {}, 90 % within {}, at most {}. The first stays first in {} of {} cases; "
        "in {} it is first or loses less than 2 %; the largest loss is {}. Rows: [top.csv](top.csv).\n\n",
        kind.title, percent(quantile(winners, 0.5)), percent(quantile(winners, 0.9)), percent(quantile(winners, 1)),
        count.best, count.asked, count.kept, percent(count.worst_loss));
    text += case_table(cases);
  }
  return text;
}

}  // namespace

std::string results_markdown(std::span<const ComparedPlan> rows, std::span<const TopCase> cases) {
  std::string text =
      "# Simulated against predicted: results\n\n"
      "Written by `make simulation-check`; `docs/simulation.md` says what is compared and what the differences "
      "mean.\n\n"
      "| wanted | reached | |\n|---|---|---|\n";
  for (const Mark& mark : marks(rows, cases)) {
    text += fmt::format("| {} | {} | {} |\n", mark.what, mark.reached, mark.met ? "met" : "missed");
  }
  if (!rows.empty()) text += "\n![difference](difference.svg)\n";
  for (const Kind& kind : kKinds) text += kind_markdown(kind, of_kind(rows, kind), of_kind(cases, kind));
  return text;
}

}  // namespace nest
