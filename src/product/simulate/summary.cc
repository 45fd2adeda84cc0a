#include "simulate/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/units.h"

namespace nest::simulate {
namespace {

struct Interval {
  double begin = 0;
  double end = 0;
};

class Summary {
 public:
  Summary(const LoweredPlan& plan, const Timeline& timeline, const Prediction& prediction)
      : plan_(plan), time_(timeline), work_(plan.work) {
    result_.predicted_s = prediction.iteration_s;
    result_.predicted_breakdown_s = prediction.breakdown_s;
    result_.iteration_s = timeline.total_s / static_cast<double>(plan.steps);
    result_.engine = timeline.engine;
    step_ = static_cast<std::int32_t>(plan.steps) - 1;  // the last one speaks for all
  }

  SimulationSummary run() {
    find_times();
    use_stages();
    break_down();
    use_links();
    result_.slowed = slowed_transfers(plan_, time_);
    result_.cause = explain();
    return std::move(result_);
  }

 private:
  double length(std::size_t i) const { return time_.end_s[i] - time_.start_s[i]; }
  bool counted(std::size_t i) const { return plan_.labels[i].step == step_; }
  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

  // Start of the step, end of its last backward, and the class of replicas that ends last.
  void find_times() {
    for (std::size_t i = 0; i < plan_.labels.size(); ++i) {
      const ActivityLabel& label = plan_.labels[i];
      if (label.part == Part::overhead && label.step == step_ - 1) step_begin_ = time_.end_s[i];
      if (!counted(i)) continue;
      if (label.part == Part::backward && time_.end_s[i] > passes_end_) {
        passes_end_ = time_.end_s[i];
        last_class_ = label.replicas;
      }
      if (label.part == Part::head_gradient) head_end_ = std::max(head_end_, time_.end_s[i]);
    }
  }

  // Adds an activity to the slices of the step that it touches.
  void spread(std::size_t i, std::array<double, kSlices>& slices) const {
    const double slice_s = (time_.total_s - step_begin_) / static_cast<double>(kSlices);
    if (slice_s <= 0) return;
    const double begin = (time_.start_s[i] - step_begin_) / slice_s, end = (time_.end_s[i] - step_begin_) / slice_s;
    for (auto k = at(static_cast<std::int64_t>(begin)); k < kSlices && static_cast<double>(k) < end; ++k) {
      const auto left = static_cast<double>(k);
      slices[k] += std::min(end, left + 1) - std::max(begin, left);
    }
  }

  // Of overlapped messages, the time before a pass for which its stage computes nothing and one is on its way to it.
  static double waited_s(std::vector<Interval> computing, std::vector<Interval> travelling) {
    const auto by_begin = [](const Interval& a, const Interval& b) { return a.begin < b.begin; };
    std::sort(computing.begin(), computing.end(), by_begin);
    std::sort(travelling.begin(), travelling.end(), by_begin);
    double seconds = 0, since = 0;
    auto message = travelling.begin();
    for (const Interval& pass : computing) {
      for (; message != travelling.end() && message->begin < pass.begin; ++message) {
        const double end = std::min(message->end, pass.begin);
        const double begin = std::max(message->begin, since);
        if (end <= begin) continue;
        seconds += end - begin;
        since = end;
      }
      since = std::max(since, pass.end);
    }
    return seconds;
  }

  void use_stages() {
    result_.stages.assign(work_.stages.size(), {});
    std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, bool>, Interval> passes;
    std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, bool>, double> shards, tokens;
    std::vector<std::vector<Interval>> travelling(work_.stages.size());  // messages behind compute
    for (std::size_t i = 0; i < plan_.labels.size(); ++i) {
      const ActivityLabel& label = plan_.labels[i];
      if (!counted(i) || label.stage < 0 || (label.replicas >= 0 && label.replicas != last_class_)) continue;
      StageUse& use = result_.stages[at(label.stage)];
      const auto pass = std::tuple(label.stage, label.micro_batch, label.chunk, label.backward);
      if (label.part == Part::forward || label.part == Part::backward) {
        use.compute_s += length(i);
        spread(i, use.computing);
        Interval& whole = passes.try_emplace(pass, Interval{time_.start_s[i], 0}).first->second;
        whole.end = std::max(whole.end, time_.end_s[i]);
        if (label.backward) use.end_s = std::max(use.end_s, time_.end_s[i] - step_begin_);
      } else if (label.part == Part::message && !label.hidden) {
        use.message_s += length(i);
        spread(i, use.waiting);
      } else if (label.part == Part::message) {
        travelling[at(label.stage)].push_back({time_.start_s[i], time_.end_s[i]});
      } else if (label.part == Part::tokens && !label.hidden) {
        use.token_s += length(i);
        spread(i, use.waiting);
      } else if (label.part == Part::tokens) {
        double& end = tokens[pass];
        end = std::max(end, time_.end_s[i]);
      } else if (label.part == Part::shard && !label.hidden) {
        use.shard_s += length(i);
        spread(i, use.waiting);
      } else if (label.part == Part::shard) {
        double& end = shards[pass];
        end = std::max(end, time_.end_s[i]);
      }
    }
    // Exchanges beside a pass that lasted longer than it.
    for (const auto& [pass, end] : shards) {
      const auto whole = passes.find(pass);
      if (whole == passes.end()) continue;
      result_.stages[at(std::get<0>(pass))].shard_s += std::max(0.0, end - whole->second.end);
    }
    for (const auto& [pass, end] : tokens) {
      const auto whole = passes.find(pass);
      if (whole == passes.end()) continue;
      result_.stages[at(std::get<0>(pass))].token_s += std::max(0.0, end - whole->second.end);
    }
    for (std::size_t s = 0; s < travelling.size(); ++s) {
      std::vector<Interval> computing;
      for (const auto& [pass, whole] : passes) {
        if (std::get<0>(pass) == static_cast<std::int32_t>(s)) computing.push_back(whole);
      }
      result_.stages[s].message_s += waited_s(std::move(computing), std::move(travelling[s]));
    }
    for (StageUse& use : result_.stages) {
      use.idle_s = std::max(0.0, passes_end_ - step_begin_ - use.compute_s - use.message_s - use.token_s - use.shard_s);
    }
  }

  void break_down() {
    slowest_ = 0;
    double update_s = 0;
    for (std::size_t s = 0; s < work_.stages.size(); ++s) {
      if (work_.stages[s].time.total > work_.stages[slowest_].time.total) slowest_ = s;
      update_s = std::max(update_s, work_.stages[s].optimizer_s);
    }
    const StageWork& stage = work_.stages[slowest_];
    const StageUse& use = result_.stages[slowest_];
    const auto m = static_cast<double>(work_.micro_batches);
    auto& parts = result_.breakdown_s;
    const double played_s = stage.to_experts.exposed_s() + stage.from_experts.exposed_s() - stage.tokens_again_s;
    parts.recompute = m * (stage.time.recompute - stage.tokens_again_s);
    parts.tp = m * stage.time.tp;
    parts.cp = m * stage.time.cp;
    parts.ep = m * (stage.time.ep - played_s);
    // With the head gradients that do not wait.
    parts.compute = use.compute_s - parts.recompute - parts.tp - parts.cp - parts.ep;
    // Tokens that are sent again belong to the recomputation.
    const double again = played_s > 0 ? stage.tokens_again_s / (played_s + stage.tokens_again_s) : 0;
    parts.ep += (1 - again) * use.token_s;
    parts.recompute += again * use.token_s;
    parts.p2p = use.message_s;
    parts.zero = use.shard_s;
    parts.bubble = use.idle_s;
    const double head_after_s = std::max(0.0, head_end_ - passes_end_);
    parts.optimizer = update_s;
    parts.other = head_after_s + work_.step_s;
    // Whole steps are alike but for the first; the parts are those of the last one, scaled to the mean.
    const double step_s = time_.total_s - step_begin_;
    const double until_s = passes_end_ - step_begin_;
    parts.grad_sync = std::max(0.0, step_s - until_s - head_after_s - update_s - work_.step_s);
    const double scale = step_s > 0 ? result_.iteration_s / step_s : 1;
    for (const BreakdownPart& phase : kBreakdownParts) parts.*phase.seconds *= scale;
  }

  // Bytes of every link; a route's bytes count as often as it loads the link.
  void use_links() {
    const SimulationProgram& program = plan_.program;
    std::vector<double> bytes(program.links.size(), 0);
    for (std::size_t i = 0; i < program.activities.size(); ++i) {
      if (!counted(i)) continue;
      for (const SimulatedFlow& flow : program.activities[i].flows) {
        for (const RouteLoad& load : program.routes[at(flow.route)].loads) {
          bytes[at(load.link)] += flow.bytes * static_cast<double>(load.times);
        }
      }
    }
    busy_.assign(bytes.size(), 0);
    for (std::size_t l = 0; l < bytes.size(); ++l) {
      const SimulatedLink& link = program.links[l];
      busy_[l] = bytes[l] / link.bytes_per_s / result_.iteration_s;
      if (bytes[l] > 0)
        result_.links.push_back({link.name, busy_[l], link.alike, bytes[l] * static_cast<double>(link.parts)});
    }
    std::stable_sort(result_.links.begin(), result_.links.end(),
                     [](const LinkUse& a, const LinkUse& b) { return a.busy > b.busy; });
  }

  // The link that limits an exchange most: by what one flow of the exchange takes of it, then by how busy it is.
  std::string narrowest_link(std::int32_t exchange) const {
    double slowest = -1;
    std::size_t name = plan_.program.links.size();
    for (std::size_t i = 0; i < plan_.labels.size(); ++i) {
      if (plan_.labels[i].exchange != exchange) continue;
      for (const SimulatedFlow& flow : plan_.program.activities[i].flows) {
        for (const RouteLoad& load : plan_.program.routes[at(flow.route)].loads) {
          const SimulatedLink& link = plan_.program.links[at(load.link)];
          const double weight = flow.bytes * static_cast<double>(load.times) / link.bytes_per_s;
          const double rank = weight * (1 + busy_[at(load.link)]);
          if (rank > slowest) {
            slowest = rank;
            name = at(load.link);
          }
        }
      }
    }
    if (name == plan_.program.links.size()) return "no shared link";
    const SimulatedLink& link = plan_.program.links[name];
    const std::string more =
        link.alike > 1 ? fmt::format(" (and {} like it)", format_integer(link.alike - 1)) : std::string();
    return fmt::format("{}{}, {} busy over the step", link.name, more, format_percent(busy_[name]));
  }

  // The longest transfer of one part, as its exchange and receiver.
  const ActivityLabel* longest(Part part) const {
    const ActivityLabel* found = nullptr;
    double most = 0;
    for (std::size_t i = 0; i < plan_.labels.size(); ++i) {
      const ActivityLabel& label = plan_.labels[i];
      if (!counted(i) || label.part != part || label.exchange < 0 || length(i) <= most) continue;
      if (part == Part::message && label.stage != static_cast<std::int32_t>(slowest_)) continue;
      most = length(i);
      found = &label;
    }
    return found;
  }

  std::string explain_transfer(Part part, const char* what) const {
    const ActivityLabel* label = longest(part);
    if (label == nullptr) return fmt::format("{} of stage {}", what, slowest_);
    if (part == Part::message) {
      return fmt::format("{} from stage {} to stage {}: {}", what, label->from_stage, label->stage,
                         narrowest_link(label->exchange));
    }
    return fmt::format("{} of stage {}: {}", what, label->stage, narrowest_link(label->exchange));
  }

  std::string explain() const {
    if (std::abs(result_.iteration_s / result_.predicted_s - 1) <= kWorthSaying) return {};
    const BreakdownPart* worst = nullptr;
    double most = 0;
    for (const BreakdownPart& phase : kBreakdownParts) {
      const double apart = std::abs(result_.breakdown_s.*phase.seconds - result_.predicted_breakdown_s.*phase.seconds);
      if (apart > most) {
        most = apart;
        worst = &phase;
      }
    }
    if (worst == nullptr) return {};
    const double simulated = result_.breakdown_s.*worst->seconds;
    const double predicted = result_.predicted_breakdown_s.*worst->seconds;
    const std::string sizes =
        fmt::format(" ({} simulated, {} predicted)", format_duration(simulated), format_duration(predicted));
    const std::string key = worst->key;
    if (key == "p2p") return explain_transfer(Part::message, "messages") + sizes;
    if (key == "ep") return explain_transfer(Part::tokens, "routed tokens") + sizes;
    if (key == "zero") return explain_transfer(Part::shard, "sharded state") + sizes;
    if (key == "grad_sync") return explain_transfer(Part::reduce, "gradients") + sizes;
    if (key == "bubble") return explain_bubble() + sizes;
    return fmt::format("{} of stage {}{}", worst->name, slowest_, sizes);
  }

  // The messages that lose most to others on their links; empty when none loses much.
  std::string explain_slowed() const {
    struct Loss {
      double seconds = 0;
      double alone_s = 0;
      const ActivityLabel* label = nullptr;
    };
    std::map<std::int32_t, Loss> losses;
    for (std::size_t i = 0; i < plan_.labels.size(); ++i) {
      const ActivityLabel& label = plan_.labels[i];
      if (!counted(i) || label.part != Part::message) continue;
      Loss& loss = losses[label.exchange];
      loss.seconds += length(i);
      loss.alone_s += alone_seconds(plan_.program, plan_.program.activities[i]);
      loss.label = &label;
    }
    const Loss* worst = nullptr;
    for (const auto& [exchange, loss] : losses) {
      if (worst == nullptr || loss.seconds - loss.alone_s > worst->seconds - worst->alone_s) worst = &loss;
    }
    if (worst == nullptr || worst->seconds < 1.1 * worst->alone_s) return {};
    return fmt::format("messages from stage {} to stage {} take {:.2f} times as long as alone: {}",
                       worst->label->from_stage, worst->label->stage, worst->seconds / worst->alone_s,
                       narrowest_link(worst->label->exchange));
  }

  // Why the slowest stage waits more or less than the law of the pipeline says.
  std::string explain_bubble() const {
    const bool longer = result_.breakdown_s.bubble > result_.predicted_breakdown_s.bubble;
    if (longer) {
      if (std::string slowed = explain_slowed(); !slowed.empty()) return slowed;
    }
    double rest = 0;
    for (const StageWork& stage : work_.stages) rest += stage.time.total;
    rest -= work_.stages[slowest_].time.total;
    const double mean = work_.stages.size() > 1 ? rest / static_cast<double>(work_.stages.size() - 1) : 0;
    const double ratio = mean > 0 ? work_.stages[slowest_].time.total / mean : 1;
    return fmt::format("stage {} waits {} for the others; it takes {:.2f} times as long as they do on average",
                       slowest_, longer ? "longer" : "less", ratio);
  }

  const LoweredPlan& plan_;
  const Timeline& time_;
  const PlanWork& work_;
  SimulationSummary result_;
  std::int32_t step_ = 0;
  double step_begin_ = 0;
  double passes_end_ = 0;
  double head_end_ = 0;
  std::int32_t last_class_ = 0;
  std::size_t slowest_ = 0;
  std::vector<double> busy_;
};

}  // namespace

SimulationSummary summarise(const LoweredPlan& plan, const Timeline& timeline, const Prediction& prediction) {
  return Summary(plan, timeline, prediction).run();
}

}  // namespace nest::simulate
