#include "schedule/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "schedule/generators.h"

namespace nest::schedule {
namespace {

constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int64_t>::max();

constexpr std::array kRules = {
    Rule{Schedule::one_f_one_b, 1, 1, one_f_one_b, nullptr, round_robin, one_f_one_b_held, 0, 0},
    Rule{Schedule::interleaved, 2, kAnyNumber, interleaved, nullptr, round_robin, interleaved_held, 0, 0},
    Rule{Schedule::gpipe, 1, 1, gpipe, nullptr, round_robin, gpipe_held, 0, 0},
    Rule{Schedule::zb_h1, 1, 1, zb_h1, nullptr, round_robin, zb_h1_held, 0, 2},
    Rule{Schedule::zbv, 2, 2, zbv, nullptr, there_and_back, zbv_held, 0, 2},
    Rule{Schedule::v_half, 2, 2, nullptr, v_half, there_and_back, v_half_held, 0, kUnsettled},
    Rule{Schedule::v_min, 2, 2, nullptr, v_min, there_and_back, v_min_held, 0, kUnsettled},
    Rule{Schedule::dualpipev, 2, 2, dualpipev, nullptr, there_and_back, dualpipev_held, 2, 2},
};

}  // namespace

std::span<const Rule> rules() { return kRules; }

const Rule& rule_of(Schedule kind) {
  const auto found = std::find_if(kRules.begin(), kRules.end(), [kind](const Rule& rule) { return rule.kind == kind; });
  NEST_CHECK(found != kRules.end(), "every schedule has a rule");
  return *found;
}

std::string refuse(const Rule& rule, const Shape& shape) {
  const std::int64_t v = shape.chunks;
  if (shape.stages < 1 || v < 1 || shape.micro_batches < 1) return "a pipeline has stages, chunks and micro-batches";
  if (v > 1 && !rule.interleaves()) return fmt::format("{} virtual stages need the interleaved schedule", v);
  if (v > 1 && shape.stages < 2) return fmt::format("{} virtual stages need a pipeline; pp is 1", v);
  if (v != 2 && rule.is_v()) return fmt::format("schedule {} has 2 virtual stages, not {}", to_string(rule.kind), v);
  if (v < 2 && rule.interleaves()) return "the interleaved schedule needs at least 2 virtual stages";
  if (shape.micro_batches < rule.fewest * shape.stages) {
    return fmt::format("schedule {} needs {} micro-batches for {} stages, not {}", to_string(rule.kind),
                       rule.fewest * shape.stages, shape.stages, shape.micro_batches);
  }
  if (shape.grouped() < shape.stages) {
    return fmt::format("groups of {} micro-batches are smaller than the {} stages", shape.group, shape.stages);
  }
  return {};
}

std::vector<Order> orders_of(const Rule& rule, const Shape& shape) {
  if (rule.orders != nullptr) return rule.orders(shape);
  std::vector<Order> orders;
  orders.reserve(static_cast<std::size_t>(shape.stages));
  for (std::int64_t s = 0; s < shape.stages; ++s) orders.push_back(rule.order(shape, s));
  return orders;
}

Order order_of(const Rule& rule, const Shape& shape, std::int64_t stage) {
  return rule.order != nullptr ? rule.order(shape, stage) : orders_of(rule, shape)[static_cast<std::size_t>(stage)];
}

std::int64_t most_held(const Order& order) {
  std::int64_t held = 0, most = 0;
  for (const Operation& operation : order) {
    switch (operation.pass) {
      case Pass::forward: most = std::max(most, ++held); break;
      case Pass::backward:
      case Pass::weight_gradient: --held; break;
      case Pass::input_gradient: break;
    }
  }
  return most;
}

double most_kept(const Order& order, const std::vector<double>& kept, bool ahead) {
  double held = 0, most = 0, freed = 0;  // `freed` by the last backward, which one that runs ahead does not see yet
  for (const Operation& operation : order) {
    const double bytes = kept[static_cast<std::size_t>(operation.chunk)];
    switch (operation.pass) {
      case Pass::forward: most = std::max(most, (held += bytes) + (ahead ? freed : 0)); break;
      case Pass::backward:
      case Pass::weight_gradient:
        held -= bytes;
        freed = bytes;
        break;
      case Pass::input_gradient: break;
    }
  }
  return most;
}

double in_flight(const Rule& rule, const Shape& shape, std::int64_t stage) {
  const std::int64_t chunks = rule.held != nullptr ? rule.held(shape, stage) : most_held(order_of(rule, shape, stage));
  return static_cast<double>(chunks) / static_cast<double>(shape.chunks);
}

double in_flight(Schedule kind, const Shape& shape, std::int64_t stage) {
  return in_flight(rule_of(kind), shape, stage);
}

std::int64_t round_robin(const Shape& shape, std::int64_t stage, std::int64_t chunk) {
  return chunk * shape.stages + stage;
}

Order one_by_one(Pass pass, std::int64_t micro_batches) {
  Order order;
  order.reserve(static_cast<std::size_t>(micro_batches));
  for (std::int64_t i = 0; i < micro_batches; ++i) order.push_back({pass, 0, static_cast<std::int32_t>(i)});
  return order;
}

Order in_turn(const Order& forwards, const Order& backwards, std::int64_t first) {
  Order order(forwards.begin(), forwards.begin() + first);
  order.reserve(2 * forwards.size());
  for (std::size_t i = 0, next = static_cast<std::size_t>(first); i < backwards.size(); ++i, ++next) {
    if (next < forwards.size()) order.push_back(forwards[next]);
    order.push_back(backwards[i]);
  }
  return order;
}

char letter(Pass pass) { return "FBIW"[static_cast<std::size_t>(pass)]; }

std::string to_string(const Operation& operation, std::int64_t chunks) {
  std::string text = letter(operation.pass) + std::to_string(operation.micro_batch);
  if (chunks > 1) text += '.' + std::to_string(operation.chunk);
  return text;
}

}  // namespace nest::schedule
