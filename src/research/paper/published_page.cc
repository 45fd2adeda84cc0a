#include "paper/published_page.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "base/units.h"
#include "paper/publications.h"
#include "paper/summary.h"
#include "rivals/side_by_side.h"

namespace nest::paper {
namespace {

std::string mean_text(const Tally& sum) {
  if (sum.plans == 0) return "-";
  return fmt::format("{:.3f} ({} of {})", sum.mean, sum.plans, sum.points);
}

std::string said_text(double value) { return value > 0 ? fmt::format("{:.2f}", value) : "-"; }

std::string means_table(const Records& records) {
  std::string text =
      "| planner | fat tree | the paper | spine-leaf | the paper | restricted to |\n|---|---:|---:|---:|---:|---|\n";
  for (const Publication& one : publications()) {
    const auto paper = published(one.planner);
    const bool own = one.planner == std::string(rivals::kOwnPlanner);
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", one.planner,
                        own ? "1" : mean_text(tally(records, one.planner, "published-fat-tree")),
                        said_text(paper ? paper->fat_tree : 0),
                        own ? "1" : mean_text(tally(records, one.planner, "published-spine-leaf")),
                        said_text(paper ? paper->spine_leaf : 0), one.says);
  }
  return text;
}

std::string points_table(const Records& records, const std::string& group) {
  std::string head = "| point | nest |", line = "|---|---:|", rows;
  for (const Publication& one : publications()) {
    if (one.planner == std::string(rivals::kOwnPlanner)) continue;
    head += fmt::format(" {} |", one.planner);
    line += "---:|";
  }
  for (const Point& point : distinct_points(group)) {
    const auto record = records.find(point.id());
    if (record == records.end()) continue;
    const PlannerResult* own = record->second.find(rivals::kOwnPlanner);
    const bool plan = own != nullptr && own->has_plan();
    rows += fmt::format("| {}, {} |", point.model, format_integer(point.devices));
    rows += fmt::format(" {} |", plan ? format_duration(own->judged_s()) : "-");
    for (const Publication& one : publications()) {
      if (one.planner == std::string(rivals::kOwnPlanner)) continue;
      const std::optional<double> ratio = record->second.ratio(one.planner);
      rows += fmt::format(" {} |", ratio ? fmt::format("{:.3f}", *ratio) : "-");
    }
    rows += fmt::format(" {} |\n", plan ? own->strategy : own == nullptr ? "" : own->note);
  }
  return rows.empty() ? "" : head + " nest's plan |\n" + line + "---|\n" + rows;
}

}  // namespace

std::string published_section(const Records& records) {
  if (records.empty()) return {};
  std::string text =
      "## As published\n\n"
      "The same points once more, every planner, nest included, with only what its publication has: 1F1B without "
      "interleaving, no context\nparallelism, no sharded state but in Mist, SGD as in the paper's artifact, whose "
      "instances also say which tensor widths, experts and recomputation\nthe paper's own planner chose from. Plans "
      "are chosen by formulas alone and compared by their executed steps. In brackets: points where both have\na "
      "plan.\n\n";
  text += means_table(records);
  std::vector<std::string> faster;
  for (const Publication& one : publications()) {
    for (const char* group : {"published-fat-tree", "published-spine-leaf"}) {
      const Tally sum = tally(records, one.planner, group);
      if (sum.plans > 0 && sum.mean < 1 && (faster.empty() || faster.back() != one.planner)) {
        faster.emplace_back(one.planner);
      }
    }
  }
  if (!faster.empty()) {
    text += fmt::format(
        "\nBelow 1 in the mean: {}. The artifact's instances give the paper's planner no tensor parallelism of Llama "
        "and "
        "Mixtral and let it recompute all of every model\nbut BERT; a planner that may divide tensors, or shard state, "
        "need not recompute. The table above has all choices open to all.\n",
        join_words(faster));
  }
  text +=
      "\nWhat is left between these means and the paper's:\n\n"
      "- **Hidden communication.** Here gradients travel behind the backward pass and what is exposed was measured on "
      "real stacks ([accuracy.md](accuracy.md)).\n  The artifact adds the whole exchange to the step, hop by hop: "
      "`T += 2 (latency + bytes / bandwidth)` per level, and the levels below once more.\n"
      "- **Fill.** The artifact counts (m + p - 1) times the slowest stage; here other stages add what they take.\n"
      "- **Rivals are as strong as their ideas.** `mcmc` walks ten times until nothing better comes and prices a plan "
      "in "
      "microseconds; `alpa` is given every number of\n  layer groups and micro-batches, `phaze` and `mist` every "
      "reading "
      "of the network's bandwidths; the fastest is kept.\n"
      "- **Units.** The artifact's instances for TPU v4 give compute in milliseconds and the network in seconds, so "
      "the "
      "network weighs a thousandth there.\n"
      "- **Operators.** Its compute times are published estimates of operators; ours are fitted to measured "
      "devices.\n\n";
  for (const auto& [group, title] : {std::pair{"published-fat-tree", "Fat tree, as published"},
                                     {"published-spine-leaf", "Spine and leaf, as published"}}) {
    const std::string table = points_table(records, group);
    if (!table.empty()) text += fmt::format("### {}\n\n{}\n", title, table);
  }
  return text;
}

}  // namespace nest::paper
