#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "base/layout.h"
#include "base/units.h"
#include "model/training.h"
#include "nest/interval.h"
#include "plan/strategy_text.h"
#include "report/nearest_runs.h"
#include "report/plan_report.h"
#include "report/table.h"

namespace nest::report {
namespace {

std::string gibibytes(std::int64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / 0x1p30); }

// "7.43 s ± 6 %".
std::string with_sureness(const std::string& value, const Prediction& prediction) {
  const std::string told = sureness(prediction.spread);
  return told.empty() ? value : fmt::format("{} {}", value, told);
}

std::string heading(const PlanReport& report, const Style& style) {
  const Plan& plan = report.plan;
  std::string text = fmt::format("{} ({} parameters) on {} x {} ({})\n", report.plan.model.title,
                                 format_count(static_cast<double>(plan.model.parameters)),
                                 format_integer(plan.strategy.devices_used()), plan.cluster.device, plan.cluster.name);
  if (!report.plan.fits) {
    return text + style.paint(Ink::strong, wrap_after("does not fit: ", report.plan.misfit));
  }
  const Prediction& p = plan.expected();
  const double tokens_per_s = p.samples_per_s * static_cast<double>(plan.run.sequence);
  return text + style.paint(Ink::strong, fmt::format("{} per step", with_sureness(format_duration(p.iteration_s), p))) +
         fmt::format(", MFU {}{}\n{} tokens/s, {} per device", format_percent(p.mfu),
                     p.flops_per_s_per_device > 0
                         ? fmt::format(", {:.0f} TFLOP/s per device", p.flops_per_s_per_device / 1e12)
                         : std::string(),
                     format_count(tokens_per_s), format_integer(std::llround(p.tokens_per_s_per_device)));
}

std::string strategy_lines(const PlanReport& report) {
  const Plan& plan = report.plan;
  const Strategy& s = plan.strategy;
  const std::int64_t m = micro_batches(s, plan.run.global_batch);
  std::string text = fmt::format("  {}\n", plan::strategy_text(plan));
  text += fmt::format("  {} micro-batch{} of {} x {} tokens per replica, schedule {}\n", format_integer(m),
                      m == 1 ? "" : "es", s.micro_batch, format_integer(plan.run.sequence), to_string(s.schedule));
  if (plan.fits && plan.executed) {
    text += fmt::format("  as executed on the simulated network; {} by the formula\n",
                        format_duration(plan.prediction.iteration_s));
    for (const std::string& line : plan.contended) text += wrap_after("  contended: ", line) + '\n';
  }
  return text + placement_words(s, "  ");
}

// The part of a step that a change would shorten first.
std::string bottleneck(const PlanReport& report) {
  const Plan& plan = report.plan;
  const Prediction& p = plan.expected();
  const auto slowest =
      std::max_element(plan.stages.begin(), plan.stages.end(),
                       [](const StagePlan& a, const StagePlan& b) { return a.time.total < b.time.total; });
  double mean = 0;
  for (const StagePlan& stage : plan.stages) mean += stage.time.total / static_cast<double>(plan.stages.size());
  const BreakdownPart* most = &kBreakdownParts.front();
  const BreakdownPart* second = nullptr;
  for (const BreakdownPart& part : kBreakdownParts) {
    if (p.breakdown_s.*part.seconds > p.breakdown_s.*most->seconds) most = &part;
  }
  for (const BreakdownPart& part : kBreakdownParts) {
    if (&part == most || p.breakdown_s.*part.seconds <= 0) continue;
    if (second == nullptr || p.breakdown_s.*part.seconds > p.breakdown_s.*second->seconds) second = &part;
  }
  std::string text =
      fmt::format("{} ({:.0f} % of the step)", most->name, 100 * (p.breakdown_s.*most->seconds) / p.iteration_s);
  if (second != nullptr) {
    text += fmt::format(", then {} ({:.1f} %)", second->name, 100 * (p.breakdown_s.*second->seconds) / p.iteration_s);
  }
  constexpr double kUneven = 0.02;
  if (mean > 0 && slowest->time.total > (1 + kUneven) * mean) {
    text += fmt::format("; stage {} is {:.0f} % slower than the mean", slowest - plan.stages.begin(),
                        100 * (slowest->time.total / mean - 1));
  }
  return wrap_after("  Bottleneck: ", text) + '\n';
}

std::string breakdown_table(const PlanReport& report, const Style& style) {
  const Prediction& p = report.plan.expected();
  Table table({{"where the time goes", Align::left},
               {"exposed s", Align::right},
               {"%", Align::right},
               {"", Align::left, true, Ink::accent}});
  for (const BreakdownPart& part : kBreakdownParts) {
    const double seconds = p.breakdown_s.*part.seconds;
    if (seconds <= 0) continue;
    table.add({part.name, fmt::format("{:.3f}", seconds), fmt::format("{:.1f}", 100 * seconds / p.iteration_s),
               bar(seconds / p.iteration_s, 36)});
  }
  return table.render(style);
}

// One run each, or as many layers in every chunk.
bool same_sizes(const StagePlan& a, const StagePlan& b) {
  return std::equal(a.chunks.begin(), a.chunks.end(), b.chunks.begin(), b.chunks.end(),
                    [](const ChunkPlan& x, const ChunkPlan& y) { return x.last - x.first == y.last - y.first; }) &&
         (!a.chunks.empty() || a.last - a.first == b.last - b.first);
}

bool alike(const StagePlan& a, const StagePlan& b) {
  const auto close = [](double x, double y) { return std::abs(x - y) <= 0.002 * std::max(std::abs(x), std::abs(y)); };
  return same_sizes(a, b) && a.zero == b.zero && a.zero_outer == b.zero_outer && a.recompute == b.recompute &&
         close(a.time.total, b.time.total) &&
         close(static_cast<double>(a.memory.total), static_cast<double>(b.memory.total));
}

constexpr std::size_t kRecomputeColumns = 11;

// What fits into the table; longer sets of modules are spelt out below it.
std::string recompute_cell(const Recomputation& recompute) {
  std::string text = to_string(recompute);
  if (text.size() <= kRecomputeColumns) return text;
  return fmt::format("{} modules", std::popcount(static_cast<unsigned>(recompute.modules)));
}

std::string recompute_lines(const std::vector<StagePlan>& stages) {
  std::string text;
  std::set<Recomputation> told;
  for (const StagePlan& stage : stages) {
    const std::string cell = recompute_cell(stage.recompute), whole = to_string(stage.recompute);
    if (cell == whole || !told.insert(stage.recompute).second) continue;
    text += wrap_after("  ", fmt::format("{}: {}", cell, whole));
    text += '\n';
  }
  return text;
}

std::string stage_table(const PlanReport& report, const Style& style) {
  const auto& stages = report.plan.stages;
  double slowest = 0;
  for (const StagePlan& stage : stages) slowest = std::max(slowest, stage.time.total);
  Table table({{"stage", Align::right},
               {"layers", Align::left, true},
               {"s", Align::right},
               {"", Align::left, false, Ink::accent},
               {"recompute", Align::left},
               {"ZeRO", Align::right},
               {"GiB", Align::right},
               {"", Align::left, false, Ink::accent}});
  const double memory = static_cast<double>(report.plan.device_memory_bytes);
  for (std::size_t s = 0; s < stages.size();) {
    std::size_t end = s + 1;
    while (end < stages.size() && end + 1 < stages.size() && s > 0 && alike(stages[s], stages[end])) ++end;
    const StagePlan& stage = stages[s];
    const std::string index = end - s == 1 ? std::to_string(s) : fmt::format("{}-{}", s, end - 1);
    table.add({index, layers_label(report.model, stage, stages[end - 1]),
               report.plan.fits ? fmt::format("{:.4f}", stage.time.total) : "",
               report.plan.fits ? pad_right(bar(stage.time.total / slowest, 10), 10) : "",
               recompute_cell(stage.recompute), fmt::format("{}{}", stage.zero, stage.zero_outer ? " hybrid" : ""),
               gibibytes(stage.memory.needed),
               bar(std::min(1.0, static_cast<double>(stage.memory.needed) / memory), 12)});
    s = end;
  }
  return table.render(style) + recompute_lines(stages);
}

std::string memory_line(const PlanReport& report) {
  const std::size_t fullest = report.plan.fullest_stage();
  const StageMemory& m = report.plan.stages[fullest].memory;
  return wrap_after(
      "  ",
      fmt::format(
          "memory of stage {} in GiB, at {}: weights {} + gradients {} + optimizer states {} + activations {} ({:.3g} "
          "micro-batch{} in flight) + workspace {} + buffers and allocator {} = {} used; with margin and context {} of "
          "{}; probability of running out of memory {}",
          fullest, m.moment, gibibytes(m.weights), gibibytes(m.gradients), gibibytes(m.optimizer),
          gibibytes(m.activations), m.in_flight, m.in_flight == 1 ? "" : "es", gibibytes(m.working),
          gibibytes(m.buffers), gibibytes(m.total), gibibytes(m.needed), gibibytes(report.plan.device_memory_bytes),
          risk_text(m.out_of_memory)));
}

std::string training_line(const PlanReport& report) {
  const TrainingTotals totals = training_totals(report);
  std::string text = fmt::format("{} tokens take {} and {} device-hours", format_count(report.tokens),
                                 with_sureness(format_duration(totals.seconds), report.plan.expected()),
                                 format_integer(std::llround(totals.device_hours)));
  if (report.price_per_device_hour > 0) {
    text += fmt::format(", {} at {:.2f} per device-hour", format_integer(std::llround(totals.price)),
                        report.price_per_device_hour);
  }
  return wrap_after("", text);
}

// What a device-hour costs says something of tokens too.
std::string cost_line(const PlanReport& report) {
  const double hour = report.price_per_device_hour * static_cast<double>(report.plan.strategy.devices_used());
  const double tokens_per_hour =
      3600 * report.plan.expected().samples_per_s * static_cast<double>(report.plan.run.sequence);
  return wrap_after("", fmt::format("At {:.2f} per device-hour: {:.2f} an hour, {:.2f} per billion tokens; --tokens "
                                    "gives the whole training",
                                    report.price_per_device_hour, hour, hour / tokens_per_hour * 1e9));
}

}  // namespace

std::string placement_words(const Strategy& s, const std::string& indent) {
  std::string text;
  if (s.pp > 1 && s.dp > 1 && s.dp_inner != s.dp) {
    text +=
        wrap_after(indent + "dp_inner: ", fmt::format("so many replicas of a stage sit side by side, before the next "
                                                      "stage; otherwise all {}",
                                                      s.dp)) +
        '\n';
  }
  if (s.pitch > 0) {
    text += wrap_after(indent + "pitch: ", "devices from one group of pipelines to the next, some of them idle") + '\n';
  }
  return text;
}

std::string risk_text(double probability) {
  if (probability < 0.001) return "below 0.1 %";
  return fmt::format("{:.{}f} %", 100 * probability, probability < 0.1 ? 1 : 0);
}

TrainingTotals training_totals(const PlanReport& report) {
  const double tokens_per_step =
      static_cast<double>(report.plan.run.global_batch) * static_cast<double>(report.plan.run.sequence);
  TrainingTotals totals;
  totals.seconds = std::ceil(report.tokens / tokens_per_step) * report.plan.expected().iteration_s;
  totals.device_hours = totals.seconds / 3600 * static_cast<double>(report.plan.strategy.devices_used());
  totals.price = totals.device_hours * report.price_per_device_hour;
  return totals;
}

std::string layers_label(const model::Model& model, int first, int last) {
  // Blocks are numbered on their own, because that is how people and frameworks count layers.
  std::vector<std::string> parts;
  int block = 0;
  int run_begin = -1;
  int run_end = -1;
  const auto flush = [&] {
    if (run_begin >= 0)
      parts.push_back(run_begin == run_end ? std::to_string(run_begin) : fmt::format("{}-{}", run_begin, run_end));
    run_begin = -1;
  };
  for (int i = 0; i <= last; ++i) {
    const model::Layer& layer = model.kinds[static_cast<std::size_t>(model.layers[static_cast<std::size_t>(i)])];
    const bool is_block = layer.counted_block();
    if (i >= first && is_block) {
      if (run_begin < 0) run_begin = block;
      run_end = block;
    } else if (i >= first) {
      flush();
      parts.emplace_back(layer.name == "head" && model.architecture.vocabulary > 0 ? "LM head" : layer.name);
    }
    if (is_block) ++block;
  }
  flush();
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string layers_label(const model::Model& model, const StagePlan& stage) {
  return layers_label(model, stage, stage);
}

std::string layers_label(const model::Model& model, const StagePlan& begin, const StagePlan& end) {
  if (begin.chunks.empty()) return layers_label(model, begin.first, end.last);
  std::vector<std::string> chunks;
  for (std::size_t c = 0; c < begin.chunks.size(); ++c) {
    const int first = std::min(begin.chunks[c].first, end.chunks[c].first);
    const int last = std::max(begin.chunks[c].last, end.chunks[c].last);
    chunks.push_back(last < first ? "-" : layers_label(model, first, last));
  }
  return fmt::format("{}", fmt::join(chunks, " | "));
}

std::string trained_words(const PlanReport& report) {
  const std::int64_t trained = model::count_trained(report.model);
  const std::int64_t all = report.plan.model.parameters;
  const Run& run = report.plan.run;
  if (run.lora.empty() && trained >= all) return {};
  std::string words = fmt::format("{} of {} parameters", format_count(static_cast<double>(trained)),
                                  format_count(static_cast<double>(all)));
  if (!run.lora.empty())
    words += fmt::format(": adapters ({}), all else frozen", run.lora);
  else if (!run.freeze.empty())
    words += fmt::format("; frozen: {}", run.freeze);
  return words;
}

std::string plan_text(const PlanReport& report, const Style& style) {
  std::string text = heading(report, style) + "\n";
  if (const std::string trained = trained_words(report); !trained.empty())
    text += wrap_after("Trained: ", trained) + "\n";
  for (const std::string& note : report.model.architecture.notes) text += wrap_after("Note: ", note) + "\n";
  if (!report.plan.unsure.empty()) text += wrap_after("Not calibrated: ", report.plan.unsure) + "\n";
  text += "\n" + strategy_lines(report) + "\n";
  if (report.plan.fits) text += breakdown_table(report, style) + bottleneck(report) + "\n";
  text += stage_table(report, style) + memory_line(report) + "\n";
  if (report.tokens > 0 && report.plan.fits) text += "\n" + training_line(report) + "\n";
  if (report.tokens == 0 && report.price_per_device_hour > 0 && report.plan.fits)
    text += "\n" + cost_line(report) + "\n";
  if (!report.plan.measured.empty()) {
    text += "\n" +
            wrap_after("Measured: ", fmt::format("{}; the rest is estimated", fmt::join(report.plan.measured, ", "))) +
            "\n";
  }
  text += "\n" + wrap_after("Assumptions: ", fmt::format("{}", fmt::join(report.plan.assumptions, "; "))) + "\n";
  if (report.plan.fits) text += nearest_text(nearest_runs(report, 1));
  return text;
}

}  // namespace nest::report
