#include "schedule/pipeline.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include "more_schedules.h"
#include "schedule/step_time.h"

namespace nest::schedule {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Whole stages of F 1 and B 2 (I 1, W 1), in equal chunks.
PipelineSeconds of_guide(const Shape& shape) {
  const double v = static_cast<double>(shape.chunks);
  PipelineSeconds seconds;
  seconds.chunks.assign(at(shape.positions()), {1 / v, 1 / v, 1 / v});
  return seconds;
}

struct Vector {
  const char* name;
  Rule rule;
  Shape shape;
  double total_s;
  std::vector<std::int64_t> held;  // chunks
};

// Four stages, eight micro-batches, messages of no time.
TEST(Pipeline, VectorsOfTheGuide) {
  const Rule& interleaved = rule_of(Schedule::interleaved);
  const Vector vectors[] = {
      {"1F1B", rule_of(Schedule::one_f_one_b), {4, 1, 8}, 33, {4, 3, 2, 1}},
      {"ZB-H1", rule_of(Schedule::zb_h1), {4, 1, 8}, 27, {4, 4, 4, 4}},
      {"interleaved v2 g4", interleaved, {4, 2, 8}, 28.5, {11, 9, 7, 5}},
      {"interleaved v2 g4, one ahead", test::interleaved_one_ahead(), {4, 2, 8}, 28.5, {12, 10, 8, 6}},
      {"interleaved v2 g8", interleaved, {4, 2, 8, 8}, 28.5, {15, 13, 11, 9}},
      {"ZBV", rule_of(Schedule::zbv), {4, 2, 8}, 25.5, {8, 8, 8, 8}},
      {"DualPipeV", rule_of(Schedule::dualpipev), {4, 2, 8}, 27, {9, 9, 9, 9}},
      {"GPipe", rule_of(Schedule::gpipe), {4, 1, 8}, 33, {8, 8, 8, 8}},
  };
  for (const Vector& vector : vectors) {
    const Pipeline pipeline(vector.rule, vector.shape);
    const PlayedPipeline played = play(pipeline, of_guide(vector.shape));
    EXPECT_NEAR(played.total_s, vector.total_s, 1e-12) << vector.name;
    EXPECT_NEAR(played.busiest_s, 24, 1e-12) << vector.name;
    EXPECT_NEAR(played.bubble_s(), vector.total_s - 24, 1e-12) << vector.name;
    std::vector<std::int64_t> held;
    for (const Order& order : pipeline.orders()) held.push_back(most_held(order));
    EXPECT_EQ(held, vector.held) << vector.name;
  }
}

// stage 0: F0 0-1, F1 1-2, (waits) B0 4-6, B1 7-9;  stage 1: F0 1-2, B0 2-4, F1 4-5, B1 5-7
TEST(Pipeline, TwoStagesByHand) {
  const Pipeline pipeline(Schedule::one_f_one_b, {2, 1, 2});
  const PlayedPipeline played = play(pipeline, of_guide(pipeline.shape()));
  const std::vector<std::vector<std::pair<double, double>>> expected = {{{0, 1}, {1, 2}, {4, 6}, {7, 9}},
                                                                        {{1, 2}, {2, 4}, {4, 5}, {5, 7}}};
  for (std::size_t s = 0; s < 2; ++s) {
    for (std::size_t k = 0; k < 4; ++k) {
      EXPECT_EQ(std::pair(played.stages[s][k].begin_s, played.stages[s][k].end_s), expected[s][k]);
    }
  }
}

// A message that travels 0.5 s and is waited for 0.25 s: F0 0-1 on stage 0; on stage 1 F0 1.75-2.75, B0 2.75-4.75; B0 on
// stage 0 5.5-7.5.
TEST(Pipeline, MessagesByHand) {
  const Pipeline pipeline(Schedule::one_f_one_b, {2, 1, 1});
  PipelineSeconds seconds = of_guide(pipeline.shape());
  seconds.forward = seconds.backward = {{0.5, 0.25}};
  const PlayedPipeline played = play(pipeline, seconds);
  EXPECT_EQ(played.stages[1][0].begin_s, 1.75);
  EXPECT_EQ(played.stages[1][1].begin_s, 2.75);
  EXPECT_EQ(played.stages[0][1].begin_s, 5.5);
  EXPECT_EQ(played.total_s, 7.5);
}

// One stage: three forwards of 1, two backwards of 2, and a last one of 5 that has its head's gradients to compute.
TEST(Pipeline, LatePassesTakeTheirOwnTime) {
  const Pipeline pipeline(Schedule::one_f_one_b, {1, 1, 3});
  PipelineSeconds seconds = of_guide(pipeline.shape());
  seconds.late = {0, 2, {1, 1, 4}};
  EXPECT_DOUBLE_EQ(play(pipeline, seconds).total_s, 3 * 1 + 2 * 2 + 5);
}

TEST(Pipeline, NeighboursFollowTheChain) {
  const Pipeline pipeline(Schedule::interleaved, {3, 2, 3});
  EXPECT_EQ(pipeline.place(4), (Place{1, 1}));
  EXPECT_EQ(pipeline.position(2, 1), 5);
  const Operation forward{Pass::forward, 1, 2}, backward{Pass::backward, 0, 1};
  const auto from = pipeline.source(0, forward);  // the last stage's chunk 0
  ASSERT_TRUE(from);
  EXPECT_EQ(from->stage, 2);
  EXPECT_EQ(from->operation, (Operation{Pass::forward, 0, 2}));
  EXPECT_EQ(from->link, 2);
  EXPECT_FALSE(pipeline.target(2, forward));
  EXPECT_EQ(pipeline.source(2, backward)->stage, 0);
  EXPECT_EQ(pipeline.source(2, backward)->operation.chunk, 1);
  EXPECT_EQ(pipeline.target(2, backward)->stage, 1);
  EXPECT_EQ(pipeline.target(2, backward)->link, 1);
  EXPECT_FALSE(pipeline.target(0, backward));
  EXPECT_FALSE(pipeline.source(0, Operation{Pass::forward, 0, 0}));
  EXPECT_FALSE(pipeline.source(0, Operation{Pass::weight_gradient, 0, 0}));
}

TEST(Pipeline, StagesNeverWaitForEachOtherInTurn) {
  for (std::int64_t p = 2; p <= 8; ++p) {
    for (std::int64_t v = 1; v <= 4; ++v) {
      for (std::int64_t m = 1; m <= 32; ++m) {
        for (const std::int64_t group : {std::int64_t{0}, p + 1, 2 * p}) {
          const Shape shape{p, v, m, group};
          EXPECT_NO_THROW(play(Pipeline(v > 1 ? Schedule::interleaved : Schedule::one_f_one_b, shape), of_guide(shape)))
              << p << " stages, " << v << " chunks, " << m << " micro-batches in groups of " << group;
        }
      }
    }
  }
}

// --- seeded cases

struct Case {
  Schedule kind = Schedule::one_f_one_b;
  Shape shape;
  PipelineSeconds seconds;
  bool equal_stages = false, equal_chunks = false, messages = false;

  double forward_s(std::int64_t s) const { return sum(s, &PassSeconds::forward_s); }
  double backward_s(std::int64_t s) const { return sum(s, &PassSeconds::input_s) + sum(s, &PassSeconds::weight_s); }
  double stage_s(std::int64_t s) const { return forward_s(s) + backward_s(s); }

 private:
  double sum(std::int64_t s, double PassSeconds::*part) const {
    double total = 0;
    for (std::int64_t c = 0; c < shape.chunks; ++c) total += seconds.chunks[at(c * shape.stages + s)].*part;
    return total;
  }
};

Case random_case(std::mt19937_64& random) {
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const auto time = [&] { return 0.05 + 0.001 * static_cast<double>(below(1000)); };
  Case one;
  one.shape = {1 + below(8), 1, 1 + below(24)};
  one.kind = below(3) == 0 ? Schedule::gpipe : Schedule::one_f_one_b;
  if (one.shape.stages > 1 && below(2) == 0) {
    one.kind = Schedule::interleaved;
    one.shape.chunks = 2 + below(3);
    if (below(4) == 0) one.shape.group = one.shape.stages + below(4);
    if (below(2) == 0) one.shape.micro_batches = one.shape.stages * (1 + below(3));
  }
  one.equal_stages = below(3) == 0;
  one.equal_chunks = one.equal_stages || one.shape.chunks == 1 || below(2) == 0;
  one.messages = below(2) == 0;
  if (one.messages) one.seconds.sends = {below(2) == 0, below(2) == 0, below(2) == 0};
  for (std::int64_t g = 0; g < one.shape.positions(); ++g) {
    const bool again = one.equal_stages ? g > 0 : one.equal_chunks && g >= one.shape.stages;
    one.seconds.chunks.push_back(again ? one.seconds.chunks[one.equal_stages ? 0 : at(g % one.shape.stages)]
                                       : PassSeconds{time(), time(), time()});
    if (!one.messages || g + 1 == one.shape.positions()) continue;
    one.seconds.forward.push_back({time(), time()});
    one.seconds.backward.push_back({time(), time()});
  }
  return one;
}

// Whether the stage waits for the message of the operation before `next`, by what sends.h says in words.
bool is_held(const Case& one, const Order& order, std::size_t next) {
  const Sends& sends = one.seconds.sends;
  if (!sends.overlapped) return false;
  const auto is_forward = [](const Operation& operation) { return operation.pass == Pass::forward; };
  const auto begin = order.begin(), here = begin + static_cast<std::ptrdiff_t>(next);
  if (is_forward(here[-1])) {
    return sends.forward_blocks || (!sends.flush && std::all_of(begin, here, is_forward));
  }
  return !sends.flush && std::none_of(here, order.end(), is_forward);
}

// Second by second: the operation that can begin first, of all stages' next ones, is the next to run.
double simulated_s(const Case& one, const std::vector<Order>& orders) {
  const std::int64_t p = one.shape.stages, last = one.shape.positions() - 1;
  std::map<std::tuple<bool, std::int64_t, int>, double> ended;  // forward or not, position, micro-batch
  std::vector<std::size_t> next(at(p), 0);
  std::vector<double> free_s(at(p), 0);
  std::vector<std::array<double, 2>> asked_s(at(p), {0, 0});
  double total_s = 0;
  for (;;) {
    std::int64_t chosen = -1;
    double begin_s = 0;
    for (std::int64_t s = 0; s < p; ++s) {
      if (next[at(s)] == orders[at(s)].size()) continue;
      const Operation& operation = orders[at(s)][next[at(s)]];
      const bool forward = operation.pass == Pass::forward;
      const std::int64_t position = operation.chunk * p + s, source = position + (forward ? -1 : 1);
      double ready_s = free_s[at(s)], wait_s = 0;
      if (source >= 0 && source <= last) {
        const auto from = ended.find({forward, source, operation.micro_batch});
        if (from == ended.end()) continue;
        double arrives_s = from->second;
        if (one.messages && p > 1) {
          const MessageSeconds& message =
              forward ? one.seconds.forward[at(source)] : one.seconds.backward[at(position)];
          const Order& sender = orders[at(source % p)];
          const auto sent = std::find(sender.begin(), sender.end(),
                                      Operation{operation.pass, static_cast<std::int32_t>(source / p),
                                                operation.micro_batch, operation.paired});
          const auto after = static_cast<std::size_t>(sent - sender.begin()) + 1;
          if (one.seconds.sends.overlapped && !is_held(one, sender, after)) {
            arrives_s = std::max(arrives_s, asked_s[at(s)][forward ? 1 : 0]);
          }
          arrives_s += message.travel_s;
          wait_s = message.wait_s;
        }
        ready_s = std::max(ready_s, arrives_s);
      } else if (!forward && ended.count({true, position, operation.micro_batch}) == 0) {
        continue;
      }
      if (chosen >= 0 && ready_s + wait_s >= begin_s) continue;
      chosen = s;
      begin_s = ready_s + wait_s;
    }
    if (chosen < 0) break;
    const Operation& operation = orders[at(chosen)][next[at(chosen)]++];
    const bool forward = operation.pass == Pass::forward;
    const PassSeconds& seconds = one.seconds.chunks[at(operation.chunk * p + chosen)];
    const double end_s = begin_s + (forward ? seconds.forward_s : seconds.input_s + seconds.weight_s);
    const std::int64_t position = operation.chunk * p + chosen, target = position + (forward ? 1 : -1);
    free_s[at(chosen)] = ended[{forward, position, operation.micro_batch}] = end_s;
    asked_s[at(chosen)][forward ? 1 : 0] = end_s;
    if (one.messages && p > 1 && target >= 0 && target <= last && is_held(one, orders[at(chosen)], next[at(chosen)])) {
      free_s[at(chosen)] +=
          forward ? one.seconds.forward[at(position)].travel_s : one.seconds.backward[at(target)].travel_s;
    }
    total_s = std::max(total_s, end_s);
  }
  for (std::int64_t s = 0; s < p; ++s) EXPECT_EQ(next[at(s)], orders[at(s)].size());
  return total_s;
}

// What step_time.h says of the closed form. Returns whether it is exact.
bool expect_closed_forms(const Case& one, double played_s) {
  const std::int64_t p = one.shape.stages;
  const double m = static_cast<double>(one.shape.micro_batches), v = static_cast<double>(one.shape.chunks);
  double slowest = 0, sum = 0, forward = 0, backward = 0, low = 0;
  for (std::int64_t s = 0; s < p; ++s) {
    low = std::max(low, m * one.stage_s(s) + sum / v);
    sum += one.stage_s(s);
    slowest = std::max(slowest, one.stage_s(s));
    forward = std::max(forward, one.forward_s(s));
    backward = std::max(backward, one.backward_s(s));
  }
  const double law = step_time(m, v, slowest, sum), near = 1e-9 * law;
  const bool gpipe = one.kind == Schedule::gpipe && p > 1;
  const std::int64_t last = one.shape.micro_batches % one.shape.grouped();
  const bool grouped = one.shape.group > p && one.shape.group <= one.shape.micro_batches && (last == 0 || last >= p);
  const bool whole = one.shape.chunks == 1 || grouped || (one.shape.group <= p && one.shape.micro_batches % p == 0);
  if (gpipe) {
    EXPECT_NEAR(played_s, sum + (m - 1) * (forward + backward), near);
    EXPECT_GE(played_s, law - near);
    return one.equal_stages;
  }
  if (!one.equal_chunks || (one.shape.group > p && !whole)) return false;
  EXPECT_GE(played_s, low - near);
  EXPECT_GE(law, low - near);
  if (whole) {
    EXPECT_LE(played_s, (m + static_cast<double>(p - 1) / v) * (forward + backward) + near);
  } else if (one.equal_stages) {
    EXPECT_GE(played_s, law - near);
    EXPECT_LE(played_s,
              step_time(std::ceil(m / static_cast<double>(p)) * static_cast<double>(p), v, slowest, sum) + near);
  }
  const bool exact = (one.equal_stages && whole) || (one.shape.chunks == 1 && one.stage_s(p - 1) == slowest);
  if (exact) {
    EXPECT_NEAR(played_s, law, near);
  }
  return exact;
}

TEST(Pipeline, LongestPathIsTheSimulationAndTheClosedFormWhereItIsExact) {
  std::mt19937_64 random(20261115);
  int exact = 0, bounded = 0, short_groups = 0;
  for (int k = 0; k < 2000; ++k) {
    const Case one = random_case(random);
    const Pipeline pipeline(one.kind, one.shape);
    const PlayedPipeline played = play(pipeline, one.seconds);
    EXPECT_NEAR(played.total_s, simulated_s(one, pipeline.orders()), 1e-9) << "case " << k;
    short_groups += one.shape.chunks > 1 && one.shape.micro_batches % one.shape.grouped() != 0 ? 1 : 0;
    if (one.messages && one.shape.stages > 1) continue;
    ++bounded;
    exact += expect_closed_forms(one, played.total_s) ? 1 : 0;
    if (HasFailure())
      FAIL() << "case " << k << ": p " << one.shape.stages << ", v " << one.shape.chunks << ", m "
             << one.shape.micro_batches << ", g " << one.shape.group;
  }
  EXPECT_GT(exact, 300);
  EXPECT_GT(bounded, 900);
  EXPECT_GT(short_groups, 200);
}

TEST(StepTime, ByHand) {
  EXPECT_DOUBLE_EQ(step_time(8, 1, 3, 12), 33);       // 8*3 + 9
  EXPECT_DOUBLE_EQ(step_time(8, 2, 3, 12, 1.5), 30);  // 8*3 + 9/2 + 1.5
  EXPECT_DOUBLE_EQ(fill_time(2, 3, 12), 4.5);
  EXPECT_DOUBLE_EQ(slowest_within(8, 2, 12, 28.5, 0), 3);  // (28.5*2 - 12) / 15
  EXPECT_EQ(slowest_within(1, 1, 12, 12, 0), std::numeric_limits<double>::infinity());
  EXPECT_LT(slowest_within(1, 1, 12, 11, 0), 0);
  EXPECT_EQ(slowest_within(8, 2, 12, std::numeric_limits<double>::infinity(), 0),
            std::numeric_limits<double>::infinity());
}

// Equal stages, messages of x seconds that are on their way while stages compute.
TEST(Pipeline, OverlappedMessagesHideBehindThePassOfTheOtherDirection) {
  struct Sent {
    Shape shape;
    double x, total_s;
  };
  constexpr double kForward_s = 1, kBackward_s = 2;
  for (const Sent& vector : {Sent{{4, 2, 8}, 0, 57}, Sent{{4, 2, 32}, 0.1, 202.4}, Sent{{4, 2, 32}, 0.6, 209.4},
                             Sent{{4, 2, 32}, 1.2, 229.6}, Sent{{8, 4, 64}, 0.9, 844.8}, Sent{{4, 2, 8}, 0.6, 65.4},
                             Sent{{8, 2, 8}, 0.6, 87.0}}) {
    const Pipeline pipeline(Schedule::interleaved, vector.shape);
    PipelineSeconds seconds;
    seconds.chunks.assign(at(vector.shape.positions()), {kForward_s, kBackward_s, 0});
    seconds.forward.assign(at(vector.shape.positions() - 1), {vector.x, 0});
    seconds.backward = seconds.forward;
    seconds.sends = {true, false, true};
    EXPECT_NEAR(play(pipeline, seconds).total_s, vector.total_s, 1e-9) << vector.x;
    // Who waits for what is sent is slower, and slowest where it waits after every forward pass.
    seconds.sends.flush = false;
    const double held_s = play(pipeline, seconds).total_s;
    seconds.sends.forward_blocks = true;
    const double blocked_s = play(pipeline, seconds).total_s;
    EXPECT_GE(blocked_s, held_s - 1e-9);
    // At least one x in every slot.
    const double slots = static_cast<double>(vector.shape.micro_batches * vector.shape.chunks);
    EXPECT_GE(blocked_s, slots * (kForward_s + kBackward_s + vector.x) -
                             vector.x * static_cast<double>(vector.shape.micro_batches));
  }
}

}  // namespace
}  // namespace nest::schedule
