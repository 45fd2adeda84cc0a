#include "cost/layer_price.h"

#include <gtest/gtest.h>

#include "cost/group_time.h"
#include "cost/operator_time.h"
#include "cost_support.h"

namespace nest::cost {
namespace {

int kind_named(const Job& job, const std::string& name) {
  for (std::size_t i = 0; i < job.model.kinds.size(); ++i) {
    if (job.model.kinds[i].name == name) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no layer " << name;
  return 0;
}

constexpr double kGap = 8e-6;

// Buffers are of one node; Megatron-Core has none for latent attention.
TEST(LayerPrice, TensorCollectivesOverlapWhereBuffersAre) {
  JobSpec spec;
  spec.devices = 32;
  const Job job = test_job(spec);
  EXPECT_TRUE(overlaps_tensor(job, {.tp = 8, .sp = true}));
  EXPECT_FALSE(overlaps_tensor(job, {.tp = 8, .sp = false}));
  EXPECT_FALSE(overlaps_tensor(job, {.tp = 16, .sp = true}));
  Job plain = job;
  plain.stack.tensor_overlap = false;
  EXPECT_FALSE(overlaps_tensor(plain, {.tp = 8, .sp = true}));
  spec.model = "deepseek-v2-lite";
  EXPECT_FALSE(overlaps_tensor(test_job(spec), {.tp = 8, .sp = true}));
}

// A gradient of 16 bits is read, and the sum read and written: 2 + 4 + 4 bytes a parameter in fp32, 2 + 2 + 2 in 16 bits.
TEST(LayerPrice, GradientsThatAreAddedByThemselves) {
  Job job = test_job({});
  const double alone_s = price_layer(job, kind_named(job, "block"), {}, 1).backward_s;
  const double memory = sustained_rates(job.cluster.device, job.run.precision, job.stack).memory_bytes_per_s;
  job.stack.unfused_accumulation = true;
  for (const auto& [bytes, moved] : {std::pair{4.0, 10.0}, std::pair{2.0, 6.0}}) {
    job.stack.gradient_bytes = bytes;
    EXPECT_NEAR(price_layer(job, kind_named(job, "block"), {}, 1).backward_s - alone_s, moved * 218'112'000 / memory,
                1e-9);
  }
}

TEST(LayerPrice, DenseBlockIsTheSumOfItsOperators) {
  const Job job = test_job({});
  const LayerPrice price = price_layer(job, kind_named(job, "block"), {}, 1);
  const DeviceRates rates = sustained_rates(job.cluster.device, job.run.precision, job.stack);
  const double tokens = 8192;
  const auto forward = [&](double n, double k) { return gemm_s(rates, {tokens, n, k, 1}); };
  const auto backward = [&](double n, double k) {
    return gemm_s(rates, {tokens, k, n, 1}) + gemm_s(rates, {n, k, tokens, 1});
  };
  AttentionSize attention;
  attention.heads = 32;
  attention.queries = attention.keys = tokens;
  attention.qk_dim = attention.value_dim = 128;
  const Passes core = attention_s(rates, attention, false);
  // Two norms (2 elements per element), two residuals (3), rotary on 32 + 8 heads (2), gated activation (3).
  const double elements = tokens * (4096 * (2 * 2 + 2 * 3) + 2 * 40 * 128 + 3 * 14336);
  const double rowwise = rowwise_s(rates, 2 * elements, true);
  const double expected_forward = forward(6144, 4096) + forward(4096, 4096) + forward(28672, 4096) +
                                  forward(4096, 14336) + core.forward_s + rowwise + 12 * kGap;
  EXPECT_NEAR(price.forward_s, expected_forward, 1e-9);
  EXPECT_NEAR(price.backward_s,
              backward(6144, 4096) + backward(4096, 4096) + backward(28672, 4096) + backward(4096, 14336) +
                  core.backward_s + 2 * rowwise + 24 * kGap,
              1e-9);
  EXPECT_NEAR(price.recompute_s[2], price.forward_s, 1e-12);
  EXPECT_NEAR(price.recompute_s[1], core.forward_s, 1e-12);
  EXPECT_EQ(price.tp_s + price.cp_s + price.ep_s, 0);
  EXPECT_FALSE(price.measured);
}

TEST(LayerPrice, TensorParallelRanksShareTheWork) {
  const Job job = test_job({});
  const int block = kind_named(job, "block");
  const LayerPrice whole = price_layer(job, block, {}, 2);
  for (const std::int64_t tp : {2, 4, 8}) {
    const LayerPrice part = price_layer(job, block, {tp, true, 1, 1, 0}, 2);
    EXPECT_NEAR(part.flops * static_cast<double>(tp), whole.flops, 1e-6 * whole.flops);
    EXPECT_GT(part.tp_s, 0);
    EXPECT_LT(part.forward_s, whole.forward_s);
    EXPECT_GT(part.forward_s * static_cast<double>(tp), whole.forward_s);
  }
}

TEST(LayerPrice, AllReducesOfABlockWithoutSequenceParallelism) {
  JobSpec spec;
  spec.stack = "megatron-core-plain";
  const Job job = test_job(spec);
  const LayerPrice price = price_layer(job, kind_named(job, "block"), {8, false, 1, 1, 0}, 1);
  // Two forward, two backward, each 2 * 7/8 of 8192 * 4096 * 2 bytes over 450 GB/s * 0.788, and 14 hops of 3.2 us.
  const double one = 2 * 7.0 / 8 * 8192 * 4096 * 2 / (450e9 * 0.788) + 14 * 3.2e-6;
  EXPECT_NEAR(price.tp_s, 4 * one, 1e-9);
}

TEST(LayerPrice, SequenceParallelCollectivesHidePartly) {
  JobSpec spec;
  const Job overlapped = test_job(spec);
  spec.stack = "megatron-core-plain";
  const Job exposed = test_job(spec);
  const Split split{8, true, 1, 1, 0};
  const double one = 2 * 7.0 / 8 * 8192 * 4096 * 2 / (450e9 * 0.788) + 14 * 3.2e-6;  // gather and scatter
  EXPECT_NEAR(price_layer(overlapped, kind_named(overlapped, "block"), split, 1).tp_s, 4 * 0.579 * one, 1e-9);
  // The input of the two column-parallel products is gathered once more, half of which is exposed.
  EXPECT_NEAR(price_layer(exposed, kind_named(exposed, "block"), split, 1).tp_s, 4.5 * one, 1e-9);
}

TEST(LayerPrice, HostLimitsSmallLayers) {
  JobSpec spec;
  spec.sequence = 64;
  const Job job = test_job(spec);
  const LayerPrice price = price_layer(job, kind_named(job, "block"), {}, 1);
  EXPECT_NEAR(price.forward_s, 18 * 32.2e-6, 1e-12);
  EXPECT_NEAR(price.backward_s, 5.69 * 18 * 32.2e-6, 1e-12);
  EXPECT_NEAR(price.recompute_s[2], 18 * 32.2e-6, 1e-12);
}

TEST(LayerPrice, GroupedProductsArePaddedAndRoutersStayWide) {
  JobSpec spec;
  spec.model = "mixtral-8x7b";
  spec.sequence = 4096;
  const Job job = test_job(spec);
  const LayerPrice alone = price_layer(job, kind_named(job, "block"), {}, 1);
  const LayerPrice spread = price_layer(job, kind_named(job, "block"), {1, false, 1, 8, 0}, 1);
  EXPECT_EQ(alone.ep_s, 0);
  // Two all-to-alls forward, two backward, of 4096 * 2 rows of 4096 16-bit elements.
  const double one = 4096.0 * 2 * 4096 * 2 * 7 / 8 / (450e9 * 0.788 * 0.47) + 34e-6;
  EXPECT_NEAR(spread.ep_s, 4 * one, 1e-9);
  // Every expert sees 1024 rows either way; only how many share the device differs, so the work is the same.
  EXPECT_NEAR(spread.flops, alone.flops, 1e-6 * alone.flops);
}

// GPT-OSS on one device: 4096 tokens choose 4 experts of width 2880.
TEST(LayerPrice, BiasesOfExpertsAreAddedApartOrInside) {
  JobSpec spec;
  spec.model = "gpt-oss-120b";
  spec.sequence = 4096;
  Job job = test_job(spec);
  int block = 0;
  while (job.model.kinds[static_cast<std::size_t>(block)].experts == 0) ++block;
  job.stack.host_kernel_s = 0;
  const DeviceRates rates = sustained_rates(job.cluster.device, job.run.precision, job.stack);
  const double rows = 4096.0 * 4, second = 1 / rates.memory_bytes_per_s;
  const LayerPrice apart = price_layer(job, block, {}, 1);
  job.stack.fused_experts = true;
  job.stack.routing.rows = 128;
  const LayerPrice inside = price_layer(job, block, {}, 1);
  // 28 bytes per element of the result, and what the activation moved: 2.5 elements of two bytes.
  const double activation = 2.5 * 2 * rows * 2880 * 0.888 * second;
  EXPECT_NEAR(apart.forward_s - inside.forward_s, 28 * rows * 2880 * second + activation, 1e-9);
  // Backward 40 bytes instead of a sum over rows of two bytes each.
  EXPECT_NEAR(apart.backward_s - inside.backward_s, 38 * rows * 2880 * second + 2 * activation, 1e-9);
}

// Where the host decides: 15 launches for every function that runs again, and 18/11 for its one operator. Norms of dense
// blocks run inside the products that read them: there is none to launch.
TEST(LayerPrice, RecomputedModulesAreLaunchedAgain) {
  for (const bool experts : {false, true}) {
    JobSpec spec;
    spec.model = experts ? "mixtral-8x7b" : "llama3-8b";
    Job job = test_job(spec);
    job.stack.host_kernel_s = 0.1;
    job.stack.selective_modules = {model::Module::core_attention, model::Module::norm};
    const double once = 0.1 * (15 + 18.0 / 11);
    EXPECT_NEAR(price_layer(job, 1, {}, 1).recompute_s[1], (experts ? 2 : 1) * once, 1e-9);
  }
}

// By module, in a block with latent attention and experts; a graph leaves a tenth of what it captures.
TEST(LayerPrice, ModulesDifferInWhatTheyLaunch) {
  JobSpec spec;
  spec.model = "deepseek-v3";
  Job job = test_job(spec);
  int block = 0;
  while (job.model.kinds[static_cast<std::size_t>(block)].experts == 0) ++block;
  job.stack.host_kernel_s = 1;
  job.stack.fused_router = false;
  const auto launches = [&](std::initializer_list<RecomputeModule> modules) {
    RecomputeSet set = 0;
    for (const RecomputeModule module : modules) set |= set_of(module);
    return price_layer(job, block, {}, 1, {{set}}).recompute_s[kFirstSet];
  };
  using enum RecomputeModule;
  job.stack.graph_scopes.clear();
  EXPECT_NEAR(launches({core_attn}), 15 + 18.0 / 11, 1e-6);
  EXPECT_NEAR(launches({moe_act}), 15 + 18.0 / 11, 1e-6);
  EXPECT_NEAR(launches({mla_up_proj}), 15 + 15, 1e-6);
  EXPECT_NEAR(launches({layernorm}), 2 * (15 + 18.0 / 11), 1e-6);  // before attention and before the router
  EXPECT_NEAR(launches({layernorm, moe_act}), 3 * (15 + 18.0 / 11), 1e-6);
  EXPECT_EQ(launches({mlp}), 0);        // has none
  EXPECT_GT(launches({moe}), 15 + 28);  // router, preparation, experts; and shared experts
  job.stack.graph_scopes = {GraphScope::attention};
  EXPECT_NEAR(launches({mla_up_proj}), 0.1 * (15 + 15), 1e-6);
  EXPECT_NEAR(launches({moe_act}), 15 + 18.0 / 11, 1e-6);
}

// In 8 bits: what enters the experts and what comes back is cast, 4.0625 bytes per element each.
TEST(LayerPrice, FusedExpertsCastOnlyAtTheirEnds) {
  JobSpec spec;
  spec.model = "mixtral-8x7b";
  spec.sequence = 4096;
  spec.precision = Precision::fp8;
  Job job = test_job(spec);
  job.stack.host_kernel_s = 0;
  const DeviceRates rates = sustained_rates(job.cluster.device, job.run.precision, job.stack);
  const double rows = 4096.0 * 2, second = 1 / rates.memory_bytes_per_s;
  const LayerPrice apart = price_layer(job, 1, {}, 1);
  job.stack.fused_experts = true;
  const LayerPrice fused = price_layer(job, 1, {}, 1);
  const double activation = 2.5 * 2 * rows * 14336 * 0.888 * second;
  EXPECT_NEAR(apart.forward_s - fused.forward_s, activation + (3 * (4096 + 14336) - 4.0625 * 4096) * rows * second,
              1e-9);
  EXPECT_NEAR(apart.backward_s - fused.backward_s,
              2 * activation + (6 * (4096 + 14336) - 4.0625 * 4096) * rows * second, 1e-9);
}

TEST(LayerPrice, HeadsRunInEightBitsWhereTheStackSaysSo) {
  JobSpec spec;
  spec.precision = Precision::fp8;
  Job job = test_job(spec);
  const int head = kind_named(job, "head");
  const DeviceRates rates = sustained_rates(job.cluster.device, job.run.precision, job.stack);
  const double wide = price_layer(job, head, {}, 1).forward_s;
  job.stack.fp8_head = true;
  const double narrow = price_layer(job, head, {}, 1).forward_s;
  const GemmShape shape{8192, 128256, 4096, 1};
  EXPECT_NEAR(
      wide - narrow,
      gemm_s(rates, shape, GemmFormat::sixteen) - gemm_s(rates, shape) - 3 * 8192.0 * 4096 / rates.memory_bytes_per_s,
      1e-9);
}

TEST(LayerPrice, EveryFamilyHasAPrice) {
  for (const char* model :
       {"bert-large", "t5-11b", "deepseek-v3", "gemma2-27b", "gpt-oss-20b", "qwen3-30b-a3b", "falcon-40b"}) {
    JobSpec spec;
    spec.model = model;
    spec.sequence = 512;
    const Job job = test_job(spec);
    for (int kind = 0; kind < static_cast<int>(job.model.kinds.size()); ++kind) {
      const LayerPrice price = price_layer(job, kind, {}, 4);
      EXPECT_GT(price.forward_s, 0) << model << " " << kind;
      EXPECT_GT(price.backward_s, price.forward_s) << model << " " << kind;
      EXPECT_LT(price.backward_s, 1) << model << " " << kind;
    }
  }
}

TEST(LayerPrice, SlidingWindowsAndLatentsCostWhatTheyCompute) {
  JobSpec spec;
  spec.model = "gemma2-27b";
  spec.sequence = 32768;
  const Job job = test_job(spec);
  const LayerPrice sliding = price_layer(job, kind_named(job, "sliding block"), {}, 1);
  const LayerPrice full = price_layer(job, kind_named(job, "full block"), {}, 1);
  EXPECT_LT(sliding.forward_s, full.forward_s);
  EXPECT_EQ(sliding.dense_parameters, full.dense_parameters);
}

TEST(Messages, OnlyTheLevelThatIsCrossedCounts) {
  const cluster::Cluster cluster = rail_cluster("h100", 32);
  Layout layout;
  layout.tp = 4;
  layout.pp = 4;
  const Strategy strategy = strategy_of(layout);
  const CostLine inside = message_line(cluster, strategy, 0, 1);  // devices 0 … 3 to 4 … 7
  const CostLine across = message_line(cluster, strategy, 1, 2);  // 4 … 7 to 8 … 11
  EXPECT_DOUBLE_EQ(inside.latency_s, 3.2e-6);
  EXPECT_DOUBLE_EQ(inside.s_per_byte, 1 / (450e9 * 0.788));
  EXPECT_DOUBLE_EQ(across.latency_s, 8e-6);
  EXPECT_DOUBLE_EQ(across.s_per_byte, 1 / (50e9 * 0.647));
}

// Units of 448 devices and replicas of 12: the first in which a unit ends between the fourth stage and the fifth is
// replica 74, 74 · 12 + 8 = 2 · 448. There both tensor ranks send over the uplink of the unit.
TEST(Messages, ReplicasFarBehindTheFirstCountToo) {
  cluster::Cluster cluster = rail_cluster("h100", 8);
  cluster::Level unit, all;
  unit.group = 448;
  unit.bandwidth_bytes_per_s = 400e9;
  unit.latency_s = 2e-6;
  all.group = 7;
  all.bandwidth_bytes_per_s = 10e9;
  all.latency_s = 9e-6;
  cluster.levels = {unit, all};
  cluster.devices = 3136;
  cluster.fabric = cluster::make_fabric(cluster.levels, cluster.devices);
  Layout layout;
  layout.tp = 2;
  layout.pp = 6;
  layout.dp = 190;
  Strategy strategy = strategy_of(layout);
  strategy.dp_inner = 1;
  strategy.pitch = 12;
  const CostLine line = message_line(cluster, strategy, 3, 4);
  EXPECT_DOUBLE_EQ(line.latency_s, 9e-6);
  EXPECT_DOUBLE_EQ(line.s_per_byte, 2 / 10e9);
  strategy.dp = 74;  // without it
  EXPECT_DOUBLE_EQ(message_line(cluster, strategy, 3, 4).s_per_byte, 1 / 400e9);
}

constexpr CallBytes kEndless = {1e18, 1e18};

// A step of 288 ranks in 72 rings side by side moves 1/72 · 1/288 of a call. Small calls wait for the network between
// racks, large ones for NVLink: (71/72) (287/288) / 709e9 s per byte.
TEST(Sharding, LinesFollowTheBytesOfACall) {
  const cluster::Cluster cluster = cluster::find_cluster("gb200-nvl72", 576).value();
  Strategy strategy;
  strategy.pp = 2;
  strategy.dp = 288;
  strategy.dp_inner = 72;
  strategy.pitch = 144;
  const ShardGroups groups = shard_groups(cluster, strategy, 0);
  const auto line = [&](double call) { return shard_lines(cluster, groups, {call, call}).dense_shard; };
  EXPECT_NEAR(line(1e18).s_per_byte, 71.0 / 72 * 287 / 288 / 709e9, 0.01 / 709e9);
  // Each class of flows alone is less.
  double before = 1;
  for (const double call : {1e6, 64e6, 256e6, 1e9, 4e9, 1e12}) {
    EXPECT_LT(line(call).s_per_byte, before);
    EXPECT_GE(line(call).s_per_byte, line(1e18).s_per_byte);
    EXPECT_GE(line(call).s_per_byte, line(1e18).latency_s / call);
    EXPECT_LE(line(call).s_per_byte, line(1e18).s_per_byte + line(1e18).latency_s / call);
    before = line(call).s_per_byte;
  }
}

TEST(Sharding, DegreeInsideANodeLeavesReplicasBetween) {
  const cluster::Cluster cluster = rail_cluster("h100", 32);
  Layout layout;
  layout.dp = 32;
  const Strategy strategy = strategy_of(layout);
  const ShardLines all = shard_lines(cluster, shard_groups(cluster, strategy, 0), kEndless);
  EXPECT_EQ(all.dense_degree, 32);
  EXPECT_DOUBLE_EQ(all.dense_replicate.s_per_byte, 0);
  // Rings leave each node through 8 ports.
  EXPECT_NEAR(all.dense_shard.s_per_byte, 31.0 / 32 / (8 * 50e9 * 0.647), 1e-15);
  const ShardLines node = shard_lines(cluster, shard_groups(cluster, strategy, 8), kEndless);
  EXPECT_NEAR(node.dense_shard.s_per_byte, 7.0 / 8 / (450e9 * 0.788), 1e-15);
  EXPECT_NEAR(node.dense_replicate.s_per_byte, 3.0 / 4 / 8 / (50e9 * 0.647), 1e-15);
  EXPECT_TRUE(groups::can_shard(strategy, 16));
  EXPECT_FALSE(groups::can_shard(strategy, 12));
  EXPECT_FALSE(groups::can_shard(strategy, 64));
}

}  // namespace
}  // namespace nest::cost
