// Pools side by side, for people and for programs.
#include <fmt/format.h>

#include "base/error.h"
#include "base/layout.h"
#include "base/text.h"
#include "base/units.h"
#include "door/job_data.h"
#include "door/plan_reports.h"
#include "nest/interval.h"
#include "nest/pools.h"
#include "plan/strategy_text.h"
#include "report/json.h"
#include "report/table.h"

namespace nest {
namespace {

std::string best_for(const PoolsAnswer& answer, std::size_t pool) {
  const char* cost = answer.is_priced ? "cost" : "hours";  // a line of 80 columns has no room for device-hours
  if (answer.fastest != pool) return answer.cheapest == pool ? cost : "";
  return answer.cheapest == pool ? fmt::format("time, {}", cost) : "time";
}

std::string pools_headline(const PoolsAnswer& answer) {
  if (!answer.chosen)
    return fmt::format("No plan fits on any of the {} pools of {}.", answer.pools.size(), answer.name);
  const PlannedPool& fastest = answer.pools[*answer.fastest];
  const PlannedPool& cheapest = answer.pools[*answer.cheapest];
  const char* measure = answer.is_priced ? "cheapest" : "of fewest device-hours";
  if (answer.fastest == answer.cheapest)
    return fmt::format("Of the {} pools of {}, {} ({}) is the fastest and {}.", answer.pools.size(), answer.name,
                       fastest.name, fastest.device, measure);
  return fmt::format(
      "Of the {} pools of {}, {} ({}) is the fastest and {} ({}) {}: {:.2f} of the {}, {:.2f} times the time.",
      answer.pools.size(), answer.name, fastest.name, fastest.device, cheapest.name, cheapest.device,
      answer.is_priced ? "the cheapest" : "takes the fewest device-hours",
      answer.is_priced ? cheapest.cost_per_gtoken / fastest.cost_per_gtoken
                       : cheapest.device_hours_per_gtoken / fastest.device_hours_per_gtoken,
      answer.is_priced ? "cost" : "device-hours", fastest.tokens_per_s / cheapest.tokens_per_s);
}

constexpr const char* kAlone = "Each pool is planned alone; pipelines across kinds of devices are not looked for.";

std::string pool_cost(const PlannedPool& pool) {
  return pool.price_per_device_hour > 0 ? fmt::format("{:.1f}", pool.cost_per_gtoken) : "-";
}

std::string pools_table(const PoolsAnswer& answer, const Style& style) {
  using report::Align;
  report::Table table({{"pool", Align::left, true, Ink::strong},
                       {"devices", Align::left},
                       {"per step"},
                       {"tokens/s"},
                       {"hours/Gtok"},
                       {"cost/Gtok"},
                       {"best for", Align::left}});
  for (std::size_t k = 0; k < answer.pools.size(); ++k) {
    const PlannedPool& pool = answer.pools[k];
    const std::string devices = fmt::format("{} x {}", format_integer(pool.devices), pool.device);
    const Plan* plan = pool.plan();
    if (plan == nullptr) {
      table.add({pool.name, devices, "-", "-", "-", "-", "-"});
      continue;
    }
    const Prediction& expected = plan->expected();
    table.add({pool.name, devices,
               fmt::format("{} {}", format_duration(expected.iteration_s), sureness(expected.spread)),
               format_count(pool.tokens_per_s), fmt::format("{:.1f}", pool.device_hours_per_gtoken), pool_cost(pool),
               best_for(answer, k)});
  }
  std::string text = table.render(style) + "\n";
  for (const PlannedPool& pool : answer.pools) {
    const Plan* plan = pool.plan();
    const std::string said =
        plan == nullptr ? pool.note
                        : fmt::format("{}, {} of {} devices, {}", plan::strategy_text(plan->strategy),
                                      format_integer(plan->strategy.devices_used()), format_integer(pool.devices),
                                      format_bytes(plan->prediction.peak_memory_bytes));
    text += wrap_after(fmt::format("  {}  ", pool.name), said) + "\n";
  }
  return text;
}

report::Json pools_json(const PoolsAnswer& answer) {
  report::Json json = {{"name", answer.name}, {"priced", answer.is_priced}, {"pools", report::Json::array()}};
  if (answer.chosen) {
    json["fastest"] = answer.pools[*answer.fastest].name;
    json["cheapest"] = answer.pools[*answer.cheapest].name;
    json["chosen"] = answer.pools[*answer.chosen].name;
  }
  for (const PlannedPool& pool : answer.pools) {
    report::Json row = {{"name", pool.name}, {"device", pool.device}, {"devices", pool.devices}};
    if (pool.price_per_device_hour > 0) row["price"] = pool.price_per_device_hour;
    if (!pool.note.empty()) row["note"] = pool.note;
    if (const Plan* plan = pool.plan()) {
      row["strategy"] = plan::strategy_text(plan->strategy);
      row["devices_used"] = plan->strategy.devices_used();
      row["iteration_s"] = plan->expected().iteration_s;
      row["tokens_per_s"] = pool.tokens_per_s;
      row["device_hours_per_gtoken"] = pool.device_hours_per_gtoken;
      if (pool.price_per_device_hour > 0) row["cost_per_gtoken"] = pool.cost_per_gtoken;
      row["proven"] = pool.answer->outcome == PlanOutcome::optimal;
    }
    json["pools"].push_back(std::move(row));
  }
  return json;
}

// Where nothing fits: the one with most memory, whose answer says what lacks.
const PlannedPool& roomiest(const PoolsAnswer& answer) {
  const PlannedPool* found = nullptr;
  double most = -1;
  for (const PlannedPool& pool : answer.pools) {
    if (!pool.answer) continue;
    const double bytes =
        static_cast<double>(pool.devices) * static_cast<double>(pool.answer->job.device_memory_bytes());
    if (bytes <= most) continue;
    most = bytes;
    found = &pool;
  }
  NEST_CHECK(found != nullptr, "a pool was searched");
  return *found;
}

const PlannedPool& told_pool(const PoolsAnswer& answer) {
  return answer.chosen ? answer.pools[*answer.chosen] : roomiest(answer);
}

ReportOptions at_pool_price(const PlannedPool& pool, ReportOptions options) {
  if (options.price_per_device_hour == 0) options.price_per_device_hour = pool.price_per_device_hour;
  return options;
}

html::HtmlSection pools_section(const PoolsAnswer& answer) {
  html::Markup body;
  body.element("p", pools_headline(answer), {{"class", "lead"}});
  body.element("p", kAlone);
  html::HtmlTable table("Pools",
                        {{"pool", false},
                         {"devices", false},
                         {"plan", false},
                         {"per step"},
                         {"tokens/s"},
                         {"device-hours per billion tokens"},
                         {"cost per billion tokens"},
                         {"best for", false}},
                        "pools-table");
  for (std::size_t k = 0; k < answer.pools.size(); ++k) {
    const PlannedPool& pool = answer.pools[k];
    const Plan* plan = pool.plan();
    std::vector<std::string> row = {pool.name, fmt::format("{} x {}", format_integer(pool.devices), pool.device),
                                    plan == nullptr ? pool.note : plan::strategy_text(plan->strategy)};
    if (plan != nullptr) {
      const Prediction& expected = plan->expected();
      row.insert(row.end(), {fmt::format("{} {}", format_duration(expected.iteration_s), sureness(expected.spread)),
                             format_count(pool.tokens_per_s), fmt::format("{:.1f}", pool.device_hours_per_gtoken),
                             pool_cost(pool), best_for(answer, k)});
    } else {
      row.resize(8, "-");
    }
    table.add(row);
  }
  body.add(table.markup());
  return {"pools", "Pools", std::move(body)};
}

}  // namespace

std::string to_text(const PoolsAnswer& answer, const ReportOptions& options) {
  const PlannedPool& pool = told_pool(answer);
  const std::string stopped = answer.is_stopped ? " Not all searches were finished: plans are the best so far." : "";
  std::string text = wrap_after("", pools_headline(answer)) + "\n\n" + pools_table(answer, options.style) + "\n" +
                     wrap_after("", kAlone + stopped) + "\n\n";
  if (answer.chosen) text += fmt::format("On {}:\n\n", pool.name);
  return text + to_text(*pool.answer, at_pool_price(pool, options));
}

std::string to_json(const PoolsAnswer& answer, const ReportOptions& options) {
  const PlannedPool& pool = told_pool(answer);
  report::Json json = report::Json::parse(to_json(*pool.answer, at_pool_price(pool, options)));
  json["pools"] = pools_json(answer);
  return report::to_text(json);
}

std::string to_html(const PoolsAnswer& answer, const ReportOptions& options) {
  const PlannedPool& pool = told_pool(answer);
  if (!answer.chosen) return to_html(*pool.answer, options);
  html::PlanPage page;
  page.why_not = pool.answer->why_not;
  page.next_best.assign(pool.answer->plans.begin() + 1, pool.answer->plans.end());
  page.first.push_back(pools_section(answer));
  return plan_page_text(pool.answer->plans.front(), unwrap(pool.answer->job), at_pool_price(pool, options),
                        std::move(page));
}

}  // namespace nest
