// Everything that is needed to get the same answer again.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "html/plan_sections.h"
#include "plan/plan_json.h"
#include "report/json.h"
#include "report/nearest_runs.h"

namespace nest::html {
namespace {

// A document may be as large as its reader allows; the page may not.
constexpr std::size_t kMostText = 32U << 10U;
constexpr std::size_t kMostPlan = 48U << 10U;
constexpr std::size_t kMostCommand = 4U << 10U;

Markup listing(const std::string& text, const std::string& label) {
  Markup out;
  out.open("pre", {{"tabindex", "0"}, {"role", "region"}, {"aria-label", label}}).element("code", text).close();
  return out;
}

// The first part of a text that is too long, up to the end of a line, and how much that is.
void add_text(Markup& out, const std::string& text, const std::string& label, std::size_t most) {
  if (text.size() <= most) {
    out.add(listing(text, label));
    return;
  }
  std::size_t end = text.rfind('\n', most) + 1;  // npos + 1 is 0
  if (end == 0) end = most;
  out.element("p",
              fmt::format("The first {} of {} bytes; the plan file (-o) holds all of it.",
                          format_integer(static_cast<std::int64_t>(end)),
                          format_integer(static_cast<std::int64_t>(text.size()))),
              {{"class", "muted"}});
  out.add(listing(text.substr(0, end), label));
}

void add_document(Markup& out, const std::string& title, const Document& document) {
  if (document.empty()) return;
  Markup body;
  add_text(body, document.text(), title, kMostText);
  out.add(details(title, body));
}

Markup run_table(const PlanView& view) {
  const Run& run = view.plan.run;
  HtmlTable table("The training run", {{"setting", false}, {"value", false}}, "run-table");
  const auto row = [&](const char* name, const std::string& value) { table.add({name, value}); };
  row("model", clip(view.plan.model.name, kLongestTitle));
  row("cluster", clip(view.plan.cluster.name, kLongestTitle));
  row("device", clip(view.plan.cluster.device, kLongestTitle));
  row("devices", format_integer(view.plan.cluster.devices));
  row("global batch", fmt::format("{} sequences", format_integer(run.global_batch)));
  row("sequence", fmt::format("{} tokens", format_integer(run.sequence)));
  if (run.encoder_sequence > 0) row("encoder sequence", fmt::format("{} tokens", format_integer(run.encoder_sequence)));
  if (!run.routing.empty()) row("routing of tokens to experts", run.routing);
  if (!run.freeze.empty()) row("frozen weights", run.freeze);
  if (!run.lora.empty()) row("low-rank adapters", run.lora);
  if (run.mtp_layers > 0) row("layers that predict further tokens", format_integer(run.mtp_layers));
  row("precision", to_string(run.precision));
  row("optimizer", to_string(run.optimizer));
  row("software stack", clip(run.stack, kLongestTitle));
  return table.markup();
}

std::size_t length_of(const Document& document) { return document.source ? document.source->text.size() : 0; }

Markup plan_listing(const Plan& plan) {
  Markup out;
  // The plan holds the documents; what cannot fit is not written out first.
  std::string text;
  if (length_of(plan.model.config) + length_of(plan.cluster.description) <= kMostPlan)
    text = report::to_text(plan::plan_to_json(plan));
  if (text.empty() || text.size() > kMostPlan) {
    return out.element("p", "Too long for this page: run the command above with -o plan.json.");
  }
  return out.add(listing(text, "The plan as JSON"));
}

std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./=,:+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// Published runs that are like this plan, and how nest does on them.
Markup nearest_table(const PlanView& view) {
  Markup out;
  const std::vector<report::NearRun> runs = report::nearest_runs(view.report);
  if (!view.fits() || runs.empty()) return out;
  out.element("h3", "Nearest published runs");
  HtmlTable table("Nearest published runs", {{"run", false}, {"measured"}, {"nest says"}}, "nearest-table");
  for (const report::NearRun& near : runs) {
    std::vector<Markup> cells(3);
    Markup name, about;
    name.text(near.run.id);
    about.text(fmt::format("{} parameters on {} x {}{}; this plan is {}", format_count(near.run.parameters),
                           format_integer(near.run.devices), near.run.device,
                           near.run.complete ? "" : "; something was assumed",
                           near.apart.empty() ? "like it" : near.apart));
    cells[0] = two_lines(name, about);
    cells[1].text(format_duration(near.run.measured_s));
    cells[2].text(fmt::format("{:+.1f} %", 100 * near.run.error()));
    table.add_cells(std::move(cells));
  }
  return out.add(table.markup());
}

}  // namespace

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + quoted(word);
  return line;
}

Markup inputs_section(const PlanView& view) {
  Markup out;
  if (!view.input.command.empty()) {
    std::vector<std::string> words = view.input.command;
    words.front() = "nest";
    add_text(out, shell_line(words), "Command line", kMostCommand);
  }
  out.add(run_table(view));
  out.element("h3", "Taken for granted");
  out.open("ul");
  for (const std::string& text : view.report.plan.assumptions) out.element("li", text);
  out.close();
  if (!view.report.plan.measured.empty()) {
    out.element("p", fmt::format("Measured: {}; the rest is estimated.", fmt::join(view.report.plan.measured, ", ")));
  }
  out.add(nearest_table(view));
  out.element("h3", "Files");
  add_document(out, "Model: config.json", view.plan.model.config);
  add_document(out, "Cluster: description", view.plan.cluster.description);
  return out.add(details("The plan as JSON (nest.plan/3), for nest eval, check and export", plan_listing(view.plan)));
}

}  // namespace nest::html
