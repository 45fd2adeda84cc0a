// How long context ranks exchange, and what of it is waited for.
#include <gtest/gtest.h>

#include "cost/constants.h"
#include "cost/group_time.h"
#include "cost/layer_price.h"
#include "cost_support.h"
#include "model/presets.h"

namespace nest::cost {
namespace {

Job context_job(std::int64_t sequence, std::int64_t devices) {
  nest::Run run;
  run.global_batch = 64;
  run.sequence = sequence;
  return make_job(model::find_model_preset("llama2-7b").value(), run, find_stack("megatron-core").value(),
                  cluster::find_cluster("dgx-h100", devices).value());
}

LayerPrice block_of(const Job& job, const Split& split) { return price_layer(job, job.model.layers[1], split, 1); }

// 32 heads of 128, 16,384 tokens over 4 ranks of one node: each of q, k, v and out is 4096 x 4096 x 2 bytes, of which a
// rank sends three quarters at 0.37 of the link; four calls forward, five backward.
TEST(ContextExchange, HeadsAreTradedInTheOpen) {
  using namespace constants;
  const Job job = context_job(16384, 8);
  const double tensor = 4096.0 * 4096 * 2;
  const double rate = job.cluster.fabric.capacity[0] * kAllToAllRate;
  const double call = tensor * 3 / 4 / rate + kAllToAllPeer_s * 3 + kAllToAll_s;
  const LayerPrice ring = block_of(job, {.cp = 4});
  const LayerPrice heads = block_of(job, {.cp = 4, .cp_comm = ContextExchange::a2a});
  EXPECT_NEAR(heads.cp_s / (9 * call), 1, 1e-12);
  EXPECT_NEAR((heads.forward_s - ring.forward_s + heads.backward_s - ring.backward_s) / (heads.cp_s - ring.cp_s), 1,
              1e-9);
}

// Keys and values of all ranks, 4 x 2 x 4096 x 4096 x 2 bytes, are gathered forward and backward and scattered once; a
// ring that sends the same hides all but a tenth of it behind attention.
TEST(ContextExchange, GatheringIsWaitedFor) {
  using namespace constants;
  const Job job = context_job(16384, 8);
  const double whole = 4.0 * 2 * 4096 * 4096 * 2;
  const StageGroups groups(job.cluster, {.cp = 4});
  const LayerPrice ring = block_of(job, {.cp = 4});
  const LayerPrice gathered = block_of(job, {.cp = 4, .cp_comm = ContextExchange::all_gather});
  const cluster::GroupLayout layout = cluster::place_group(job.cluster, {0, {{1, 4}}, {{4, 2}}});
  const double gather = group_collective_s(job.cluster, layout, cluster::Collective::all_gather, whole);
  const double scatter = group_collective_s(job.cluster, layout, cluster::Collective::reduce_scatter, whole);
  EXPECT_NEAR(gathered.cp_s / (2 * gather + scatter), 1, 1e-9);
  // Backward the ring also carries the gradients.
  const double twice = group_collective_s(job.cluster, layout, cluster::Collective::all_gather, 2 * whole);
  EXPECT_NEAR(ring.cp_s / (kContextExposed * (gather + twice)), 1, 1e-9);
}

// 16 ranks on two nodes: heads are traded inside a node, and one ring step crosses instead of fifteen.
TEST(ContextExchange, TwoLevelsCrossLess) {
  const Job job = context_job(8192, 16);
  const LayerPrice ring = block_of(job, {.cp = 16});
  const LayerPrice both = block_of(job, {.cp = 16, .cp_comm = ContextExchange::a2a_p2p, .cp_inner = 8});
  EXPECT_LT(both.cp_s, ring.cp_s);
  EXPECT_GT(both.cp_s, 0);
}

TEST(ContextExchange, StacksNameWhatTheyRun) {
  const auto read = [](const std::string& text) {
    return read_stack(doc::parse_yaml("stack.yaml", "name: mine\n" + text), "mine").context_exchange;
  };
  EXPECT_EQ(read(""), std::vector{ContextExchange::p2p});
  EXPECT_EQ(read("context_exchange: [a2a, p2p]\n"), (std::vector{ContextExchange::a2a, ContextExchange::p2p}));
  EXPECT_EQ(read("context_all_to_all: true\n"), std::vector{ContextExchange::a2a});
  EXPECT_THROW(read("context_exchange: [ring]\n"), InputError);
  EXPECT_THROW(read("context_exchange: []\n"), InputError);
  Split split{.cp = 2};
  SoftwareStack stack;
  stack.context_exchange = {ContextExchange::all_gather};
  use_stack_exchange(stack, split);
  EXPECT_EQ(split.cp_comm, ContextExchange::all_gather);
  split = {};
  use_stack_exchange(stack, split);
  EXPECT_EQ(split.cp_comm, ContextExchange::p2p);
}

}  // namespace
}  // namespace nest::cost
