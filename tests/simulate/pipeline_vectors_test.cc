// Pipelines whose step is known: tables worked out by recurrences and by another simulation, played by the engine.
#include <gmock/gmock.h>

#include <map>

#include "schedule/pipeline.h"
#include "simulate/engine.h"

namespace nest::simulate {
namespace {

// How a stage receives.
enum class Receiving : std::uint8_t {
  quarter_late,  // three quarters of a message as soon as it is there, the rest when the stage has nothing else to do
  posted,        // all of it as soon as the stage has finished the pass before of the same direction
};

struct VectorCase {
  std::int64_t stages = 1;
  std::int64_t chunks = 1;
  std::int64_t micro_batches = 1;
  std::vector<double> forward;  // of one chunk; one entry: all stages alike
  std::vector<double> backward;
  double message = 0;  // seconds alone on the network
  Receiving receiving = Receiving::quarter_late;
  bool shared = false;  // one uplink and one downlink per stage; else a link per message
};

class VectorProgram {
 public:
  explicit VectorProgram(const VectorCase& one)
      : one_(one),
        pipeline_(one.chunks > 1 ? Schedule::interleaved : Schedule::one_f_one_b,
                  {one.stages, one.chunks, one.micro_batches}) {
    add_network();
    for (std::int64_t s = 0; s < one.stages; ++s) {
      for (const schedule::Operation& operation : pipeline_.order(s)) {
        const std::vector<double>& seconds = operation.is_forward() ? one.forward : one.backward;
        passes_[{s, key(operation)}] = add({seconds[seconds.size() > 1 ? static_cast<std::size_t>(s) : 0], {}, {}});
      }
    }
    for (std::int64_t s = 0; s < one.stages; ++s) connect(s);
  }

  double total_s() const { return execute(program_).total_s; }

 private:
  using Key = std::tuple<bool, std::int64_t, std::int64_t>;
  static Key key(const schedule::Operation& operation) {
    return {operation.is_forward(), operation.micro_batch, operation.chunk};
  }

  std::int32_t add(SimulatedActivity activity) {
    program_.activities.push_back(std::move(activity));
    return static_cast<std::int32_t>(program_.activities.size()) - 1;
  }
  void wait(std::int32_t activity, std::int32_t before) {
    if (before >= 0) program_.activities[static_cast<std::size_t>(activity)].after.push_back(before);
  }

  // Shared: route from · stages + to takes the sender's uplink and the receiver's downlink.
  void add_network() {
    if (!one_.shared) return;
    const auto stages = static_cast<std::int32_t>(one_.stages);
    program_.links.assign(2 * static_cast<std::size_t>(stages), {"wire", 1, 1, 1});
    for (std::int32_t from = 0; from < stages; ++from) {
      for (std::int32_t to = 0; to < stages; ++to) program_.routes.push_back({{{from, 1}, {stages + to, 1}}, 1});
    }
  }

  std::int32_t send(std::int64_t from, std::int64_t to, double share) {
    auto route = static_cast<std::int32_t>(from * one_.stages + to);
    if (!one_.shared) {
      route = static_cast<std::int32_t>(program_.routes.size());
      program_.links.push_back({"wire", 1, 1, 1});
      program_.routes.push_back({{{route, 1}}, 1});
    }
    return add({0, {{route, 0, share * one_.message}}, {}});
  }

  void connect(std::int64_t stage) {
    std::int32_t before = -1;
    std::map<bool, std::int32_t> before_alike = {{false, -1}, {true, -1}};
    for (const schedule::Operation& operation : pipeline_.order(stage)) {
      const bool forward = operation.is_forward();
      const std::int32_t pass = passes_.at({stage, key(operation)});
      wait(pass, before);
      if (const auto source = pipeline_.source(stage, operation)) {
        const std::int32_t sent = passes_.at({source->stage, key(source->operation)});
        if (one_.message <= 0 || source->stage == stage) {
          wait(pass, sent);
        } else if (one_.receiving == Receiving::posted) {
          const std::int32_t message = send(source->stage, stage, 1);
          wait(message, sent);
          wait(message, before_alike[forward]);
          wait(pass, message);
        } else {
          const std::int32_t early = send(source->stage, stage, 0.75);
          const std::int32_t late = send(source->stage, stage, 0.25);
          wait(early, sent);
          wait(late, early);
          wait(late, before);
          wait(pass, late);
        }
      } else if (!forward) {
        wait(pass, passes_.at({stage, {true, operation.micro_batch, operation.chunk}}));
      }
      before = before_alike[forward] = pass;
    }
  }

  VectorCase one_;
  schedule::Pipeline pipeline_;
  std::map<std::pair<std::int64_t, Key>, std::int32_t> passes_;
  SimulationProgram program_;
};

double played_s(const VectorCase& one) { return VectorProgram(one).total_s(); }

TEST(PipelineVectors, OneForwardOneBackwardWithUnequalStages) {
  const auto step = [](std::int64_t m, const std::vector<double>& f, const std::vector<double>& b) {
    return played_s({static_cast<std::int64_t>(f.size()), 1, m, f, b});
  };
  EXPECT_NEAR(step(8, {1, 1, 1, 1}, {2, 2, 2, 2}), 33, 1e-9);
  EXPECT_NEAR(step(8, {1.5, 1, 1, 1}, {3, 2, 2, 2}), 40.5, 1e-9);
  EXPECT_NEAR(step(8, {1, 1, 1, 1.5}, {2, 2, 2, 3}), 45, 1e-9);
  EXPECT_NEAR(step(8, {1, 1.5, 1, 1}, {2, 3, 2, 2}), 42, 1e-9);
  EXPECT_NEAR(step(16, {1, 1, 1, 1, 1, 1, 1, 1.2}, {2, 2, 2, 2, 2, 2, 2, 2.6}), 81.8, 1e-9);
  EXPECT_NEAR(step(16, {1.2, 1, 1, 1, 1, 1, 1, 1}, {2.4, 2, 2, 2, 2, 2, 2, 2}), 74.4, 1e-9);
  EXPECT_NEAR(step(3, {1.5, 1, 1, 1}, {3, 2, 2, 2}), 19.5, 1e-9);
  EXPECT_NEAR(step(12, {1, 1.3, 1.1, 1.3, 1.3, 1.1}, {2, 2.3, 2.1, 2.3, 2.3, 2.1}), 59.4, 1e-9);
}

// Chunks of 1 s forward and 2 s backward; messages that meet nobody.
TEST(PipelineVectors, InterleavedMessagesAlone) {
  const auto step = [](std::int64_t p, std::int64_t v, std::int64_t m, double x, Receiving receiving) {
    return played_s({p, v, m, {1}, {2}, x, receiving});
  };
  const auto late = Receiving::quarter_late, posted = Receiving::posted;
  EXPECT_NEAR(step(4, 2, 8, 0, late), 57, 1e-9);
  EXPECT_NEAR(step(4, 2, 32, 0.1, late), 204.575, 1e-9);
  EXPECT_NEAR(step(4, 2, 32, 0.6, late), 224.8, 1e-9);
  EXPECT_NEAR(step(4, 2, 32, 1.2, late), 251.1, 1e-9);
  EXPECT_NEAR(step(8, 4, 64, 0.9, late), 946.425, 1e-9);
  EXPECT_NEAR(step(4, 2, 8, 0.6, late), 67.65, 1e-9);
  EXPECT_NEAR(step(8, 2, 8, 0.6, late), 88.05, 1e-9);
  EXPECT_NEAR(step(4, 2, 32, 0.1, posted), 202.4, 1e-9);
  EXPECT_NEAR(step(4, 2, 32, 0.6, posted), 209.4, 1e-9);
  EXPECT_NEAR(step(4, 2, 32, 1.2, posted), 229.6, 1e-9);
  EXPECT_NEAR(step(8, 4, 64, 0.9, posted), 844.8, 1e-9);
  EXPECT_NEAR(step(4, 2, 8, 0.6, posted), 65.4, 1e-9);
  EXPECT_NEAR(step(8, 2, 8, 0.6, posted), 87.0, 1e-9);
}

// One stage per node, whose uplink and downlink both directions share: seconds per slot of one forward and one backward,
// between 4p and 6p micro-batches.
double slot_s(VectorCase one) {
  one.shared = true;
  const auto step = [&](std::int64_t rounds) {
    one.micro_batches = rounds * one.stages;
    return played_s(one);
  };
  return (step(6) - step(4)) / static_cast<double>(2 * one.stages * one.chunks);
}

// Known to as many digits as are written.
TEST(PipelineVectors, InterleavedMessagesThatShareAnUplink) {
  const auto slot = [](std::int64_t p, std::int64_t v, double f, double b, double x, Receiving receiving) {
    return slot_s({p, v, 0, {f}, {b}, x, receiving});
  };
  const auto late = Receiving::quarter_late, posted = Receiving::posted;
  EXPECT_NEAR(slot(8, 4, 0.15, 0.85, 0.1, late), 1.0893, 5e-5);
  EXPECT_NEAR(slot(4, 2, 1.0 / 3, 2.0 / 3, 0.2, late), 1.1458, 5e-5);
  EXPECT_NEAR(slot(4, 2, 1.0 / 3, 2.0 / 3, 0.5, late), 1.5775, 5e-5);
  EXPECT_NEAR(slot(8, 4, 0.15, 0.85, 0.1, posted), 1.0000, 5e-5);
  EXPECT_NEAR(slot(8, 4, 0.15, 0.85, 0.236, posted), 1.1720, 5e-5);
  EXPECT_NEAR(slot(8, 4, 0.15, 0.85, 0.3, posted), 1.3000, 5e-5);
  EXPECT_NEAR(slot(8, 4, 0.15, 0.85, 0.45, posted), 1.6000, 5e-5);
  EXPECT_NEAR(slot(4, 2, 1.0 / 3, 2.0 / 3, 0.2, posted), 1.0000, 5e-5);
  EXPECT_NEAR(slot(4, 2, 1.0 / 3, 2.0 / 3, 0.5, posted), 4.0 / 3, 5e-5);
}

// Longer messages of the same pipeline push each other round the stages: 1e-13 more or less of them is seen in the third
// digit, and two engines agree on no more than that.
TEST(PipelineVectors, LongSharedMessagesAmplifyRounding) {
  for (const auto& [message, known] : {std::pair(0.236, 1.2552), std::pair(0.3, 1.3894), std::pair(0.45, 1.6320)}) {
    double sum = 0, low = 1e300, high = 0;
    constexpr int kRuns = 20;
    for (int k = 0; k < kRuns; ++k) {
      const double slot = slot_s({8, 4, 0, {0.15}, {0.85}, message * (1 + 1e-13 * k), Receiving::quarter_late});
      sum += slot;
      low = std::min(low, slot);
      high = std::max(high, slot);
    }
    EXPECT_NEAR(sum / kRuns, known, 0.025 * known);
    EXPECT_GT(high - low, 1e-3);
  }
}

}  // namespace
}  // namespace nest::simulate
