#include "report/plan_why.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/layout.h"
#include "base/units.h"
#include "cluster/reach.h"
#include "groups/rank_groups.h"
#include "nest/interval.h"
#include "plan/strategy_text.h"
#include "report/table.h"

namespace nest::report {

std::string placement_text(const Plan& plan, const cluster::Cluster& cluster) {
  const Strategy& s = plan.strategy;
  if (cluster.torus) return {};
  const groups::RankGroups ranks(s);
  std::string text;
  const auto line = [&](const char* name, std::int64_t degree, groups::Kind kind) {
    if (degree < 2) return;
    cluster::Reach reach;
    const std::int64_t stages = kind == groups::Kind::pipeline ? 1 : ranks.stages();
    for (std::int64_t stage = 0; stage < stages; ++stage)
      reach.add(cluster::reach_of(cluster, ranks.groups(kind, stage)));
    text += fmt::format("  {:<9}{:>6}   {}\n", name, format_integer(degree), reach.text(cluster));
  };
  line("tensor", s.split.tp, groups::Kind::tensor);
  line("context", s.split.cp, groups::Kind::context);
  line("expert", s.split.ep, groups::Kind::expert);
  line("pipeline", s.pp, groups::Kind::pipeline);
  line("data", s.dp, groups::Kind::data);
  if (s.split.ep > 1) line("edp", s.edp(), groups::Kind::expert_data);
  const std::int64_t idle = cluster.devices - s.devices_used();
  if (idle > 0)
    text += fmt::format("  {} of {} devices stay idle\n", format_integer(idle), format_integer(cluster.devices));
  return text;
}

std::string searched_text(const SearchRecord& search) {
  return search.target.empty() ? "within the search space"
                               : fmt::format("among what {} can run", search.target_version);
}

std::string tie_text(const SearchRecord& search) {
  std::string text = fmt::format("Within {:.2g} % of the proven optimum", 100 * search.tie);
  if (!search.target.empty()) text += " " + searched_text(search);
  if (!search.simpler.empty()) text += fmt::format(", which has {}", search.simpler);
  return text + fmt::format(": {}, {}.", format_duration(search.fastest_s), search.fastest);
}

// What no execution undercuts.
std::string bound_text(const ExecutionRecord& execution) {
  if (execution.least_s <= 0) return {};
  std::string text = fmt::format(" No plan takes less than {} there", format_duration(execution.least_s));
  if (execution.certain) text += ": none is 1 % faster";
  return text + ".";
}

std::string execution_text(const SearchRecord& search) {
  const ExecutionRecord& execution = *search.execution;
  std::string text = fmt::format(
      "The fastest{} when executed on the simulated network{}, {}. {}, the formula's optimum, is estimated at {} and "
      "takes "
      "{} "
      "there. Of {} plans that the formula estimates about as low or lower {} were executed, the bounds of {} exceed "
      "this "
      "one.",
      search.target.empty() ? "" : " " + searched_text(search),
      execution.runs > 0 ? fmt::format(" (mean of {} runs with noise)", execution.runs) : "",
      format_duration(execution.simulated_s), execution.formula, format_duration(execution.formula_s),
      format_duration(execution.formula_simulated_s), format_integer(execution.executed + execution.bounded),
      format_integer(execution.executed), format_integer(execution.bounded));
  if (!execution.complete && !execution.certain) text += " There are more of them, which were not looked at.";
  return text + bound_text(execution);
}

std::string certificate_text(const Plan& plan) {
  if (!plan.search) return {};
  const SearchRecord& search = *plan.search;
  const std::string effort =
      fmt::format("{} candidates, {} opened, {:.2f} s", format_integer(static_cast<std::int64_t>(search.candidates)),
                  format_integer(search.opened), search.wall_s);
  if (search.execution && !search.execution->formula.empty()) {
    return wrap_after("", execution_text(search) + fmt::format(" {}. Checked independently: ok.", effort));
  }
  const std::string executed = search.execution
                                   ? fmt::format(" Simulated: {}.", format_duration(search.execution->simulated_s)) +
                                         bound_text(*search.execution)
                                   : "";
  if (search.optimal && !search.fastest.empty()) {
    return wrap_after("", tie_text(search) + fmt::format(" {}.{} Checked independently: ok.", effort, executed));
  }
  if (search.optimal) {
    return wrap_after("", fmt::format("Proven optimal {}: {}.{} Checked independently: ok.", searched_text(search),
                                      effort, executed));
  }
  return wrap_after("", fmt::format("Stopped early: {}. No plan is faster than {}. Checked independently: ok.", effort,
                                    format_duration(search.lower_bound_s)));
}

namespace {

// What fits of a list, in whole words: its last parts are left out first.
std::string shortened(std::string text, std::size_t room) {
  while (display_width(text) > room) {
    const std::size_t end = text.find_last_of(";,");
    if (end == std::string::npos) break;
    text.resize(end);
  }
  return text;
}

}  // namespace

std::string why_verdict(const WhyNot& why) {
  switch (why.outcome) {
    case WhyOutcome::slower: return fmt::format("+{:.1f} %", 100 * why.excess);
    case WhyOutcome::not_worse: return "+0.0 %";
    case WhyOutcome::no_plan: return "does not fit";
    case WhyOutcome::unknown: return why.excess < 5e-4 ? "" : fmt::format("> +{:.1f} %", 100 * why.excess);
  }
  return {};
}

std::string why_text(const std::vector<WhyNot>& whys, const Style& style) {
  Table table({{"Why not …", Align::left}, {"", Align::right}, {"sure", Align::right}, {"", Align::left, true}});
  std::size_t name = 0, verdict = 0;
  for (const WhyNot& why : whys) {
    if (why_verdict(why).empty()) continue;
    name = std::max(name, display_width(why.name));
    verdict = std::max(verdict, display_width(why_verdict(why)));
  }
  constexpr std::size_t kMargins = 12;  // indent, gaps between columns, and how sure it is
  const std::size_t taken = std::min(kLineWidth, name + verdict + kMargins);
  for (const WhyNot& why : whys) {
    if (why_verdict(why).empty()) continue;
    const std::string sure = why.slower > 0 ? sure_text(why.slower) : "";
    table.add({why.name, why_verdict(why), sure, shortened(why.reason, kLineWidth - taken)});
  }
  return table.empty() ? std::string() : table.render(style);
}

Json why_json(const std::vector<WhyNot>& whys) {
  Json list = Json::array();
  for (const WhyNot& why : whys) {
    Json entry = {{"name", why.name}};
    entry["outcome"] = why.outcome == WhyOutcome::no_plan   ? "no_plan"
                       : why.outcome == WhyOutcome::unknown ? "unknown"
                                                            : "slower";
    if (why.outcome != WhyOutcome::no_plan) entry["excess"] = why.excess;
    if (!why.reason.empty()) entry["reason"] = why.reason;
    if (why.plan) {
      entry["strategy"] = plan::strategy_text(why.plan->strategy);
      entry["iteration_s"] = why.plan->prediction.iteration_s;
      if (why.slower > 0) entry["probability_slower"] = why.slower;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace nest::report
