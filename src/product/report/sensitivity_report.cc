#include "report/sensitivity_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/layout.h"
#include "base/text.h"
#include "base/units.h"
#include "report/table.h"

namespace nest::report {
namespace {

constexpr std::size_t kBarColumns = 16;  // of a share as large as the percent
constexpr double kSame = 5e-4;           // of a step: what one digit of a percent does not show

double sum_of_saves(const Sensitivity& sensitivity) {
  double sum = 0;
  for (const ResourceEffect& effect : sensitivity.effects) sum += effect.saves;
  return sum;
}

std::string percent_text(double percent) { return fmt::format("{:.3g} %", percent); }

Json effect_json(const ResourceEffect& effect) {
  Json json = {{"resource", effect.key}, {"name", effect.name}};
  if (!effect.before.empty()) {
    json["before"] = effect.before;
    json["after"] = effect.after;
  }
  json["step_s"] = effect.replanned_s;
  json["saves"] = effect.saves;
  json["step_if_kept_s"] = effect.kept_s ? Json(*effect.kept_s) : Json(nullptr);
  json["saves_if_kept"] = effect.saves_kept ? Json(*effect.saves_kept) : Json(nullptr);
  if (!effect.strategy.empty()) json["strategy"] = effect.strategy;
  return json;
}

}  // namespace

std::string saved_percent(double share) { return fmt::format("{:.1f} %", std::abs(share) < kSame ? 0.0 : 100 * share); }

std::string sensitivity_title(const Sensitivity& sensitivity) {
  return fmt::format("What {0} more would buy (of latencies and host time: {0} less)",
                     percent_text(sensitivity.percent));
}

std::string binding_text(const Sensitivity& sensitivity) {
  const ResourceEffect& most = sensitivity.effects[sensitivity.binding];
  if (most.saves < kSame) return "Nothing binds: no resource alone shortens the step.";
  std::string text = fmt::format("What binds most: {}; that saves {} of a step", most.name, saved_percent(most.saves));
  if (most.saves_kept && most.saves - *most.saves_kept > kSame) {
    text += fmt::format(", {} with the plan as it is", saved_percent(*most.saves_kept));
  }
  return text + ".";
}

std::string sum_text(const Sensitivity& sensitivity) {
  const double alone = sum_of_saves(sensitivity), together = sensitivity.together.saves;
  const double most = 1 - 1 / (1 + sensitivity.percent / 100);
  std::string text = fmt::format(
      "Of {} more of everything a step can save {} (latencies {}). One by one the resources save {}, all at once {}",
      percent_text(sensitivity.percent), saved_percent(most), saved_percent(sensitivity.percent / 100),
      saved_percent(alone), saved_percent(together));
  if (alone < together - kSame) {
    text += ": some help only together, because work that hides behind other work appears when that gets shorter.";
  } else if (alone > together + kSame) {
    text += ": what they save overlaps, because the same wait or the same plan is bought by more than one.";
  } else {
    text += ": they add up.";
  }
  if (together < most - kSame) text += " What is left takes its time on any machine: constants of a step.";
  return text;
}

std::string sensitivity_text(const Sensitivity& sensitivity, const Style& style) {
  std::string text = style.paint(Ink::strong, sensitivity_title(sensitivity)) + "\n";
  Table table({{"resource", Align::left},
               {"now", Align::right},
               {"saves", Align::right},
               {"", Align::left, false, Ink::accent},
               {"same plan", Align::right}});
  std::string otherwise;
  const auto add = [&](const ResourceEffect& effect) {
    const double share = std::clamp(effect.saves / (sensitivity.percent / 100), 0.0, 1.0);
    table.add({effect.name, effect.before, saved_percent(effect.saves), bar(share, kBarColumns),
               effect.saves_kept ? saved_percent(*effect.saves_kept) : "-"});
    if (!effect.strategy.empty()) otherwise += wrap_after(fmt::format("  {}: ", effect.name), effect.strategy) + "\n";
  };
  for (const ResourceEffect& effect : sensitivity.effects) add(effect);
  add(sensitivity.together);
  text += table.render(style);
  if (!otherwise.empty()) text += "Other plans:\n" + otherwise;
  const std::string judge = sensitivity.judge == PlanJudge::simulation ? "executed" : "by the formula";
  text +=
      wrap_after("", fmt::format("{} {} Of {} per step, {}, by {}.", binding_text(sensitivity), sum_text(sensitivity),
                                 format_duration(sensitivity.step_s), judge, sensitivity.strategy));
  return text + "\n";
}

Json sensitivity_json(const Sensitivity& sensitivity) {
  Json json = {{"percent", sensitivity.percent},
               {"judge", sensitivity.judge == PlanJudge::simulation ? "simulation" : "formula"},
               {"step_s", sensitivity.step_s},
               {"strategy", sensitivity.strategy},
               {"binding", sensitivity.effects[sensitivity.binding].key}};
  json["resources"] = Json::array();
  for (const ResourceEffect& effect : sensitivity.effects) json["resources"].push_back(effect_json(effect));
  json["together"] = effect_json(sensitivity.together);
  json["sum_of_saves"] = sum_of_saves(sensitivity);
  json["text"] = binding_text(sensitivity) + " " + sum_text(sensitivity);
  return json;
}

}  // namespace nest::report
