#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "accuracy/report.h"
#include "base/index.h"
#include "base/units.h"

namespace nest::accuracy {
namespace {

constexpr std::size_t kWorstShown = 15;

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }
std::string small_percent(double fraction) {
  const double size = std::abs(fraction);
  return size > 0 && size < 0.005 ? fmt::format("{:.2f} %", 100 * fraction) : percent(fraction);
}
std::string signed_percent(double fraction) { return fmt::format("{:+.1f} %", 100 * fraction); }

std::string quantity(double value, const std::string& unit) {
  if (unit == "s") return format_duration(value);
  if (unit == "bytes") return format_bytes(static_cast<std::int64_t>(value));
  if (unit == "parameters") return format_integer(static_cast<std::int64_t>(value));
  return fmt::format("{:.3g} {}", value, unit);
}

// Text of rows in a cell: bars and line ends would break the table.
std::string cell(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '`') {
      safe += c == '|' ? "\\|" : c == '<' ? "&lt;" : "'";
    } else {
      safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return safe;
}

std::string marks_table(const Summary& summary) {
  std::string text = "| what | rows | measure | aim | reached | |\n|---|---:|---|---:|---:|---|\n";
  for (const Mark& mark : summary.marks) {
    const std::string aim = mark.percent ? small_percent(mark.aim) : fmt::format("{:.2f}", mark.aim);
    const std::string reached =
        mark.percent ? (mark.measure == "bias" ? signed_percent(mark.reached) : small_percent(mark.reached))
                     : fmt::format("{:.2f}", mark.reached);
    const char* sign = mark.at_least ? "≥" : mark.measure == "bias" ? "±" : "≤";
    text += fmt::format("| {} | {} | {} | {} {} | {} | {} |\n", cell(mark.what),
                        format_integer(static_cast<std::int64_t>(mark.rows)), mark.measure, sign, aim, reached,
                        mark.met() ? "met" : "**missed**");
  }
  return text;
}

std::string errors_cells(const Errors& errors) {
  if (errors.count == 0) return "0 | – | – | – | –";
  return fmt::format("{} | {} | {} | {} | {}", errors.count, small_percent(errors.mean_absolute),
                     small_percent(errors.median_absolute), signed_percent(errors.bias), signed_percent(errors.worst));
}

constexpr const char* kErrorHead = "used | mean | median | bias | worst";

std::string parts_table(const Summary& summary) {
  std::string text = fmt::format("| part | {} |\n|---|---:|---:|---:|---:|---:|\n", kErrorHead);
  for (const Part& part : summary.parts) text += fmt::format("| {} | {} |\n", part.name, errors_cells(part.errors));
  return text;
}

std::string sources_table(const Set& set) {
  const bool split = std::any_of(set.readings.begin(), set.readings.end(), [](const Reading& r) { return !r.strict; });
  std::string text = fmt::format("| source | {} | left out |\n|---|---:|---:|---:|---:|---:|---:|\n", kErrorHead);
  for (const std::string& source : sources_of(set)) {
    std::size_t dropped = 0;
    for (const LeftOut& row : set.left_out) dropped += row.source == source ? 1 : 0;
    for (const bool strict : {true, false}) {
      const Errors errors =
          errors_of(set, [&](const Reading& r) { return r.source == source && (!split || r.strict == strict); });
      if (errors.count == 0 && (strict ? split || dropped == 0 : true)) continue;
      text += fmt::format("| {}{} | {} | {} |\n", cell(source), split && !strict ? " (incomplete)" : "",
                          errors_cells(errors), dropped);
      dropped = 0;
      if (!split) break;
    }
    if (dropped > 0) text += fmt::format("| {} | {} | {} |\n", cell(source), errors_cells({}), dropped);
  }
  return text;
}

std::string worst_table(const Set& set) {
  std::string text = "| row | measured | predicted | error | why, where it is known |\n|---|---:|---:|---:|---|\n";
  for (const Reading* reading : worst_of(set, kWorstShown)) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", cell(reading->id), quantity(reading->point.measured, set.unit),
                        quantity(reading->point.predicted, set.unit), signed_percent(reading->point.error()),
                        cell(reading->note));
  }
  return text;
}

std::string left_out_list(const Set& set) {
  std::string text;
  for (const auto& [reason, rows] : reasons_of(set))
    text += fmt::format("- {} {}: {}\n", rows, rows == 1 ? "row" : "rows", cell(reason));
  return text;
}

bool long_list(const Set& set) {
  return set.name != "parameter_counts" && !set.readings.empty() && errors_of(set).worst != 0;
}

std::string set_section(const Set& set) {
  std::string text = fmt::format("\n## {}\n\n{} rows, {} readings used", set.title,
                                 format_integer(static_cast<std::int64_t>(set.rows)),
                                 format_integer(static_cast<std::int64_t>(set.readings.size())));
  const Errors errors = errors_of(set);
  if (errors.count > 0) {
    text += fmt::format("; mean error {}, median {}, bias {}.\n", small_percent(errors.mean_absolute),
                        small_percent(errors.median_absolute), signed_percent(errors.bias));
    if (sources_of(set).size() > 1) text += "\n" + sources_table(set);
  } else {
    text += ".\n";
  }
  if (long_list(set)) text += "\nThe rows that are furthest off:\n\n" + worst_table(set);
  if (!set.left_out.empty()) text += "\nLeft out:\n\n" + left_out_list(set);
  return text;
}

std::string ranks_section(const Summary& summary) {
  if (summary.sweeps.empty()) return {};
  std::string text = fmt::format(
      "\n## Order of plans\n\nA planner must rank before it must predict: Kendall's correlation between predicted and "
      "measured times inside each sweep, over all\n"
      "pairs and over pairs measured more than {:.0f} % apart (the same configuration measured twice differs by that "
      "much).\n\n"
      "| sweep | all pairs | correlation | pairs apart | correlation |\n|---|---:|---:|---:|---:|\n",
      100 * kApart);
  for (const Sweep& sweep : summary.sweeps) {
    text += fmt::format("| {} | {} | {:.2f} | {} | {:.2f} |\n", cell(sweep.source), sweep.all.pairs, sweep.all.tau,
                        sweep.apart.pairs, sweep.apart.tau);
  }
  return text;
}

std::string surprises_section(const Surprises& surprises) {
  if (surprises.readings == 0) return {};
  return fmt::format(
      "\n## Plans that would run out of memory\n\nA plan is said to fit when its predicted memory with the stack's "
      "margin ({} … {}) does. Of {} readings {} used more than that ({}); the\n"
      "largest excess over the prediction without margin is {}.\n",
      percent(surprises.lowest_margin), percent(surprises.highest_margin), surprises.readings, surprises.surprises,
      percent(real(surprises.surprises) / real(surprises.readings)), percent(surprises.largest_excess));
}

std::string introduction(bool carried) {
  std::string text =
      "# How accurate nest is\n\n"
      "Written by `make accuracy`; do not edit. Errors are predicted / measured − 1, times per training step, memory "
      "per device. ";
  text += carried ? "Only the rows that ship with nest (data/accuracy) were compared.\n"
                  : "The rows are measurements on one H200, training runs that others published, and simulated "
                    "collectives; the folder that holds\n"
                    "them is not part of the repository (`make accuracy DATA=folder`), and without it the rows of "
                    "data/accuracy are compared.\n";
  text +=
      "\"Strict\" rows state everything that a prediction needs and come from a source that can be trusted; in "
      "\"incomplete\" rows something is assumed.\n";
  return text;
}

constexpr const char* kConstants =
    "\n## Where the constants come from\n\n"
    "Formulas, every constant, its origin (measured, fitted, counted) and how far the data determine it: "
    "[cost-model.md](../cost-model.md). In short: the sustained\n"
    "rate of matrix products on Hopper and the byte counts of memory are measured or counted; rates of other devices, "
    "attention kernels, host time per kernel and\n"
    "network efficiencies are fitted to part of the published runs, few constants for all of them, none per row.\n";

}  // namespace

std::string to_markdown(const std::vector<Set>& sets, const Summary& summary, bool carried, const std::string& plots) {
  std::string text = introduction(carried) + "\n## Against what was aimed at\n\n" + marks_table(summary);
  if (!summary.parts.empty()) text += "\nPublished runs by how much of them is known:\n\n" + parts_table(summary);
  if (!plots.empty()) {
    text += "\n";
    for (const Picture& picture : draw(sets)) text += fmt::format("![{}]({}/{})\n", picture.title, plots, picture.file);
  }
  text += runs_sections(summary) + ranks_section(summary) + unseen_section(summary.unseen) +
          error_bars_section(summary.error_bars) + surprises_section(summary.surprises);
  for (const Set& set : sets) text += set_section(set);
  return text + kConstants;
}

}  // namespace nest::accuracy
