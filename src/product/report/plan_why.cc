#include "report/plan_why.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "cluster/reach.h"
#include "groups/rank_groups.h"
#include "report/layout.h"
#include "report/table.h"

namespace nest {

std::string placement_text(const Plan& plan, const Cluster& cluster) {
  const Strategy& s = plan.strategy;
  if (cluster.torus) return {};
  const groups::RankGroups ranks(s);
  std::string text;
  const auto line = [&](const char* name, std::int64_t degree, groups::Kind kind) {
    if (degree < 2) return;
    Reach reach;
    const std::int64_t stages = kind == groups::Kind::pipeline ? 1 : ranks.stages();
    for (std::int64_t stage = 0; stage < stages; ++stage) reach.add(reach_of(cluster, ranks.groups(kind, stage)));
    text += fmt::format("  {:<9}{:>6}   {}\n", name, format_integer(degree), reach.text(cluster));
  };
  line("tensor", s.split.tp, groups::Kind::tensor);
  line("context", s.split.cp, groups::Kind::context);
  line("expert", s.split.ep, groups::Kind::expert);
  line("pipeline", s.pp, groups::Kind::pipeline);
  line("data", s.dp, groups::Kind::data);
  const std::int64_t idle = cluster.devices - s.devices_used();
  if (idle > 0)
    text += fmt::format("  {} of {} devices stay idle\n", format_integer(idle), format_integer(cluster.devices));
  return text;
}

std::string certificate_text(const Plan& plan) {
  if (!plan.search) return {};
  const SearchRecord& search = *plan.search;
  const std::string effort =
      fmt::format("{} candidates, {} opened, {:.2f} s", format_integer(static_cast<std::int64_t>(search.candidates)),
                  format_integer(search.opened), search.wall_s);
  if (search.optimal) {
    return wrap_after("",
                      fmt::format("Proven optimal within the search space: {}. Checked independently: ok.", effort));
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

std::string why_text(const std::vector<WhyLine>& lines, const Style& style) {
  if (lines.empty()) return {};
  Table table({{"Why not …", Align::left}, {"", Align::right}, {"", Align::left, true}});
  std::size_t name = 0, verdict = 0;
  for (const WhyLine& line : lines) {
    name = std::max(name, display_width(line.name));
    verdict = std::max(verdict, display_width(line.verdict));
  }
  constexpr std::size_t kMargins = 6;  // indent and the gaps between columns
  const std::size_t taken = std::min(kLineWidth, name + verdict + kMargins);
  for (const WhyLine& line : lines) {
    table.add({line.name, line.verdict, shortened(line.detail, kLineWidth - taken)});
  }
  return table.render(style);
}

}  // namespace nest
