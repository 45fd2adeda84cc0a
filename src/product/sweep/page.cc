#include "sweep/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "html/colour.h"
#include "html/page.h"
#include "sweep/charts.h"
#include "sweep/tables.h"
#include "sweep/view.h"

namespace nest::sweep {
namespace {

using html::Markup;

constexpr std::size_t kMostDrawings = 24;  // of one section
constexpr std::size_t kMostRows = 3000;    // of the table of all points
constexpr std::size_t kMostPanels = 3000;  // with a plan of their own in the page
constexpr std::int64_t kShades = 64;
constexpr std::size_t kLongestStudy = 20000;  // characters that are shown

// Everything that the sections draw from.
struct View {
  explicit View(const PageInput& page)
      : input(page),
        results(*page.results),
        study(results.study),
        money(has_prices(results)),
        tasks(tasks_of(results)),
        roles(roles_of(study)) {
    for (const Task& task : tasks) {
      for (const SweepResult* result : front_of(task, money)) on_front.insert(result->point);
    }
    // Where not all points can be opened, those on a front can.
    for (const std::int64_t point : on_front) {
      if (opened.size() < kMostPanels) opened.insert(point);
    }
    for (const SweepResult& result : results.points) {
      if (opened.size() < kMostPanels) opened.insert(result.point);
    }
  }

  std::string address(const SweepResult& result) const {
    return opened.contains(result.point) ? "#" + panel_id(result.point) : std::string();
  }
  std::string title(const SweepResult& r) const {
    const std::string label = point_label(study, r.point);
    if (!r.has_plan) return fmt::format("{}: {}", label, r.reason);
    return fmt::format("{}: {} per step, {} tokens/s, MFU {}, {}", label, format_duration(r.step_s),
                       format_count(r.tokens_per_s), format_percent(r.mfu), r.strategy);
  }

  const PageInput& input;
  const SweepResults& results;
  const Study& study;
  bool money;
  std::vector<Task> tasks;
  Roles roles;
  std::set<std::int64_t> on_front, opened;
};

// Points by the values of all drawn axes but some: one drawing each.
struct Panel {
  std::string title;
  std::vector<const SweepResult*> points;
};

std::vector<Panel> panels_of(const View& view, const std::vector<std::size_t>& inside) {
  const Study& study = view.study;
  std::vector<std::size_t> outside;
  const std::vector<std::size_t> axes = drawn_axes(study);
  for (const std::size_t a : axes) {
    if (std::find(inside.begin(), inside.end(), a) == inside.end()) outside.push_back(a);
  }
  std::vector<std::size_t> unsaid;
  for (std::size_t a = 0; a < study.axes.size(); ++a) {
    if (std::find(outside.begin(), outside.end(), a) == outside.end()) unsaid.push_back(a);
  }
  std::vector<Panel> panels;
  std::map<std::vector<std::size_t>, std::size_t> known;
  std::set<std::vector<std::size_t>> drawn;  // points that differ in price or tokens alone lie on each other
  for (const SweepResult& result : view.results.points) {
    const std::vector<std::size_t> choice = study.choice(result.point);
    std::vector<std::size_t> key, place;
    key.reserve(outside.size());
    place.reserve(axes.size());
    for (const std::size_t a : outside) key.push_back(choice[a]);
    for (const std::size_t a : axes) place.push_back(choice[a]);
    if (!drawn.insert(place).second) continue;
    const auto [at, is_new] = known.emplace(std::move(key), panels.size());
    if (is_new) panels.push_back({point_label(study, result.point, unsaid), {}});
    panels[at->second].points.push_back(&result);
  }
  return panels;
}

void say_left_out(Markup& out, std::size_t all) {
  if (all <= kMostDrawings) return;
  out.element("p", fmt::format("The first {} of {} drawings; all points are in the table.", kMostDrawings, all),
              {{"class", "muted"}});
}

// Where a value of the x axis is drawn: where its number is, or in its turn.
double x_of(const SweepAxis& axis, std::size_t value) {
  return axis.values[value].number.value_or(static_cast<double>(value));
}

Markup curves_section(const View& view) {
  const std::size_t x_axis = *view.roles.x;
  const SweepAxis& along = view.study.axes[x_axis];
  const bool numbers =
      std::all_of(along.values.begin(), along.values.end(), [](const SweepValue& value) { return value.number; });
  std::vector<std::size_t> inside = {x_axis};
  if (view.roles.series) inside.push_back(*view.roles.series);
  const std::vector<Panel> panels = panels_of(view, inside);
  Markup out, legend;
  out.element(
      "p",
      fmt::format("Tokens per second over {}{}. A mark opens its plan; a cross is a point without one.",
                  short_name(along.name),
                  view.roles.series ? ", a line for each " + short_name(view.study.axes[*view.roles.series].name) : ""),
      {{"class", "lead"}});
  if (view.roles.series) {
    legend.open("p", {{"class", "legend"}});
    for (std::size_t v = 0; v < view.study.axes[*view.roles.series].values.size(); ++v) {
      legend.add(series_key(static_cast<int>(v), value_label(view.study, *view.roles.series, v)));
    }
    out.add(legend.close());
  }
  out.open("div", {{"class", "charts"}});
  for (std::size_t k = 0; k < std::min(panels.size(), kMostDrawings); ++k) {
    Chart chart;
    chart.label = fmt::format("Tokens per second over {}; {}", short_name(along.name), panels[k].title);
    chart.x_title = short_name(along.name);
    chart.y_title = "tokens/s";
    std::vector<std::pair<double, std::string>> ticks;
    for (std::size_t v = 0; v < along.values.size(); ++v) {
      ticks.emplace_back(x_of(along, v), numbers && along.values[v].is_plain ? short_number(x_of(along, v))
                                                                             : clip(along.values[v].text, 16));
    }
    std::sort(ticks.begin(), ticks.end());
    for (auto& [x, name] : ticks) {
      chart.x_ticks.push_back(x);
      chart.x_tick_names.push_back(name);
    }
    std::map<std::size_t, Series> series;
    for (const SweepResult* result : panels[k].points) {
      const std::vector<std::size_t> choice = view.study.choice(result->point);
      const Mark mark{x_of(along, choice[x_axis]), result->tokens_per_s, view.address(*result), view.title(*result)};
      if (!result->has_plan) {
        chart.missing.push_back(mark);
        continue;
      }
      const std::size_t which = view.roles.series ? choice[*view.roles.series] : 0;
      series[which].marks.push_back(mark);
    }
    for (auto& [which, line] : series) {
      line.style = static_cast<int>(which);
      line.line = numbers;
      std::sort(line.marks.begin(), line.marks.end(), [](const Mark& a, const Mark& b) { return a.x < b.x; });
      chart.series.push_back(std::move(line));
    }
    out.open("figure", {{"class", "chart"}}).element("figcaption", panels[k].title).add(draw(chart)).close();
  }
  out.close();
  say_left_out(out, panels.size());
  return out;
}

Markup heat_table(const View& view, const Panel& panel, double low, double high) {
  const SweepAxis& across = view.study.axes[*view.roles.x];
  const SweepAxis& down = view.study.axes[*view.roles.y];
  std::map<std::pair<std::size_t, std::size_t>, const SweepResult*> cells;
  for (const SweepResult* result : panel.points) {
    const std::vector<std::size_t> choice = view.study.choice(result->point);
    cells[{choice[*view.roles.y], choice[*view.roles.x]}] = result;
  }
  Markup out;
  out.open("div", {{"class", "scroll"},
                   {"role", "region"},
                   {"tabindex", "0"},
                   {"aria-label",
                    fmt::format("MFU by {} and {}; {}", short_name(down.name), short_name(across.name), panel.title)}});
  out.open("table", {{"class", "heat"}}).open("thead").open("tr");
  out.element("th", fmt::format("{} \\ {}", short_name(down.name), short_name(across.name)), {{"scope", "col"}});
  for (const SweepValue& value : across.values) out.element("th", clip(value.text, 24), {{"scope", "col"}});
  out.close().close().open("tbody");
  for (std::size_t y = 0; y < down.values.size(); ++y) {
    out.open("tr").element("th", clip(down.values[y].text, 24), {{"scope", "row"}});
    for (std::size_t x = 0; x < across.values.size(); ++x) {
      const auto found = cells.find({y, x});
      if (found == cells.end()) {
        out.element("td", "");
        continue;
      }
      const SweepResult& result = *found->second;
      const std::string address = view.address(result);
      const std::string text = result.has_plan ? fmt::format("{:.1f}", 100 * result.mfu) : "–";
      const double share = high > low ? (result.mfu - low) / (high - low) : 1;
      const html::Colour colour =
          html::stage_colour(static_cast<std::int64_t>(share * static_cast<double>(kShades - 1)), kShades);
      if (result.has_plan) {
        out.open("td", {{"style", fmt::format("background:{};color:{}", html::to_hex(colour),
                                              html::to_hex(html::ink_on(colour)))}});
      } else {
        out.open("td", {{"class", "hollow"}});
      }
      if (address.empty()) {
        out.element("span", text, {{"title", view.title(result)}});
      } else {
        out.element("a", text, {{"href", address}, {"title", view.title(result)}});
      }
      out.close();
    }
    out.close();
  }
  return out.close().close().close();
}

Markup heat_section(const View& view) {
  const std::vector<Panel> panels = panels_of(view, {*view.roles.x, *view.roles.y});
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const SweepResult& result : view.results.points) {
    if (!result.has_plan) continue;
    low = std::min(low, result.mfu);
    high = std::max(high, result.mfu);
  }
  Markup out;
  out.element(
      "p",
      fmt::format("Model FLOP utilisation in percent, light where it is high: {} across, {} down. A dash: no plan "
                  "fits, or none can be asked for.",
                  short_name(view.study.axes[*view.roles.x].name), short_name(view.study.axes[*view.roles.y].name)),
      {{"class", "lead"}});
  out.open("div", {{"class", "heats"}});
  for (std::size_t k = 0; k < std::min(panels.size(), kMostDrawings); ++k) {
    out.open("figure").element("figcaption", panels[k].title).add(heat_table(view, panels[k], low, high)).close();
  }
  out.close();
  say_left_out(out, panels.size());
  return out;
}

Markup name_link(const View& view, const SweepResult& result) {
  Markup out;
  const std::string address = view.address(result), number = format_integer(result.point);
  return address.empty() ? out.text(number) : out.element("a", number, {{"href", address}});
}

html::HtmlTable points_table(const View& view, const std::string& label) {
  std::vector<html::HtmlTable::Column> columns = {{"point"}};
  for (const SweepAxis& axis : view.study.axes)
    columns.push_back({short_name(axis.name), axis.values.front().number.has_value()});
  columns.insert(columns.end(), {{"step"}, {"tokens/s"}, {"MFU %"}});
  columns.push_back({view.money ? "cost of a billion tokens" : "device-hours for a billion tokens"});
  columns.push_back({"plan", false});
  return html::HtmlTable(label, columns);
}

void add_row(const View& view, const SweepResult& r, html::HtmlTable& table) {
  std::vector<Markup> cells = {name_link(view, r)};
  const std::vector<std::size_t> choice = view.study.choice(r.point);
  const auto say = [&](const std::string& text) { cells.emplace_back().text(text); };
  for (std::size_t a = 0; a < choice.size(); ++a) say(clip(view.study.axes[a].values[choice[a]].text, 60));
  if (r.has_plan) {
    say(format_duration(r.step_s));
    say(format_count(r.tokens_per_s));
    say(fmt::format("{:.1f}", 100 * r.mfu));
    say(fmt::format("{:.4g}", cost_of(r, view.money)));
    say(r.strategy);
  } else {
    for (int k = 0; k < 4; ++k) say("–");
    say(clip(r.reason, 120));
  }
  table.add_cells(std::move(cells));
}

Markup front_section(const View& view) {
  const char* cost = view.money ? "cost of a billion tokens" : "device-hours for a billion tokens";
  Markup out;
  out.element("p",
              fmt::format("Speed against {}. On the line nobody is faster for less; the dots are all other points{}.",
                          view.money ? "cost" : "device-hours",
                          view.money ? "" : ". Hours of different devices count alike: give prices to compare them"),
              {{"class", "lead"}});
  out.open("div", {{"class", "charts"}});
  std::size_t drawn = 0;
  for (const Task& task : view.tasks) {
    if (drawn++ >= kMostDrawings) break;
    std::vector<const SweepResult*> front = front_of(task, view.money);
    if (front.empty()) continue;
    std::reverse(front.begin(), front.end());
    Chart chart;
    chart.label = fmt::format("Tokens per second over {}; {}", cost, task.title);
    chart.x_title = cost;
    chart.y_title = "tokens/s";
    Series others{"others", {}, false, std::nullopt, false}, best{"front", {}, true, 0, true};
    const auto mark = [&](const SweepResult& r) {
      return Mark{cost_of(r, view.money), r.tokens_per_s, view.address(r), view.title(r)};
    };
    for (const SweepResult* result : task.points) {
      if (result->has_plan && !view.on_front.contains(result->point)) others.marks.push_back(mark(*result));
    }
    best.marks.reserve(front.size());
    for (const SweepResult* result : front) best.marks.push_back(mark(*result));
    chart.series = {std::move(others), std::move(best)};
    out.open("figure", {{"class", "chart"}}).element("figcaption", task.title).add(draw(chart)).close();
  }
  out.close();
  say_left_out(out, view.tasks.size());
  html::HtmlTable table = points_table(view, "Points on the fronts");
  for (const Task& task : view.tasks) {
    std::vector<const SweepResult*> front = front_of(task, view.money);
    std::reverse(front.begin(), front.end());
    for (const SweepResult* result : front) add_row(view, *result, table);
  }
  return out.add(table.markup());
}

Markup points_section(const View& view) {
  html::HtmlTable table = points_table(view, "All points");
  const std::size_t shown = std::min(view.results.points.size(), kMostRows);
  for (std::size_t k = 0; k < shown; ++k) add_row(view, view.results.points[k], table);
  Markup out, body;
  body.add(table.markup());
  if (shown < view.results.points.size()) {
    body.element("p", fmt::format("The first {}; the others are in the database.", format_integer(kMostRows)),
                 {{"class", "muted"}});
  }
  return out.add(
      html::details(fmt::format("{} points, {}", format_integer(static_cast<std::int64_t>(view.results.points.size())),
                                outcomes_text(view.results)),
                    body));
}

Markup study_section(const View& view) {
  Markup out;
  if (!view.input.command.empty()) {
    std::vector<std::string> words = view.input.command;
    words.front() = "nest";
    out.element("h3", "Command line").element("pre", html::shell_line(words));
  }
  out.element("h3", "The study").element("pre", view.study.text.substr(0, kLongestStudy));
  return out;
}

Markup header_of(const View& view) {
  Markup out;
  out.element("p", "nest sweep", {{"class", "kicker"}}).element("h1", view.study.name);
  if (!view.study.description.empty()) out.element("p", clip(view.study.description, 1000), {{"class", "lead"}});
  const auto there = static_cast<std::int64_t>(view.results.points.size());
  const auto all = static_cast<std::int64_t>(view.study.points.size());
  std::int64_t plans = 0;
  for (const SweepResult& result : view.results.points) plans += result.has_plan ? 1 : 0;
  out.open("dl", {{"class", "figures"}});
  const auto figure = [&](const std::string& value, const std::string& name) {
    out.open("div").element("dt", name).element("dd", value).close();
  };
  figure(format_integer(there), there == all ? "points" : fmt::format("points of {}", format_integer(all)));
  figure(format_integer(plans), "with a plan");
  figure(format_integer(static_cast<std::int64_t>(view.on_front.size())), "on a front");
  figure(std::to_string(drawn_axes(view.study).size()), "axes drawn");
  out.close();
  if (there < all) {
    out.element("p", "Not all points are there yet; run the study again to go on.", {{"class", "over"}});
  }
  return out.element("p", outcomes_text(view.results) + ".", {{"class", "muted"}});
}

}  // namespace

std::string results_page(const PageInput& input) {
  const View view(input);
  html::HtmlPage page(fmt::format("{}: {} points", view.study.name, view.results.points.size()));
  page.set_style(std::string(kChartStyle) + kPanelStyle);
  page.set_header(header_of(view));
  if (view.roles.x && !view.results.points.empty()) page.add({"curves", "Curves", curves_section(view)});
  if (view.roles.x && view.roles.y && !view.results.points.empty()) {
    page.add({"heat", "Heat maps", heat_section(view)});
  }
  if (!view.on_front.empty()) page.add({"fronts", "Fronts", front_section(view)});
  page.add({"points", "All points", points_section(view)});
  page.add({"study", "Reproduce", study_section(view)});
  Markup footer;
  for (const SweepResult& result : view.results.points) {
    if (!view.opened.contains(result.point)) continue;
    footer.add(point_panel(view.results, result, result.has_plan ? input.plan(result.point) : std::string()));
  }
  footer.element("p",
                 fmt::format("nest {}. Predicted, not measured. This file holds everything it shows and loads nothing.",
                             input.version),
                 {{"class", "muted"}});
  page.set_footer(std::move(footer));
  return page.str();
}

}  // namespace nest::sweep
