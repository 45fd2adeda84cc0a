#include "simulate/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

namespace nest::simulate {
namespace {

using Json = nlohmann::ordered_json;

// Processes of the trace: groups of tracks.
constexpr int kReplicas = 1;  // and one more per further class of replicas
constexpr int kLanes = 4;     // tracks of a stage for what all replicas do together

class Trace {
 public:
  Trace(const LoweredPlan& plan, const Timeline& timeline) : plan_(plan), time_(timeline) {
    classes_ = static_cast<int>(plan.symmetry().replica_classes());
    stages_ = static_cast<int>(plan.work.stages.size());
  }

  std::string write(const std::string& title) {
    name_tracks();
    for (std::size_t i = 0; i < plan_.labels.size(); ++i) add_activity(i);
    add_links();
    return fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n{}\n]}}\n",
                       Json({{"title", title}, {"engine", time_.engine}}).dump(), events_);
  }

 private:
  int exchange_process() const { return kReplicas + classes_; }
  int link_process() const { return exchange_process() + 1; }

  void add(const Json& event) {
    if (!events_.empty()) events_ += ",\n";
    events_ += event.dump();
  }

  void name(const char* what, int process, int thread, const std::string& text) {
    add({{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", text}}}});
  }

  void name_tracks() {
    std::vector<std::int64_t> members(static_cast<std::size_t>(classes_), 0);
    for (const std::int32_t c : plan_.symmetry().class_of_replica) ++members[static_cast<std::size_t>(c)];
    for (int c = 0; c < classes_; ++c) {
      const auto index = static_cast<std::size_t>(c);
      const std::int32_t first = plan_.symmetry().first_replica[index];
      name("process_name", kReplicas + c, 0,
           members[index] == 1 ? fmt::format("replica {}", first)
                               : fmt::format("replica {} ({} behave alike)", first, members[index]));
      for (int s = 0; s < stages_; ++s) name("thread_name", kReplicas + c, s, fmt::format("stage {}", s));
    }
    name("process_name", exchange_process(), 0, "all replicas together");
    name("thread_name", exchange_process(), stages_ * kLanes, "whole step");
  }

  // What all replicas of a stage do together, on tracks of their own because they overlap: named when first used.
  int lane(const ActivityLabel& label) {
    if (label.stage < 0) return stages_ * kLanes;
    constexpr std::array kNames = {"state per micro-batch", "gradients", "weights", "optimizer and head"};
    const int kind = label.part == Part::shard    ? 0
                     : label.part == Part::reduce ? 1
                     : label.part == Part::gather ? 2
                                                  : 3;
    const int thread = label.stage * kLanes + kind;
    if (named_.insert(thread).second) {
      name("thread_name", exchange_process(), thread,
           fmt::format("stage {} {}", label.stage, kNames[static_cast<std::size_t>(kind)]));
    }
    return thread;
  }

  void slice(const std::string& text, const char* category, int process, int thread, double start_s, double end_s,
             Json arguments) {
    if (end_s <= start_s) return;
    Json event = {{"ph", "X"},
                  {"name", text},
                  {"cat", category},
                  {"pid", process},
                  {"tid", thread},
                  {"ts", start_s * 1e6},
                  {"dur", (end_s - start_s) * 1e6}};
    if (!arguments.empty()) event["args"] = std::move(arguments);
    add(event);
  }

  static std::string title_of(const ActivityLabel& label, std::int64_t chunks) {
    switch (label.part) {
      case Part::forward:
      case Part::backward: {
        const std::string chunk = chunks > 1 ? fmt::format(".{}", label.chunk) : std::string();
        return fmt::format("{}{}{}", label.backward ? 'B' : 'F', label.micro_batch, chunk);
      }
      case Part::message: return fmt::format("wait for stage {}", label.from_stage);
      case Part::tokens: return label.backward ? "tokens of experts, backward" : "tokens of experts";
      default: return to_string(label.part);
    }
  }

  void add_activity(std::size_t i) {
    const ActivityLabel& label = plan_.labels[i];
    if (label.part == Part::join || ((label.part == Part::message || label.part == Part::tokens) && label.hidden)) {
      return;
    }
    const std::int64_t chunks = 1 + highest_chunk();
    const bool on_stage = label.replicas >= 0;
    const int process = on_stage ? kReplicas + label.replicas : exchange_process();
    const int thread = on_stage ? label.stage : lane(label);
    Json arguments = Json::object();
    if (label.micro_batch >= 0) arguments["micro_batch"] = label.micro_batch;
    if (label.hidden) arguments["behind_compute"] = true;
    slice(title_of(label, chunks), to_string(label.part), process, thread, time_.start_s[i], time_.end_s[i],
          std::move(arguments));
  }

  std::int32_t highest_chunk() {
    if (highest_chunk_ < 0) {
      for (const ActivityLabel& label : plan_.labels) highest_chunk_ = std::max(highest_chunk_, label.chunk);
      highest_chunk_ = std::max(highest_chunk_, 0);
    }
    return highest_chunk_;
  }

  // When a link carries anything, as merged intervals.
  void add_links() {
    const SimulationProgram& program = plan_.program;
    std::vector<std::vector<std::pair<double, double>>> uses(program.links.size());
    std::vector<double> seconds(program.links.size(), 0);
    for (std::size_t i = 0; i < program.activities.size(); ++i) {
      for (const SimulatedFlow& flow : program.activities[i].flows) {
        for (const RouteLoad& load : program.routes[static_cast<std::size_t>(flow.route)].loads) {
          const auto link = static_cast<std::size_t>(load.link);
          uses[link].emplace_back(time_.start_s[i], time_.end_s[i]);
          seconds[link] += flow.bytes * static_cast<double>(load.times) / program.links[link].bytes_per_s;
        }
      }
    }
    std::vector<std::size_t> order(program.links.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return seconds[a] > seconds[b]; });
    if (order.size() > kTracedLinks) order.resize(kTracedLinks);
    name("process_name", link_process(), 0, "busiest links");
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      const std::size_t link = order[rank];
      if (seconds[link] <= 0) break;
      const SimulatedLink& about = program.links[link];
      const std::string more = about.alike > 1 ? fmt::format(" (1 of {})", about.alike) : std::string();
      name("thread_name", link_process(), static_cast<int>(rank), about.name + more);
      auto& spans = uses[link];
      std::sort(spans.begin(), spans.end());
      for (std::size_t k = 0; k < spans.size();) {
        auto [begin, end] = spans[k];
        std::size_t transfers = 0;
        for (; k < spans.size() && spans[k].first <= end; ++k, ++transfers) end = std::max(end, spans[k].second);
        slice("busy", "link", link_process(), static_cast<int>(rank), begin, end, {{"transfers", transfers}});
      }
    }
  }

  const LoweredPlan& plan_;
  const Timeline& time_;
  int classes_ = 1;
  int stages_ = 1;
  std::int32_t highest_chunk_ = -1;
  std::set<int> named_;
  std::string events_;
};

}  // namespace

std::string chrome_trace(const LoweredPlan& plan, const Timeline& timeline, const std::string& title) {
  return Trace(plan, timeline).write(title);
}

}  // namespace nest::simulate
