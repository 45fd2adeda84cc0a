#include "report/plan_why.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "plan/strategy_text.h"
#include "report/layout.h"
#include "report/table.h"

namespace nest {
namespace {

constexpr std::int64_t kMostReplicas = 512;  // looked at; positions repeat

// The outermost level that messages between pairs of devices climb to.
class Reach {
 public:
  explicit Reach(const Cluster& cluster) : cluster_(cluster) {}

  void add(std::int64_t a, std::int64_t b) {
    if (a == b) return;
    any_ = true;
    level_ = std::max(level_, cluster_.fabric.level_between(a, b));
  }
  std::string text() const {
    if (!any_) return "on one device";
    return fmt::format("inside a {}", cluster_.levels[level_].name);
  }

 private:
  const Cluster& cluster_;
  std::size_t level_ = 0;
  bool any_ = false;
};

}  // namespace

std::string placement_text(const Plan& plan, const Cluster& cluster) {
  const Strategy& s = plan.strategy;
  if (cluster.torus) return {};
  const std::int64_t a = s.devices_per_stage();
  Reach tensor(cluster), context(cluster), expert(cluster), pipeline(cluster), data(cluster);
  for (std::int64_t r = 0; r < std::min(s.dp, kMostReplicas); ++r) {
    for (std::int64_t stage = 0; stage < s.pp; ++stage) {
      const std::int64_t first = device_of(s, r, stage, 0);
      for (std::int64_t q = 0; q < a; q += s.split.tp) tensor.add(first + q, first + q + s.split.tp - 1);
      const std::int64_t ring = s.split.tp * s.split.cp;
      for (std::int64_t q = 0; q < a; q += ring) context.add(first + q, first + q + ring - s.split.tp);
      expert.add(first, first + a - ring);
      data.add(device_of(s, 0, stage, 0), first);
      if (stage + 1 == s.pp) continue;
      pipeline.add(first, device_of(s, r, stage + 1, 0));
      pipeline.add(first + a - 1, device_of(s, r, stage + 1, a - 1));
    }
  }
  std::string text;
  const auto line = [&](const char* name, std::int64_t degree, const Reach& reach) {
    if (degree > 1) text += fmt::format("  {:<9}{:>6}   {}\n", name, format_integer(degree), reach.text());
  };
  line("tensor", s.split.tp, tensor);
  line("context", s.split.cp, context);
  line("expert", s.split.ep, expert);
  line("pipeline", s.pp, pipeline);
  line("data", s.dp, data);
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
  Table table({{"Why not …", Align::left}, {"", Align::right}, {"", Align::left, true}});
  std::size_t name = 0, verdict = 0;
  for (const WhyNot& why : whys) {
    if (why_verdict(why).empty()) continue;
    name = std::max(name, display_width(why.name));
    verdict = std::max(verdict, display_width(why_verdict(why)));
  }
  constexpr std::size_t kMargins = 6;  // indent and the gaps between columns
  const std::size_t taken = std::min(kLineWidth, name + verdict + kMargins);
  for (const WhyNot& why : whys) {
    if (why_verdict(why).empty()) continue;
    table.add({why.name, why_verdict(why), shortened(why.reason, kLineWidth - taken)});
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
      entry["strategy"] = strategy_text(why.plan->strategy);
      entry["iteration_s"] = why.plan->prediction.iteration_s;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace nest
