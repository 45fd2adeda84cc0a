#include "cost/overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost/tables.h"
#include "cost_support.h"
#include "test_support/refusal.h"

namespace nest::cost {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// (A, Cb, Mb, Mw, M, D, Db, C, Ab + Aw)
PairedLayer layer(double a, double cb, double mb, double mw, double m, double d, double db, double c, double back) {
  return {a, back, m, mb, mw, d, c, db, cb};
}

TEST(Overlap, SlotsOfAPair) {
  const PairedLayer even = layer(1, 1.2, 1, 1, 1, 1.2, 1.2, 1.2, 2);
  EXPECT_DOUBLE_EQ(even.compute_s(), 6);
  EXPECT_DOUBLE_EQ(even.compute_s() + even.exchange_s(), 10.8);
  EXPECT_DOUBLE_EQ(pair_s(even, 0, true), 6.2);
  EXPECT_DOUBLE_EQ(pair_s(even, 0.2, true), 1.24 + 3.48 + 2.24);
  const PairedLayer bound = layer(.5, 2, 1, 1, 1, 2, 2, 2, 1.2);
  EXPECT_DOUBLE_EQ(bound.compute_s(), 4.7);
  EXPECT_DOUBLE_EQ(bound.compute_s() + bound.exchange_s(), 12.7);
  EXPECT_DOUBLE_EQ(pair_s(bound, 0, true), 8);
  // Input gradients that wait for the weights' hold up their exchange.
  EXPECT_DOUBLE_EQ(pair_s(layer(.5, 2, 1, 2, 1, 2, 2, 2, 1.2), 0, true), 2 + 4 + 2);
  EXPECT_DOUBLE_EQ(pair_s(layer(.5, 2, 1, 2, 1, 2, 2, 2, 1.2), 0, false), 2 + 5 + 2);
  // Nothing to exchange: nothing lost.
  EXPECT_DOUBLE_EQ(pair_s(layer(1, 0, 1, 1, 1, 0, 0, 0, 2), 0.5, false), 6);
}

TEST(Overlap, BesideSharedExperts) {
  EXPECT_DOUBLE_EQ(beside_s(3, 2, 0.25), 1 + 0.25 * 2);
  EXPECT_DOUBLE_EQ(beside_s(1, 2, 0.25), 0.25);
}

TEST(Overlap, WhatComputeLoses) {
  EXPECT_DOUBLE_EQ(overlap_loss({Dispatcher::hybridep, 32}, 152, false), 32.0 / 152);
  EXPECT_DOUBLE_EQ(overlap_loss({Dispatcher::deepep, 0}, 132, false), 20.0 / 132);
  EXPECT_DOUBLE_EQ(overlap_loss({Dispatcher::deepep, 0}, 132, true), 0.5);
  EXPECT_DOUBLE_EQ(overlap_loss({Dispatcher::alltoall, 0}, 0, false), 0);
}

TEST(Overlap, PassesThatRunAlone) {
  Strategy strategy;
  EXPECT_DOUBLE_EQ(alone_share(strategy, 8), 1.0 / 8);
  strategy.pp = 4;
  EXPECT_DOUBLE_EQ(alone_share(strategy, 32), 1);  // no virtual stages
  strategy.virtual_stages = 4;
  EXPECT_DOUBLE_EQ(alone_share(strategy, 32), (6 + 12 + 1) / 128.0);
  EXPECT_DOUBLE_EQ(alone_share(strategy, 1), 1);
  strategy.group = 8;
  EXPECT_DOUBLE_EQ(alone_share(strategy, 32), (6 + 3 * 8 + 1) / 128.0);
}

Job mixture_job(bool overlapped) {
  JobSpec spec;
  spec.model = "qwen3-30b-a3b";
  spec.sequence = 4096;
  spec.batch = 64;
  Job job = test_job(spec);
  job.stack.host_kernel_s = 0;
  job.stack.expert_overlap = overlapped;
  return job;
}

TEST(Overlap, APlanIsBetweenNothingAndEverythingExposed) {
  const Job apart = mixture_job(false), paired = mixture_job(true);
  const Split split{1, false, 1, 8, 0};
  const LayerPrice serial = price_layer(apart, 1, split, 2), price = price_layer(paired, 1, split, 2);
  EXPECT_EQ(serial.alone_ep_s, 0);
  EXPECT_GT(price.ep_s, 0);
  EXPECT_LT(price.ep_s, serial.ep_s);
  EXPECT_NEAR(price.ep_s + price.alone_ep_s, serial.ep_s, 1e-12);
  EXPECT_NEAR(price.forward_s + price.alone_forward_s, serial.forward_s, 1e-12);
  EXPECT_NEAR(price.backward_s + price.alone_backward_s, serial.backward_s, 1e-12);
  EXPECT_NEAR(price.recompute_s[2], serial.recompute_s[2], 1e-12);
  // Four micro-batches, of which one forward and one backward pass run alone.
  Layout layout;
  layout.ep = layout.dp = 8;
  layout.micro_batch = 2;
  const double exposed = evaluate_even(apart, layout).prediction.breakdown_s.ep;
  const double hidden = evaluate_even(paired, layout).prediction.breakdown_s.ep;
  EXPECT_NEAR(hidden, 48 * 4 * (price.ep_s + price.alone_ep_s / 4), 1e-9);
  EXPECT_NEAR(exposed, 48 * 4 * serial.ep_s, 1e-9);
  // Whole layers that run again cannot pair.
  EXPECT_NEAR(evaluate_even(paired, layout, Recompute::full).prediction.iteration_s,
              evaluate_even(apart, layout, Recompute::full).prediction.iteration_s, 1e-9);
}

// Megatron hides exchanges of experts that are spread over ranks; where they are divided alone (ep = 1), tokens are exposed.
TEST(Overlap, ExpertsThatAreDividedAloneAreExposed) {
  const Split split{2, true, 1, 1, 0};
  const LayerPrice serial = price_layer(mixture_job(false), 1, split, 2),
                   price = price_layer(mixture_job(true), 1, split, 2);
  EXPECT_GT(serial.ep_s, 0);
  EXPECT_EQ(price.ep_s, serial.ep_s);
  EXPECT_EQ(price.alone_ep_s, 0);
  EXPECT_EQ(price.forward_s, serial.forward_s);
  EXPECT_EQ(price.backward_s, serial.backward_s);
}

TEST(Overlap, APipelineWithoutVirtualStagesIsNamed) {
  Layout layout;
  layout.ep = layout.dp = 4;
  layout.pp = 2;
  const Plan plan = evaluate_even(mixture_job(true), layout);
  EXPECT_THAT(plan.assumptions, Contains(HasSubstr("without virtual stages cannot overlap")));
  EXPECT_NEAR(plan.prediction.iteration_s, evaluate_even(mixture_job(false), layout).prediction.iteration_s, 1e-9);
}

TEST(Overlap, SharedExpertsHideExchangesInstead) {
  JobSpec spec;
  spec.model = "deepseek-v2-lite";
  spec.sequence = 4096;
  Job job = test_job(spec);
  int kind = 0;
  for (std::size_t i = 0; i < job.model.kinds.size(); ++i) {
    if (job.model.kinds[i].experts > 0) kind = static_cast<int>(i);
  }
  const Split split{1, false, 1, 8, 0};
  const double apart = price_layer(job, kind, split, 4).ep_s;
  job.stack.shared_expert_overlap = true;
  const double beside = price_layer(job, kind, split, 4).ep_s;
  EXPECT_LT(beside, apart);
  EXPECT_GT(beside, 0);
}

TEST(Overlap, WhatMegatronRefuses) {
  const auto refusal = [](const std::string& text) {
    return test::refusal_of([&] { read_stack(doc::parse_yaml("my.yaml", text), "my"); });
  };
  EXPECT_THAT(refusal("expert_overlap: true\nshared_expert_overlap: true"), HasSubstr("shared_expert_overlap"));
  EXPECT_THAT(refusal("expert_overlap: true\ndispatcher: allgather"), HasSubstr("allgather"));
  EXPECT_THAT(refusal("delay_wgrad: true"), HasSubstr("expert_overlap"));
}

}  // namespace
}  // namespace nest::cost
