#include "cost/overlap.h"

#include <algorithm>

#include "base/index.h"
#include "cost/constants.h"
#include "schedule/rules.h"

namespace nest::cost {

double pair_s(const PairedLayer& layer, double loss, bool delayed_weights) {
  const auto slot = [&](double compute_s, double exchange_s) {
    return std::max(exchange_s, compute_s + loss * exchange_s);
  };
  const double input_s = layer.experts_input_s + (delayed_weights ? 0 : layer.experts_weight_s);
  const double both_s = layer.experts_input_s + layer.experts_weight_s;
  const double middle_s = std::max(slot(both_s, layer.dispatch_s) + layer.experts_s + loss * layer.dispatch_back_s,
                                   slot(input_s, layer.dispatch_s) + layer.dispatch_back_s);
  return slot(layer.attention_s, layer.combine_back_s) + middle_s + slot(layer.attention_back_s, layer.combine_s);
}

double beside_s(double exchange_s, double work_s, double loss) {
  return std::max(0.0, exchange_s - work_s) + loss * std::min(exchange_s, work_s);
}

double dispatcher_share(const DispatchRule& rule, std::int64_t multiprocessors) {
  return multiprocessors > 0 ? std::min(1.0, rule.busy() / real(multiprocessors)) : 0;
}

double overlap_loss(const DispatchRule& rule, std::int64_t multiprocessors, bool crosses_units) {
  const double share = dispatcher_share(rule, multiprocessors);
  return crosses_units ? std::max(share, constants::kCrossingLoss) : share;
}

double alone_share(const Strategy& strategy, double micro_batches) {
  const auto p = real(strategy.pp), v = real(strategy.virtual_stages), g = real(strategy.grouped());
  if (strategy.pp > 1 && strategy.virtual_stages == 1) return 1;
  if (strategy.schedule == Schedule::dualpipev) return std::min(1.0, (3 * p - 1) / (2 * micro_batches));
  if (schedule::rule_of(strategy.schedule).is_split()) return 1;
  return std::min(1.0, (2 * (p - 1) + (v - 1) * g + 1) / (micro_batches * v));
}

bool can_pair(const SoftwareStack& stack, const Recomputation& recompute) {
  if (recompute.whole_layers()) return false;
  if (recompute.kind == Recompute::modules) return (recompute.modules & set_of(RecomputeModule::moe)) == 0;
  const auto& modules = stack.selective_modules;
  return recompute == Recompute::none || stack.selective != SelectiveKind::modules ||
         std::find(modules.begin(), modules.end(), model::Module::moe) == modules.end();
}

}  // namespace nest::cost
