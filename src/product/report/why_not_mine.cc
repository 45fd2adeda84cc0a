#include "report/why_not_mine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/layout.h"
#include "base/units.h"
#include "nest/interval.h"
#include "plan/plan_json.h"
#include "plan/strategy_text.h"
#include "report/plan_report.h"
#include "report/table.h"

namespace nest::report {
namespace {

constexpr double kWorthShowing = 0.002;  // of yours
constexpr std::size_t kChangesShown = 6;

std::string verdict(const WhyNotMine& report, const Style& style) {
  const Prediction& yours = report.yours.expected();
  const Prediction& best = report.best.expected();
  std::string text = fmt::format("{} on {}\n", report.title, report.devices);
  if (report.fits) {
    text += style.paint(Ink::strong, fmt::format("Yours: {} per step", format_duration(yours.iteration_s))) +
            fmt::format(" (MFU {}), fits with {} to spare on stage {}\n", format_percent(yours.mfu),
                        format_bytes(report.spare_bytes), report.fullest_stage);
  } else {
    text += style.paint(Ink::strong, wrap_after("Yours: ", "does not fit: " + report.misfit)) + "\n";
  }
  text += fmt::format("       {}\n", plan::strategy_text(report.yours));
  if (!report.has_best) return text + fmt::format("Best:  no plan that {} can run fits\n", report.framework);
  text += fmt::format("Best:  {} per step (MFU {})", format_duration(best.iteration_s), format_percent(best.mfu));
  if (report.fits) {
    text += fmt::format(", {:.2f}x faster ({} sure)", yours.iteration_s / best.iteration_s,
                        sure_text(probability_faster(best, yours)));
  }
  text += report.proven ? ", proven\n" : "\n";
  text +=
      fmt::format("       {}\n", plan::strategy_text(report.best)) + placement_words(report.best.strategy, "       ");
  if (!report.yours.executed && !report.best.executed) return text;
  return text +
         wrap_after("", fmt::format("Times are those of execution on the simulated network; by the formula {} and {}.",
                                    format_duration(report.yours.prediction.iteration_s),
                                    format_duration(report.best.prediction.iteration_s))) +
         "\n";
}

// What most of the difference is made of.
std::string binding(const WhyNotMine& report) {
  const double difference = report.yours.expected().iteration_s - report.best.expected().iteration_s;
  if (difference < kWorthShowing * report.yours.expected().iteration_s) return {};
  std::vector<std::string> parts;
  double left = 0.7 * difference;
  for (const TermLine& line : report.terms) {
    const double gap = line.yours_s - line.best_s;
    if (left <= 0 || gap <= 0 || parts.size() == 3) break;
    parts.push_back(fmt::format("{} ({:.3f} s{})", line.name, gap, line.about.empty() ? "" : ": " + line.about));
    left -= gap;
  }
  return wrap_after("Binds: ", fmt::format("of the {:.3f} s between them, {}", difference, fmt::join(parts, "; "))) +
         "\n";
}

std::string terms_table(const WhyNotMine& report, const Style& style) {
  Table table({{"where it is", Align::left},
               {"yours", Align::right},
               {"best", Align::right},
               {"s", Align::right},
               {"", Align::left, true}});
  for (const TermLine& line : report.terms) {
    const double difference = line.yours_s - line.best_s;
    if (std::abs(difference) < kWorthShowing * report.yours.expected().iteration_s) continue;
    table.add({line.name, fmt::format("{:.3f}", line.yours_s), fmt::format("{:.3f}", line.best_s),
               fmt::format("{:+.3f}", difference), line.about});
  }
  return table.empty() ? std::string() : table.render(style) + "\n";
}

std::string changes_table(const WhyNotMine& report, const Style& style) {
  if (report.changes.empty()) return {};
  Table table({{"one change", Align::left, true}, {"s per step", Align::right}, {"", Align::right}});
  std::size_t shown = 0;
  for (const ChangeLine& change : report.changes) {
    if (shown == kChangesShown) break;
    if (report.fits && change.iteration_s >= report.yours.expected().iteration_s * (1 - kWorthShowing / 4)) break;
    ++shown;
    table.add({change.options, fmt::format("{:.3f}", change.iteration_s),
               report.fits
                   ? fmt::format("{:+.1f} %", 100 * (change.iteration_s / report.yours.expected().iteration_s - 1))
                   : "fits"});
  }
  return shown == 0 ? std::string() : table.render(style) + "\n";
}

std::string recommendation(const WhyNotMine& report, const Style& style) {
  if (report.recommended.empty()) {
    if (report.fits) return "No change of one or two options makes it faster.\n";
    return "No change of one or two options makes it fit.\n";
  }
  const ChangeLine& first = report.recommended.front();
  std::string text = report.fits ? "Smallest change with the largest gain:\n" : "Smallest change that makes it fit:\n";
  text += style.paint(Ink::strong, wrap_after("  ", first.options)) + "\n  ";
  text += fmt::format("-> {} per step", format_duration(first.iteration_s));
  if (report.fits) text += fmt::format(" ({:.2f}x)", report.yours.expected().iteration_s / first.iteration_s);
  return text + "\n";
}

Json change_json(const ChangeLine& change) {
  return {{"options", change.options}, {"iteration_s", change.iteration_s}};
}

}  // namespace

std::string why_not_mine_text(const WhyNotMine& report, const Style& style) {
  std::string text = verdict(report, style);
  if (report.fits && report.has_best) text += binding(report);
  text += "\n";
  if (report.fits && report.has_best) text += terms_table(report, style);
  text += changes_table(report, style);
  text += recommendation(report, style);
  for (const std::string& note : report.notes) text += wrap_after("Note: ", note) + "\n";
  return text;
}

Json why_not_mine_json(const WhyNotMine& report) {
  Json json = {{"schema", "nest.why/1"}, {"framework", report.framework}, {"fits", report.fits}};
  if (!report.fits) json["misfit"] = report.misfit;
  json["spare_bytes"] = report.spare_bytes;
  json["yours"] = plan::plan_to_json(report.yours);
  json["best"] = report.has_best ? plan::plan_to_json(report.best) : Json();
  json["proven"] = report.proven;
  json["terms"] = Json::array();
  for (const TermLine& line : report.terms) {
    Json term = {{"name", line.name}, {"yours_s", line.yours_s}, {"best_s", line.best_s}, {"about", line.about}};
    if (!line.change.empty()) {
      term["change"] = line.change;
      term["gain_s"] = line.gain_s;
    }
    json["terms"].push_back(std::move(term));
  }
  json["changes"] = Json::array();
  for (const ChangeLine& change : report.changes) json["changes"].push_back(change_json(change));
  json["recommended"] = report.recommended.empty() ? Json() : change_json(report.recommended.front());
  json["notes"] = report.notes;
  return json;
}

}  // namespace nest::report
