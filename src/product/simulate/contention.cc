#include "simulate/contention.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "base/index.h"
#include "base/text.h"
#include "base/units.h"

namespace nest::simulate {
namespace {

constexpr double kSlowed = 1.01;        // times as long as alone
constexpr std::size_t kMostBeside = 3;  // that are named

using TransferKind = std::tuple<Part, std::int32_t, std::int32_t>;  // part, from stage, stage

TransferKind kind_of(const ActivityLabel& label) { return {label.part, label.from_stage, label.stage}; }

std::string words_of(const TransferKind& kind) {
  const auto [part, from, stage] = kind;
  switch (part) {
    case Part::message: return fmt::format("messages from stage {} to stage {}", from, stage);
    case Part::tokens: return fmt::format("routed tokens of stage {}", stage);
    case Part::shard: return fmt::format("sharded state of stage {}", stage);
    case Part::reduce: return fmt::format("gradients of stage {}", stage);
    case Part::gather: return fmt::format("weights of stage {}", stage);
    default: return to_string(part);
  }
}

// Seconds that a transfer alone keeps every link busy, by link, and the least latency of those that load it.
struct LinkNeed {
  double busy_s = 0;
  double latency_s = std::numeric_limits<double>::infinity();
};

std::map<std::int32_t, LinkNeed> needs_of(const SimulationProgram& program, const SimulatedActivity& transfer) {
  std::map<std::int32_t, LinkNeed> needs;
  for (const SimulatedFlow& flow : transfer.flows) {
    for (const RouteLoad& load : program.routes[at(flow.route)].loads) {
      LinkNeed& need = needs[load.link];
      need.busy_s += flow.bytes * real(load.times) / program.links[at(load.link)].bytes_per_s;
      need.latency_s = std::min(need.latency_s, flow.latency_s);
    }
  }
  return needs;
}

struct Under {  // a transfer on a link
  double begin_s = 0, end_s = 0;
  TransferKind kind;
};

class Slowed {
 public:
  Slowed(const LoweredPlan& plan, const Timeline& timeline) : plan_(plan), time_(timeline) {
    step_ = static_cast<std::int32_t>(plan.steps) - 1;
    for (std::size_t i = 0; i < plan.labels.size(); ++i) {
      const ActivityLabel& label = plan.labels[i];
      if (label.part == Part::overhead && label.step == step_ - 1) began_s_ = std::max(began_s_, timeline.end_s[i]);
    }
  }

  std::vector<SlowedTransfers> find(double least) {
    measure();
    std::vector<SlowedTransfers> found;
    const double step_s = time_.total_s - began_s_;
    for (auto& [kind, kind_loss] : losses_) {
      if (kind_loss.said.lost_s() < least * step_s) continue;
      describe(kind, kind_loss);
      found.push_back(std::move(kind_loss.said));
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const SlowedTransfers& a, const SlowedTransfers& b) { return a.lost_s() > b.lost_s(); });
    return found;
  }

 private:
  struct KindLoss {
    SlowedTransfers said;
    std::vector<std::size_t> slowed;         // activities
    std::map<std::int32_t, double> links_s;  // what they need of every link
  };

  bool is_transfer(std::size_t i) const {
    return plan_.labels[i].step == step_ && !plan_.program.activities[i].flows.empty();
  }

  void measure() {
    for (std::size_t i = 0; i < plan_.labels.size(); ++i) {
      if (!is_transfer(i)) continue;
      const SimulatedActivity& transfer = plan_.program.activities[i];
      const double taken_s = time_.end_s[i] - time_.start_s[i], alone_s = alone_seconds(plan_.program, transfer);
      if (taken_s <= kSlowed * alone_s) continue;
      KindLoss& loss = losses_[kind_of(plan_.labels[i])];
      SlowedTransfers& said = loss.said;
      said.begin_s =
          said.count == 0 ? time_.start_s[i] - began_s_ : std::min(said.begin_s, time_.start_s[i] - began_s_);
      said.end_s = std::max(said.end_s, time_.end_s[i] - began_s_);
      ++said.count;
      said.taken_s += taken_s;
      said.alone_s += alone_s;
      loss.slowed.push_back(i);
      for (const auto& [link, need] : needs_of(plan_.program, transfer)) loss.links_s[link] += need.busy_s;
    }
  }

  void describe(const TransferKind& kind, KindLoss& loss) const {
    const auto longest = std::max_element(loss.links_s.begin(), loss.links_s.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    const SimulatedLink& link = plan_.program.links[at(longest->first)];
    loss.said.what = words_of(kind);
    loss.said.link = link.name;
    loss.said.alike = link.alike;
    const std::vector<Under> others = others_on(longest->first, kind);
    std::map<TransferKind, double> together_s;
    double most_s = 0;
    for (const Under& other : others) most_s = std::max(most_s, other.end_s - other.begin_s);
    for (const std::size_t i : loss.slowed) {
      const double begin_s = time_.start_s[i], end_s = time_.end_s[i];
      const auto first = std::lower_bound(others.begin(), others.end(), begin_s - most_s,
                                          [](const Under& other, double when_s) { return other.begin_s < when_s; });
      for (auto other = first; other != others.end() && other->begin_s < end_s; ++other) {
        const double both_s = std::min(end_s, other->end_s) - std::max(begin_s, other->begin_s);
        if (both_s > 0) together_s[other->kind] += both_s;
      }
    }
    std::vector<std::pair<double, TransferKind>> order;
    order.reserve(together_s.size());
    for (const auto& [other, seconds] : together_s) order.emplace_back(-seconds, other);
    std::sort(order.begin(), order.end());
    for (std::size_t k = 0; k < std::min(kMostBeside, order.size()); ++k) {
      loss.said.beside.push_back(words_of(order[k].second));
    }
  }

  // By their begin.
  std::vector<Under> others_on(std::int32_t link, const TransferKind& own) const {
    std::vector<Under> others;
    for (std::size_t i = 0; i < plan_.labels.size(); ++i) {
      if (!is_transfer(i) || kind_of(plan_.labels[i]) == own) continue;
      const auto& flows = plan_.program.activities[i].flows;
      const bool there = std::any_of(flows.begin(), flows.end(), [&](const SimulatedFlow& flow) {
        const auto& loads = plan_.program.routes[at(flow.route)].loads;
        return flow.bytes > 0 &&
               std::any_of(loads.begin(), loads.end(), [&](const RouteLoad& load) { return load.link == link; });
      });
      if (there) others.push_back({time_.start_s[i], time_.end_s[i], kind_of(plan_.labels[i])});
    }
    std::sort(others.begin(), others.end(), [](const Under& a, const Under& b) { return a.begin_s < b.begin_s; });
    return others;
  }

  const LoweredPlan& plan_;
  const Timeline& time_;
  std::int32_t step_ = 0;
  double began_s_ = 0;
  std::map<TransferKind, KindLoss> losses_;
};

}  // namespace

std::string to_text(const SlowedTransfers& slowed, double step_s) {
  const std::string others = slowed.beside.empty() ? "" : fmt::format(" beside {}", join_words(slowed.beside));
  const std::string like = slowed.alike > 1 ? fmt::format(" (and {} like it)", format_integer(slowed.alike - 1)) : "";
  return fmt::format("{} take {:.2f} times as long as alone ({} of {} lost), on {}{}{}, {} to {} of the step",
                     slowed.what, slowed.taken_s / slowed.alone_s, format_duration(slowed.lost_s()),
                     format_duration(slowed.taken_s), slowed.link, like, others,
                     format_percent(slowed.begin_s / step_s), format_percent(slowed.end_s / step_s));
}

double alone_seconds(const SimulationProgram& program, const SimulatedActivity& transfer) {
  double longest_s = 0;
  for (const SimulatedFlow& flow : transfer.flows) {
    double per_byte_s = 0;
    for (const RouteLoad& load : program.routes[at(flow.route)].loads) {
      per_byte_s = std::max(per_byte_s, real(load.times) / program.links[at(load.link)].bytes_per_s);
    }
    longest_s = std::max(longest_s, flow.latency_s + flow.bytes * per_byte_s);
  }
  for (const auto& [link, need] : needs_of(program, transfer)) {
    longest_s = std::max(longest_s, need.latency_s + need.busy_s);
  }
  return longest_s;
}

std::vector<SlowedTransfers> slowed_transfers(const LoweredPlan& plan, const Timeline& timeline, double least) {
  return Slowed(plan, timeline).find(least);
}

}  // namespace nest::simulate
