#include "cost/messages.h"

#include <algorithm>

#include "schedule/rules.h"

namespace nest::cost {

schedule::Sends sends_of(const SoftwareStack& stack, const Strategy& strategy) {
  if (strategy.virtual_stages < 2 || !stack.pipeline_overlap) return {};
  return {true, stack.forward_sends_block, stack.flush_overlap};
}

MessageLines message_lines(const cluster::Cluster& cluster, const Strategy& strategy, schedule::Law law) {
  MessageLines lines;
  lines.hops.reserve(at(strategy.pp - 1));
  for (std::int64_t s = 0; s + 1 < strategy.pp; ++s) {
    lines.hops.push_back(message_line(cluster, strategy, s, s + 1, law));
  }
  lines.wrap = message_line(cluster, strategy, strategy.pp - 1, 0, law);
  return lines;
}

MessageRule::MessageRule(const Job& job, const Strategy& strategy, double mean_forward_s)
    : sends_(sends_of(job.stack, strategy)),
      least_(job.law == schedule::Law::least),
      chunks_(real(strategy.virtual_stages)),
      wraps_(real(schedule::rule_of(strategy.schedule).wraps(strategy.virtual_stages))),
      window_s_(mean_forward_s / chunks_) {
  const std::int64_t held = std::min(strategy.pp, micro_batches(strategy, job.run.global_batch));
  if (!sends_.flush) held_wraps_ = wraps_ * real(held);
}

double MessageRule::exposed_s(double message_s) const {
  if (!sends_.overlapped) return message_s;
  if (least_) return 0;
  return sends_.forward_blocks ? message_s / 2 : std::max(0.0, message_s - window_s_);
}

double MessageRule::least_share() const {
  if (!sends_.overlapped) return 1;
  return sends_.forward_blocks ? 0.5 : 0;
}

double MessageRule::fill_s(const MessageLines& lines, double least_cut_bytes, double wrap_bytes) const {
  if (!sends_.overlapped || least_) return 0;
  const auto hidden_s = [&](double message_s) { return 2 * (message_s - exposed_s(message_s)); };
  double seconds = held_wraps_ > 0 ? held_wraps_ * hidden_s(lines.wrap.at(wrap_bytes)) : 0;
  for (const CostLine& line : lines.hops) seconds += hidden_s(line.at(least_cut_bytes));
  return seconds;
}

void MessageRule::add_ways(const MessageLines& lines, double least_cut_bytes, double most_cut_bytes, double wrap_bytes,
                           schedule::StepForm& form) const {
  if (!least_) return;
  double hops_s = 0, longest_s = 0;
  for (const CostLine& line : lines.hops) {
    hops_s += line.at(least_cut_bytes);
    longest_s = std::max(longest_s, line.at(most_cut_bytes));
  }
  const double wrap_s = wraps_ > 0 ? lines.wrap.at(wrap_bytes) : 0, wrapped_s = wraps_ * wrap_s / chunks_;
  if (!sends_.overlapped) {
    form.end_s = -2 * wrapped_s - 2 * real(lines.hops.size()) * wrap_s / chunks_;
    form.waits_s = chunks_ * 2 * longest_s + 2 * wraps_ * wrap_s;
    return;
  }
  const double once_s = chunks_ * hops_s + wraps_ * wrap_s;
  form.way_s = sends_.forward_blocks ? once_s : 2 * once_s;
  form.end_s = sends_.forward_blocks ? hops_s - wrapped_s : 2 * hops_s;
  form.waits_s = sends_.forward_blocks ? std::max(chunks_ * longest_s, wraps_ * wrap_s) : 0;
}

MessageRule message_rule(const Job& job, const Strategy& strategy, const PriceTable& table) {
  const auto last = static_cast<int>(job.model.layer_count()) - 1;
  return {job, strategy, mean_stage(sum_stage(job, table, 0, last, strategy.pp), strategy.pp).forward_s};
}

std::vector<double> message_seconds(const MessageRule& rule, const MessageLines& lines, const Strategy& strategy,
                                    const PriceTable& table, const std::vector<StagePlan>& stages) {
  const auto chunks = real(strategy.virtual_stages);
  std::vector<double> seconds;
  seconds.reserve(lines.hops.size() + 1);
  for (std::size_t s = 0; s < lines.hops.size(); ++s) {
    seconds.push_back(chunks * rule.exposed_s(lines.hops[s].at(table.cut_bytes[at(stages[s].last)])));
  }
  const std::int64_t wraps = schedule::rule_of(strategy.schedule).wraps(strategy.virtual_stages);
  seconds.push_back(wraps > 0 ? real(wraps) * rule.exposed_s(lines.wrap.at(table.wrap_bytes)) : 0);
  return seconds;
}

}  // namespace nest::cost
