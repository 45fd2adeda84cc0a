#include "cost/imbalance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost/layer_price.h"
#include "cost_support.h"
#include "test_support/refusal.h"

namespace nest::cost {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(Imbalance, ExpectedMaximumOfNormals) {
  const double expected[][2] = {{2, .56}, {4, 1.03}, {8, 1.42}, {16, 1.77}, {32, 2.07}, {64, 2.34}, {128, 2.60}};
  for (const auto& [ranks, z] : expected) EXPECT_NEAR(expected_maximum(ranks), z, 0.006) << ranks;
  EXPECT_EQ(expected_maximum(1), 0);
}

TEST(Imbalance, SamplingAndPopularity) {
  const Choice choice{8, 2, 1, 1};
  const auto sampling = [](const Choice& of, double ranks, double tokens) {
    return layer_imbalance({RoutingKind::variation, 0}, of, ranks, tokens);
  };
  const auto popularity = [](const Choice& of, double ranks, double variation) {
    return layer_imbalance({RoutingKind::variation, variation}, of, ranks, 1e30);
  };
  EXPECT_NEAR(sampling(choice, 4, 4096), 1.018, 1e-3);
  EXPECT_NEAR(popularity(choice, 4, 0.3), 1.202, 5e-4);
  // DeepSeek-V3 on 64 ranks of 4096 tokens.
  EXPECT_NEAR(sampling({256, 8, 1, 1}, 64, 64 * 4096), 1.0127, 2e-4);
  // 256 experts on 64 ranks were seen with 1.21 on the busiest: a variation of 0.18.
  EXPECT_NEAR(popularity({256, 8, 1, 1}, 64, 0.18), 1.21, 5e-3);
  const Routing routing{RoutingKind::variation, 0.3, 0, false, 128};
  EXPECT_NEAR(layer_imbalance(routing, choice, 4, 4096), 1 + std::hypot(0.0183, 0.202), 5e-4);
  EXPECT_EQ(layer_imbalance(routing, choice, 1, 4096), 1);
  EXPECT_EQ(layer_imbalance({}, choice, 4, 4096), 1);
}

TEST(Imbalance, Capacity) {
  const Choice choice{8, 2, 1, 1};
  const Split split{1, false, 1, 4, 0};
  EXPECT_EQ(capacity_rows(choice, 1024, 1.25), 320);
  Routing routing{RoutingKind::overload, 1.5, 1.25, true, 128};
  EXPECT_DOUBLE_EQ(time_imbalance(routing, choice, split, 1024), 2560.0 / 2048);
  routing.padded = false;
  EXPECT_DOUBLE_EQ(time_imbalance(routing, choice, split, 1024), 1.25);
  routing.capacity = 2;
  EXPECT_DOUBLE_EQ(time_imbalance(routing, choice, split, 1024), 1.5);
}

TEST(Imbalance, SlowsExpertsAndTheirExchangesOnly) {
  JobSpec spec;
  spec.model = "mixtral-8x7b";
  spec.sequence = 4096;
  Job job = test_job(spec);
  job.stack.host_kernel_s = 0;
  const Split split{1, false, 1, 8, 0};
  const LayerPrice even = price_layer(job, 1, split, 1);
  job.stack.routing.kind = RoutingKind::overload;
  job.stack.routing.value = 1.25;
  const LayerPrice busy = price_layer(job, 1, split, 1);
  EXPECT_NEAR(busy.ep_s - 4 * 34e-6, 1.25 * (even.ep_s - 4 * 34e-6), 1e-9);
  EXPECT_GT(busy.forward_s, even.forward_s);
  EXPECT_LT(busy.forward_s, 1.25 * even.forward_s);
  EXPECT_EQ(price_layer(job, 0, split, 1).forward_s, price_layer(job, 0, {}, 1).forward_s);
  Layout layout;
  layout.ep = layout.dp = 8;
  EXPECT_THAT(evaluate_even(job, layout).assumptions,
              Contains(HasSubstr("experts' load: overload 1.25: the busiest rank has 1.25 x the mean")));
}

TEST(Imbalance, MemoryFollowsWhatTheRoutingSays) {
  JobSpec spec;
  spec.model = "mixtral-8x7b";
  spec.sequence = 4096;
  Job job = test_job(spec);
  const Split split{1, false, 1, 8, 0};
  const auto kept = [&] { return price_layer(job, 1, split, 1).kept_bytes[0]; };
  job.stack.routing_imbalance = 1.5;
  const double forced = kept();
  job.stack.routing.kind = RoutingKind::overload;
  job.stack.routing.value = 1.5;
  job.stack.routing_imbalance = 1;
  EXPECT_DOUBLE_EQ(kept(), forced);
  job.stack.routing.value = 2;
  EXPECT_GT(kept(), forced);
  job.stack.rank_capacity = 1.5;  // there is room for no more
  EXPECT_DOUBLE_EQ(kept(), forced);
}

TEST(Imbalance, RowsOfEachExpertArePadded) {
  JobSpec spec;
  spec.model = "qwen3-30b-a3b";
  spec.sequence = 2048;
  Job job = test_job(spec);
  job.stack.host_kernel_s = 0;
  const double narrow = price_layer(job, 1, {}, 1).forward_s;  // 128 rows of each of 128 experts
  job.stack.routing.rows = 256;
  EXPECT_GT(price_layer(job, 1, {}, 1).forward_s, narrow);
}

TEST(Imbalance, IsReadAndWritten) {
  const auto read = [](const std::string& text) { return read_stack(doc::parse_yaml("my.yaml", text), "my"); };
  EXPECT_EQ(read("routing: forced").routing.kind, RoutingKind::forced);
  const SoftwareStack varied =
      read("routing: {cv: 0.18}\nexpert_capacity: 1.5\npad_to_capacity: true\nexpert_rows: 256");
  EXPECT_EQ(varied.routing, (Routing{RoutingKind::variation, 0.18, 1.5, true, 256}));
  EXPECT_EQ(read_stack(write_stack(varied), "other"), varied);
  const SoftwareStack loaded = read("routing: {overload: 1.2}");
  EXPECT_EQ(loaded.routing.value, 1.2);
  EXPECT_EQ(read_stack(write_stack(loaded), "other"), loaded);
  for (const char* text : {"routing: even", "routing: {cv: -1}", "routing: {overload: 0.5}", "routing: {v: 1}",
                           "routing: {cv: 1, overload: 2}", "routing: {}", "routing: 3"}) {
    EXPECT_THAT(test::refusal_of([&] { read(text); }), HasSubstr("routing")) << text;
  }
  EXPECT_THAT(test::refusal_of([&] { read("pad_to_capacity: true"); }), HasSubstr("expert_capacity"));
  EXPECT_THAT(test::refusal_of([&] { read("dispatcher: ncclep\nexpert_capacity: 1.5"); }), HasSubstr("ncclep"));
}

TEST(Imbalance, IsAnOptionOfTheRun) {
  Routing routing{RoutingKind::overload, 1.5, 1.25, true, 256};
  set_routing("cv=0.3", routing);
  EXPECT_EQ(routing, (Routing{RoutingKind::variation, 0.3, 1.25, true, 256}));
  set_routing("overload=1.2", routing);
  EXPECT_EQ(routing.kind, RoutingKind::overload);
  EXPECT_EQ(routing.value, 1.2);
  set_routing("forced", routing);
  EXPECT_EQ(routing, (Routing{RoutingKind::forced, 0, 1.25, true, 256}));
  for (const char* text : {"even", "", "cv", "cv=", "cv=a", "cv=-1", "cv=101", "cv=nan", "cv=0.3x", "overload=0.9",
                           "overload=inf", "forced=1", "=1"}) {
    EXPECT_THAT(test::refusal_of([&] { set_routing(text, routing); }), HasSubstr("routing: ")) << text;
  }

  JobSpec spec;
  spec.model = "qwen3-30b-a3b";
  const Job job = test_job(spec);
  nest::Run run = job.run;
  run.routing = "cv=0.3";
  const auto made = [&](const char* model) {
    return make_job(*model::find_model_preset(model), run, job.stack, job.cluster);
  };
  Split split;
  split.ep = 8;
  EXPECT_EQ(made("qwen3-30b-a3b").stack.routing.value, 0.3);
  EXPECT_GT(price_layer(made("qwen3-30b-a3b"), 1, split, 1).forward_s, price_layer(job, 1, split, 1).forward_s);
  EXPECT_THAT(test::refusal_of([&] { made("llama3-8b"); }), HasSubstr("no experts"));
}

}  // namespace
}  // namespace nest::cost
