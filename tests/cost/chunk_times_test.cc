// Stages that list their chunks: time and memory chunk by chunk, and the step from the order of passes.
#include "cost/chunk_times.h"

#include <gmock/gmock.h>

#include "cost_support.h"
#include "plan/chunk_blocks.h"
#include "plan/pipeline_shape.h"

namespace nest::cost {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Blocks of every chunk in the order of the chain; the ends of the model stand at its ends.
std::vector<StagePlan> listed(const Job& job, const Strategy& strategy, const std::vector<std::int64_t>& blocks,
                              int zero = 1, const Recomputation& recompute = Recompute::none) {
  std::vector<plan::StageBlocks> chunks(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) chunks[i].blocks = blocks[i];
  chunks.front().embedding = chunks.back().head = true;
  const schedule::Chain chain(schedule::rule_of(strategy.schedule),
                              plan::pipeline_shape(strategy, job.run.global_batch));
  std::vector<StagePlan> stages = plan::stages_of_chunks(job.model, chain, chunks);
  for (StagePlan& stage : stages) {
    stage.zero = zero;
    stage.zero_degree = 0;
    stage.recompute = recompute;
  }
  return stages;
}

double sum_of(const StagePlan& stage) {
  double seconds = 0;
  for (const ChunkPlan& chunk : stage.chunks) seconds += chunk.forward_s + chunk.backward_s;
  return seconds;
}

// Two stages of two chunks, two micro-batches; passes as Megatron runs them. A pass waits for the one before it on its
// stage, a forward for the chunk before it, a backward for the chunk after it.
double by_hand(const std::vector<StagePlan>& stages) {
  struct Pass {
    bool forward;
    int position, micro_batch;
  };
  const std::vector<std::vector<Pass>> orders = {{{true, 0, 0},
                                                  {true, 0, 1},
                                                  {true, 2, 0},
                                                  {true, 2, 1},
                                                  {false, 2, 0},
                                                  {false, 2, 1},
                                                  {false, 0, 0},
                                                  {false, 0, 1}},
                                                 {{true, 1, 0},
                                                  {true, 1, 1},
                                                  {true, 3, 0},
                                                  {false, 3, 0},
                                                  {true, 3, 1},
                                                  {false, 3, 1},
                                                  {false, 1, 0},
                                                  {false, 1, 1}}};
  double ends[2][4][2] = {};  // by direction, position, micro-batch
  double last_s = 0;
  for (int round = 0; round < 16; ++round) {  // until nothing changes any more
    for (std::size_t s = 0; s < 2; ++s) {
      double free_s = 0;
      for (const Pass& pass : orders[s]) {
        const ChunkPlan& chunk = stages[s].chunks[static_cast<std::size_t>(pass.position / 2)];
        const int from = pass.forward ? pass.position - 1 : pass.position + 1;
        const double ready_s = from < 0 || from > 3 ? 0 : ends[pass.forward ? 1 : 0][from][pass.micro_batch];
        free_s = std::max(free_s, ready_s) + (pass.forward ? chunk.forward_s : chunk.backward_s);
        ends[pass.forward ? 1 : 0][pass.position][pass.micro_batch] = free_s;
      }
      last_s = std::max(last_s, free_s);
    }
  }
  return last_s;
}

TEST(ChunkTimes, TheStepIsTheLongestPathThroughItsOrder) {
  Job job = test_job({.devices = 8, .batch = 2});
  job.stack.pipeline_overlap = false;
  const Strategy strategy = strategy_of({.tp = 4, .pp = 2, .virtual_stages = 2, .sp = true});
  for (const std::vector<std::int64_t>& blocks :
       {std::vector<std::int64_t>{8, 8, 8, 8}, {2, 14, 10, 6}, {0, 16, 16, 0}, {12, 0, 8, 12}}) {
    const std::vector<StagePlan> stages = listed(job, strategy, blocks);
    ASSERT_EQ(refuse_strategy(job, strategy, stages), "");
    const Plan plan = evaluate(job, strategy, stages);
    double slowest = 0;
    for (const StagePlan& stage : plan.stages) {
      EXPECT_NEAR(sum_of(stage), stage.time.total, 1e-12);
      slowest = std::max(slowest, stage.time.total);
    }
    const auto& parts = plan.prediction.breakdown_s;
    const double once = parts.grad_sync + parts.optimizer + parts.other;
    EXPECT_NEAR(plan.prediction.iteration_s, by_hand(plan.stages) + once, 1e-12);
    EXPECT_NEAR(parts.bubble, by_hand(plan.stages) - 2 * slowest, 1e-12);
    EXPECT_THAT(plan.assumptions, Contains(HasSubstr("chunks are modelled one by one")));
  }
}

// Where chunks take the same time, the formula is exact: embedding and head make the only difference.
TEST(ChunkTimes, EvenChunksCostAboutWhatTheirRunDoes) {
  const Job job = test_job({.model = "llama3-70b", .devices = 64, .batch = 32});
  const Strategy strategy = strategy_of({.tp = 8, .pp = 4, .dp = 2, .virtual_stages = 5, .sp = true});
  const Plan runs = evaluate(job, strategy, even_stages(job, strategy, Recompute::none, 1));
  const Plan chunks = evaluate(job, strategy, listed(job, strategy, std::vector<std::int64_t>(20, 4)));
  EXPECT_NEAR(chunks.prediction.iteration_s / runs.prediction.iteration_s, 1, 0.01);
  for (std::size_t s = 0; s < 4; ++s) {
    EXPECT_NEAR(chunks.stages[s].time.total, runs.stages[s].time.total, 0.002 * runs.stages[s].time.total) << s;
    EXPECT_EQ(chunks.stages[s].memory.weights, runs.stages[s].memory.weights);
    EXPECT_EQ(chunks.stages[s].memory.optimizer, runs.stages[s].memory.optimizer);
    EXPECT_NEAR(chunks.stages[s].memory.in_flight, runs.stages[s].memory.in_flight, 0.02) << s;
  }
}

// Waiting for messages, and sharded weights by parameters.
TEST(ChunkTimes, ChunksWithoutLayersWaitAndHandOn) {
  const Job job = test_job({.devices = 16, .batch = 32});
  const Strategy strategy = strategy_of({.tp = 4, .pp = 2, .dp = 2, .virtual_stages = 2, .sp = true});
  const Plan plan = evaluate(job, strategy, listed(job, strategy, {12, 0, 8, 12}, 3));
  const ChunkPlan &none = plan.stages[1].chunks[0], &full = plan.stages[0].chunks[1];
  EXPECT_EQ(none.last, none.first - 1);
  // Half of a message of 8,192 tokens x 4,096 numbers in 16 bits, a quarter of them here: forward sends block.
  const double message_s = 0.5 * message_line(job.cluster, strategy, 0, 1).at(8192.0 * 4096 * 2 / 4);
  EXPECT_NEAR(none.forward_s, message_s, 1e-12);
  EXPECT_NEAR(none.backward_s, message_s, 1e-12);
  EXPECT_GT(full.forward_s, 50 * none.forward_s);
  EXPECT_GT(plan.stages[0].time.zero, 0);
  EXPECT_NEAR(sum_of(plan.stages[0]), plan.stages[0].time.total, 1e-12);
}

// Stage 0 passes 2 (p - 1) + (v - 1) g = 4 forwards first, chunks 0 0 1 1, then one before each backward: forwards of
// 0 0 1 1 0 0 …, backwards of 1 1 0 0 1 1 …. A block keeps the same everywhere. With 2 blocks in chunk 0 and 6 in chunk 1
// the fullest moment is the fifth forward, 2 + 2 + 6 + 6 + 2 of 8; with 6 and 2 the sixth, which follows a backward of
// the small chunk: 6 + 6 + 2 + 2 + 6 - 2 + 6.
TEST(ChunkTimes, MemoryIsWhatTheOrderHolds) {
  const Job job = test_job({.devices = 8, .batch = 8});
  const Strategy strategy = strategy_of({.tp = 4, .pp = 2, .virtual_stages = 2, .sp = true});
  const Plan plan = evaluate(job, strategy, listed(job, strategy, {2, 12, 6, 12}));
  EXPECT_NEAR(plan.stages[0].memory.in_flight, 18.0 / 8, 0.05);  // the embedding keeps a little
  const Plan other = evaluate(job, strategy, listed(job, strategy, {6, 12, 2, 12}));
  EXPECT_NEAR(other.stages[0].memory.in_flight, 26.0 / 8, 0.05);
  EXPECT_GT(other.stages[0].memory.activations, plan.stages[0].memory.activations);
}

TEST(ChunkTimes, BlocksAreRecomputedChunkByChunk) {
  const Job job = test_job({.devices = 8, .batch = 8});
  const Strategy strategy = strategy_of({.tp = 4, .pp = 2, .virtual_stages = 2, .sp = true});
  const auto again = [&](const Recomputation& recompute) {
    const Plan plan = evaluate(job, strategy, listed(job, strategy, {2, 14, 10, 6}, 1, recompute));
    return plan.stages[0].time.recompute;
  };
  // Of 2 and 10 blocks: all of the first chunk and 4 of the second, or every one.
  EXPECT_NEAR(again(Recomputation::of_layers(Recompute::block, 4)) / again(Recompute::full), 6.0 / 12, 1e-9);
}

// A V has both ends of the model on its first stage, which holds what they need.
TEST(ChunkTimes, AVIsWhatItsRanksHold) {
  const Job job = test_job({.stack = "torchtitan-graph", .devices = 8, .batch = 8});
  Strategy strategy = strategy_of({.tp = 2, .pp = 4, .sp = true});
  strategy.schedule = Schedule::zbv;
  strategy.virtual_stages = 2;
  const std::vector<StagePlan> stages = listed(job, strategy, {3, 4, 4, 5, 4, 4, 4, 4}, 2);
  ASSERT_EQ(refuse_strategy(job, strategy, stages), "");
  EXPECT_EQ(stages[0].chunks[0].first, 0);
  EXPECT_EQ(stages[0].chunks[1].last + 1, static_cast<int>(job.model.layer_count()));
  const Plan plan = evaluate(job, strategy, stages);
  double sum = 0, slowest = 0;
  for (const StagePlan& stage : plan.stages) {
    EXPECT_NEAR(sum_of(stage), stage.time.total, 1e-12);
    sum += stage.time.total;
    slowest = std::max(slowest, stage.time.total);
  }
  // Weight gradients fill part of what an interleaved pipeline would wait.
  EXPECT_GT(plan.prediction.breakdown_s.bubble, 0);
  EXPECT_LT(plan.prediction.breakdown_s.bubble, (sum - slowest) / 2);
  EXPECT_GT(plan.stages[0].memory.weights, plan.stages[1].memory.weights);
  for (const StagePlan& stage : plan.stages) EXPECT_GT(stage.chunks[0].weight_s, 0);
}

TEST(ChunkTimes, RefusesChunksThatAreNoChain) {
  const Job job = test_job({.devices = 8, .batch = 8});
  const Strategy strategy = strategy_of({.tp = 4, .pp = 2, .virtual_stages = 2, .sp = true});
  const std::vector<StagePlan> sound = listed(job, strategy, {2, 14, 10, 6});
  const auto why = [&](const auto& breakage) {
    std::vector<StagePlan> stages = sound;
    breakage(stages);
    return refuse_strategy(job, strategy, stages);
  };
  EXPECT_EQ(refuse_strategy(job, strategy, sound), "");
  EXPECT_EQ(why([](auto& stages) { stages[1].chunks.pop_back(); }), "stage 1 lists 1 chunks; it has 2");
  EXPECT_EQ(why([](auto& stages) { stages[1].chunks[0].first += 1; }),
            "chunk 0 of stage 1 has layers 4 … 16; it must begin at layer 3 and end before layer 34");
  EXPECT_THAT(why([](auto& stages) { stages[1].chunks[1].last -= 1; }), HasSubstr("the chunks end at layer 32"));
  EXPECT_THAT(why([](auto& stages) { stages[0].chunks[0].last = -1; }), HasSubstr("chunk 0 of stage 0"));
  EXPECT_THAT(why([](auto& stages) { stages[0].chunks.clear(); }), HasSubstr("stage 1 lists chunks"));
}

}  // namespace
}  // namespace nest::cost
