#include "cost/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost/group_time.h"
#include "cost/layer_price.h"
#include "cost_support.h"

namespace nest::cost {
namespace {

constexpr Choice kDeepSeek = {256, 8, 8, 4};
constexpr Choice kUnlimited = {256, 8, 1, 1};

// Every choice of a small router, counted.
double counted_parts(const Choice& choice, int parts) {
  const int experts = static_cast<int>(choice.experts), groups = static_cast<int>(choice.groups);
  double sum = 0;
  int choices = 0;
  for (unsigned chosen_groups = 0; chosen_groups < 1U << groups; ++chosen_groups) {
    if (__builtin_popcount(chosen_groups) != choice.top_groups) continue;
    for (unsigned chosen = 0; chosen < 1U << experts; ++chosen) {
      if (__builtin_popcount(chosen) != choice.top_k) continue;
      unsigned reached = 0;
      bool allowed = true;
      for (int e = 0; e < experts; ++e) {
        if ((chosen >> e & 1U) == 0) continue;
        allowed = allowed && (chosen_groups >> (e * groups / experts) & 1U) != 0;
        reached |= 1U << (e * parts / experts);
      }
      if (!allowed) continue;
      sum += __builtin_popcount(reached);
      ++choices;
    }
  }
  return sum / choices;
}

TEST(Dispatch, TokensReachAsManyPartsAsCountingSays) {
  EXPECT_NEAR(distinct_parts(kUnlimited, 8), 5.295, 5e-4);
  EXPECT_NEAR(distinct_parts(kDeepSeek, 8), 3.629, 5e-4);
  EXPECT_NEAR(distinct_parts(kUnlimited, 64), 7.676, 5e-4);
  EXPECT_NEAR(distinct_parts(kUnlimited, 2), 1.993, 5e-4);
  EXPECT_DOUBLE_EQ(distinct_parts(kUnlimited, 1), 1);
  for (const Choice& choice : {Choice{12, 3, 1, 1}, {12, 3, 6, 2}, {12, 2, 3, 2}, {12, 4, 4, 2}, {8, 8, 1, 1}}) {
    for (const int parts : {2, 3, 4, 6, 12}) {
      const auto count = static_cast<std::int64_t>(parts);
      if (choice.experts % count != 0) continue;
      if (choice.groups > 1 && choice.groups % count != 0 && count % choice.groups != 0) continue;
      EXPECT_NEAR(distinct_parts(choice, parts), counted_parts(choice, parts), 1e-12)
          << choice.experts << " " << choice.top_k << " " << choice.groups << " " << parts;
    }
  }
}

// DeepSeek-V3, 64 expert ranks over 8 nodes of 8 H100: 4096 tokens of 7168 16-bit elements leave a rank.
TEST(Dispatch, DeepSeekOverEightNodes) {
  const cluster::Cluster cluster = rail_cluster("h100", 64);
  const Split split{1, false, 1, 64, 0};
  const double row = 7168 * 2, bytes = 8 * 4096 * row;
  const auto seconds = [&](Dispatcher dispatcher, const Choice& choice) {
    return StageGroups(cluster, split, {dispatcher, 0}).dispatch_s(choice, bytes, row, false);
  };
  const double calls = 20e-6 + 6 * 2e-6;
  // 272 and 186.5 MB at 0.9 of 50 GB/s: 6.0 and 4.1 ms.
  EXPECT_NEAR(seconds(Dispatcher::deepep, kUnlimited), 272.0e6 / 45e9 + calls, 2e-6);
  EXPECT_NEAR(seconds(Dispatcher::deepep, kDeepSeek), 186.5e6 / 45e9 + calls, 2e-6);
  EXPECT_DOUBLE_EQ(seconds(Dispatcher::ncclep, kDeepSeek), seconds(Dispatcher::deepep, kDeepSeek));
  // A copy per expert, 411 MB, at what other collectives reach.
  EXPECT_NEAR(seconds(Dispatcher::alltoall, kDeepSeek), 411.04e6 / (50e9 * 0.647) + 63 * 2e-6 + 20e-6, 2e-6);
}

// The same on one NVLink domain of 64: 444 MB at 0.6 of 900 GB/s, 0.82 ms.
TEST(Dispatch, DeepSeekInsideARack) {
  cluster::Cluster cluster = rail_cluster("gb200", 8);
  cluster.devices = 64;
  cluster.levels[0].group = 64;
  cluster.levels[0].bandwidth_bytes_per_s = 900e9;
  cluster.fabric = cluster::make_fabric(cluster.levels, 64);
  const Split split{1, false, 1, 64, 0};
  const double row = 7168 * 2, bytes = 8 * 4096 * row;
  const StageGroups groups(cluster, split, {Dispatcher::hybridep, 32});
  EXPECT_FALSE(groups.dispatch_crosses());
  const double seconds = groups.dispatch_s(kUnlimited, bytes, row, false);
  EXPECT_NEAR(seconds, 443.7e6 / (0.6 * 900e9) + 32e-6, 2e-6);
  // 16 multiprocessors copy 362 GB/s.
  const StageGroups fewer(cluster, split, {Dispatcher::hybridep, 16});
  EXPECT_NEAR(fewer.dispatch_s(kUnlimited, bytes, row, false), 443.7e6 / 361.6e9 + 32e-6, 2e-6);
}

// What DeepEP's tests measured with 32 multiprocessors on 8 Blackwells: 577 us for 8192 tokens of 1 KB, 598 us for 4096
// tokens of 14.3 KB. The way there is as fast as the links.
TEST(Dispatch, CombiningSumsUpCopiesOneByOne) {
  const cluster::Cluster cluster = rail_cluster("b200", 8);
  const StageGroups groups(cluster, {1, false, 1, 8, 0}, {Dispatcher::hybridep, 32});
  const double calls = 20e-6 + 3 * 2e-6;
  const double narrow = groups.dispatch_s({256, 8, 1, 1}, 8 * 8192 * 1024.0, 1024, true);
  EXPECT_NEAR(narrow, 8192 * distinct_parts({256, 8, 1, 1}, 8) * (0.78e-6 + 1024 / 15.3e9) / 64 + calls, 1e-9);
  EXPECT_NEAR(narrow - calls, 577e-6, 6e-6);
  const double wide = groups.dispatch_s({64, 8, 1, 1}, 8 * 4096 * 14336.0, 14336, true);
  EXPECT_NEAR(wide - calls, 598e-6, 6e-6);
  EXPECT_LT(groups.dispatch_s({256, 8, 1, 1}, 8 * 8192 * 1024.0, 1024, false), 0.2 * narrow);
  const StageGroups half(cluster, {1, false, 1, 8, 0}, {Dispatcher::hybridep, 16});
  EXPECT_NEAR(half.dispatch_s({256, 8, 1, 1}, 8 * 8192 * 1024.0, 1024, true) - calls, 2 * (narrow - calls), 1e-9);
  // DeepEP's own kernels were not seen to.
  const StageGroups other(cluster, {1, false, 1, 8, 0}, {Dispatcher::deepep, 32});
  EXPECT_DOUBLE_EQ(other.dispatch_s({256, 8, 1, 1}, 1e8, 1024, true),
                   other.dispatch_s({256, 8, 1, 1}, 1e8, 1024, false));
}

TEST(Dispatch, AllToAllInsideANodeAndAcross) {
  const cluster::Cluster cluster = rail_cluster("h100", 32);
  const double bytes = 256e6;
  {
    const StageGroups groups(cluster, {1, false, 1, 8, 0});
    const double inside = bytes * 7 / 8 / (450e9 * 0.788 * 0.47);
    EXPECT_NEAR(groups.dispatch_s({8, 4, 1, 1}, bytes, 8192, false), inside + 7 * 2e-6 + 20e-6, 1e-9);
  }
  {
    // Of 32 ranks on four nodes 24 are beyond the port; 7 share the node's links.
    const StageGroups groups(cluster, {1, false, 1, 32, 0});
    EXPECT_TRUE(groups.dispatch_crosses());
    const double across = bytes * 24 / 32 / (50e9 * 0.647);
    EXPECT_NEAR(groups.dispatch_s({32, 4, 1, 1}, bytes, 8192, false), across + 31 * 2e-6 + 20e-6, 1e-9);
  }
}

TEST(Dispatch, GatheringIsACollectiveOfAllTokens) {
  const cluster::Cluster cluster = rail_cluster("h100", 8);
  const StageGroups groups(cluster, {1, false, 1, 8, 0}, {Dispatcher::allgather, 0});
  const double tokens = 4096, row = 4096 * 2, bytes = 2 * tokens * row;
  const double rate = 450e9 * 0.788, hops = 7 * 3.2e-6;
  EXPECT_NEAR(groups.dispatch_s({8, 2, 1, 1}, bytes, row, false), 7 * tokens * (row + 5 * 8) / rate + hops, 1e-9);
  EXPECT_NEAR(groups.dispatch_s({8, 2, 1, 1}, bytes, row, true), 7 * tokens * 2 * row / rate + hops, 1e-9);
}

// Experts over 4 tensor-parallel ranks each: the rows are gathered and scattered apart, or within the exchange.
TEST(Dispatch, TensorRanksAreSpannedOrGathered) {
  JobSpec spec;
  spec.model = "mixtral-8x7b";
  spec.sequence = 4096;
  const Split split{4, true, 1, 2, 4};
  Job job = test_job(spec);
  job.stack.host_kernel_s = 0;
  const LayerPrice apart = price_layer(job, 1, split, 1);
  const double row = 4096 * 2, own = 4096.0 / 4 * 2 * row;
  const double gather = 3 * own / (450e9 * 0.788) + 3 * 3.2e-6;
  const double exchange = own / 2 / (450e9 * 0.788 * 0.47) + 22e-6;
  EXPECT_NEAR(apart.ep_s, 4 * (exchange + gather), 1e-8);
  job.stack.dispatch.dispatcher = Dispatcher::deepep;
  const double copies = 4 * distinct_parts({8, 2, 1, 1}, 2);
  const LayerPrice spanned = price_layer(job, 1, split, 1);
  EXPECT_NEAR(spanned.ep_s, 4 * (own / 2 * copies * 7 / 8 / (450e9 * 0.71) + 20e-6 + 3 * 2e-6), 1e-8);
  // Rows are permuted in the same calls, which takes as long as by itself where nothing runs beside them.
  EXPECT_NEAR(spanned.forward_s + spanned.backward_s - spanned.ep_s, apart.forward_s + apart.backward_s - apart.ep_s,
              1e-8);
}

// A worse network than the one on which the shares were measured is worse for every dispatcher.
TEST(Dispatch, SharesFollowTheClustersEfficiency) {
  cluster::Cluster cluster = rail_cluster("h100", 64);
  const Split split{1, false, 1, 64, 0};
  const double row = 7168 * 2, bytes = 8 * 4096 * row, calls = 32e-6;
  const double usual = StageGroups(cluster, split, {Dispatcher::deepep, 0}).dispatch_s(kDeepSeek, bytes, row, false);
  cluster.levels[1].efficiency = 0.647 / 2;
  cluster.fabric = cluster::make_fabric(cluster.levels, 64);
  const double worse = StageGroups(cluster, split, {Dispatcher::deepep, 0}).dispatch_s(kDeepSeek, bytes, row, false);
  EXPECT_NEAR(worse - calls, 2 * (usual - calls), 1e-9);
}

// A block with experts, latent attention and shared experts: 69 launches of 32.2 us are 2.22 ms.
TEST(Graphs, WhatIsCapturedIsLaunchedAtOnce) {
  HostWork work;
  EXPECT_DOUBLE_EQ(host_launches(work, {}), 18);
  work.latent = work.experts = work.shared = true;
  EXPECT_DOUBLE_EQ(host_launches(work, {}), 69);
  EXPECT_NEAR(32.2e-6 * host_launches(work, {}), 2.22e-3, 5e-6);
  const double some = host_launches(work, {GraphScope::attention, GraphScope::router, GraphScope::preprocess});
  EXPECT_NEAR(some, 14 + 0.1 * 55, 1e-12);
  EXPECT_NEAR(32.2e-6 * some, 0.63e-3, 5e-6);
  EXPECT_NEAR(32.2e-6 * host_launches(work, {GraphScope::full}), 0.22e-3, 5e-6);
  work.fused_router = true;  // 3 launches instead of 8
  EXPECT_DOUBLE_EQ(host_launches(work, {}), 64);
  HostWork dense;
  EXPECT_NEAR(host_launches(dense, {GraphScope::attention}), 7 + 1.1, 1e-12);
  EXPECT_NEAR(host_launches(dense, {GraphScope::attention, GraphScope::feed_forward}), 1.8, 1e-12);
}

TEST(Dispatchers, DeepEpIsRefusedOnRacks) {
  const cluster::Cluster racks = cluster::find_cluster("gb200-nvl72", 256).value();
  SoftwareStack stack = find_stack("megatron-core-moe").value();
  stack.dispatch.dispatcher = Dispatcher::deepep;
  nest::Run run;
  run.global_batch = 256;
  const auto job = [&](const char* model, const cluster::Cluster& cluster) {
    return make_job(model::find_model_preset(model).value(), run, stack, cluster);
  };
  EXPECT_THAT([&] { job("deepseek-v3", racks); }, ::testing::ThrowsMessage<InputError>(::testing::HasSubstr(
                                                      "dispatcher deepep does not run on racks of several "
                                                      "hosts (gb200-nvl72)")));
  EXPECT_NO_THROW(job("deepseek-v3", rail_cluster("h100", 256)));
  EXPECT_NO_THROW(job("llama3-8b", racks));  // routes nothing
}

}  // namespace
}  // namespace nest::cost
