// What is in a trace: exchanges by their sizes, groups, ranks, and how much is refused.
#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "chakra_support.h"

namespace nest::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(Chakra, TensorCollectivesOfALayerBySize) {
  // Without sp: one all-reduce after attention and one after the feed-forward, forward and backward each.
  const cost::Job job = export_job(few_layers("llama3-8b", 2), "dgx-h100", 8, 4, 1024, "pytorch");
  Strategy strategy;
  strategy.split.tp = 4;
  const auto stages = cost::even_stages(job, strategy, Recompute::none, 0);
  const exporter::ChakraExport exported(job, strategy, stages);
  const Traces traces = write_all(exported, strategy);
  std::vector<std::int64_t> sizes;
  for (const ReadNode& node : traces.read[3].nodes) {
    if (node.collective() && (node.name.starts_with("fwd mb0 L1 ") || node.name.starts_with("bwd mb0 L1 "))) {
      EXPECT_EQ(node.numbers.at("comm_type"), 0);
      EXPECT_EQ(node.group, "1");
      sizes.push_back(node.numbers.at("comm_size"));
    }
  }
  const std::int64_t stream = 1024 * 4096 * 2;  // tokens, hidden, bf16
  EXPECT_THAT(sizes, ElementsAre(stream, stream, stream, stream));
}

// Type and size of the exchanges of one layer's first pass over the wire, by rank 1.
std::vector<std::pair<std::int64_t, std::int64_t>> exchanges_of(const cost::Job& job, const Strategy& strategy,
                                                                const std::string& pass) {
  const auto stages = cost::even_stages(job, strategy, Recompute::none, 0);
  const Traces traces = write_all(exporter::ChakraExport(job, strategy, stages), strategy);
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (const ReadNode& node : traces.read[1].nodes) {
    if (!node.collective() || !node.name.starts_with(pass) || node.ends_with(" gradients")) continue;
    found.emplace_back(node.numbers.at("comm_type"), node.numbers.at("comm_size"));
  }
  return found;
}

TEST(Chakra, ContextExchangesOfALayerBySize) {
  // Half of 1,024 tokens; keys and values of 8 heads of 128, bf16. Backward passes their gradients on too.
  const cost::Job job = export_job(few_layers("llama3-8b", 2), "dgx-h100", 8, 4, 1024);
  Strategy strategy;
  strategy.split.cp = 2;
  const std::int64_t keys_and_values = 2 * 512 * 8 * 128 * 2;
  EXPECT_THAT(exchanges_of(job, strategy, "fwd mb0 L1 "), ElementsAre(Pair(2, keys_and_values)));
  EXPECT_THAT(exchanges_of(job, strategy, "bwd mb0 L1 "), ElementsAre(Pair(2, 2 * keys_and_values)));
}

TEST(Chakra, ExpertExchangesOfALayerBySize) {
  // Every token of 512 goes to two experts and back: all-to-all of rows of 4,096, bf16.
  const cost::Job job = export_job(few_layers("mixtral-8x7b", 2), "dgx-h100", 8, 4, 512);
  Strategy strategy;
  strategy.split.ep = strategy.dp = strategy.dp_inner = 2;
  const std::int64_t rows = 2 * 512 * 4096 * 2;
  for (const char* pass : {"fwd mb0 L1 ", "bwd mb0 L1 "}) {
    EXPECT_THAT(exchanges_of(job, strategy, pass), ElementsAre(Pair(6, rows), Pair(6, rows))) << pass;
  }
}

// Sixteen ranks on two nodes: what a dispatcher sends once per node and per rank, or gathers, on groups of its own.
TEST(Chakra, TokensTravelAsTheDispatcherSendsThem) {
  cost::Job job = export_job(few_layers("qwen3-30b-a3b", 2), "dgx-h100", 16, 16, 512);
  Strategy strategy;
  strategy.split.ep = strategy.dp = strategy.dp_inner = 16;
  const double rows = 512.0 * 2048 * 2;  // one copy of the tokens of a rank, bf16
  const cost::Choice choice{128, 8, 1, 1};
  job.stack.dispatch.dispatcher = cost::Dispatcher::deepep;
  const auto lane = std::llround(rows * cost::distinct_parts(choice, 2));
  const auto unit = std::llround(rows * cost::distinct_parts(choice, 16));
  EXPECT_LT(lane, std::llround(8 * rows));
  for (const char* pass : {"fwd mb0 L1 ", "bwd mb0 L1 "}) {
    EXPECT_THAT(exchanges_of(job, strategy, pass),
                ElementsAre(Pair(6, lane), Pair(6, unit), Pair(6, lane), Pair(6, unit)))
        << pass;
  }
  const auto stages = cost::even_stages(job, strategy, Recompute::none, 0);
  const exporter::ChakraExport exported(job, strategy, stages);
  const auto members = [&](exporter::TraceGroup kind, std::int64_t rank) {
    const exporter::TraceGroups& groups = exported.groups();
    return groups.groups()[static_cast<std::size_t>(groups.group_of(kind, rank) - 1)];
  };
  EXPECT_THAT(members(exporter::TraceGroup::expert_lane, 3), ElementsAre(3, 11));
  EXPECT_THAT(members(exporter::TraceGroup::expert_unit, 11), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  const Traces traces = write_all(exported, strategy);
  std::mt19937 random(4);
  EXPECT_EQ(execute(traces.read, traces.groups, {}, random), "");

  // Gathered with 5 bytes per expert and token of map and probabilities; home in 32 bits.
  job.stack.dispatch.dispatcher = cost::Dispatcher::allgather;
  const auto there = std::llround(rows + 512 * 5 * 128), back = std::llround(16 * 2 * rows);
  EXPECT_THAT(exchanges_of(job, strategy, "fwd mb0 L1 "), ElementsAre(Pair(2, there), Pair(7, back)));
  job.stack.dispatch.dispatcher = cost::Dispatcher::alltoall;
  const auto copies = std::llround(8 * rows);
  EXPECT_THAT(exchanges_of(job, strategy, "fwd mb0 L1 "), ElementsAre(Pair(6, copies), Pair(6, copies)));
}

// Work of less than a microsecond per micro-batch does not add up to more than it is.
TEST(Chakra, TinyPiecesDoNotDrift) {
  const cost::Job job = export_job(few_layers("bert-large", 2), "dgx-h100", 8, 64, 8);
  SomePlan plan;
  plan.strategy.pp = 2;
  plan.stages = cost::even_stages(job, plan.strategy, Recompute::none, 0);
  plan.stages[0].last = 0;  // the embedding alone
  plan.stages[1].first = 1;
  plan.stages = cost::evaluate(job, plan.strategy, plan.stages).stages;
  ASSERT_LT(plan.stages[0].time.forward + plan.stages[0].time.backward, 1e-6);
  const exporter::ChakraExport exported(job, plan.strategy, plan.stages);
  const Traces traces = write_all(exported, plan.strategy);
  std::mt19937 random(9);
  EXPECT_EQ(execute(traces.read, traces.groups, {}, random), "");
  const simulate::PlanWork& work = exported.plan().work();
  const auto m = static_cast<double>(work.micro_batches);
  for (std::size_t s = 0; s < 2; ++s) {
    const simulate::StageWork& stage = work.stages[s];
    const double exact_us =
        1e6 * (m * (stage.forward_s + stage.backward_s + stage.head_gradient_s) + stage.optimizer_s + work.step_s);
    EXPECT_NEAR(sum_durations(traces.read[s], [](const ReadNode& node) { return node.compute(); }), exact_us, 1.001);
  }
}

TEST(Chakra, RanksAndGroupsOfAPlanWithPitch) {
  Strategy strategy;
  strategy.split = {.tp = 2, .cp = 2};
  strategy.pp = 2;
  strategy.dp = 4;
  strategy.dp_inner = 2;
  strategy.pitch = 24;  // one pipeline block takes 16
  std::set<std::int64_t> devices;
  for (std::int64_t r = 0; r < strategy.devices_used(); ++r) {
    const std::int64_t device = groups::RankGroups(strategy).device_number(r);
    if (!devices.empty()) {
      EXPECT_GT(device, *devices.rbegin());
    }
    devices.insert(device);
  }
  EXPECT_EQ(*devices.rbegin(), 24 + 15);
  const cost::Job job = export_job(few_layers("llama3-8b", 4), "dgx-h100", 64, 16, 512);
  const auto stages = cost::even_stages(job, strategy, Recompute::none, 1, 4);
  ASSERT_EQ(cost::refuse_strategy(job, strategy, stages), "");
  const exporter::ChakraExport exported(job, strategy, stages);
  const exporter::TraceGroups& groups = exported.groups();
  const auto members = [&](exporter::TraceGroup kind, std::int64_t rank) {
    return groups.groups()[static_cast<std::size_t>(groups.group_of(kind, rank) - 1)];
  };
  // Stage 0 of replica 2 begins at rank 16 (device 24).
  EXPECT_THAT(members(exporter::TraceGroup::tensor, 17), ElementsAre(16, 17));
  EXPECT_THAT(members(exporter::TraceGroup::context, 17), ElementsAre(17, 19));
  // Four ranks hold one shard each: two of the context, two inner replicas; the others of the 8 hold the same again.
  EXPECT_THAT(members(exporter::TraceGroup::dense_shard, 17), ElementsAre(17, 19, 21, 23));
  EXPECT_THAT(members(exporter::TraceGroup::dense_replicas, 17), ElementsAre(1, 17));
  EXPECT_EQ(groups.group_of(exporter::TraceGroup::expert, 17), 0);
  const auto file = exported.rank_file({17});
  EXPECT_EQ(file["ranks"][0]["device"], 25);
  EXPECT_EQ(file["ranks"][0]["node"], "node0003");
  EXPECT_EQ(file["ranks"][0]["local_device"], 1);
  EXPECT_EQ(file["ranks"][0]["replica"], 2);
  EXPECT_EQ(file["groups"][0]["kind"], "tensor");
  EXPECT_EQ(file["groups"][0]["last"], 16);
}

TEST(Chakra, ChosenRanks) {
  EXPECT_THAT(exporter::parse_ranks("all", 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(exporter::parse_ranks("8,0,16-18,17", 64), ElementsAre(0, 8, 16, 17, 18));
  for (const char* wrong : {"", "64", "-1", "1-", "a", "1,,2", "0x1", "99999999999999999999"}) {
    EXPECT_THROW(exporter::parse_ranks(wrong, 64), InputError) << wrong;
  }
  EXPECT_THROW(exporter::parse_ranks("5-3", 64), InputError);
}

TEST(Chakra, TooMuchIsRefusedBeforeItIsWritten) {
  const cost::Job job = export_job("llama3-405b", 1024, 4096, 4096);
  Strategy strategy;
  strategy.split = {.tp = 8, .sp = true};
  strategy.pp = 16;
  strategy.dp = 8;
  const auto stages = cost::even_stages(job, strategy, Recompute::full, 1);
  const exporter::ChakraExport exported(job, strategy, stages);
  try {
    exported.refuse_size(exporter::parse_ranks("all", exported.ranks()));
    FAIL() << "1,024 ranks of 512 micro-batches are accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("ranks 0,8,16"));
  }
  EXPECT_GT(exported.refuse_size({0, 8}), 0);
  EXPECT_THROW(exported.refuse_size({0}, 1e15, 1000), InputError) << "one rank alone";
}

}  // namespace
}  // namespace nest::test
