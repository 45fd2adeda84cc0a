// Every formula of the memory model on sizes small enough to do by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "cost/layer_price.h"
#include "cost/tables.h"
#include "memory_support.h"

namespace nest::cost {
namespace {

using namespace test;

constexpr std::int64_t kMiB = 1 << 20;

// Two layers, 16 tokens. Per layer 592 parameters: q, k, v 128, o 64, feed-forward 384, norms 16. Embedding and head
// 1,024 each, final norm 8: 3,240 in all.
const Shape kTiny = {
    .layers = 2, .hidden = 8, .heads = 4, .kv_heads = 2, .head_dim = 2, .ffn = 16, .vocabulary = 128, .sequence = 16};
constexpr std::int64_t kParameters = 3240;

StageMemory tiny_memory(const SoftwareStack& stack, std::int64_t dp = 1, int zero = 0, std::int64_t batch = 1,
                        Recompute mode = Recompute::none) {
  const Job job = job_of(kTiny, stack, batch);
  Strategy strategy;
  strategy.dp = dp;
  return all_memory(job, strategy, stages_of(job, strategy, mode, zero)).front();
}

TEST(StateBytes, ByPrecisionAndOptimizer) {
  const auto bytes = [](const SoftwareStack& stack, Precision precision, Optimizer optimizer) {
    const StateBytes b = state_bytes(job_of(kTiny, stack, 1, precision, optimizer));
    return std::vector<double>{b.weight, b.gradient, b.optimizer};
  };
  using V = std::vector<double>;
  EXPECT_EQ(bytes({}, Precision::bf16, Optimizer::adam), (V{2, 4, 12}));
  EXPECT_EQ(bytes({}, Precision::bf16, Optimizer::sgd), (V{2, 4, 8}));
  EXPECT_EQ(bytes({}, Precision::fp32, Optimizer::adam), (V{4, 4, 8}));
  EXPECT_EQ(bytes({}, Precision::fp32, Optimizer::sgd), (V{4, 4, 4}));
  EXPECT_EQ(bytes(bridge_moonlight({}), Precision::bf16, Optimizer::sgd), (V{2, 2, 6}));
  EXPECT_EQ(bytes(fsdp2(LossKernel::unfused), Precision::bf16, Optimizer::adam), (V{4, 4, 8}));
  EXPECT_EQ(bytes(fsdp2(LossKernel::unfused), Precision::bf16, Optimizer::sgd), (V{4, 4, 4}));
}

TEST(ZeroDegrees, DenseAndExpertGroups) {
  Strategy strategy;
  strategy.split = {.tp = 2, .sp = true, .cp = 2, .ep = 16, .etp = 1};
  strategy.dp = strategy.dp_inner = 32;
  EXPECT_EQ(groups::zero_degrees(strategy, 0).dense, 64);  // 32 * 2
  EXPECT_EQ(groups::zero_degrees(strategy, 0).expert, 8);  // 2 * 2 * 32 / 16
  EXPECT_EQ(groups::zero_degrees(strategy, 16).dense, 16);
  EXPECT_EQ(groups::zero_degrees(strategy, 16).expert, 2);
  EXPECT_EQ(groups::zero_degrees(strategy, 2).expert, 1);
  EXPECT_EQ(groups::zero_degrees(strategy, 1000).dense, 64);
}

// Two grids: tp 2, cp 2, dp 4, pp 2 and etp 1, ep 8, so edp 2. Four layers of h 1024 with 16 experts of 512 a stage; 2 + 2
// bytes of weights and gradients, 12 of the optimizer over 8 ranks that hold the same dense weights, 2 the same experts.
TEST(StateBytes, OfBothGrids) {
  SoftwareStack stack = megatron_fused();
  stack.gradient_bytes = 2;
  const Job job = job_of({.layers = 8,
                          .hidden = 1024,
                          .heads = 16,
                          .kv_heads = 16,
                          .head_dim = 64,
                          .vocabulary = 128,
                          .sequence = 4096,
                          .experts = 16,
                          .top_k = 4,
                          .expert_ffn = 512},
                         stack, 32);
  Strategy strategy;
  strategy.split = {.tp = 2, .sp = true, .cp = 2, .ep = 8, .etp = 1};
  strategy.pp = 2;
  strategy.dp = strategy.dp_inner = 4;
  StagePlan stage;
  stage.first = 1;
  stage.last = 4;
  stage.zero = 1;
  stage.zero_degree = 8;
  const StageMemory memory = stage_memory(job, strategy, stage, 0);
  const double experts = 12'582'912 * (4 + 12.0 / 2), attention = 8'388'608 * (4 + 12.0 / 8);
  EXPECT_NEAR(experts, 125.8e6, 0.1e6);
  EXPECT_NEAR(attention, 46.1e6, 0.1e6);
  const double rest = 4 * (2 * 1024 + 1024 * 16) * (4 + 12.0 / 8);  // norms and routers, whole on every rank
  EXPECT_NEAR(real(memory.weights + memory.gradients + memory.optimizer), experts + attention + rest, 1e4);
  // 1024 tokens of every rank, each to four experts; two experts here.
  const split::LocalLayer local = split::localise(job.model.kinds[1], {1, 4096, 0, 1.0}, strategy.split, {});
  for (const split::LocalOperator& op : local.operators) {
    if (op.kind != model::OperatorKind::grouped_matmul) continue;
    EXPECT_EQ(op.m, 4096);
    EXPECT_EQ(op.groups, 2);
  }
}

TEST(Context, OneCommunicatorPerGroup) {
  const Job job = job_of(kTiny, {}, 1);
  Strategy strategy;
  EXPECT_EQ(context_bytes(job, strategy), 804061184);
  strategy.split.tp = 2;
  strategy.pp = 2;
  strategy.dp = 2;
  EXPECT_EQ(context_bytes(job, strategy), 804061184 + 3 * 256 * kMiB);
}

TEST(MegatronMemory, ByHand) {
  const StageMemory memory = tiny_memory(megatron_fused());
  // kept per token: 4 streams and 2 statistics 72, q k v 32, out 16, log-sum-exp 16, gate, up and product 96
  const std::int64_t kept = 16 * 232;
  // weight shapes 16x8, 8x8, 32x8, 8x16; two streams of 256; the workspace
  const std::int64_t buffers = 2 * (128 + 64 + 256 + 128) + 2 * 256 + 64 * kMiB;
  // norm 16 * 36; logits' gradient 16 * 256, input's gradient 256, weight's 2,048
  const std::int64_t head = 576 + 4096 + 256 + 2048;
  EXPECT_EQ(memory.allocated, 18 * kParameters + buffers + 2 * kept + head);
  EXPECT_EQ(memory.moment, "head");
  EXPECT_EQ(memory.activations, 2 * kept);
  EXPECT_EQ(memory.working, head);
  // the weight's gradient and the logits are 4,096 bytes at most; the allocator keeps 1.2 of the largest
  EXPECT_EQ(memory.total, memory.allocated + 600'000'000 + 4915);
  const double margin = SoftwareStack{}.memory_margin;
  EXPECT_EQ(memory.needed,
            static_cast<std::int64_t>(std::ceil((static_cast<double>(memory.total) + 0.2) * (1 + margin))) + 804061184);
}

// Megatron-FSDP over two of eight ranks. 592 parameters of a block, 1,024 of the table, 1,032 of norm and head; gradients
// of 4 bytes are kept and travel.
TEST(MegatronMemory, FsdpByHand) {
  const Job job = job_of(kTiny, megatron_fused(), 8);
  const auto memory = [&](int zero, bool outer) {
    Strategy strategy;
    strategy.dp = strategy.dp_inner = 8;
    std::vector<StagePlan> stages = stages_of(job, strategy, Recompute::none, zero, 2);
    stages.front().zero_outer = outer;
    return all_memory(job, strategy, stages).front();
  };
  LayerPrice block, head;
  price_layer_memory(job, 1, {}, 1, block);
  price_layer_memory(job, job.model.layers.back(), {}, 1, head);
  EXPECT_EQ(block.scatter_bytes, 0);
  EXPECT_EQ(head.gather_bytes, 4 * 1032);
  const std::int64_t kept = 2 * 16 * 232, buffers = 2 * (128 + 64 + 256 + 128) + 2 * 256 + 64 * kMiB;
  const std::int64_t at_head = 576 + 4096 + 256 + 2048 + 4 * 1032;
  const StageMemory two = memory(2, false), three = memory(3, false), hybrid = memory(3, true);
  // Two buffers of a block's gradients, with ZeRO 3 two of its weights too. What is in no block stays gathered.
  EXPECT_EQ(two.allocated, (2 + 4 / 2 + 12 / 2) * kParameters + buffers + 2 * 4 * 592 + kept + at_head);
  EXPECT_EQ(three.allocated,
            (2 + 4 + 12) / 2 * kParameters + buffers + 2 * (4 + 2) * 592 + 2 * (1024 + 1032) + kept + at_head);
  // (gradient + weight) / 2 + optimizer / 8
  EXPECT_EQ(hybrid.weights, three.weights);
  EXPECT_EQ(hybrid.gradients, three.gradients);
  EXPECT_EQ(hybrid.optimizer, 12 * kParameters / 8);
  EXPECT_EQ(three.allocated - hybrid.allocated, 12 * kParameters / 2 - 12 * kParameters / 8);
}

// Every chunk of a stage has its own two buffers.
TEST(MegatronMemory, FsdpBuffersOfChunks) {
  const Job job = job_of(kTiny, megatron_fused(), 8);
  Strategy strategy;
  strategy.dp = strategy.dp_inner = 8;
  const std::vector<StagePlan> stages = stages_of(job, strategy, Recompute::none, 3);
  const StageMemoryModel model(job, strategy.split, 1, treatments_of(stages));
  const auto allocated = [&](std::int64_t chunks) {
    strategy.virtual_stages = chunks;
    return model.estimate(strategy, stages.front(), StageSetting{{8, 8}, {8, 8}, 1, 0}).allocated;
  };
  EXPECT_EQ(allocated(3) - allocated(1), 2 * 2 * (4 + 2) * 592);
}

// Where exchanges of experts hide behind other micro-batches there are no double buffers: n blocks of u parameters, all of
// them where they are few; else with u = 0.6e9 and so c = 1.2e9, three blocks of weights and four of gradients.
TEST(MegatronMemory, FsdpBuffersBesideExperts) {
  const auto more = [](std::int64_t layers, std::int64_t expert_ffn) {
    Shape shape = kTiny;
    shape.layers = layers;
    shape.experts = 4;
    shape.top_k = 2;
    shape.expert_ffn = expert_ffn;
    Strategy strategy;
    strategy.dp = strategy.dp_inner = 8;
    strategy.split.ep = 2;
    const auto allocated = [&](bool overlap, int zero) {
      SoftwareStack stack = megatron_fused();
      stack.expert_overlap = overlap;
      const Job job = job_of(shape, stack, 8);
      return real(all_memory(job, strategy, stages_of(job, strategy, Recompute::none, zero)).front().allocated);
    };
    const Job job = job_of(shape, megatron_fused(), 8);
    LayerPrice block;
    price_layer_memory(job, 1, strategy.split, 1, block);
    const double beside = allocated(true, 0) - allocated(false, 0);  // one layer more in flight, whatever is sharded
    return (allocated(true, 3) - allocated(false, 3) - beside) / real(block.dense_parameters + block.expert_parameters);
  };
  EXPECT_NEAR(more(5, 1024), (5 - 2) * (4 + 2), 1e-6);
  EXPECT_NEAR(more(5, 12'500'000), (3 - 2) * 2 + (4 - 2) * 4, 1e-6);  // 2 experts of 3 * 8 * 12.5e6
}

TEST(MegatronMemory, LayersByHand) {
  SoftwareStack stack = megatron_fused();
  stack.selective_modules = {model::Module::core_attention, model::Module::feed_forward};
  const Job job = job_of(kTiny, stack, 1);
  LayerPrice price;
  price_layer_memory(job, 1, {}, 1, price);
  EXPECT_EQ(price.kept_bytes, (ByTreatment{16 * 232, 16 * (232 - 16 - 96 - 20), 16 * 16}));
  // gradient of gate and up 16 * 64, of the stream 256, and what is recomputed: with it the norm inside gate and up
  EXPECT_EQ(price.working_bytes, (ByTreatment{1280, 1280 + 16 * 132, 1280 + 16 * 216}));
  EXPECT_EQ(price.largest_block_bytes, 16 * 64);
  EXPECT_EQ(price.dense_parameters, 592);
  const LayerPrice whole = price;
  price_layer_memory(job, 1, {.tp = 2, .sp = true}, 1, price);
  EXPECT_EQ(price.kept_bytes[0], 16 * (72 + 160) / 2);
  EXPECT_EQ(price.working_bytes[0], 16 * 32 + 128);  // gate and up 16 * 32; two whole streams are no more than that
  EXPECT_LT(price.dense_parameters, whole.dense_parameters);
}

TEST(MegatronMemory, ExpertsByHand) {
  Shape shape = kTiny;
  shape.experts = 4;
  shape.top_k = 2;
  shape.expert_ffn = 12;
  shape.shared_ffn = 4;
  SoftwareStack stack = megatron_fused();
  stack.selective_modules = {model::Module::moe_activation};
  const Job job = job_of(shape, stack, 1);
  LayerPrice price;
  price_layer_memory(job, 1, {}, 1, price);
  EXPECT_EQ(price.expert_parameters, 4 * 3 * 8 * 12);
  EXPECT_EQ(price.working_bytes[0],
            32 * 8 * 8 * 2 + 256);  // eight buffers of 32 routed rows, and the stream's gradient
  // the experts' products (32 rows of 12) go, one stream comes
  EXPECT_EQ(price.kept_bytes[0] - price.kept_bytes[1], 32 * 12 * 2 - 256);
  stack.selective_modules = {model::Module::shared_experts};
  price_layer_memory(job_of(shape, stack, 1), 1, {}, 1, price);
  EXPECT_EQ(price.kept_bytes[0] - price.kept_bytes[1], 16 * 3 * 4 * 2);
  stack.selective_modules = {model::Module::feed_forward};  // the dense feed-forward is not the shared experts
  price_layer_memory(job_of(shape, stack, 1), 1, {}, 1, price);
  EXPECT_EQ(price.kept_bytes[0], price.kept_bytes[1]);
  stack.shared_expert_overlap = true;
  LayerPrice overlapped;
  const Split split = {.tp = 2, .sp = true, .ep = 2, .etp = 1};
  price_layer_memory(job_of(shape, stack, 1), 1, split, 1, overlapped);
  stack.shared_expert_overlap = false;
  price_layer_memory(job_of(shape, stack, 1), 1, split, 1, price);
  EXPECT_EQ(overlapped.kept_bytes[0] - price.kept_bytes[0], 256);  // the gathered input
}

TEST(MegatronMemory, SeparateNormsAreRecomputed) {
  SoftwareStack stack = megatron_fused();
  stack.selective_modules = {model::Module::norm};
  LayerPrice price;
  price_layer_memory(job_of(kTiny, stack, 1), 1, {}, 1, price);
  EXPECT_EQ(price.kept_bytes[0], price.kept_bytes[1]);  // both run inside the matmul after them
  Shape moe = kTiny;
  moe.experts = 4;
  moe.top_k = 2;
  moe.expert_ffn = 12;
  price_layer_memory(job_of(moe, stack, 1), 1, {}, 1, price);
  EXPECT_EQ(price.kept_bytes[0] - price.kept_bytes[1], 16 * (16 + 4));  // the norm before the router
}

TEST(MegatronMemory, ContextParallelAllToAllKeepsOneMoreOutput) {
  const SoftwareStack stack = megatron_fused();
  LayerPrice ring, exchanged, gathered;
  price_layer_memory(job_of(kTiny, stack, 1), 1, {.cp = 2}, 1, ring);
  price_layer_memory(job_of(kTiny, stack, 1), 1, {.cp = 2, .cp_comm = ContextExchange::a2a}, 1, exchanged);
  EXPECT_EQ(exchanged.kept_bytes[0] - ring.kept_bytes[0], 8 * 16);
  // Two chunks attend by themselves: their results are kept beside the tensor that they are copied into.
  price_layer_memory(job_of(kTiny, stack, 1), 1, {.cp = 2, .cp_comm = ContextExchange::all_gather}, 1, gathered);
  EXPECT_EQ(gathered.kept_bytes[0] - ring.kept_bytes[0], 8 * 16);
  EXPECT_GE(gathered.working_bytes[0], ring.working_bytes[0]);
}

TEST(MegatronMemory, TiedTableCountsOncePerStage) {
  Shape tied = kTiny;
  tied.tied = true;
  const SoftwareStack stack = megatron_fused();
  const auto state = [&](const Shape& shape, std::int64_t pp) {
    const Job job = job_of(shape, stack, 2);
    Strategy strategy;
    strategy.pp = pp;
    std::int64_t sum = 0;
    for (const StageMemory& memory : all_memory(job, strategy, stages_of(job, strategy, Recompute::none, 0))) {
      sum += memory.weights + memory.gradients + memory.optimizer;
    }
    return sum;
  };
  EXPECT_EQ(state(kTiny, 1) - state(tied, 1), 18 * 1024);
  EXPECT_EQ(state(kTiny, 2), state(tied, 2));
}

// Plain kernels keep 264 bytes per token and a random state of 1,024: SiLU's output besides.
constexpr std::int64_t kPlainKept = 16 * 264 + 1024;

TEST(FsdpMemory, ByHand) {
  const StageMemory memory = tiny_memory(fsdp2(LossKernel::unfused), 2, 3, 2);
  // 14 bytes for each of 2,048 logits, norm 576; weights of head and one layer gathered in 16 bit
  const std::int64_t loss = 14 * 2048 + 576 + 2 * (1024 + 592);
  EXPECT_EQ(memory.allocated, 8 * kParameters + 64 * kMiB + 2 * kPlainKept + loss);
  EXPECT_EQ(memory.moment, "loss");
  EXPECT_NEAR(static_cast<double>(memory.total), 1.04 * static_cast<double>(memory.allocated), 1);
}

// ZeRO 2 is FSDP that keeps what it gathered: the state stays divided, 16-bit weights are whole beside it.
TEST(FsdpMemory, KeepsGatheredWeights) {
  const auto allocated = [](int zero) { return tiny_memory(fsdp2(LossKernel::unfused), 2, zero, 2).allocated; };
  EXPECT_EQ(allocated(2) - allocated(3), 2 * kParameters);
}

TEST(FsdpMemory, GathersByHand) {
  LayerPrice price;
  price_layer_memory(job_of(kTiny, fsdp2(LossKernel::unfused), 1), 1, {}, 1, price);
  EXPECT_EQ(price.gather_bytes, 10 * 592);
  EXPECT_EQ(price.working_bytes[0], 1024 + 256);
}

TEST(PlainMemory, ByHand) {
  SoftwareStack stack = one_gpu_huggingface();
  stack.kernels = model::Stack::plain;
  const StageMemory memory = tiny_memory(stack);
  // 12 bytes for each logit, norm, labels, rotary table 16 x 2 in fp32; gradients are not there yet
  const std::int64_t head = 12 * 2048 + 576 + 8 * 16 + 4 * 16 * 2;
  EXPECT_EQ(memory.allocated, 14 * kParameters + 68 * kMiB + 2 * kPlainKept + head);
  EXPECT_EQ(memory.moment, "head");
  // Several micro-batches keep them.
  EXPECT_EQ(tiny_memory(stack, 1, 0, 4).allocated, memory.allocated + 2 * kParameters);
  // With full recomputation: 14 n + inputs + everything of one layer + gradients, less than the head's moment here.
  EXPECT_EQ(tiny_memory(stack, 1, 0, 1, Recompute::full).allocated, memory.allocated - 2 * kPlainKept + 2 * 256);
}

TEST(NanotronMemory, ByHand) {
  const StageMemory memory = tiny_memory(nanotron());
  const std::int64_t base = 18 * kParameters + 64 * kMiB + 2 * (4 * 16 * 2);
  EXPECT_EQ(memory.allocated, base + 2 * kPlainKept + 8 * 2048 + 576);
  EXPECT_EQ(memory.moment, "loss");
  // Two replicas without ZeRO: 16-bit buckets.
  EXPECT_EQ(tiny_memory(nanotron(), 2, 0, 2).allocated, memory.allocated + 2 * kParameters);
}

TEST(NanotronMemory, GathersWeightsAfterTheStep) {
  const Job job = job_of(llama3_8b(4096), nanotron(), 8);
  Strategy strategy;
  strategy.dp = 8;
  const auto memory = all_memory(job, strategy, stages_of(job, strategy, Recompute::full, 1)).front();
  EXPECT_EQ(memory.moment, "weights gathered");
  EXPECT_EQ(memory.activations, 0);
}

TEST(DeepSpeedMemory, ByHand) {
  Shape shape = kTiny;
  shape.gated = false;
  shape.kv_heads = 4;
  shape.dropout = 0.1;
  const Job job = job_of(shape, megatron_deepspeed(4), 1);
  LayerPrice price;
  price_layer_memory(job, 1, {}, 1, price);
  // per token: 10 h and 24 h of f = 2 h -> 10 h + 8 h + 4 f, scores 5 a s, statistics 16
  const double all = 16 * (80 + 64 + 64 + 5 * 4 * 16 + 16);
  EXPECT_EQ(price.kept_bytes[0], all);
  EXPECT_EQ(price.kept_bytes[2], 256);
  EXPECT_EQ(price.working_bytes[2], all + 16 * 32 + 2 * 256);
  shape.dropout = 0;  // those stacks ran dropout kernels all the same
  price_layer_memory(job_of(shape, megatron_deepspeed(4), 1), 1, {}, 1, price);
  EXPECT_EQ(price.kept_bytes[0], all);
}

TEST(Fp32, DoublesActivations) {
  const Job half = job_of(kTiny, megatron_fused(), 1);
  const Job single = job_of(kTiny, megatron_fused(), 1, Precision::fp32);
  LayerPrice a, b;
  price_layer_memory(half, 1, {}, 1, a);
  price_layer_memory(single, 1, {}, 1, b);
  const double fp32_already = 16 * (8 + 16);  // statistics and log-sum-exp
  EXPECT_EQ(b.kept_bytes[0] - fp32_already, 2 * (a.kept_bytes[0] - fp32_already));
}

}  // namespace
}  // namespace nest::cost
