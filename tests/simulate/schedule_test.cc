#include "simulate/schedule.h"

#include <gmock/gmock.h>

#include <map>

namespace nest {
namespace {

Strategy pipeline(Schedule schedule, std::int64_t pp, std::int64_t chunks = 1) {
  Strategy strategy;
  strategy.schedule = schedule;
  strategy.pp = pp;
  strategy.virtual_stages = chunks;
  return strategy;
}

// "F0 F1 B0 …", with the chunk after a dot where there are several.
std::string text(const Strategy& strategy, std::int64_t micro_batches, std::int64_t stage) {
  std::string line;
  for (const PipelineStep& step : stage_order(strategy, micro_batches, stage)) {
    if (!line.empty()) line += ' ';
    line += (step.backward ? 'B' : 'F') + std::to_string(step.micro_batch);
    if (strategy.virtual_stages > 1) line += '.' + std::to_string(step.chunk);
  }
  return line;
}

TEST(Schedule, GpipeRunsAllForwardsFirst) { EXPECT_EQ(text(pipeline(Schedule::gpipe, 2), 3, 0), "F0 F1 F2 B0 B1 B2"); }

TEST(Schedule, OneForwardOneBackward) {
  const Strategy s = pipeline(Schedule::one_f_one_b, 3);
  EXPECT_EQ(text(s, 4, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text(s, 4, 1), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text(s, 4, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(text(s, 1, 0), "F0 B0");
}

// Two stages, two chunks, four micro-batches; the last stage runs (2-1)*2 forwards ahead, the first two more.
TEST(Schedule, InterleavedTakesChunksInTurn) {
  const Strategy s = pipeline(Schedule::interleaved, 2, 2);
  EXPECT_EQ(text(s, 4, 1), "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(text(s, 4, 0), "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
}

TEST(Schedule, EveryPassOnceAndForwardBeforeBackward) {
  for (const std::int64_t pp : {2, 3, 4, 8}) {
    for (const std::int64_t chunks : {1, 2, 3}) {
      for (const std::int64_t m : {1, 2, 3, 5, 8, 12}) {
        const Strategy s = pipeline(chunks > 1 ? Schedule::interleaved : Schedule::one_f_one_b, pp, chunks);
        for (std::int64_t stage = 0; stage < pp; ++stage) {
          std::map<std::pair<int, int>, int> seen;  // 1: forward done, 2: backward done
          for (const PipelineStep& step : stage_order(s, m, stage)) {
            int& state = seen[{step.micro_batch, step.chunk}];
            EXPECT_EQ(state, step.backward ? 1 : 0);
            ++state;
          }
          EXPECT_EQ(static_cast<std::int64_t>(seen.size()), m * chunks);
          for (const auto& [pass, state] : seen) EXPECT_EQ(state, 2);
        }
      }
    }
  }
}

std::size_t index_of(std::int64_t value) { return static_cast<std::size_t>(value); }

// Whether stages that keep to the order, and wait for each other, ever end.
bool order_ends(const Strategy& strategy, std::int64_t micro_batches) {
  const std::int64_t last = strategy.pp - 1, chunks = strategy.virtual_stages;
  std::vector<std::vector<PipelineStep>> orders;
  for (std::int64_t s = 0; s <= last; ++s) orders.push_back(stage_order(strategy, micro_batches, s));
  std::vector<bool> done(index_of(2 * strategy.pp * micro_batches * chunks), false);
  const auto index = [&](std::int64_t stage, bool backward, std::int64_t micro_batch, std::int64_t chunk) {
    return index_of((((backward ? 1 : 0) * strategy.pp + stage) * micro_batches + micro_batch) * chunks + chunk);
  };
  const auto ready = [&](std::int64_t s, const PipelineStep& step) {
    const std::int64_t edge = step.backward ? last : 0;
    if (s != edge)
      return static_cast<bool>(done[index(s + (step.backward ? 1 : -1), step.backward, step.micro_batch, step.chunk)]);
    if (step.chunk == (step.backward ? chunks - 1 : 0)) return true;
    return static_cast<bool>(
        done[index(last - edge, step.backward, step.micro_batch, step.chunk + (step.backward ? 1 : -1))]);
  };
  std::vector<std::size_t> next(index_of(strategy.pp), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::int64_t s = 0; s <= last; ++s) {
      const std::vector<PipelineStep>& order = orders[index_of(s)];
      for (std::size_t& k = next[index_of(s)]; k < order.size() && ready(s, order[k]); ++k, moved = true) {
        done[index(s, order[k].backward, order[k].micro_batch, order[k].chunk)] = true;
      }
    }
  }
  return std::all_of(done.begin(), done.end(), [](bool one) { return one; });
}

TEST(Schedule, StagesNeverWaitForEachOtherInTurn) {
  for (std::int64_t pp = 2; pp <= 8; ++pp) {
    for (std::int64_t chunks = 1; chunks <= 4; ++chunks) {
      const Strategy s = pipeline(chunks > 1 ? Schedule::interleaved : Schedule::one_f_one_b, pp, chunks);
      for (std::int64_t m = 1; m <= 32; ++m) {
        EXPECT_TRUE(order_ends(s, m)) << pp << " stages, " << chunks << " chunks, " << m << " micro-batches";
      }
    }
  }
}

}  // namespace
}  // namespace nest
