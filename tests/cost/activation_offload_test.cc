// What modules keep and have on the host: the law by hand, memory, refusals.
#include "cost/activation_offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/index.h"
#include "cost/memory.h"
#include "cost/tables.h"
#include "cost_support.h"

namespace nest::cost {
namespace {

using ::testing::HasSubstr;

constexpr OffloadSet kAttention = set_of(OffloadModule::core_attn) | set_of(OffloadModule::attn_proj);
constexpr double kMoved = 8192.0 * (2 * 48 * 128 + 2 * 4096);  // of one layer of llama3-8b and 8192 tokens

Job host_job(const std::string& stack = "megatron-core") { return test_job({.stack = stack}); }

Plan away_plan(const Job& job, OffloadSet modules, std::int64_t pp = 2, const Recomputation& recompute = {}) {
  Strategy strategy = strategy_of({.pp = pp, .dp = 8 / pp});
  strategy.split.offload = modules;
  return evaluate(job, strategy, even_stages(job, strategy, recompute, 1));
}

// 1 GB over 50 GB/s: 20 ms each way.
TEST(ActivationOffload, LawByHand) {
  EXPECT_DOUBLE_EQ(exposed_way_s(1e9, 50e9, 0.030, 0.060), 0.05 * 0.040);
  EXPECT_DOUBLE_EQ(exposed_way_s(1e9, 50e9, 0.015, 0.030), 0.005 + 0.05 * 0.040);
  EXPECT_DOUBLE_EQ(exposed_way_s(1e9, 50e9, 0.005, 0.012), 0.015 + 0.008 + 0.05 * 0.040);
  EXPECT_EQ(exposed_way_s(0, 50e9, 0.005, 0.012), 0);
}

TEST(ActivationOffload, OneLayer) {
  const Job job = host_job();
  EXPECT_DOUBLE_EQ(job.cluster.device.host_link_bytes_per_s, 55e9);
  const Treatments treatments{{set_of(RecomputeModule::mlp)}};
  const LayerPrice here = price_layer(job, 1, {}, 1, treatments);
  const LayerPrice there = price_layer(job, 1, {.offload = kAttention}, 1, treatments);
  EXPECT_EQ(there.forward_s, here.forward_s);
  EXPECT_EQ(there.backward_s, here.backward_s);
  for (const int mode : {kNothing, kFirstSet}) {
    const auto t = at(mode);
    EXPECT_DOUBLE_EQ(there.host[t].moved, kMoved);
    const double way_s = exposed_way_s(kMoved, 55e9, here.forward_s, here.backward_s + here.recompute_s[t]);
    EXPECT_DOUBLE_EQ(there.recompute_s[t], here.recompute_s[t] + way_s);
    EXPECT_DOUBLE_EQ(there.way_s[t], way_s);
    EXPECT_DOUBLE_EQ(there.kept_bytes[t], here.kept_bytes[t] - kMoved);
    // Its own are back while it works, and one group of the next is coming.
    EXPECT_DOUBLE_EQ(there.working_bytes[t], here.working_bytes[t] + kMoved + kMoved);
  }
  EXPECT_EQ(there.recompute_s[kEverything], here.recompute_s[kEverything]);
  EXPECT_EQ(there.kept_bytes[kEverything], here.kept_bytes[kEverything]);
  EXPECT_TRUE(here.host.empty());
  EXPECT_TRUE(here.way_s.empty());
}

TEST(ActivationOffload, OneStage) {
  const Job job = host_job();
  const Plan here = away_plan(job, 0), there = away_plan(job, kAttention);
  const StagePlan &before = here.stages[0], &after = there.stages[0];
  const double way_s =
      exposed_way_s(kMoved, 55e9, price_layer(job, 1, {}, 1).forward_s, price_layer(job, 1, {}, 1).backward_s);
  EXPECT_NEAR(after.time.recompute, 16 * way_s, 1e-12);
  EXPECT_NEAR(after.time.total - before.time.total, 16 * way_s, 1e-12);
  EXPECT_NEAR(real(before.memory.activations - after.memory.activations), 2 * 16 * kMoved, 2);  // two in flight
  EXPECT_NEAR(real(after.memory.working - before.memory.working), 2 * kMoved, 2);
  EXPECT_NEAR(real(after.memory.host), 2 * 16 * kMoved, 2);
  EXPECT_LT(after.memory.needed, before.memory.needed);
  EXPECT_THAT(there.assumptions, ::testing::Contains(HasSubstr("what core_attn+attn_proj keep waits on the host")));
  // A tenth of a slow link is exposed for the most part.
  Job slow = job;
  slow.cluster.device.host_link_bytes_per_s = 5.5e9;
  EXPECT_GT(away_plan(slow, kAttention).prediction.iteration_s, there.prediction.iteration_s * 1.2);
}

// Four of 32 layers hide behind all of them: a tenth of their way is left.
TEST(ActivationOffload, WholeLayers) {
  Job job = host_job();
  const Plan here = away_plan(job, 0, 1);
  job.stack.offloaded_layers = 4;
  const Plan there = away_plan(job, 0, 1);
  const double kept = 4 * 8192.0 * 139'400;  // by hand in recomputation_test.cc
  EXPECT_NEAR(there.stages[0].time.recompute, 0.1 * kept / 55e9, 1e-9);
  EXPECT_NEAR(real(there.stages[0].memory.host), kept, 2);
  EXPECT_LT(there.stages[0].memory.needed, here.stages[0].memory.needed);
  EXPECT_EQ(away_plan(job, 0, 2).stages[0].time.recompute, 0);  // not in a pipeline
  EXPECT_EQ(away_plan(job, 0, 1, Recompute::selective).stages[0].memory.host, 0);
  job.cluster.device.host_link_bytes_per_s = 5.5e9;  // longer than all passes
  const StageTime slow = away_plan(job, 0, 1).stages[0].time;
  const double way_s = kept / 5.5e9;
  EXPECT_NEAR(slow.recompute, std::max(0.0, way_s - slow.forward) + std::max(0.0, way_s - slow.backward) + 0.1 * way_s,
              1e-9);
}

TEST(ActivationOffload, IsRefusedByName) {
  const auto why = [](const Job& job, const char* words, const Recomputation& recompute = {}) {
    Strategy strategy = strategy_of({.dp = 8});
    strategy.split.offload = *parse_offload(words);
    return refuse_strategy(job, strategy, even_stages(job, strategy, recompute, 1));
  };
  Job job = host_job();
  EXPECT_EQ(why(job, "qkv_linear+core_attn+attn_proj"), "");
  EXPECT_THAT(why(job, "attn_proj"), HasSubstr("offload=attn_proj: attn_proj needs core_attn"));
  EXPECT_THAT(why(job, "qkv_linear", Recompute::full), HasSubstr("recomputed from their inputs (recompute=full)"));
  EXPECT_THAT(why(job, "qkv_linear", Recomputation::of_layers(Recompute::block, 2)), HasSubstr("recompute=block:2"));
  EXPECT_THAT(why(job, "fused_group_mlp"), HasSubstr("needs fused_experts"));
  EXPECT_THAT(why(job, "fused_group_mlp+moe_act"), HasSubstr("covers expert_fc1 and moe_act"));
  EXPECT_THAT(why(job, "moe_act", Recomputation::of_modules(set_of(RecomputeModule::moe))),
              HasSubstr("recomputed as a whole (recompute=moe)"));
  job.stack.selective_modules = {model::Module::moe};
  EXPECT_THAT(why(job, "moe_act", Recompute::selective), HasSubstr("recompute=selective"));
  EXPECT_EQ(why(job, "qkv_linear", Recompute::selective), "");
  job.stack.fused_experts = true;
  EXPECT_EQ(why(job, "fused_group_mlp"), "");
  EXPECT_THAT(why(job, "moe_act"), HasSubstr("fused_group_mlp is all of them"));
  job.stack.paged_stash = 1.1;
  EXPECT_THAT(why(job, "fused_group_mlp"), HasSubstr("paged_stash"));
  job.stack.offloaded_layers = 2;
  EXPECT_THAT(why(job, "core_attn"), HasSubstr("offloaded_layers"));
  job = host_job();
  job.stack.graph_scopes = {GraphScope::feed_forward};
  EXPECT_THAT(why(job, "mlp_norm"), HasSubstr("norms cross the borders of graphs"));
  EXPECT_THAT(why(job, "core_attn"), HasSubstr("graphs must capture attention"));
  job.stack.graph_scopes.push_back(GraphScope::attention);
  EXPECT_EQ(why(job, "core_attn"), "");
  Job experts = test_job({.model = "qwen3-30b-a3b"});
  experts.stack.graph_scopes = {GraphScope::attention};
  EXPECT_THAT(why(experts, "core_attn"), HasSubstr("attention and router"));
  experts.stack.graph_scopes.push_back(GraphScope::router);
  EXPECT_EQ(why(experts, "core_attn"), "");
  job.stack.graph_scopes = {GraphScope::full};
  EXPECT_EQ(why(job, "attn_norm"), "");
  job.cluster.device.host_link_bytes_per_s = 0;
  EXPECT_THAT(why(job, "core_attn"), HasSubstr("host_link"));
  EXPECT_THAT(why(host_job("fsdp2"), "core_attn"), HasSubstr("stack fsdp2 keeps all activations on the device"));
  EXPECT_EQ(why(host_job("fsdp2"), "none"), "");
}

}  // namespace
}  // namespace nest::cost
