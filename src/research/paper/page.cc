#include "paper/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "cost/memory.h"
#include "html/bar_chart.h"
#include "paper/published_page.h"
#include "paper/summary.h"
#include "rivals/side_by_side.h"

namespace nest::paper {
namespace {

struct GroupText {
  const char* name;
  const char* title;
  std::string says;
};

// "node 8 x 900 GB/s, rack 4 x 100 GB/s, core 400 GB/s": links of every switch, from the inside out. How many the
// outermost one has depends on the size.
std::string network_text(const cluster::Cluster& cluster) {
  if (cluster.torus) {
    return fmt::format("a {}-D torus of {} links", cluster.torus->dims.size(),
                       format_bandwidth(cluster.torus->link_bytes_per_s));
  }
  std::vector<std::string> levels;
  for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
    const cluster::Level& level = cluster.levels[l];
    const std::string count = l + 1 < cluster.levels.size() ? fmt::format("{} x ", level.group) : "";
    levels.push_back(fmt::format("{} {}{}", level.name, count, format_bandwidth(level.bandwidth_bytes_per_s)));
  }
  return join_words(levels);
}

// Clusters, micro-batches and oversubscriptions of a group, as its points have them.
std::string conditions_text(const std::string& group) {
  std::vector<std::string> clusters, sizes, factors;
  const auto add = [](std::vector<std::string>& list, const std::string& text) {
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
  };
  for (const Point& point : all_points()) {
    if (point.group != group) continue;
    const cluster::Cluster cluster = cluster::find_cluster(point.cluster).value();
    add(clusters, fmt::format("`{}` ({}: {})", point.cluster, cluster.device.name, network_text(cluster)));
    add(sizes, fmt::format("{}", point.micro_batch));
    add(factors, fmt::format("{:g}:1", point.oversubscription));
  }
  std::string text = fmt::format("{}; sequences per micro-batch: {}", join_words(clusters), join_words(sizes));
  if (factors.size() > 1) text += fmt::format("; oversubscription of the outermost level: {}", join_words(factors));
  return text + ".";
}

std::vector<GroupText> group_texts() {
  std::vector<GroupText> groups = {
      {"fat-tree", "Fat tree", ""},
      {"spine-leaf", "Spine and leaf", ""},
      {"v100", "V100", ""},
      {"micro-batch", "Micro-batches", ""},
      {"memory", "Little memory", "Devices with less memory than they have, with sharding and without it (`zero=0`). "},
      {"network", "Networks", ""},
  };
  for (GroupText& group : groups) group.says += conditions_text(group.name);
  return groups;
}

constexpr double kNoticed = 1e-3;

std::string times(double ratio) { return fmt::format("{:.3f}", ratio); }

// A point without what its group says anyway.
std::string label_of(const Point& point) {
  std::string text = fmt::format("{}, {}", point.model, format_integer(point.devices));
  if (point.group == "micro-batch") text += fmt::format(", micro-batch {}", point.micro_batch);
  if (point.memory_bytes > 0) text += fmt::format(", {:g} GB", static_cast<double>(point.memory_bytes) * 1e-9);
  if (point.group == "network") {
    text += point.cluster == "tpuv4-torus" ? std::string(", torus") : fmt::format(", {:g}:1", point.oversubscription);
  }
  for (const std::string& setting : point.settings) text += ", " + setting;
  return text;
}

std::string short_label(const Point& point) {
  if (point.group == "micro-batch") return fmt::format("{} x {}", point.devices, point.micro_batch);
  if (point.group == "network") {
    return point.cluster == "tpuv4-torus" ? std::string("torus") : fmt::format("{:g}:1", point.oversubscription);
  }
  return format_integer(point.devices);
}

// Those that are as published, or the others.
Records of_kind(const Records& records, bool published) {
  Records kept;
  for (const Point& point : all_points()) {
    const auto found = records.find(point.id());
    if (found != records.end() && point.published == published) kept.insert(*found);
  }
  return kept;
}

class Writer {
 public:
  Writer(const Records& records, std::string folder)
      : records_(of_kind(records, false)),
        published_(of_kind(records, true)),
        folder_(std::move(folder)),
        rivals_(rival_names(records)) {}

  Page write() {
    out_ =
        "# Planners side by side\n\n"
        "`make paper` repeats the evaluation of the NEST paper (Network- and Memory-Aware Device Placement, 2026) with "
        "this program: its\nclusters, models and batch, nest's plan beside those of other planners. Every planner is "
        "implemented in [src/research/rivals](../../src/research/rivals), each file\nsays after which publication, and "
        "gets the same cost "
        "model, the same memory accounting and the same network; every plan was judged by the\nindependent check. "
        "Ratios are the time of a step over nest's: 1.2 means that nest's plan is 1.2 times as fast. Everything on "
        "this page is\nwritten by `src/research/paper` from what the runs returned.\n\n";
    summary();
    agreement();
    out_ += published_section(published_);
    for (const GroupText& group : group_texts()) section(group);
    losses();
    searches();
    simulations();
    conditions();
    return {std::move(out_), std::move(figures_)};
  }

 private:
  const Record* record_of(const Point& point) const {
    const auto found = records_.find(point.id());
    return found == records_.end() ? nullptr : &found->second;
  }

  const PlannerResult* own_of(const Point& point) const {
    const Record* record = record_of(point);
    return record == nullptr ? nullptr : record->find(rivals::kOwnPlanner);
  }

  void summary() {
    int points = 0, plans = 0, proven = 0;
    const std::vector<Point> all_of_them = distinct_points();
    for (const Point& point : all_of_them) {
      const PlannerResult* own = own_of(point);
      if (own == nullptr) continue;
      ++points;
      plans += own->has_plan() ? 1 : 0;
      proven += own->has_plan() && own->optimal ? 1 : 0;
    }
    out_ += "## In short\n\n";
    out_ += fmt::format(
        "{} of {} points were run. A plan fits at {} of them; at {} of those nest proved its plan the "
        "formula's optimum, or that none is executed 1 % faster.\n",
        points, all_of_them.size(), plans, proven);
    const std::vector<std::string> lost = lost_points(records_);
    out_ += lost.empty() ? "At no point was another planner's plan executed more than 1 % faster.\n\n"
                         : fmt::format("Another planner's plan was executed more than 1 % faster at {} points: {}.\n\n",
                                       lost.size(), join_words(lost));
    out_ +=
        "| planner | fat tree | the paper | spine-leaf | the paper | all points | predicted | largest | there | as "
        "fast as nest | no plan |\n|---|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|\n";
    const auto mean = [](const Tally& sum) { return sum.mean > 0 ? times(sum.mean) : std::string("-"); };
    for (const std::string& rival : rivals_) {
      const Tally all = tally(records_, rival);
      const auto paper = published(rival);
      const auto said = [](double value) { return value > 0 ? fmt::format("{:.2f}", value) : std::string("-"); };
      out_ += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} of {} | {} |\n", rival,
                          mean(tally(records_, rival, "fat-tree")), said(paper ? paper->fat_tree : 0),
                          mean(tally(records_, rival, "spine-leaf")), said(paper ? paper->spine_leaf : 0), mean(all),
                          all.plans > 0 ? times(all.predicted_mean) : "-", all.plans > 0 ? times(all.largest) : "-",
                          all.largest_id, all.as_fast, all.points, all.points - all.plans);
    }
    out_ +=
        "\nMeans are geometric, over the points where both have a plan; a planner that finds none at hard points is "
        "not punished for it here, but\nthe last column counts them. \"As fast\" is within a thousandth. "
        "Ratios are of steps that were [executed](#predicted-and-executed);\n\"predicted\": the same mean of what the "
        "formula says of both plans.\n\n";
  }

  void agreement() {
    constexpr double kAbout = 0.1;
    out_ +=
        "## Where this agrees with the paper, and where not\n\nWith everything that nest's plans have; the [next "
        "section]"
        "(#as-published) has the same restricted to what was published.\n\n";
    for (const std::string& rival : rivals_) {
      const auto paper = published(rival);
      if (!paper) continue;
      const auto compare = [&](const char* where, double said, const char* group) {
        const double here = tally(records_, rival, group).mean;
        if (said <= 0 || here <= 0) return;
        const char* verdict = std::abs(here / said - 1) <= kAbout ? "about as published"
                              : here < said                       ? "closer to nest than published"
                                                                  : "further from nest than published";
        out_ += fmt::format("- **{}** on the {}: {:.2f} in the paper, {} here: {}.\n", rival, where, said, times(here),
                            verdict);
      };
      compare("fat tree", paper->fat_tree, "fat-tree");
      compare("spine-leaf network", paper->spine_leaf, "spine-leaf");
    }
    out_ +=
        "\nWhat makes numbers differ from the paper's, whichever way:\n\n"
        "- The paper compares programs as published, each with the plans that it could express. Here a rival may use "
        "whatever its idea does not\n  exclude: recomputation, sharded state, interleaved stages, expert and sequence "
        "parallelism. Where a publication leaves a choice open, all\n  choices are tried and the best is kept.\n"
        "- `mcmc` and `aceso` walk through nest's own space and price a plan in microseconds. `manual` is the best of "
        "an expert's rules, of published\n  degrees and of sharded data parallelism, not one fixed strategy per "
        "model.\n"
        "- `phaze`, `alpa` and `mist` plan on a simpler network than the one that their plans are priced on; `alpa` "
        "and `mist` within what their\n  publications can express, `phaze` within that and over all of nest's plans. "
        "Each file says what that is.\n"
        "- The cost model is another one: it was fitted to published and measured training runs ([accuracy.md]"
        "(accuracy.md)), hides gradient exchange behind\n  the backward pass and prices collectives as NCCL runs them. "
        "Communication that is hidden cannot be saved by placing ranks better.\n\n";
  }

  std::string table_head() const {
    std::string head = "| point | nest |", line = "|---|---:|";
    for (const std::string& rival : rivals_) {
      head += fmt::format(" {} |", rival);
      line += "---:|";
    }
    return head + " nest's plan |\n" + line + "---|\n";
  }

  std::string row_of(const Point& point, const Record& record) const {
    const PlannerResult* own = record.find(rivals::kOwnPlanner);
    const bool plan = own != nullptr && own->has_plan();
    std::string row = fmt::format("| {} | {} |", label_of(point), plan ? format_duration(own->judged_s()) : "-");
    for (const std::string& rival : rivals_) {
      const std::optional<double> ratio = record.ratio(rival);
      row += fmt::format(" {} |", ratio ? times(*ratio) : "-");
    }
    const std::string why = own == nullptr ? "" : own->note;
    return row + fmt::format(" {}{} |\n", plan ? own->strategy : why, plan && !own->optimal ? " (not proven)" : "");
  }

  void section(const GroupText& group) {
    out_ += fmt::format("## {}\n\n{}\n\n", group.title, group.says);
    std::vector<Point> points;
    int missing = 0;
    for (const Point& point : all_points()) {
      if (point.group != group.name) continue;
      if (record_of(point) == nullptr) {
        ++missing;
      } else {
        points.push_back(point);
      }
    }
    if (group.name == std::string("memory")) context_note();
    draw(group, points);
    if (!points.empty()) out_ += table_head();
    for (const Point& point : points) out_ += row_of(point, *record_of(point));
    if (missing > 0) out_ += fmt::format("\n{} points of this group were not run.\n", missing);
    out_ += "\n";
  }

  // The paper gives BERT 120 MB per device; what our accounting counts before any tensor decides whether that can be.
  void context_note() {
    for (const Point& point : distinct_points("memory")) {
      const PlannerResult* own = own_of(point);
      const bool asked = point.model == "bert-large" && point.memory_bytes == kPaperBertBytes && point.settings.empty();
      if (!asked || own == nullptr) continue;
      out_ += fmt::format(
          "In the paper BERT runs in {:g} MB per device. Here {} plan fits in that. The framework's context and "
          "libraries alone count {}.\n\n",
          static_cast<double>(point.memory_bytes) * 1e-6, own->has_plan() ? "a" : "no",
          format_bytes(cost::context_bytes(job_of(point), Strategy{})));
    }
  }

  // One figure per model.
  void draw(const GroupText& group, const std::vector<Point>& points) {
    std::vector<std::string> models;
    for (const Point& point : points) {
      if (std::find(models.begin(), models.end(), point.model) == models.end()) models.push_back(point.model);
    }
    for (const std::string& model : models) {
      html::BarChart chart;
      chart.title = fmt::format("{}: {}", group.title, model);
      chart.axis = "throughput over nest's";
      chart.series = rivals_;
      chart.mark = "nest";
      chart.mark_value = 1;
      for (const Point& point : points) {
        const Record& record = *record_of(point);
        const PlannerResult* own = record.find(rivals::kOwnPlanner);
        if (point.model != model || own == nullptr || !own->has_plan()) continue;
        html::BarChart::Group bars{
            group.name == std::string("memory") ? label_of(point).substr(model.size() + 2) : short_label(point),
            {},
            {}};
        for (const std::string& rival : rivals_) {
          const std::optional<double> ratio = record.ratio(rival);
          bars.values.push_back(ratio ? std::optional<double>(1 / *ratio) : std::nullopt);
        }
        chart.groups.push_back(std::move(bars));
      }
      if (chart.groups.empty()) continue;
      const std::string file = fmt::format("{}-{}.svg", group.name, model);
      figures_[file] = html::bar_chart_svg(chart);
      out_ += fmt::format("![{}: throughput of every planner's plan over nest's]({}/{})\n", chart.title, folder_, file);
    }
    out_ += "\n";
  }

  void losses() {
    constexpr std::size_t kShown = 15;
    struct Loss {
      double ratio;
      const Record* record;
      const PlannerResult* result;
    };
    std::vector<Loss> all;
    for (const auto& [id, record] : records_) {
      for (const PlannerResult& result : record.planners) {
        const std::optional<double> ratio = record.ratio(result.planner);
        if (ratio && *ratio > 1 + kNoticed) all.push_back({*ratio, &record, &result});
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const Loss& a, const Loss& b) { return a.ratio > b.ratio; });
    out_ += fmt::format(
        "## Where others lose most\n\nOf {} plans that are slower than nest's by more than a thousandth, the {} "
        "slowest.\n\n| point | planner | ratio | its plan | differs in |\n|---|---|---:|---|---|\n",
        all.size(), std::min(kShown, all.size()));
    for (std::size_t k = 0; k < std::min(kShown, all.size()); ++k) {
      const Loss& loss = all[k];
      out_ += fmt::format("| {} | {} | {} | {} | {} |\n", loss.record->id, loss.result->planner, times(loss.ratio),
                          loss.result->strategy,
                          differences(loss.record->find(rivals::kOwnPlanner)->strategy, loss.result->strategy));
    }
    std::map<std::string, int> counts;
    for (const Loss& loss : all) {
      const std::string names = differences(loss.record->find(rivals::kOwnPlanner)->strategy, loss.result->strategy);
      for (const std::string_view name : split_text(names, ',')) ++counts[std::string(trim(name))];
    }
    std::vector<std::pair<int, std::string>> order;
    order.reserve(counts.size());
    for (const auto& [name, count] : counts) order.emplace_back(-count, name);
    std::sort(order.begin(), order.end());
    std::vector<std::string> said;
    said.reserve(order.size());
    for (const auto& [count, name] : order) said.push_back(fmt::format("{} ({})", name, -count));
    if (!said.empty()) out_ += fmt::format("\nOver all of them, plans differ from nest's in {}.\n", join_words(said));
    out_ += "\n";
  }

  void searches() {
    out_ +=
        "## Search time\n\nProcessor time of one thread. The paper reports 3 minutes to 1.5 hours for NEST and up to "
        "48 hours for Alpa.\n\n"
        "| planner | median | longest | stopped by the limit |\n|---|---:|---:|---:|\n";
    std::vector<std::string> names{rivals::kOwnPlanner};
    names.insert(names.end(), rivals_.begin(), rivals_.end());
    for (const std::string& name : names) {
      int stopped = 0;
      for (const auto& [id, record] : records_) {
        const PlannerResult* result = record.find(name);
        if (result != nullptr && result->stopped) ++stopped;
      }
      const Tally sum = tally(records_, name);
      out_ += fmt::format("| {} | {} | {} | {} |\n", name, format_duration(sum.median_search_s),
                          format_duration(sum.longest_search_s), stopped);
    }
    out_ += "\n";
  }

  // nest's plans: what the formula says of them.
  void simulations() {
    out_ +=
        "## Predicted and executed\n\nEvery plan was executed event by event on the same network ([simulation.md]"
        "(../simulation.md)); ratios on this page are of executed\nsteps. nest's plan is the one that execution "
        "chose, beside the formula's prediction of it:\n\n";
    std::string rows, not_done;
    int done = 0;
    double worst = 0;
    for (const Point& point : distinct_points()) {
      const PlannerResult* own = own_of(point);
      if (own == nullptr || !own->has_plan()) continue;
      if (own->simulated_s <= 0) {
        not_done += fmt::format("- {}: not executed: {}\n", point.id(), own->simulation_note);
        continue;
      }
      ++done;
      const double apart = own->simulated_s / own->iteration_s - 1;
      worst = std::max(worst, std::abs(apart));
      rows += fmt::format("| {} | {} | {} | {:+.2f} % |\n", point.id(), format_duration(own->iteration_s),
                          format_duration(own->simulated_s), 100 * apart);
    }
    if (!not_done.empty()) not_done += "\n";
    if (done == 0) {
      out_ += "Nothing was executed.\n\n" + not_done;
      return;
    }
    out_ += "| point | predicted | executed | apart |\n|---|---:|---:|---:|\n" + rows;
    out_ += fmt::format("\n{} of nest's plans were executed; prediction and execution are at most {:.2f} % apart.\n\n",
                        done, 100 * worst);
    out_ += not_done;
  }

  void conditions() {
    std::set<std::string> programs, limits, seeds, batches;
    for (const auto& [id, record] : records_) {
      programs.insert(record.program);
      limits.insert(fmt::format("{:g}", record.time_limit_s));
      seeds.insert(fmt::format("{}", record.seed));
      batches.insert(format_integer(record.batch));
    }
    const auto words = [](const std::set<std::string>& set) {
      return join_words(std::vector<std::string>(set.begin(), set.end()));
    };
    out_ += fmt::format(
        "## How it was run\n\n    make paper\n\nnest {}, {} sequences per batch. Every planner may take {} s per "
        "point; those that stop there keep the best plan so far. Seed {}.\nFinished points are kept in "
        "`build/paper.jsonl`, and a run that is interrupted goes on from there.\n",
        words(programs), words(batches), words(limits), words(seeds));
  }

  const Records records_, published_;
  std::string folder_;
  std::vector<std::string> rivals_;
  std::string out_;
  std::map<std::string, std::string> figures_;
};

}  // namespace

Page make_page(const Records& records, const std::string& folder) { return Writer(records, folder).write(); }

}  // namespace nest::paper
