#include "schedule/rules.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "more_schedules.h"
#include "schedule/generators.h"
#include "schedule/pipeline.h"

namespace nest::schedule {
namespace {

std::string text(Schedule kind, const Shape& shape, std::int64_t stage) {
  std::string line;
  for (const Operation& operation : rule_of(kind).order(shape, stage)) {
    line += (line.empty() ? "" : " ") + to_string(operation, shape.chunks);
  }
  return line;
}

TEST(Rules, EveryScheduleHasOne) {
  std::set<Schedule> kinds;
  for (const Rule& rule : rules()) {
    EXPECT_TRUE(kinds.insert(rule.kind).second);
    EXPECT_EQ(&rule_of(rule.kind), &rule);
  }
  EXPECT_THAT(kinds, testing::SizeIs(kScheduleWords.size()));
}

TEST(Rules, GpipeRunsAllForwardsFirst) {
  EXPECT_EQ(text(Schedule::gpipe, {2, 1, 3}, 0), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(text(Schedule::gpipe, {1, 1, 3}, 0), "F0 B0 F1 B1 F2 B2");  // without a pipeline
}

TEST(Rules, OneForwardOneBackward) {
  const Shape shape{3, 1, 4};
  EXPECT_EQ(text(Schedule::one_f_one_b, shape, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text(Schedule::one_f_one_b, shape, 1), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text(Schedule::one_f_one_b, shape, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(text(Schedule::one_f_one_b, {3, 1, 1}, 0), "F0 B0");
}

// Two stages, two chunks, four micro-batches; the last stage runs (2-1)*2 forwards ahead, the first two more.
TEST(Rules, InterleavedTakesChunksInTurn) {
  const Shape shape{2, 2, 4};
  EXPECT_EQ(text(Schedule::interleaved, shape, 1),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(text(Schedule::interleaved, shape, 0),
            "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
}

// The places of the missing fourth micro-batch stay empty.
TEST(Rules, AShortLastGroupKeepsItsPlaces) {
  const Shape shape{2, 2, 3};
  EXPECT_EQ(text(Schedule::interleaved, shape, 1), "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 B1.0 F2.1 B2.1 B2.0");
  EXPECT_EQ(text(Schedule::interleaved, shape, 0), "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 B1.1 F2.1 B0.0 B1.0 B2.1 B2.0");
}

TEST(Rules, GroupsMayBeLarger) {
  EXPECT_EQ(text(Schedule::interleaved, {2, 2, 3, 3}, 1),
            "F0.0 F1.0 F2.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 B0.0 B1.0 B2.0");
  EXPECT_EQ(text(Schedule::interleaved, {2, 2, 5, 3}, 1),
            "F0.0 F1.0 F2.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.0 B0.0 F4.0 B1.0 F3.1 B2.0 F4.1 B3.1 B4.1 B3.0 B4.0");
}

TEST(Rules, RefuseWhatCannotRun) {
  const auto refused = [](Schedule kind, const Shape& shape) { return refuse(rule_of(kind), shape); };
  EXPECT_EQ(refused(Schedule::one_f_one_b, {4, 1, 8}), "");
  EXPECT_EQ(refused(Schedule::gpipe, {1, 1, 1}), "");
  EXPECT_EQ(refused(Schedule::interleaved, {4, 2, 7}), "");
  EXPECT_EQ(refused(Schedule::interleaved, {4, 2, 8, 8}), "");
  EXPECT_EQ(refused(Schedule::one_f_one_b, {4, 2, 8}), "2 virtual stages need the interleaved schedule");
  EXPECT_EQ(refused(Schedule::gpipe, {4, 3, 8}), "3 virtual stages need the interleaved schedule");
  EXPECT_EQ(refused(Schedule::interleaved, {1, 2, 8}), "2 virtual stages need a pipeline; pp is 1");
  EXPECT_EQ(refused(Schedule::interleaved, {4, 1, 8}), "the interleaved schedule needs at least 2 virtual stages");
  EXPECT_EQ(refused(Schedule::interleaved, {4, 2, 8, 3}), "groups of 3 micro-batches are smaller than the 4 stages");
  EXPECT_EQ(refused(Schedule::zbv, {4, 2, 1}), "");
  EXPECT_EQ(refused(Schedule::zbv, {4, 3, 8}), "schedule zbv has 2 virtual stages, not 3");
  EXPECT_EQ(refused(Schedule::v_half, {4, 1, 8}), "schedule v-half has 2 virtual stages, not 1");
  EXPECT_EQ(refused(Schedule::zbv, {1, 2, 8}), "2 virtual stages need a pipeline; pp is 1");
  EXPECT_EQ(refused(Schedule::zb_h1, {4, 2, 8}), "2 virtual stages need the interleaved schedule");
  EXPECT_EQ(refused(Schedule::dualpipev, {4, 2, 7}), "schedule dualpipev needs 8 micro-batches for 4 stages, not 7");
  EXPECT_EQ(refused(Schedule::dualpipev, {4, 2, 8}), "");
  EXPECT_NE(refused(Schedule::gpipe, {0, 1, 1}), "");
  EXPECT_NE(refused(Schedule::gpipe, {1, 1, 0}), "");
  EXPECT_THROW(Pipeline(Schedule::gpipe, {4, 3, 8}), std::logic_error);
}

// What is in flight, by the orders and as closed forms.
void expect_held(const Rule& rule, const Shape& shape) {
  if (!refuse(rule, shape).empty()) return;
  const std::int64_t last = shape.micro_batches % shape.grouped();
  const bool exact = shape.chunks == 1 || last == 0 || last >= shape.stages || rule.order == zbv;
  const std::vector<Order> orders = orders_of(rule, shape);
  for (std::int64_t s = 0; s < shape.stages; ++s) {
    const std::int64_t held = most_held(orders[static_cast<std::size_t>(s)]), closed = rule.held(shape, s);
    if (exact && rule.orders == nullptr ? held == closed : held <= closed) continue;
    FAIL() << "schedule " << static_cast<int>(rule.kind) << ": p " << shape.stages << ", v " << shape.chunks << ", m "
           << shape.micro_batches << ", g " << shape.group << ", stage " << s << ": " << held << " and " << closed;
  }
}

TEST(Rules, TheClosedFormIsWhatTheOrdersHold) {
  for (std::int64_t p = 1; p <= 16; ++p) {
    for (std::int64_t v = 1; v <= 6; ++v) {
      for (std::int64_t m = 1; m <= 64; ++m) {
        for (const Rule& rule : rules()) expect_held(rule, {p, v, m});
        if (p > 6 || v > 3) continue;
        for (const std::int64_t group : {p + 1, 2 * p}) expect_held(rule_of(Schedule::interleaved), {p, v, m, group});
      }
    }
  }
}

TEST(Rules, InFlightByHand) {
  EXPECT_EQ(in_flight(Schedule::one_f_one_b, {4, 1, 16}, 0), 4);
  EXPECT_EQ(in_flight(Schedule::one_f_one_b, {4, 1, 16}, 3), 1);
  EXPECT_EQ(in_flight(Schedule::one_f_one_b, {4, 1, 2}, 0), 2);
  EXPECT_EQ(in_flight(Schedule::gpipe, {4, 1, 16}, 3), 16);
  EXPECT_EQ(in_flight(Schedule::gpipe, {1, 1, 16}, 0), 1);
  EXPECT_EQ(in_flight(Schedule::interleaved, {4, 5, 16}, 0), 4.6);    // (2*3 + 4*4 + 1) / 5
  EXPECT_EQ(in_flight(Schedule::interleaved, {4, 8, 16}, 3), 3.625);  // (0 + 7*4 + 1) / 8
  EXPECT_EQ(in_flight(Schedule::interleaved, {4, 2, 2}, 0), 2);       // never more than there are
  EXPECT_EQ(in_flight(Schedule::zb_h1, {4, 1, 8}, 3), 4);
  EXPECT_EQ(in_flight(Schedule::zbv, {4, 2, 8}, 0), 4);
  EXPECT_EQ(in_flight(Schedule::dualpipev, {4, 2, 8}, 0), 4.5);
  EXPECT_EQ(in_flight(Schedule::v_half, {8, 2, 16}, 0), 5);
  EXPECT_EQ(in_flight(Schedule::v_min, {8, 2, 16}, 0), 3.5);
  EXPECT_EQ(in_flight(test::interleaved_one_ahead(), {4, 2, 8}, 0), 6);  // no closed form: the order is asked
}

// Two stages, two chunks, two micro-batches: stage 0 runs F0.0 F1.0 F0.1 F1.1 first, stage 1 F0.0 F1.0 F0.1 B0.1 F1.1 …
TEST(Rules, KeptByHand) {
  const Shape shape{2, 2, 2};
  const std::vector<Order> orders = orders_of(rule_of(Schedule::interleaved), shape);
  EXPECT_EQ(most_kept(orders[0], {3, 1}), 8);        // 3 + 3 + 1 + 1
  EXPECT_EQ(most_kept(orders[1], {3, 1}), 7);        // 3 + 3 + 1
  EXPECT_EQ(most_kept(orders[1], {3, 1}, true), 8);  // F1.1 before B0.1
  for (const Rule& rule : rules()) {
    const Shape some{4, rule.fewest_chunks, 12};
    for (const Order& order : orders_of(rule, some)) {
      const std::vector<double> equal(static_cast<std::size_t>(some.chunks), 1);
      EXPECT_EQ(most_kept(order, equal), static_cast<double>(most_held(order)));
    }
  }
  // The vectors of one chunk ahead.
  const std::vector<Order> four = orders_of(rule_of(Schedule::interleaved), {4, 2, 8});
  for (std::size_t s = 0; s < 4; ++s) EXPECT_EQ(most_kept(four[s], {1, 1}, true), 12 - 2.0 * static_cast<double>(s));
}

// Every pass once: a backward or an input's gradient after its forward, weights' gradients after the input's.
TEST(Rules, OrdersAreComplete) {
  for (const std::int64_t p : {1, 2, 3, 4, 8}) {
    for (const std::int64_t v : {1, 2, 3}) {
      for (const std::int64_t m : {1, 2, 3, 5, 8, 12, 19}) {
        for (const Rule& rule : rules()) {
          const Shape shape{p, v, m};
          if (!refuse(rule, shape).empty()) continue;
          for (const Order& order : orders_of(rule, shape)) {
            std::map<std::pair<int, int>, std::string> seen;
            for (const Operation& operation : order) {
              seen[std::pair(operation.micro_batch, operation.chunk)] += letter(operation.pass);
            }
            EXPECT_EQ(static_cast<std::int64_t>(seen.size()), m * v);
            for (const auto& [pass, letters] : seen) {
              EXPECT_TRUE(letters == "FB" || (rule.is_split() && letters == "FIW")) << letters;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace nest::schedule
