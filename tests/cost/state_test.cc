// State bytes per recipe, what the allocator sets aside, and rows of experts with a fixed capacity: sums by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/index.h"
#include "cost/tables.h"
#include "cost_support.h"
#include "memory_support.h"

namespace nest::cost {
namespace {

// Sixteen experts, four of them chosen, in every layer; one device has all of it.
test::Shape mixture(std::int64_t layers) {
  return {.layers = layers,
          .hidden = 1024,
          .heads = 8,
          .kv_heads = 8,
          .head_dim = 128,
          .ffn = 4096,
          .vocabulary = 1024,
          .sequence = 4096,
          .experts = 16,
          .top_k = 4,
          .expert_ffn = 512};
}

SoftwareStack balanced() {
  SoftwareStack stack = test::megatron_fused();
  stack.gradient_bytes = 2;
  return stack;
}

StageMemory one_device(const test::Shape& shape, const SoftwareStack& stack) {
  const Job job = test::job_of(shape, stack, 1);
  const Strategy strategy = strategy_of({});
  return test::all_memory(job, strategy, test::stages_of(job, strategy, Recompute::none, 1, 1)).front();
}

// Bytes of weights, gradients, master copy and moments, and what an update then reads and writes.
TEST(State, UpdateMovesWhatTheRecipeKeeps) {
  struct Recipe {
    const char* recipe;
    double weight, gradient, master, moments, update;
    Optimizer optimizer = Optimizer::adam;
    double rest = 0;  // of what is no matrix of a block; 0: the same
  };
  const std::vector<Recipe> rows = {
      {"Adam, fp32 gradients", 2, 4, 4, 8, 30},  // 2 * 12 + 4 + 2
      {"Adam, bf16 gradients", 2, 2, 4, 8, 28},
      {"moments in bf16", 2, 2, 4, 4, 20},
      {"and remainders of the master copy", 2, 2, 2, 4, 16},
      {"moments in 8 bits", 2, 2, 4, 2, 16},
      {"MXFP8 weights", 2.0625, 2, 4, 4, 20.0625},
      {"SGD with momentum", 2, 4, 4, 8, 22, Optimizer::sgd},
      {"Muon", 2, 4, 4, 8, 26, Optimizer::muon, 30},  // 2 * (4 + 4) + 4 + 2, and the update in 16 bits twice
      {"Adam in 8 bits", 2, 2, 4, 8, 16, Optimizer::adam8bit},
  };
  for (const Recipe& row : rows) {
    SoftwareStack stack;
    stack.weight_bytes = row.weight;
    stack.gradient_bytes = row.gradient;
    stack.master_bytes = row.master;
    stack.moments_bytes = row.moments;
    const Job job = test::job_of(mixture(1), stack, 1, Precision::bf16, row.optimizer);
    EXPECT_DOUBLE_EQ(update_bytes(job).matrices, row.update) << row.recipe;
    EXPECT_DOUBLE_EQ(update_bytes(job).rest, row.rest > 0 ? row.rest : row.update) << row.recipe;
    EXPECT_DOUBLE_EQ(sync_rule(job, 1).update.matrices, row.update) << row.recipe;
    const StateBytes bytes = state_bytes(job);
    const double moments = row.optimizer == Optimizer::adam       ? row.moments
                           : row.optimizer == Optimizer::adam8bit ? 2
                                                                  : row.moments / 2;
    EXPECT_DOUBLE_EQ(bytes.weight, row.weight) << row.recipe;
    EXPECT_DOUBLE_EQ(bytes.gradient, row.gradient) << row.recipe;
    EXPECT_DOUBLE_EQ(bytes.optimizer, row.master + moments) << row.recipe;
  }
  SoftwareStack stack;
  stack.update_bytes = 40;
  EXPECT_DOUBLE_EQ(update_bytes(test::job_of(mixture(1), stack, 1)).matrices, 40);
  EXPECT_DOUBLE_EQ(update_bytes(test::job_of(mixture(1), stack, 1, Precision::bf16, Optimizer::sgd)).matrices, 32);
  // In fp32 the weights are their own masters.
  const StateBytes single = state_bytes(test::job_of(mixture(1), SoftwareStack{}, 1, Precision::fp32));
  EXPECT_DOUBLE_EQ(single.weight + single.gradient + single.optimizer, 4 + 4 + 8);
}

TEST(State, BytesOfEveryPart) {
  SoftwareStack stack = balanced();
  stack.moments_bytes = 4;
  const StageMemory memory = one_device(mixture(4), stack);
  // Attention 4 h^2, router 16 h, experts 3 h 512 each, two norms; token table and head 1,024 h each, the last norm.
  const std::int64_t h = 1024;
  const std::int64_t parameters = 4 * (4 * h * h + 16 * h + 16 * 3 * h * 512 + 2 * h) + 2 * 1024 * h + h;
  EXPECT_EQ(memory.weights, 2 * parameters);
  EXPECT_EQ(memory.gradients, 2 * parameters);
  EXPECT_EQ(memory.optimizer, (4 + 2 + 2) * parameters);
}

// Matrices of blocks, the router's and the experts' among them, 4 + 4 bytes; tables, head and norms 4 + 8.
TEST(State, MuonKeepsOneMomentumOfMatrices) {
  const std::int64_t h = 1024;
  const std::int64_t matrices = 4 * (4 * h * h + 16 * h + 16 * 3 * h * 512), rest = 4 * 2 * h + 2 * 1024 * h + h;
  const Job job = test::job_of(mixture(4), balanced(), 1, Precision::bf16, Optimizer::muon);
  const Strategy strategy = strategy_of({});
  const auto stages = test::stages_of(job, strategy, Recompute::none, 1, 1);
  EXPECT_EQ(test::all_memory(job, strategy, stages).front().optimizer, 8 * matrices + 12 * rest);
  EXPECT_FALSE(reads_narrow_gradients(job));
  EXPECT_TRUE(reads_narrow_gradients(test::job_of(mixture(4), balanced(), 1, Precision::bf16, Optimizer::adam8bit)));
}

// Weights of products with their copies; tables, norms and routers in 16 bits.
TEST(State, NarrowWeightsAreThoseOfProducts) {
  const std::int64_t h = 1024;
  const std::int64_t products = 4 * (4 * h * h + 16 * 3 * h * 512), rest = 4 * (16 * h + 2 * h) + 2 * 1024 * h + h;
  for (const double bytes : {1.0, 1.125, 2.0625, 4.0625}) {
    SoftwareStack stack = balanced();
    stack.storage = Storage::mxfp8;
    stack.weight_bytes = bytes;
    const Strategy strategy = strategy_of({});
    const auto weights = [&](Precision precision) {
      const Job job = test::job_of(mixture(4), stack, 1, precision);
      return test::all_memory(job, strategy, test::stages_of(job, strategy, Recompute::none, 1, 1)).front().weights;
    };
    EXPECT_NEAR(real(weights(Precision::fp8)), bytes * real(products) + 2 * real(rest), 1) << bytes;
    // Products of 16 bits read nothing narrower: what the stack says is of all weights.
    EXPECT_NEAR(real(weights(Precision::bf16)), bytes * real(products + rest), 1) << bytes;
  }
}

// The fp8 inputs of four layers' products: qkv h, experts' h and f for each of four rows.
TEST(State, NarrowInputsAreKeptAsTheyWereQuantised) {
  SoftwareStack stack = balanced();
  const auto kept = [&](Storage storage, Precision precision) {
    stack.storage = storage;
    const Job job = test::job_of(mixture(4), stack, 1, precision);
    return StageMemoryModel(job, Split{}, 1).kept_bytes(1, kNothing);
  };
  const double plain = kept(Storage::bf16, Precision::fp8);
  EXPECT_DOUBLE_EQ(kept(Storage::fp8_tensor, Precision::bf16), plain);
  EXPECT_DOUBLE_EQ(plain - kept(Storage::fp8_tensor, Precision::fp8), 4096.0 * (1024 + 4 * (1024 + 512)));
}

TEST(State, GraphsOfPartsHaveAPool) {
  SoftwareStack stack = balanced();
  const StageMemory eager = one_device(mixture(4), stack);
  stack.graph_scopes = {GraphScope::router, GraphScope::preprocess};
  EXPECT_EQ(one_device(mixture(4), stack).allocated - eager.allocated, std::int64_t{1} << 30);
  stack.graph_scopes = {GraphScope::full};
  EXPECT_EQ(one_device(mixture(4), stack).allocated, eager.allocated);
}

// Gradients in 16 bits are copied to fp32 for the step: 4 bytes per updated parameter, where activations were.
TEST(State, TheStepCopiesNarrowGradients) {
  test::Shape shape = mixture(8);
  shape.sequence = 16;  // hardly any activations
  const SoftwareStack stack = balanced();
  const StageMemory memory = one_device(shape, stack);
  EXPECT_EQ(memory.moment, "optimizer step");
  EXPECT_EQ(memory.activations, 0);
  EXPECT_EQ(memory.working, 2 * memory.weights);  // 4 bytes against 2
  EXPECT_GE(memory.total, memory.allocated);
  SoftwareStack aware = stack;  // reads them as they are
  aware.moments_bytes = 4;
  EXPECT_EQ(one_device(shape, aware).moment, "head");
}

// Plain PyTorch: with everything to update each gradient goes once it is copied, 4 - 2 bytes a parameter and the largest table's
// last; of half of them 4 bytes each come besides; gradients in fp32 are read as they are.
TEST(State, ThePlainStepCopiesWhatItUpdates) {
  test::Shape shape = mixture(8);
  shape.experts = shape.top_k = shape.expert_ffn = 0;
  shape.sequence = 16;  // hardly any activations
  SoftwareStack stack = test::one_gpu_huggingface();
  const auto memory = [&](int zero) {
    const Job job = test::job_of(shape, stack, 4);
    Strategy strategy = strategy_of({});
    strategy.dp = strategy.dp_inner = 2;
    return test::all_memory(job, strategy, test::stages_of(job, strategy, Recompute::none, zero, 2)).front();
  };
  const StageMemory whole = memory(0), half = memory(1);
  const std::int64_t parameters = whole.weights / 2;
  EXPECT_EQ(whole.moment, "optimizer step");
  EXPECT_EQ(whole.working, 2 * parameters + 2 * 1024 * 1024);
  EXPECT_EQ(half.moment, "optimizer step");
  EXPECT_EQ(half.working, 4 * (parameters / 2));
  stack.gradient_bytes = 4;
  EXPECT_NE(memory(1).moment, "optimizer step");
}

TEST(Allocator, ExpandableSegmentsMapWhatIsUsed) {
  SoftwareStack stack = balanced();
  const StageMemory blocks = one_device(mixture(48), stack);
  stack.expandable_segments = true;
  const StageMemory pages = one_device(mixture(48), stack);
  EXPECT_EQ(blocks.allocated, pages.allocated);
  const double dynamic = real(pages.allocated - pages.weights - pages.gradients - pages.optimizer);
  EXPECT_NEAR(real(blocks.total - blocks.allocated), 0.6e9 + 0.45 * dynamic, 4);
  EXPECT_NEAR(real(pages.total - pages.allocated), 0.6e9 + 0.05 * dynamic, 4);
}

// Per row of an expert: its input 2 h, gate and up 4 f, their product 2 f, and 4 bytes of its weight in the sum.
TEST(RankCapacity, RowsThatAreThereForAllThatMayCome) {
  const double rows = 4096 * 4;
  const double routed = rows * (2 * 1024 + 6 * 512);
  const int layers = 8;
  SoftwareStack stack = balanced();
  const StageMemory exact = one_device(mixture(layers), stack);
  stack.rank_capacity = 1.5;
  const StageMemory fixed = one_device(mixture(layers), stack);
  stack.paged_stash = 1.2;
  const StageMemory stashed = one_device(mixture(layers), stack);
  const double tolerance = 0.01 * routed;
  EXPECT_NEAR(real(fixed.activations - exact.activations), 0.5 * layers * routed, layers * tolerance);
  EXPECT_NEAR(real(stashed.activations - exact.activations), 0.2 * layers * routed, layers * tolerance);
  // Eight buffers of rows are alive at once in backward, half as large again; pages are unpacked for one layer.
  EXPECT_NEAR(real(fixed.working - exact.working), 0.5 * 8 * rows * 2 * 1024, tolerance);
  EXPECT_NEAR(real(stashed.working - fixed.working), 1.5 * routed, 2 * tolerance);
}

TEST(InFlight, OneChunkMoreWhereExchangesHide) {
  SoftwareStack stack = balanced();
  Job job = test::job_of(mixture(8), stack, 8);
  const schedule::Shape shape{4, 2, 8};
  Split split;
  split.ep = 4;
  const auto held = [&] {
    std::vector<double> chunks;
    for (std::int64_t s = 0; s < 4; ++s) chunks.push_back(2 * in_flight(job, split, Schedule::interleaved, shape, s));
    return chunks;
  };
  EXPECT_THAT(held(), ::testing::ElementsAre(11, 9, 7, 5));
  job.stack.expert_overlap = true;
  EXPECT_THAT(held(), ::testing::ElementsAre(12, 10, 8, 6));
  // Never more than there are; nothing hides on one rank, and nothing without chunks.
  EXPECT_DOUBLE_EQ(in_flight(job, split, Schedule::interleaved, {4, 2, 2}, 0), 2);
  EXPECT_DOUBLE_EQ(in_flight(job, split, Schedule::one_f_one_b, {4, 1, 8}, 0), 4);
  EXPECT_DOUBLE_EQ(in_flight(job, Split{}, Schedule::interleaved, shape, 0), 5.5);
}

TEST(InFlight, OneLayerMoreWithoutAPipeline) {
  SoftwareStack stack = balanced();
  Job job = test::job_of(mixture(8), stack, 8);
  Strategy strategy = strategy_of({.ep = 4, .dp = 4});
  const auto stages = test::stages_of(job, strategy, Recompute::none, 1, 1);
  const StageMemory alone = stage_memory(job, strategy, stages.front(), 0);
  job.stack.expert_overlap = true;
  const StageMemory beside = stage_memory(job, strategy, stages.front(), 0);
  EXPECT_EQ(beside.activations, alone.activations);
  EXPECT_NEAR(real(beside.working - alone.working), real(alone.activations) / 8, 0.02 * real(alone.activations));
}

}  // namespace
}  // namespace nest::cost
