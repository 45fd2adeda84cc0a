// One step on every stage: the pipeline's schedule over time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.h"
#include "html/pipeline_schedule.h"
#include "html/plan_sections.h"

namespace nest::html {
namespace {

constexpr std::size_t kMostRows = 16;
constexpr std::size_t kFewestRows = 6;
constexpr std::size_t kMostCells = 3200;       // drawn in all
constexpr std::size_t kCellsOfAWholeRow = 96;  // up to which a step is drawn without a break
constexpr std::size_t kTitledCells = 500;      // up to which every cell can be pointed at
constexpr double kWorthABreak = 0.4;           // share of a step that must be left out
constexpr double kMostAfter = 0.1;             // width of what follows the micro-batches, where others are left out
constexpr double kBreak = 0.03;                // width of the gap for what is left out
constexpr double kLabelled = 0.02;             // least width of a cell that shows its micro-batch
constexpr double kRowHeight = 22, kForwardHeight = 15;
constexpr double kSteadyShown = 3;  // micro-batches of the steady state on each side of the break

// From seconds of the played schedule to a place between 0 and 1: one stretch, or two with a break between.
class TimeAxis {
 public:
  TimeAxis(const PipelineSchedule& schedule, double slowest_s, double after_s, bool whole) : schedule_(schedule) {
    end_s_ = schedule.played_s + after_s;
    first_until_s_ = schedule.warm_up_s + kSteadyShown * slowest_s;
    last_from_s_ = schedule.played_s - schedule.drain_s - kSteadyShown * slowest_s;
    const double left_out_s = last_from_s_ - first_until_s_ + schedule.skipped_s;
    broken_ = !whole && first_until_s_ < last_from_s_ &&
              (schedule.skipped_s > 0 || left_out_s > kWorthABreak * schedule.played_s);
    const double shown_s = broken_ ? first_until_s_ + end_s_ - last_from_s_ : end_s_;
    scale_ = (broken_ ? 1 - kBreak : 1) / shown_s;
    if (broken_ && after_s * scale_ > kMostAfter) {  // what follows is not to scale then
      scale_ = (1 - kBreak - kMostAfter) / (shown_s - after_s);
      after_is_short_ = true;
    }
  }

  bool broken() const { return broken_; }
  double break_begin() const { return first_until_s_ * scale_; }
  double break_end() const { return break_begin() + kBreak; }
  double left_out_s() const { return broken_ ? last_from_s_ - first_until_s_ + schedule_.skipped_s : 0; }
  bool shows(double begin_s, double end_s) const {
    return !broken_ || end_s <= first_until_s_ || begin_s >= last_from_s_;
  }
  double place(double second) const {
    if (after_is_short_ && second > schedule_.played_s) return 1;
    if (!broken_ || second <= first_until_s_) return second * scale_;
    return break_end() + (std::max(second, last_from_s_) - last_from_s_) * scale_;
  }
  double end_s() const { return end_s_; }
  bool after_is_short() const { return after_is_short_; }

 private:
  const PipelineSchedule& schedule_;
  double end_s_ = 0, first_until_s_ = 0, last_from_s_ = 0, scale_ = 1;
  bool broken_ = false;
  bool after_is_short_ = false;
};

class Timeline {
 public:
  explicit Timeline(const PlanView& view)
      : view_(view),
        schedule_(play_schedule(view.strategy.schedule, view.strategy.virtual_stages, times_of(view),
                                view.micro_batches, view.strategy.group)),
        slowest_s_(slowest(view)),
        axis_(schedule_, slowest_s_, after_s(),
              2 * view.strategy.virtual_stages * view.micro_batches <= static_cast<std::int64_t>(kCellsOfAWholeRow)) {}

  Markup run() {
    choose_rows();
    Markup out;
    out.element("p", lead(), {{"class", "lead"}});
    out.open("figure", {{"class", "timeline"}});
    out.add(legend());
    out.open("div", {{"role", "img"}, {"aria-label", description()}});
    out.add(phases());
    for (const std::size_t stage : rows_) out.add(row(stage));
    out.add(ticks());
    out.close();
    out.element("figcaption", caption());
    out.close();
    return out.add(stage_times());
  }

 private:
  static std::vector<PassTimes> times_of(const PlanView& view) {
    std::vector<PassTimes> times;
    for (const StagePlan& stage : view.plan.stages) times.push_back(pass_times(stage));
    return times;
  }

  static double slowest(const PlanView& view) {
    double most = 0;
    for (const StagePlan& stage : view.plan.stages) most = std::max(most, stage.time.total);
    return most;
  }

  // What follows the last micro-batch.
  double after_s() const {
    const auto& parts = view_.plan.prediction.breakdown_s;
    return parts.grad_sync + parts.optimizer + parts.other;
  }

  bool pipelined() const { return view_.strategy.pp > 1; }
  double predicted_s() const { return view_.plan.prediction.iteration_s - after_s(); }

  std::string lead() const {
    const auto& parts = view_.plan.prediction.breakdown_s;
    const double step_s = view_.plan.prediction.iteration_s;
    const std::string batches =
        fmt::format("{} micro-batch{}", format_integer(view_.micro_batches), view_.micro_batches == 1 ? "" : "es");
    if (!pipelined()) {
      return fmt::format("Every replica works through {} of {} each, then gradients are exchanged and weights updated.",
                         batches, format_duration(slowest_s_));
    }
    return fmt::format(
        "Each pipeline works through {}; the slowest stage takes {} for one. Filling and draining the pipeline costs "
        "{}, {} of the step.",
        batches, format_duration(slowest_s_), format_duration(parts.bubble), format_percent(parts.bubble / step_s));
  }

  void choose_rows() {
    const std::size_t stages = schedule_.stages.size();
    std::size_t per_row = 1;
    for (const ScheduleCell& cell : schedule_.stages.front()) per_row += axis_.shows(cell.begin_s, cell.end_s) ? 1 : 0;
    const std::size_t most = std::clamp(kMostCells / per_row, kFewestRows, kMostRows);
    const std::size_t count = std::min(stages, most);
    for (std::size_t i = 0; i < count; ++i) {
      rows_.push_back(count == 1 ? 0 : (i * (stages - 1) + (count - 1) / 2) / (count - 1));
    }
    titled_ = per_row * count <= kTitledCells;
  }

  Markup legend() const {
    Markup out;
    out.open("p", {{"class", "legend"}});
    out.add(legend_entry("fwd", "forward, low"));
    out.add(legend_entry("bwd", "backward, high"));
    out.add(legend_entry("once", fmt::format("once per step, {}", format_duration(after_s()))));
    if (pipelined()) out.element("span", "blank: waiting", {{"class", "key"}});
    if (view_.strategy.virtual_stages > 1) {
      out.element("span", fmt::format("paler: later ones of the {} chunks", view_.strategy.virtual_stages),
                  {{"class", "key"}});
    }
    return out.close();
  }

  // Names of the phases over the rows, each where it is.
  Markup phases() const {
    Markup out;
    out.open("div", {{"class", "track phases"}, {"aria-hidden", "true"}});
    const auto phase = [&](const std::string& name, double begin, double end) {
      if (end - begin < 0.004) return;
      out.element(
          "span", name,
          {{"style", fmt::format("left:{};width:{}", percentage(begin), percentage(end - begin))}, {"title", name}});
    };
    const double drain = schedule_.played_s - schedule_.drain_s;
    if (view_.strategy.schedule == Schedule::gpipe || !pipelined()) {
      phase("micro-batches", 0, axis_.place(schedule_.played_s));
    } else if (schedule_.warm_up_s < drain) {
      phase("warm-up", 0, axis_.place(schedule_.warm_up_s));
      phase("steady", axis_.place(schedule_.warm_up_s), axis_.place(drain));
      phase("drain", axis_.place(drain), axis_.place(schedule_.played_s));
    } else {
      phase("warm-up and drain", 0, axis_.place(schedule_.played_s));
    }
    if (axis_.place(schedule_.played_s) < 0.86) phase("once per step", axis_.place(schedule_.played_s), 1);
    return out.close();
  }

  Markup row(std::size_t stage) const {
    Markup out;
    out.open("div", {{"class", "lane"}});
    out.element("span", pipelined() ? std::to_string(stage) : "all", {{"class", "who"}});
    out.open("svg", {{"class", "strip"}, {"aria-hidden", "true"}});
    if (titled_) {
      cells_one_by_one(out, stage);
    } else {
      cells_together(out, stage);
    }
    const double after = axis_.place(schedule_.played_s);
    out.open("rect", {{"class", "once"},
                      {"x", percentage(after)},
                      {"width", percentage(1 - after)},
                      {"y", "0"},
                      {"height", "100%"}});
    out.element("title", fmt::format("once per step: {}", format_duration(after_s())));
    out.close();
    if (axis_.broken()) {
      out.empty("rect", {{"class", "cut"},
                         {"x", percentage(axis_.break_begin())},
                         {"width", percentage(kBreak)},
                         {"height", "100%"}});
      out.element("text", "…", {{"class", "c"}, {"x", percentage(axis_.break_begin() + kBreak / 2)}, {"y", "14"}});
    }
    out.close();
    const StagePlan& plan = view_.plan.stages[stage];
    const double busy = static_cast<double>(view_.micro_batches) * plan.time.total / view_.plan.prediction.iteration_s;
    out.element("span", format_percent(busy), {{"class", "busy"}});
    return out.close();
  }

  // Later chunks are paler.
  std::string opacity(std::int64_t chunk) const {
    const auto chunks = static_cast<double>(view_.strategy.virtual_stages);
    return coordinate(1 - 0.6 * static_cast<double>(chunk) / std::max(1.0, chunks - 1));
  }

  void cells_one_by_one(Markup& out, std::size_t stage) const {
    for (const ScheduleCell& cell : schedule_.stages[stage]) {
      if (!axis_.shows(cell.begin_s, cell.end_s)) continue;
      const double from = axis_.place(cell.begin_s), width = axis_.place(cell.end_s) - from;
      const double height = cell.backward ? kRowHeight : kForwardHeight;
      out.open("rect", {{"class", cell.backward ? "bwd" : "fwd"},
                        {"x", percentage(from)},
                        {"width", percentage(width)},
                        {"y", coordinate(kRowHeight - height)},
                        {"height", coordinate(height)},
                        {"fill-opacity", opacity(cell.chunk)}});
      out.element("title", title(cell));
      out.close();
      if (width < kLabelled || view_.strategy.virtual_stages > 1) continue;
      out.element(
          "text", std::to_string(drawn_number(cell)),
          {{"class", cell.backward ? "c on-bwd" : "c on-fwd"}, {"x", percentage(from + width / 2)}, {"y", "18"}});
    }
  }

  // The last micro-batches keep their numbers when others are left out before them.
  std::int64_t drawn_number(const ScheduleCell& cell) const {
    const bool late = cell.micro_batch >= schedule_.played / 2;
    return cell.micro_batch + (late ? schedule_.micro_batches - schedule_.played : 0);
  }

  std::string title(const ScheduleCell& cell) const {
    const char* pass = cell.weights ? "gradients of weights" : cell.backward ? "backward" : "forward";
    std::string text = fmt::format("{} of micro-batch {}", pass, drawn_number(cell));
    if (view_.strategy.virtual_stages > 1) text += fmt::format(", chunk {}", cell.chunk);
    return text + ": " + format_duration(cell.end_s - cell.begin_s);
  }

  // One path per chunk and direction, in units of a ten-thousandth of the width.
  void cells_together(Markup& out, std::size_t stage) const {
    std::map<std::pair<bool, std::int64_t>, std::string> paths;
    for (const ScheduleCell& cell : schedule_.stages[stage]) {
      if (!axis_.shows(cell.begin_s, cell.end_s)) continue;
      const auto from = std::lround(1e4 * axis_.place(cell.begin_s)), to = std::lround(1e4 * axis_.place(cell.end_s));
      const double height = cell.backward ? kRowHeight : kForwardHeight;
      // A sliver of background between neighbours.
      const auto width = std::max(to - from - 6, (to - from) / 2 + 1);
      paths[{cell.backward, cell.chunk}] +=
          fmt::format("M{} {}v{}h{}v-{}z", from, kRowHeight - height, height, width, height);
    }
    out.open("svg", {{"viewBox", fmt::format("0 0 10000 {}", kRowHeight)},
                     {"preserveAspectRatio", "none"},
                     {"width", "100%"},
                     {"height", "100%"}});
    for (const auto& [what, path] : paths) {
      out.empty("path", {{"class", what.first ? "bwd" : "fwd"}, {"fill-opacity", opacity(what.second)}, {"d", path}});
    }
    out.close();
  }

  Markup ticks() const {
    Markup out;
    out.open("div", {{"class", "track ticks"}, {"aria-hidden", "true"}});
    const auto tick = [&](double at, double second, const char* style) {
      out.element("span", format_duration(second),
                  {{"class", style}, {"style", fmt::format("left:{}", percentage(at))}});
    };
    out.element("span", "0 s", {{"class", "first"}, {"style", "left:0"}});
    const double warm = axis_.place(schedule_.warm_up_s);
    if (pipelined() && warm > 0.1 && warm < 0.9) tick(warm, schedule_.warm_up_s, "mid");
    const double drain = schedule_.played_s - schedule_.drain_s;
    const double draining = axis_.place(drain);
    if (pipelined() && draining > warm + 0.12 && draining < 0.88) tick(draining, drain + schedule_.skipped_s, "mid");
    tick(1, axis_.end_s() + schedule_.skipped_s, "last");
    return out.close();
  }

  std::string description() const {
    return fmt::format("Schedule of one step, {}: warm-up {}, drain {}, whole schedule {}, then {} once per step.",
                       to_string(view_.strategy.schedule), format_duration(schedule_.warm_up_s),
                       format_duration(schedule_.drain_s), format_duration(schedule_.total_s()),
                       format_duration(after_s()));
  }

  std::string caption() const {
    std::string text;
    if (pipelined()) {
      text += rows_.size() < schedule_.stages.size()
                  ? fmt::format("{} of {} stages, one per row. ", rows_.size(), schedule_.stages.size())
                  : std::string("One row per stage. ");
    } else {
      text += "The replicas run alike. ";
    }
    text += "At the right, the share of the step that a stage computes or communicates. ";
    if (axis_.broken()) {
      text += fmt::format("{} of the same rhythm are left out at the break{}. ", format_duration(axis_.left_out_s()),
                          axis_.after_is_short() ? ", and what happens once per step is not to scale" : "");
    }
    text += fmt::format(
        "Played through with the stages' times the schedule takes {}; the prediction's formula counts {} for it, and "
        "{} once per step for gradients, optimizer and the rest.",
        format_duration(schedule_.total_s()), format_duration(predicted_s()), format_duration(after_s()));
    return text;
  }

  Markup stage_times() const {
    HtmlTable table("Time of one micro-batch on every stage",
                    {{"stage"},
                     {"layers", false},
                     {"forward"},
                     {"backward"},
                     {"recompute"},
                     {"stage to stage"},
                     {"sharded weights"},
                     {"total"},
                     {"of which tensor"},
                     {"context"},
                     {"expert"}},
                    "stage-times");
    for (std::size_t s = 0; s < view_.plan.stages.size(); ++s) {
      const StagePlan& stage = view_.plan.stages[s];
      const StageTime& time = stage.time;
      table.add({std::to_string(s), report::layers_label(view_.report.model, stage), milliseconds(time.forward),
                 milliseconds(time.backward), milliseconds(time.recompute), milliseconds(time.p2p),
                 milliseconds(time.zero), milliseconds(time.total), milliseconds(time.tp), milliseconds(time.cp),
                 milliseconds(time.ep)});
    }
    Markup body = table.markup();
    body.element(
        "p",
        "Forward and backward include the exposed part of the layers' own communication, which the last columns tell.",
        {{"class", "muted"}});
    return details("One micro-batch on every stage, in ms", body);
  }

  const PlanView& view_;
  PipelineSchedule schedule_;
  double slowest_s_;
  TimeAxis axis_;
  std::vector<std::size_t> rows_;
  bool titled_ = false;
};

}  // namespace

Markup timeline_section(const PlanView& view) { return Timeline(view).run(); }

}  // namespace nest::html
